r"""The exact posterior over rho and the true bound $L$, by quadrature.

With $\eta(\rho) = \rho\lambda_{t-1} + (1 - \rho)\alpha_u$ the true bound has
$-E_{q(\rho)}[KL(q(\beta) \| p_{\eta(\rho)})]$ where $\hat L$ has the chord between the ends of that
convex function; hence $\hat L \le L$.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.precision import in_float64
from streambayes.families import AbstractRho, Blocks
from streambayes.forgetting import HPP, MHPP
from streambayes.learning import LearnerState, StepInfo

__all__ = ["ExactRho", "bound_gap", "exact_rho"]


class ExactRho(NamedTuple):
    r"""The posterior over rho that maximises the true bound, given the posterior over parameters.

    Attributes:
        rho: Quadrature nodes in [0, 1], shape (num_nodes,).
        density: Its density there, shape (num_nodes, \*blocks); no block axes for one rho.
        mean: Its mean, shape (\*blocks).
        log_evidence: What rho adds to the true bound, $\ln \int p(\rho) e^{-KL(\rho)} d\rho$.
    """

    rho: np.ndarray
    density: np.ndarray
    mean: np.ndarray
    log_evidence: np.ndarray


@in_float64
def exact_rho(before: LearnerState, after: LearnerState) -> ExactRho | dict[str, ExactRho]:
    """The exact posterior over rho for the batch between two states.

    One for the model under HPP; one for each entry of blocks under MHPP.
    """
    policy = _learned_policy(before)
    curve, _ = _curves(before, after)
    if isinstance(curve, dict):
        return {name: _exact(policy.rho_prior, part) for name, part in curve.items()}
    return _exact(policy.rho_prior, curve)


@in_float64
def bound_gap(before: LearnerState, after: LearnerState, info: StepInfo) -> float:
    r"""$L - \hat L \ge 0$ for the batch between two states, at the posterior over rho of ``info``."""
    policy = _learned_policy(before)
    curve, chord = _curves(before, after)

    def expected_gap(omega: Any, above: Array, below: Array) -> Array:
        posterior = policy.rho_prior.with_slope(jnp.asarray(omega))
        weights = jnp.exp(posterior.log_prob(_column(_NODES, below))) * _column(_WEIGHTS, below)
        return ((above - below) * weights).sum()

    gaps = jax.tree.map(expected_gap, _omega_per_entry(before, info), chord, curve)
    return float(sum(jax.tree.leaves(gaps)))


def _learned_policy(state: LearnerState) -> HPP | MHPP:
    if not isinstance(state.forgetting, HPP | MHPP):
        message = f"{state.forgetting.name} has no posterior over rho; HPP and MHPP do"
        raise TypeError(message)
    return state.forgetting


def _curves(before: LearnerState, after: LearnerState) -> tuple[Any, Any]:
    policy = _learned_policy(before)
    previous = policy.belief(before.memory).summary()
    curves: tuple[Any, Any] = _pooled_curves(policy, previous, after.prior, after.belief.summary())
    return curves


@functools.partial(jax.jit, static_argnums=0)
def _pooled_curves(
    policy: HPP | MHPP, previous: Blocks, prior: Blocks, posterior: Blocks
) -> tuple[Any, Any]:
    r"""$KL(q \| p_{\eta(\rho)})$ at the nodes, and the chord between its ends, pooled as rho is.

    An array (num_nodes,) for one rho, or a dictionary of arrays (num_nodes, \*blocks).
    """
    from_prior, from_previous = posterior.kl(prior), posterior.kl(previous)

    def at(rho: Array) -> tuple[Any, Any]:
        curve = posterior.kl(previous.lerp(prior, rho))
        chord = {name: (1.0 - rho) * from_prior[name] + rho * from_previous[name] for name in curve}
        return policy.pooled(curve), policy.pooled(chord)

    curves: tuple[Any, Any] = jax.vmap(at)(jnp.asarray(_NODES))
    return curves


def _exact(prior: AbstractRho, curve: Array) -> ExactRho:
    nodes, weights = _column(_NODES, curve), _column(_WEIGHTS, curve)
    log_joint = prior.log_prob(nodes) - curve
    log_evidence = jax.nn.logsumexp(log_joint + jnp.log(weights), axis=0)
    density = jnp.exp(log_joint - log_evidence)
    mean = (density * weights * nodes).sum(0)
    return ExactRho(*(np.asarray(part) for part in (_NODES, density, mean, log_evidence)))


def _omega_per_entry(state: LearnerState, info: StepInfo) -> Any:
    """The slopes of a step by entry of blocks, as the policy holds them."""
    if not isinstance(info.omega, dict):
        return info.omega
    slopes = info.omega
    return {
        name: np.array([slopes[label] for label in labels.ravel()]).reshape(labels.shape)
        for name, labels in state.model.labels().items()
    }


def _column(values: np.ndarray, like: Array) -> np.ndarray:
    return values.reshape((-1,) + (1,) * (like.ndim - 1))


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes on panels that halve towards both ends of [0, 1]."""
    ends = 2.0 ** -np.arange(40, 0, -1)
    edges = np.concatenate([[0.0], ends, (1.0 - ends)[::-1][1:], [1.0]])
    nodes, weights = np.polynomial.legendre.leggauss(12)
    width = np.diff(edges)[:, None]
    return (
        (edges[:-1, None] + 0.5 * width * (nodes + 1.0)).ravel(),
        (0.5 * width * weights).ravel(),
    )


_NODES, _WEIGHTS = _grid()
