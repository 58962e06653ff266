r"""Predictions for rows: densities, and the distribution of any variable given any others.

For a complete assignment of a row's variables the parameters integrate out in closed form, factor by
factor. Discrete variables that a row hides are summed over. Normal variables that it hides and that
bear on observed ones are drawn from what the sweeps make of them, with heavier tails, and the draws are
weighted by the closed form: importance sampling in as few dimensions as the row hides.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core import linalg
from streambayes._core.batch import Batch
from streambayes.families import (
    AbstractBelief,
    AbstractMarginal,
    MixtureMarginal,
    WeightedDraws,
)
from streambayes.models.network._discrete import DiscreteFactor
from streambayes.models.network._factor import AbstractFactor, ByName, Moments
from streambayes.models.network._local import Rows, hidden_names
from streambayes.models.network._structure import Structure

__all__ = ["Predictor", "is_closed"]

_NUM_DRAWS = 256
_MAX_STATES = 1024
_WIDER = 1.3
_MAX_MODES = 32


def is_closed(structure: Structure, batch: Batch) -> bool:
    """Whether predictive densities have a closed form: no normal variable is hidden, states are few."""
    hidden = hidden_names(structure, batch)
    _, drawn = _split(structure, [name for name in hidden if structure.is_discrete(name)])
    return all(structure.is_discrete(name) for name in hidden) and not drawn


def _split(structure: Structure, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Hidden discrete variables whose joint states are summed over, and those that are drawn."""
    summed: list[str] = []
    for name in names:
        states = math.prod(structure.num_values(other) for other in [*summed, name])
        if states <= _MAX_STATES or not summed:
            summed.append(name)
    return tuple(summed), tuple(name for name in names if name not in summed)


class Draw(NamedTuple):
    r"""One draw of what rows hide.

    Attributes:
        log_weight: Shape (num_padded,).
        posterior: Probabilities of the states that are summed over, (\*states, num_padded).
        moments: Drawn values: means, and shares that are 0 or 1.
    """

    log_weight: Array
    posterior: Array
    moments: Moments


