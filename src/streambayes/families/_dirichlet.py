"""The Dirichlet distribution."""

from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from jax import Array

from streambayes._core import numerics
from streambayes._core.arrays import xp
from streambayes._core.draws import draw_log_gamma
from streambayes._core.formula import Formula
from streambayes._core.pytree import pytree
from streambayes.families._base import AbstractInFormulas, check_positive, on_one_batch

__all__ = ["Dirichlet"]


class DirichletStats(NamedTuple):
    """What is expected of a vector of probabilities."""

    log_probabilities: Array


@final
@pytree
class Dirichlet(AbstractInFormulas):
    r"""Dirichlet over probabilities, $p(x) \propto \prod_i x_i^{\alpha_i - 1}$.

    The natural parameter is the concentration itself, shape (\*batch, categories), with base measure
    $\prod_i 1 / x_i$.
    """

    natural: ClassVar[dict[str, int]] = {"concentration": 1}

    concentration: Array

    @classmethod
    def from_concentration(cls, concentration: Any) -> Self:
        """Dirichlet with a pseudo-count per category on the last axis."""
        (concentration,) = on_one_batch("Dirichlet", concentration=(concentration, 1))
        check_positive("Dirichlet", "concentration", concentration)
        return cls(concentration=concentration)

    def log_normalizer_formula(self) -> Formula:
        return numerics.log_beta(self.concentration)

    def expected_stats_formula(self) -> Formula:
        others = numerics.sum_of_others(self.concentration)
        return Formula.of(numerics.digamma_difference, self.concentration, others).then(
            lambda found: DirichletStats(-found)
        )

    def sufficient_stats(self, x: Any) -> DirichletStats:
        return DirichletStats(xp.log(xp.asarray(x)))

    def log_base_measure(self, x: Any) -> Array:
        return -xp.log(xp.asarray(x)).sum(-1)

    def expected_log_base_measure(self) -> Array:
        energy: Array = -self.expected_stats().log_probabilities.sum(-1)
        return energy

    def is_proper(self) -> Array:
        return (self.concentration > 0).all(-1)

    def kl_formula(self, other: Self) -> Formula:
        return numerics.log_beta_bregman(self.concentration, other.concentration)

    def entropy(self) -> Array:
        total = self.concentration.sum(-1)
        parts = numerics.gamma_entropy(self.concentration).sum(-1) - numerics.gamma_entropy(total)
        return parts - (self.concentration.shape[-1] - 1) * xp.digamma(total)

    def log_prob(self, x: Any) -> Array:
        x = xp.asarray(x)
        edge = (x <= 0.0).any(-1)
        inside = self._log_prob_inside(xp.where(edge[..., None], 1.0, x))
        at_edge = xp.xlogy(self.concentration - 1.0, xp.maximum(x, 0.0)).sum(-1)
        at_edge = xp.where((x < 0.0).any(-1), -xp.inf, at_edge - self.log_normalizer())
        return xp.where(edge, at_edge, inside)

    def _log_prob_inside(self, x: Array) -> Array:
        total = self.concentration.sum(-1, keepdims=True)
        fit = numerics.deviance(self.concentration, total * x).sum(-1)
        width = 0.5 * (xp.log(self.concentration).sum(-1) - xp.log(total[..., 0]))
        rest = numerics.stirling_error(self.concentration).sum(-1) - numerics.stirling_error(
            total[..., 0]
        )
        constant = (self.concentration.shape[-1] - 1) * numerics.HALF_LOG_TWO_PI
        large = width - constant - fit - rest + self.log_base_measure(x)
        # small concentrations: nothing cancels
        return xp.where(total[..., 0] < 1.0, super().log_prob(x), large)

    def mean(self) -> Array:
        r"""Expected probabilities, shape (\*batch, categories)."""
        return self.concentration / self.concentration.sum(-1, keepdims=True)

    def sample(self, rng: np.random.Generator, num_samples: int) -> Array:
        shape = (num_samples, *xp.shape(self.concentration))
        return xp.softmax(draw_log_gamma(rng, self.concentration, shape), axis=-1)
