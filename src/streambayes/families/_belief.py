"""What is believed of the blocks: one member of each family, or a weighted bank of members."""

import abc
from collections.abc import Callable
from typing import Any, final

import jax
import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.draws import draw_choice
from streambayes._core.pytree import pytree, static
from streambayes.families._blocks import Blocks
from streambayes.families._marginal import AbstractMarginal, MixtureMarginal
from streambayes.families._members import log_shares, log_total, total_of

__all__ = ["AbstractBelief", "Bank", "Point"]

_SHORT = 6


class AbstractBelief(abc.ABC):
    """A posterior over the blocks. Models see ``expectations`` alone; predictions use ``log_mean``."""

    @property
    @abc.abstractmethod
    def num_members(self) -> int:
        """Members of each block."""

    @abc.abstractmethod
    def expectations(self) -> dict[str, Any]:
        """Expected statistics per block."""

    @abc.abstractmethod
    def summary(self) -> Blocks:
        """One member per block, for callers that need a single one."""

    @abc.abstractmethod
    def log_mean(self, name: str, log_density: Callable[[Any], Array]) -> Array:
        r"""$\ln \sum_e w_e \exp f(\lambda_e)$ for a log density of one block's family.

        ``log_density`` maps a family to an array whose last axes are the family's batch axes.
        """

    @abc.abstractmethod
    def weights(self, name: str) -> Array:
        r"""Weights of the members, (num_members, \*blocks)."""

    @abc.abstractmethod
    def of_members(self, name: str, function: Callable[[Any], Any]) -> Any:
        """A function of every member's family, with members on a leading axis."""

    @abc.abstractmethod
    def log_mean_of(self, name: str, log_densities: Array) -> Array:
        """``log_mean`` of log densities that ``of_members`` has found."""

    @abc.abstractmethod
    def marginal(self, name: str, of: Callable[[Any], AbstractMarginal]) -> AbstractMarginal:
        """Marginal of a parameter of one block; its last axes may be those of the parameter.

        ``of`` takes families with leading axes of members, too.
        """

    def log_mean_of_all(self, log_density: Callable[["AbstractBelief"], Array]) -> Array:
        """The same for a log density that all blocks have a part in; rows are its only axis."""
        return log_density(self)

    @abc.abstractmethod
    def predictive(self, name: str, of: Callable[[Any], AbstractMarginal]) -> AbstractMarginal:
        """Distribution of a value to come; its first axes may be those of rows."""

    @abc.abstractmethod
    def shortened(self) -> "AbstractBelief":
        """Much the same with few members, for densities that take a sum over the members of several blocks."""

    @abc.abstractmethod
    def of_several(self) -> "AbstractBelief":
        """Beliefs on a leading axis as one, whose blocks have that axis."""

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator, num_samples: int) -> dict[str, Any]:
        """Independent draws of all parameters, by entry, as ``sample`` of its family has them."""


@final
@pytree
class Point(AbstractBelief):
    """One member per block."""

    blocks: Blocks

    @property
    def num_members(self) -> int:
        return 1

    def expectations(self) -> dict[str, Any]:
        return self.blocks.expectations()

    def summary(self) -> Blocks:
        return self.blocks

    def log_mean(self, name: str, log_density: Callable[[Any], Array]) -> Array:
        return log_density(self.blocks.params[name])

    def weights(self, name: str) -> Array:
        return xp.ones((1, *xp.shape(self.blocks.counts[name])))

    def of_members(self, name: str, function: Callable[[Any], Any]) -> Any:
        return jax.tree.map(lambda leaf: leaf[None], function(self.blocks.params[name]))

    def log_mean_of(self, name: str, log_densities: Array) -> Array:
        del name
        return log_densities[0]

    def marginal(self, name: str, of: Callable[[Any], AbstractMarginal]) -> AbstractMarginal:
        return of(self.blocks.params[name])

    def predictive(self, name: str, of: Callable[[Any], AbstractMarginal]) -> AbstractMarginal:
        return of(self.blocks.params[name])

    def shortened(self) -> "Point":
        return self

    def of_several(self) -> "Point":
        return self

    def sample(self, rng: np.random.Generator, num_samples: int) -> dict[str, Any]:
        params = self.blocks.params.items()
        return {name: family.sample(rng, num_samples) for name, family in params}