@final
class Predictor:
    """Predictions for the rows of one batch.

    ``local`` is where the sweeps over rows have settled; it is read where draws are needed.
    """

    def __init__(
        self,
        structure: Structure,
        factors: Mapping[str, AbstractFactor],
        belief: AbstractBelief,
        batch: Batch,
        rows: Rows,
        local: Moments,
        target: str | None = None,
    ) -> None:
        self._structure = structure
        self._factors = factors
        self._belief = belief
        self._batch = batch
        self._rows = rows
        self._target = target
        discrete = [name for name in rows.hidden if structure.is_discrete(name)]
        if target is not None and structure.is_discrete(target):  # first, so that it is summed over
            discrete = [target, *(name for name in discrete if name != target)]
        self._summed, self._drawn = _split(structure, discrete)
        self._normals = [name for name in rows.hidden if not structure.is_discrete(name)]
        self._closed = not self._normals and not self._drawn
        if not self._closed:
            self._belief = belief.shortened()
        self._moments = rows.moments(local)
        self._shape = tuple(structure.num_values(name) for name in self._summed)
        num_states = math.prod(self._shape)
        self._num_modes = num_states if num_states <= _MAX_MODES else 1
        if self._normals:
            self._modes = self._normal_modes()

    def log_density(self) -> Array:
        """Log predictive density of what is observed of each row, shape (num_padded,)."""
        if self._closed:
            return self._total(self._log_joint(self._moments, self._rows.observed))
        weights = jax.lax.map(lambda node: self._draw(node).log_weight, self._nodes(0))
        return jax.nn.logsumexp(weights, axis=0) - jnp.log(weights.shape[0])

    def conditional(self) -> Array | AbstractMarginal:
        """The distribution of the target given what is observed of the other variables.

        Probabilities of shape (num_padded, num_values), or a marginal over the rows. The target's own
        column is expected to be missing.
        """
        name = self._target
        assert name is not None
        if self._structure.is_discrete(name):
            return self._share()
        if self._closed:
            return self._mixture(name)
        above = self._ancestors(name)

        def one(node: Array) -> tuple[Array, Array]:
            draw = self._draw(node, above)
            return draw.log_weight, draw.moments.means[name]

        log_weights, values = jax.lax.map(one, self._nodes(2 * len(above)))
        return WeightedDraws(jax.nn.softmax(log_weights, axis=0), values)

    def _share(self) -> Array:
        """Probabilities of a discrete target."""
        if self._closed:
            return self._share_of(
                str(self._target), self._posterior(self._moments, self._rows.observed)
            )

        def one(node: Array) -> tuple[Array, Array]:
            draw = self._draw(node)
            return draw.log_weight, self._share_of(str(self._target), draw.posterior)

        log_weights, shares = jax.lax.map(one, self._nodes(0))
        weights = jax.nn.softmax(log_weights, axis=0)
        averaged: Array = (weights[..., None] * shares).sum(0)
        return averaged

    def _log_joint(self, moments: Moments, seen: ByName) -> Array:
        r"""Log predictive density with each joint state of the summed variables, (\*states, num_padded)."""
        total = jnp.zeros((*self._shape, self._batch.values.shape[1]))
        for entry, factor in self._factors.items():
            if isinstance(factor, DiscreteFactor) and entry in self._summed:
                total = total + self._own_state(factor, moments, seen)
            else:
                table = factor.log_predictive(self._belief, moments, seen)
                total = total + self._aligned(table, factor.parents, moments)
        return total

    def _own_state(self, factor: DiscreteFactor, moments: Moments, seen: ByName) -> Array:
        """A summed variable's own probability in each of its states; none where its row omits it."""
        name = factor.entry
        table = factor.log_table(self._belief)[..., None]
        table = jnp.broadcast_to(table, (*table.shape[:-1], self._batch.values.shape[1]))
        share = moments.shares[name]
        impossible = seen[name] & (share < 0.5)
        table = jnp.where(impossible, -jnp.inf, table)
        return self._aligned(table, (*factor.parents, name), moments)

    def _aligned(self, table: Array, axes: tuple[str, ...], moments: Moments) -> Array:
        """A table over some variables: chosen where they are known, on its axis where summed over."""
        kept = list(axes)
        for name in axes:
            if name in self._summed:
                continue
            place = kept.index(name)
            share = moments.shares[name]
            chosen = share.reshape(
                *(share.shape[0] if k == place else 1 for k in range(len(kept))), -1
            )
            table = jnp.where(chosen > 0.5, table, 0.0).sum(place)
            kept.remove(name)
        order = sorted(range(len(kept)), key=lambda k: self._summed.index(kept[k]))
        table = jnp.transpose(table, (*order, len(kept)))
        sizes = (self._structure.num_values(name) if name in kept else 1 for name in self._summed)
        return table.reshape(*sizes, -1)

    def _total(self, joint: Array) -> Array:
        return jax.nn.logsumexp(joint, axis=tuple(range(joint.ndim - 1)))

    def _posterior(self, moments: Moments, seen: ByName) -> Array:
        return _shares_of(self._log_joint(moments, seen))

    def _share_of(self, name: str, posterior: Array) -> Array:
        """Probabilities of one variable, shape (num_padded, num_values)."""
        place = self._summed.index(name)
        others = tuple(k for k in range(posterior.ndim - 1) if k != place)
        return jnp.moveaxis(posterior.sum(others), -1, 0)

    def _mixture(self, name: str) -> AbstractMarginal:
        """A closed mixture over the configurations of the variable's parents."""
        factor = self._factors[self._structure.owner[name].entry]
        posterior = self._posterior(self._moments, self._rows.observed)
        weights = self._configuration_weights(factor, posterior)
        members = factor.predictive(self._belief, self._moments, self._rows.observed, name)
        if not factor.parents:
            return members  # type: ignore[no-any-return]
        size = math.prod(factor.configurations)

        def first(leaf: Array) -> Array:  # (..., rows, *configurations) to (size, ..., rows)
            flat = leaf.reshape(*leaf.shape[: leaf.ndim - len(factor.configurations)], size)
            return jnp.moveaxis(flat, -1, 0)

        return MixtureMarginal(weights, jax.tree.map(first, members))

    def _configuration_weights(self, factor: AbstractFactor, posterior: Array) -> Array:
        """Probability of each configuration of a factor's parents, (num_configurations, num_padded)."""
        spare = tuple(k for k, name in enumerate(self._summed) if name not in factor.parents)
        joint = posterior.sum(spare)
        kept = [name for name in self._summed if name in factor.parents]
        operands: list[Any] = [joint, [kept.index(name) for name in kept] + [99]]
        letters = {name: place for place, name in enumerate(kept)}
        for name in factor.parents:
            if name not in letters:
                letters[name] = len(letters)
                operands += [self._moments.shares[name], [letters[name], 99]]
        weights = jnp.einsum(*operands, [*(letters[name] for name in factor.parents), 99])
        return weights.reshape(-1, weights.shape[-1])

    def _ancestors(self, name: str) -> tuple[str, ...]:
        """A variable and all above it that rows may hide, parents first."""
        wanted = {name}
        for variable in reversed(self._structure.variables):
            if wanted & set(variable.names):
                wanted |= set(variable.parents)
        return tuple(
            n
            for variable in self._structure.variables
            for n in variable.names
            if n in wanted and (variable.latent or n in self._batch.missing)
        )

    def _nodes(self, more: int) -> Array:
        """Points that fill the unit cube evenly, shape (num_draws, dimensions)."""
        size = len(self._normals) + len(self._drawn) + len(self._summed) + more
        size += self._num_modes > 1
        # the additive recurrence of the generalised golden ratio: x^(d + 1) = x + 1
        ratio = 2.0
        for _ in range(50):
            ratio = (1.0 + ratio) ** (1.0 / (size + 1))
        steps = ratio ** -np.arange(1.0, size + 1.0)
        return jnp.asarray((0.5 + np.arange(1, _NUM_DRAWS + 1)[:, None] * steps) % 1.0)

    def _draw(self, node: Array, wanted: tuple[str, ...] = ()) -> Draw:
        """One draw of what rows hide, weighted; then of ``wanted`` variables that nothing bears on."""
        num_rows = self._batch.values.shape[1]
        turn = (jnp.arange(num_rows) * 0.6180339887498949) % 1.0  # rows differ in their points
        points = iter((node[:, None] + turn) % 1.0)
        moments, seen, log_weight = self._moments, self._rows.observed, jnp.zeros(num_rows)
        if self._normals:
            moments, seen, log_weight = self._propose_normals(points, moments, seen)
        for name in self._drawn:
            moments, seen, log_weight = self._propose_state(
                name, next(points), moments, seen, log_weight
            )
        joint = self._log_joint(moments, seen)
        total, posterior = self._total(joint), _shares_of(joint)
        if wanted:
            moments = self._states(posterior, points, moments)
            for name in wanted:
                moments, seen = self._below(name, points, moments, seen)
        return Draw(log_weight + total, posterior, moments)

    def _normal_modes(self) -> tuple[Array, Array, linalg.Factor]:
        """Of the hidden normals in each state of the others, if they are few: weight, mean, factor."""
        expectations = self._belief.expectations()
        num_states = self._num_modes

        def mode(state: Array) -> tuple[Array, Array, Array]:
            moments = self._moments
            if num_states > 1:
                places = jnp.unravel_index(state, self._shape)
                for name, place in zip(self._summed, places, strict=True):
                    share = moments.shares[name]
                    one = (jnp.arange(share.shape[0]) == place)[:, None]
                    open_rows = self._hides(name)
                    # a row that holds the variable has one state of it: the others get no weight
                    share = jnp.where(open_rows, one, share)
                    moments = moments.replaced(shares={name: share})
            return self._rows.joint_normal(expectations, moments, self._normals)

        centres, precisions, log_masses = jax.lax.map(mode, jnp.arange(num_states))
        return jax.nn.softmax(log_masses, axis=0), centres, linalg.cholesky(precisions)

    def _propose_normals(
        self, points: Any, moments: Moments, seen: ByName
    ) -> tuple[Moments, ByName, Array]:
        """Values of the hidden normals from one of their modes, with wider tails."""
        weights, centres, factor = self._modes
        weights = 0.9 * weights + 0.1 / weights.shape[0]
        t = jnp.stack([_student_quantile(next(points)) for _ in self._normals], -1)
        # (modes, rows)
        chosen = _state(weights, next(points)) if self._num_modes > 1 else jnp.ones_like(weights)
        moved = linalg.solve_lower_transposed(factor, t[..., None])[..., 0]
        values = (chosen[..., None] * (centres + _WIDER * moved)).sum(0)
        hides = jnp.stack([self._hides(name) for name in self._normals], -1)
        # density of the mixture at the values: every mode may have made them
        white = ((values - centres)[..., None, :] @ factor.lower)[..., 0, :] / _WIDER
        parts = jnp.where(hides, _student_log_density(white) - jnp.log(_WIDER), 0.0).sum(-1)
        parts = parts + 0.5 * linalg.log_det(factor) + jnp.log(weights)
        log_weight = -jax.nn.logsumexp(parts, axis=0)
        for place, name in enumerate(self._normals):
            value = jnp.where(hides[:, place], values[:, place], moments.means[name])
            moments = moments.replaced(means={name: value}, squares={name: jnp.square(value)})
            seen = seen.replaced({name: seen[name] | hides[:, place]})
        return moments, seen, log_weight

    def _propose_state(
        self, name: str, point: Array, moments: Moments, seen: ByName, log_weight: Array
    ) -> tuple[Moments, ByName, Array]:
        hides = self._hides(name)
        share = moments.shares[name]
        size = share.shape[0]
        proposal = 0.9 * share + 0.1 / size
        chosen = _state(proposal, point)
        log_proposal = jnp.log((proposal * chosen).sum(0))
        share = jnp.where(hides, chosen, share)
        log_weight = log_weight - jnp.where(hides, log_proposal, 0.0)
        return (
            moments.replaced(shares={name: share}),
            seen.replaced({name: seen[name] | hides}),
            log_weight,
        )

    def _hides(self, name: str) -> Array:
        """Rows that do not hold a variable but something below it."""
        hides: Array = (self._rows.weights[name] > 0) & ~self._rows.observed[name]
        return hides

    def _states(self, posterior: Array, points: Any, moments: Moments) -> Moments:
        """A state of every summed variable, drawn from their joint probabilities."""
        for name in self._summed:
            share = self._share_of(name, posterior).T
            chosen = _state(share, next(points))
            moments = moments.replaced(shares={name: chosen})
            place = self._summed.index(name)
            shape = [1] * (posterior.ndim - 1) + [-1]
            shape[place] = share.shape[0]
            kept = posterior * chosen.reshape(shape)
            total = kept.sum(tuple(range(posterior.ndim - 1)))
            posterior = kept / jnp.maximum(total, 1e-300)
        return moments

    def _below(
        self, name: str, points: Any, moments: Moments, seen: ByName
    ) -> tuple[Moments, ByName]:
        """A value of a variable that nothing observed bears on, given its parents."""
        factor = self._factors[self._structure.owner[name].entry]
        choice, point = next(points), next(points)
        open_rows = ~seen[name]
        if isinstance(factor, DiscreteFactor):
            if name in self._summed:  # its state has been drawn
                return moments, seen
            weights = self._known_configuration(factor, moments)
            table = jnp.exp(factor.log_table(self._belief)).reshape(
                -1, moments.shares[name].shape[0]
            )
            chosen = _state(table.T @ weights, choice)
            share = jnp.where(open_rows, chosen, moments.shares[name])
            return moments.replaced(shares={name: share}), seen.replaced(
                {name: seen[name] | open_rows}
            )
        members = factor.predictive(self._belief, moments, seen, name)
        place = self._known_configuration(factor, moments).argmax(0)

        def own(leaf: Array) -> Array:
            lead = leaf.ndim - 1 - len(factor.configurations)
            flat = leaf.reshape(*leaf.shape[: lead + 1], -1)
            index = jnp.broadcast_to(place[:, None], (*flat.shape[:-1], 1))
            return jnp.take_along_axis(flat, index, axis=-1)[..., 0]

        drawn = jax.tree.map(own, members).quantile(point)
        value = jnp.where(open_rows, drawn, moments.means[name])
        moments = moments.replaced(means={name: value}, squares={name: jnp.square(value)})
        return moments, seen.replaced({name: seen[name] | open_rows})

    def _known_configuration(self, factor: AbstractFactor, moments: Moments) -> Array:
        weights = factor.weights_of(moments)
        return jnp.ones((1, self._batch.values.shape[1])) if weights is None else weights


