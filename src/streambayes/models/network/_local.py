"""The rows of a batch: which cells are there, which are hidden, and one sweep over the hidden ones."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core import linalg
from streambayes._core.batch import Batch
from streambayes._core.kernel import extents, fits, mixture_totals
from streambayes._core.numerics import HALF_LOG_TWO_PI
from streambayes.models.network._factor import (
    AbstractFactor,
    AbstractTotals,
    ByName,
    Moments,
    product_of_shares,
)
from streambayes.models.network._structure import Structure
from streambayes.models.network._variables import VectorVariable
from streambayes.models.network._vector import VectorFactor

__all__ = ["Rows", "hidden_names", "hidden_vectors"]

_FACTORS = 32
_NOTHING = Moments(shares={}, means=ByName.each({}), squares={}, vectors={})


def hidden_names(structure: Structure, batch: Batch) -> tuple[str, ...]:
    """Variables that some row hides and that bear on others: latent ones, and missing parents."""
    missing = tuple(name for name in structure.interiors if name in batch.missing)
    return structure.latents + missing


def hidden_vectors(structure: Structure, batch: Batch) -> tuple[str, ...]:
    """Vectors of which some cells may be missing."""
    return tuple(
        variable.entry
        for variable in structure.variables
        if isinstance(variable, VectorVariable) and set(variable.names) & set(batch.missing)
    )


def _sum_of_logs(numbers: Array) -> Array:
    """Of numbers between 1 and the values of a variable: 32 fit into one product, which saves logarithms."""
    if numbers.shape[0] % _FACTORS == 0:
        numbers = numbers.reshape(_FACTORS, -1).prod(0)
    return jnp.log(numbers).sum()


class _Powers(NamedTuple):
    """Statistics that are 1, some columns and their squares, in this order.

    Attributes:
        columns: The columns.
        place: 1 where a statistic (row) is one that factors total (column), which may total it twice.
    """

    columns: tuple[str, ...]
    place: np.ndarray


@final
class Rows:
    r"""A batch as a network sees it.

    A row leaves out the factor of a variable that is missing in it with all its descendants: that is
    exact. Other missing cells are hidden variables of the row like latent ones, each with a
    distribution of its own whose natural parameter is the derivative of the expected log joint by
    its moments.

    Attributes:
        observed: By name, which rows hold a value, shape (num_padded,).
        weights: By name, 1.0 where the row has the variable's factor.
        hidden: Names of the variables with distributions of their own.
    """

    def __init__(
        self, structure: Structure, factors: Mapping[str, AbstractFactor], batch: Batch
    ) -> None:
        self._structure = structure
        self._factors = factors
        self._batch = batch
        self.hidden = hidden_names(structure, batch)
        self._vectors = hidden_vectors(structure, batch)
        cells = batch.observed if batch.missing else batch.mask[None]
        nothing = jnp.zeros_like(batch.mask)
        self.observed = ByName(cells, batch.columns, dict.fromkeys(structure.latents, nothing))
        self._present = self._with_descendants()
        self.weights: ByName = jax.tree.map(lambda there: there.astype(float), self._present)

    def init_local(self) -> Moments:
        """Hidden variables before anything is known: equal shares, mean 0 and variance 1."""
        structure, num_rows = self._structure, self._batch.values.shape[1]
        discrete = [name for name in self.hidden if structure.is_discrete(name)]
        others = [name for name in self.hidden if not structure.is_discrete(name)]
        shares = {}
        for name in discrete:
            size = structure.num_values(name)
            shares[name] = jnp.full((size, num_rows), 1.0 / size)
        return Moments(
            shares=shares,
            means=ByName.each({name: jnp.zeros(num_rows) for name in others}),
            squares={name: jnp.ones(num_rows) for name in others},
            vectors={},
        )

    @property
    def collapses(self) -> bool:
        """Whether rows hide one discrete variable without a column, in factors that need but totals."""
        if len(self.hidden) != 1 or self._vectors:
            return False
        (name,) = self.hidden
        return (
            self._structure.owner[name].latent
            and self._structure.is_discrete(name)
            and all(isinstance(factor, AbstractTotals) for factor in self._around(name).values())
        )

    def statistics(self) -> Array:
        """All that the factors around the only hidden variable total of a row: (num, num_padded).

        The kernel makes them of the columns; for it, what it has to know of them instead.
        """
        (name,) = self.hidden
        if self._has_kernel:
            size = self._structure.num_values(name)
            return extents(size, self._batch.values, self._places, self._batch.num_rows)
        moments = self.moments(_NOTHING)
        if self._powers is None:
            parts = [self._statistics(name, f, moments) for f in self._around(name).values()]
        else:
            present = self.weights[name]
            means = moments.means.of(self._powers.columns)
            parts = [present[None], present * means, present * jnp.square(means)]
        found = jnp.concatenate(parts)
        return found.astype(self._batch.values.dtype)

    @functools.cached_property
    def _powers(self) -> "_Powers | None":
        """The statistics as powers of columns, if they are."""
        (name,) = self.hidden
        found: list[tuple[str | None, int]] = []
        for entry, factor in self._around(name).items():
            powers = [(None, 0)] if entry == name else factor.powers
            if self._batch.missing or powers is None or set(factor.parents) - {name}:
                return None
            found += powers
        columns = tuple(dict.fromkeys(column for column, _ in found if column is not None))
        place = np.zeros((1 + 2 * len(columns), len(found)))
        for number, (column, power) in enumerate(found):
            at = 0 if column is None else columns.index(column) + 1 + (power - 1) * len(columns)
            place[at, number] = 1.0
        return _Powers(columns, place) if columns else None

    @property
    def _places(self) -> list[int]:
        """Where in the batch the columns are whose powers are totalled."""
        columns = self._powers.columns if self._powers is not None else ()
        return [self._batch.columns.index(column) for column in columns]

    @property
    def _has_kernel(self) -> bool:
        (name,) = self.hidden
        size = self._structure.num_values(name)
        return (
            self._batch.fused
            and self._powers is not None
            and fits(size, len(self._powers.columns), self._batch.values)
        )

    def _totals(self, coefficients: Array, statistics: Array) -> tuple[Array, Array]:
        r"""$\sum_i r_{ki} t_i$ and $\sum_i \ln \sum_k \exp(g_k t_i)$, as ``collapsed`` has them."""
        batch, (name,) = self._batch, self.hidden
        if self._has_kernel:
            return mixture_totals(
                coefficients, batch.values, self._places, batch.num_rows, statistics
            )
        statistics = statistics.astype(float)
        logits = coefficients @ statistics
        most = logits.max(0)
        odds = jnp.exp(logits - most)
        total = odds.sum(0)
        totals = linalg.row_products(odds, statistics / total)
        weights = self.weights[name]  # zeros and ones
        return totals, weights @ most + _sum_of_logs(jnp.where(weights > 0, total, 1.0))

    def collapsed(
        self, expectations: Mapping[str, Any], statistics: Array
    ) -> tuple[dict[str, Any], Array]:
        r"""Sums over rows with the only hidden variable at its optimum, and its entropy.

        With all statistics of a row i in one vector $t_i$, the log-odds of value k are linear, $g_k t_i$. Its
        share is $e_{ki} / s_i$ with $e_{ki} = \exp(g_k t_i - m_i)$; dividing the statistics by $s_i$ instead, which are fewer,
        gives the same totals. The entropy is $\sum_i \ln \sum_k \exp(g_k t_i)$ less the expected log-density.
        """
        (name,) = self.hidden
        moments = self.moments(_NOTHING)
        around = self._around(name)
        sizes = [len(self._statistics(name, factor, moments)) for factor in around.values()]
        ends = np.cumsum(sizes)[:-1]

        def sums_of(totals: Array) -> dict[str, Any]:
            if self._powers is not None:
                totals = totals @ self._powers.place
            return {
                entry: factor.packed(self._by_factor(name, factor, part))
                for (entry, factor), part in zip(
                    around.items(), jnp.split(totals, ends, axis=1), strict=True
                )
            }

        def joint_of(totals: Array) -> Array:
            sums = sums_of(totals)
            densities = [f.log_density(expectations, sums[entry]) for entry, f in around.items()]
            joint: Array = functools.reduce(jnp.add, densities)
            return joint

        size = self._structure.num_values(name)
        coefficients = jax.grad(joint_of)(jnp.zeros((size, len(statistics))))
        totals, log_total = self._totals(coefficients, statistics)
        entropy = log_total - (coefficients * totals).sum()  # the joint is linear in the totals
        near = sums_of(totals)
        sums = {
            entry: near[entry] if entry in near else factor.sums(moments, self.weights)
            for entry, factor in self._factors.items()
        }
        return sums, entropy

    def _statistics(self, name: str, factor: Any, moments: Moments) -> Array:
        """What a factor totals for each value of a variable that takes part in it: (num, num_padded)."""
        others = [parent for parent in factor.parents if parent != name]
        kinds = product_of_shares(others, moments)
        own = factor.entry == name
        parts = [self.weights[name][None]] if own else factor.rows(moments, self.weights)
        rows = jnp.concatenate(parts)
        if kinds is None:
            return rows
        both: Array = (kinds[:, None, :] * rows).reshape(-1, rows.shape[-1])
        return both

    def _by_factor(self, name: str, factor: Any, totals: Array) -> Array:
        r"""Totals for each value of a variable in the order of the factor: (\*configurations, num)."""
        if factor.entry == name:
            return jnp.moveaxis(totals.reshape(-1, *factor.configurations), 0, -1)
        place = factor.parents.index(name)
        others = [n for at, n in enumerate(factor.configurations) if at != place]
        return jnp.moveaxis(totals.reshape(len(totals), *others, -1), 0, place)

    def moments(self, local: Moments) -> Moments:
        """Moments of all variables: those of the hidden ones, values of the others, 0 where unused."""
        shares, hidden, squares = dict(local.shares), dict(local.means.others), dict(local.squares)
        values = jnp.where(self._batch.observed, self._batch.values.astype(float), 0.0)
        cells = ByName(values, self._batch.columns, {})
        for name in self._batch.columns:
            if self._structure.is_discrete(name):
                there, kinds = self.observed[name], jnp.arange(self._structure.num_values(name))
                seen = (there & (cells[name] == kinds[:, None])).astype(float)
                shares[name] = jnp.where(there, seen, shares[name]) if name in self.hidden else seen
            elif name in self.hidden:
                there, values = self.observed[name], cells[name]
                hidden[name] = jnp.where(there, values, hidden[name])
                squares[name] = jnp.where(there, jnp.square(values), squares[name])
        means = cells.replaced(hidden)
        return Moments(shares=shares, means=means, squares=squares, vectors=dict(local.vectors))

    def filled(self, expectations: Mapping[str, Any], moments: Moments) -> Moments:
        """Moments with the missing cells of vectors at their optimum."""
        for entry in self._vectors:
            factor = self._factors[entry]
            assert isinstance(factor, VectorFactor)
            filled = factor.fill(expectations, moments, self.observed)
            moments = moments.replaced(vectors={entry: filled})
        return moments

    def sweep(
        self, expectations: Mapping[str, Any], local: Moments
    ) -> tuple[Moments, Moments, Array]:
        """Update every hidden variable in turn; moments of all variables, and the entropy."""
        moments = self.filled(expectations, self.moments(local))
        entropy = jnp.zeros(())
        for name in self.hidden:
            hides = self._present[name] & ~self.observed[name]
            update = self._share if self._structure.is_discrete(name) else self._normal
            moments, part = update(expectations, moments, name, hides)
            entropy = entropy + hides.astype(float) @ part
        held = Moments(
            shares={name: moments.shares[name] for name in local.shares},
            means=ByName.each({name: moments.means[name] for name in local.means.others}),
            squares={name: moments.squares[name] for name in local.squares},
            vectors={},
        )
        return held, moments, entropy

    def sums(self, moments: Moments) -> dict[str, Any]:
        """Sums over rows of every factor."""
        return {
            entry: factor.sums(moments, self.weights) for entry, factor in self._factors.items()
        }

    def joint_normal(
        self, expectations: Mapping[str, Any], moments: Moments, names: Sequence[str]
    ) -> tuple[Array, Array, Array]:
        r"""What rows hide of normal variables, together: mean, precision and log mass, given the others.

        The expected log joint is quadratic in them, so that its derivatives at any point state it; each
        on its own (``sweep``) has the same mean at its fixed point, but less variance. Shapes
        (num_padded, num_names), (num_padded, num_names, num_names), (num_padded,); the identity where
        a row hides nothing.
        """
        hides = jnp.stack([self._present[n] & ~self.observed[n] for n in names], -1)
        at = jnp.stack([moments.means[n] for n in names], -1)

        def joint(means: Array, squares: Array, weights: ByName) -> Array:
            now = moments.replaced(
                means={n: means[:, k] for k, n in enumerate(names)},
                squares={n: squares[:, k] for k, n in enumerate(names)},
            )
            parts = [
                factor.log_density(expectations, factor.sums(now, weights))
                for factor in self._factors.values()
            ]
            return functools.reduce(jnp.add, parts)

        def slope(means: Array) -> tuple[Array, Array]:
            slopes: tuple[Array, Array] = jax.grad(joint, argnums=(0, 1))(
                means, jnp.square(at), self.weights
            )
            return slopes

        columns = []
        for place in range(len(names)):  # rows do not meet: one direction serves all of them
            along = jnp.zeros_like(at).at[:, place].set(1.0)
            (by_mean, by_square), (column, _) = jax.jvp(slope, (at,), (along,))
            columns.append(column)
        eye = jnp.eye(len(names))
        precision = -jnp.stack(columns, -1) - 2.0 * by_square[..., None] * eye
        precision = jnp.where(hides[:, :, None] & hides[:, None, :], precision, eye)
        factor = linalg.cholesky(precision)
        away = jnp.where(hides, by_mean + 2.0 * at * by_square, 0.0)
        centre = at + linalg.solve(factor, away[..., None])[..., 0]
        # the joint is linear in each factor's weights: so it splits into rows
        each = jax.grad(joint, argnums=2)(centre, jnp.square(centre), self.weights)
        rows = (self.weights.values * each.values).sum(0)
        rows = sum((self.weights[n] * part for n, part in each.others.items()), rows)
        return centre, precision, rows - 0.5 * linalg.log_det(factor)

    def _share(
        self, expectations: Mapping[str, Any], moments: Moments, name: str, hides: Array
    ) -> tuple[Moments, Array]:
        old = moments.shares[name]
        logits = jax.grad(
            lambda share: self._joint_of(name, expectations, moments.replaced(shares={name: share}))
        )(old)
        below = logits - logits.max(0)
        odds = jnp.exp(below)
        total = odds.sum(0)
        share = odds / total
        entropy = jnp.log(total) - (share * below).sum(0)  # cheaper than a logarithm of each share
        if self._batch.missing:
            share, entropy = jnp.where(hides, share, old), jnp.where(hides, entropy, 0.0)
        return moments.replaced(shares={name: share}), entropy

    def _normal(
        self, expectations: Mapping[str, Any], moments: Moments, name: str, hides: Array
    ) -> tuple[Moments, Array]:
        old = moments.means[name], moments.squares[name]
        by_mean, by_square = jax.grad(
            lambda pair: self._joint_of(
                name,
                expectations,
                moments.replaced(means={name: pair[0]}, squares={name: pair[1]}),
            )
        )(old)
        precision = jnp.where(hides, -2.0 * by_square, 1.0)
        mean = by_mean / precision
        new = (mean, jnp.square(mean) + 1.0 / precision)
        means, squares = (jnp.where(hides, n, o) for n, o in zip(new, old, strict=True))
        moments = moments.replaced(means={name: means}, squares={name: squares})
        return moments, HALF_LOG_TWO_PI + 0.5 - 0.5 * jnp.log(precision)

    def _joint_of(self, name: str, expectations: Mapping[str, Any], moments: Moments) -> Array:
        """Expected log-density of the factors that a variable takes part in."""
        parts = [
            factor.log_density(expectations, factor.sums(moments, self.weights))
            for factor in self._around(name).values()
        ]
        joint: Array = functools.reduce(jnp.add, parts)
        return joint

    def _around(self, name: str) -> dict[str, Any]:
        """Factors that a variable takes part in."""
        owner = self._structure.owner[name]
        entries = {owner.entry, *(child.entry for child in self._structure.children[name])}
        return {entry: factor for entry, factor in self._factors.items() if entry in entries}

    def _with_descendants(self) -> ByName:
        """By name, the rows in which a variable or something below it is observed."""
        if not self._batch.missing:
            return ByName(self._batch.mask[None], tuple(self._structure.owner), {})
        present = self.observed
        for variable in reversed(self._structure.variables):
            above = {}
            for name in variable.names:
                below = [n for child in self._structure.children[name] for n in child.names]
                if below:
                    above[name] = self.observed[name] | present.of(tuple(below)).any(0)
            present = present.replaced(above)
            if isinstance(variable, VectorVariable):  # one factor for all of its cells
                together = present.of(variable.names).any(0)
                present = present.replaced(dict.fromkeys(variable.names, together))
        return present