@final
@pytree
class Bank(AbstractBelief):
    r"""A mixture $\sum_e w_e q(\beta \mid \lambda_e)$ per block.

    Attributes:
        log_weights: Per block, shape (num_members, \*blocks), up to a constant for each block.
        members: Blocks with a leading axis of members.
        is_joint: Whether one choice of a member holds for all blocks; weights are then the same for all.
    """

    log_weights: dict[str, Array]
    members: Blocks
    is_joint: bool = static(default=False)

    @property
    def num_members(self) -> int:
        size: int = next(iter(self.log_weights.values())).shape[0]
        return size

    def expectations(self) -> dict[str, Any]:
        return {
            name: type(stats)(
                *(
                    self._average(name, stat, event)
                    for stat, event in zip(stats, self._events(name), strict=True)
                )
            )
            for name, stats in self.members.expectations().items()
        }

    def normalized(self) -> "Bank":
        """The same mixture with weights that sum to 1."""
        normal = {name: self._normal(name) for name in self.log_weights}
        return Bank(log_weights=normal, members=self.members, is_joint=self.is_joint)

    def summary(self) -> Blocks:
        weights = {name: xp.exp(self._normal(name)) for name in self.log_weights}
        weighted = self.members.scaled(weights)
        summed: Blocks = jax.tree.map(total_of, weighted)
        return summed

    def log_mean(self, name: str, log_density: Callable[[Any], Array]) -> Array:
        return self.log_mean_of(name, self.of_members(name, log_density))

    def weights(self, name: str) -> Array:
        return xp.exp(self._normal(name))

    def of_members(self, name: str, function: Callable[[Any], Any]) -> Any:
        return jax.vmap(function)(self.members.params[name])

    def log_mean_of(self, name: str, log_densities: Array) -> Array:
        return log_total(log_densities + self._log_weights_after_rows(name, log_densities.ndim))

    def log_mean_of_all(self, log_density: Callable[[AbstractBelief], Array]) -> Array:
        if not self.is_joint:
            return log_density(self)
        values = jax.vmap(lambda blocks: log_density(Point(blocks)))(self.members)
        name = next(iter(self.log_weights))
        weights = self._normal(name).reshape(self.num_members, -1)[:, :1]
        return log_total(values + weights)

    def marginal(self, name: str, of: Callable[[Any], AbstractMarginal]) -> AbstractMarginal:
        members = of(self.members.params[name])
        weights = xp.exp(self._normal(name))
        extra = members.mean().ndim - weights.ndim
        return MixtureMarginal(
            weights=weights.reshape(weights.shape + (1,) * extra), members=members
        )

    def predictive(self, name: str, of: Callable[[Any], AbstractMarginal]) -> AbstractMarginal:
        members = jax.vmap(of)(self.members.params[name])
        shape = jax.vmap(lambda member: member.mean())(members).shape
        weights = xp.exp(self._log_weights_after_rows(name, len(shape)))
        return MixtureMarginal(weights=xp.broadcast_to(weights, shape), members=members)

    def of_several(self) -> "Bank":
        moved: Bank = jax.tree.map(lambda leaf: xp.moveaxis(leaf, 0, 1), self)
        return moved

    def shortened(self) -> "Bank":
        """The heaviest members of each block, and the average of the others."""
        if self.num_members <= _SHORT:
            return self
        places, log_weights, others = {}, {}, {}
        for name in self.log_weights:
            normal = self._normal(name)
            heavy, top = xp.largest(xp.moveaxis(normal, 0, -1), _SHORT - 1)
            heavy, top = xp.moveaxis(heavy, -1, 0), xp.moveaxis(top, -1, 0)
            kinds = xp.arange(normal.shape[0]).reshape(-1, 1, *(1,) * (normal.ndim - 1))
            left = xp.where((kinds == top).any(1), -xp.inf, normal)
            rest = xp.logsumexp(left, axis=0, keepdims=True)
            places[name] = top
            log_weights[name] = xp.concatenate([heavy, rest])
            others[name] = xp.where(xp.isfinite(rest), left, normal)  # none are left: any will do

        def heaviest(name: str, leaf: Array) -> Array:
            top = places[name]
            return xp.take_along_axis(
                leaf, top.reshape(top.shape + (1,) * (leaf.ndim - top.ndim)), axis=0
            )

        average = Bank(log_weights=others, members=self.members).summary()
        chosen = Blocks(
            params={
                name: jax.tree.map(lambda leaf, name=name: heaviest(name, leaf), family)
                for name, family in self.members.params.items()
            },
            counts={name: heaviest(name, count) for name, count in self.members.counts.items()},
        )
        members: Blocks = jax.tree.map(
            lambda some, one: xp.concatenate([some, one[None]]), chosen, average
        )
        return Bank(log_weights=log_weights, members=members)

    def sample(self, rng: np.random.Generator, num_samples: int) -> dict[str, Any]:
        drawn = {}
        for name, chosen in self._choices(rng, num_samples).items():

            def pick(leaf: Array, chosen: np.ndarray = chosen) -> Array:
                index = chosen.reshape(*chosen.shape, *(1,) * (leaf.ndim - chosen.ndim))
                return xp.take_along_axis(leaf, index, axis=0)

            picked = jax.tree.map(pick, self.members.params[name]).sample(rng, 1)
            drawn[name] = jax.tree.map(lambda leaf: leaf[0], picked)
        return drawn

    def _choices(self, rng: np.random.Generator, num_samples: int) -> dict[str, np.ndarray]:
        r"""Which member each draw is of, by entry: shape (num_samples, \*blocks)."""
        weights = {
            name: np.moveaxis(np.asarray(self.weights(name)), 0, -1) for name in self.log_weights
        }
        shapes = {name: (num_samples, *each.shape[:-1]) for name, each in weights.items()}
        if not self.is_joint:
            return {name: draw_choice(rng, weights[name], shapes[name]) for name in weights}
        alike = next(iter(weights.values())).reshape(-1, self.num_members)[0]
        one = draw_choice(rng, alike, (num_samples,))
        return {
            name: np.broadcast_to(one.reshape(-1, *(1,) * (len(shape) - 1)), shape)
            for name, shape in shapes.items()
        }

    def _normal(self, name: str) -> Array:
        return log_shares(self.log_weights[name])

    def _log_weights_after_rows(self, name: str, ndim: int) -> Array:
        """Weights of members against values with axes of rows between members and blocks."""
        weights = self._normal(name)
        rows = (1,) * (ndim - weights.ndim)
        return weights.reshape(weights.shape[:1] + rows + weights.shape[1:])

    def _events(self, name: str) -> tuple[int, ...]:
        return tuple(self.members.params[name].natural.values())

    def _average(self, name: str, stat: Array, event: int) -> Array:
        weights = xp.exp(self._normal(name))
        return total_of(weights.reshape(weights.shape + (1,) * event) * stat)