def _shares_of(joint: Array) -> Array:
    """Probabilities of joint states; they sum to 1 however large the log densities of a row are."""
    return jax.nn.softmax(joint, axis=tuple(range(joint.ndim - 1)))


def _state(shares: Array, point: Array) -> Array:
    """An indicator of the state whose share of the unit interval holds the point."""
    size = shares.shape[0]
    state = (jnp.cumsum(shares, 0) < point).sum(0).clip(0, size - 1)
    return (state == jnp.arange(size)[:, None]).astype(float)


def _student_quantile(u: Array) -> Array:
    """Of Student's t with 4 degrees of freedom, in closed form."""
    u = jnp.clip(u, 1e-12, 1.0 - 1e-12)
    root = 2.0 * jnp.sqrt(u * (1.0 - u))
    stretch = jnp.cos(jnp.arccos(jnp.minimum(root, 1.0)) / 3.0) / root
    return jnp.sign(u - 0.5) * 2.0 * jnp.sqrt(jnp.maximum(stretch - 1.0, 0.0))


def _student_log_density(t: Array) -> Array:
    """Of Student's t with 4 degrees of freedom: 3 / 8 (1 + t^2 / 4)^(-5/2)."""
    return math.log(3.0 / 8.0) - 2.5 * jnp.log1p(0.25 * jnp.square(t))
