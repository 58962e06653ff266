"""The categorical distribution."""

from typing import Any, ClassVar, NamedTuple, Self, final

import jax
import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.draws import draw_choice
from streambayes._core.precision import is_concrete
from streambayes._core.pytree import pytree
from streambayes.families._base import AbstractFamily, check_finite, on_one_batch

__all__ = ["Categorical"]


class CategoricalStats(NamedTuple):
    """How often each category is expected."""

    probabilities: Array


@final
@pytree
class Categorical(AbstractFamily):
    r"""Categorical over $0, \dots, K - 1$, $p(x = k) \propto e^{\ell_k}$.

    Adding a constant to the logits, shape (\*batch, categories), changes nothing.
    """

    natural: ClassVar[dict[str, int]] = {"logits": 1}

    logits: Array

    @classmethod
    def from_probabilities(cls, probabilities: Any) -> Self:
        """Categorical with given probabilities on the last axis; they are normalized."""
        (probabilities,) = on_one_batch("Categorical", probabilities=(probabilities, 1))
        check_finite("Categorical", "probabilities", probabilities)
        if is_concrete(probabilities):
            inside = (probabilities >= 0).all() and (probabilities <= 1).all()
            if not (inside and (probabilities.sum(-1) > 0).all()):
                message = f"Categorical: probabilities must lie in [0, 1], got {probabilities}"
                raise ValueError(message)
        return cls(logits=xp.log(probabilities))

    def log_normalizer(self) -> Array:
        return xp.logsumexp(self.logits, axis=-1)

    def expected_stats(self) -> CategoricalStats:
        return CategoricalStats(xp.softmax(self.logits, axis=-1))

    def sufficient_stats(self, x: Any) -> CategoricalStats:
        x = xp.asarray(x, dtype=int)
        return CategoricalStats(jax.nn.one_hot(x, self.logits.shape[-1], dtype=float))

    def log_base_measure(self, x: Any) -> Array:
        return xp.zeros(xp.asarray(x).shape)

    def expected_log_base_measure(self) -> Array:
        return xp.zeros(self.batch_shape)

    def is_proper(self) -> Array:
        return xp.isfinite(self.log_normalizer())

    def kl(self, other: Self) -> Array:
        mine = xp.log_softmax(self.logits, axis=-1)
        theirs = xp.log_softmax(other.logits, axis=-1)
        held = mine > -xp.inf  # a category without mass has no part in the sum
        return xp.where(held, xp.exp(mine) * (xp.where(held, mine, 0.0) - theirs), 0.0).sum(-1)

    def entropy(self) -> Array:
        return xp.entr(self.expected_stats().probabilities).sum(-1)

    def log_prob(self, x: Any) -> Array:
        log_probabilities = xp.log_softmax(self.logits, axis=-1)
        hit = self.sufficient_stats(x).probabilities > 0
        return xp.where(hit, log_probabilities, 0.0).sum(-1)

    def mean(self) -> Array:
        r"""Probabilities of the categories, shape (\*batch, categories)."""
        return self.expected_stats().probabilities

    def sample(self, rng: np.random.Generator, num_samples: int) -> np.ndarray:
        return draw_choice(rng, self.mean(), (num_samples, *self.batch_shape))
