r"""Factors of normal variables with continuous parents: linear regressions.

$y \mid u, c \sim N(b_c \cdot u, 1 / \tau_c)$ with $u = (1, x_1, \dots, x_m)$. What is believed of $(b, \tau)$
enters in four expectations, $E[\tau b]$, $E[\tau b b^\top]$, $E[\tau]$ and $E[\ln \tau]$; three ways to hold
that belief differ in nothing else.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core import linalg
from streambayes._core.arrays import xp
from streambayes._core.column import LOG
from streambayes._core.numerics import HALF_LOG_TWO_PI
from streambayes.families import (
    AbstractBelief,
    AbstractFamily,
    AbstractMarginal,
    Gamma,
    MultivariateNormal,
    MultivariateNormalGamma,
    NoisyNormal,
    Normal,
    NormalMarginal,
    SpreadMarginal,
    StudentMarginal,
)
from streambayes.models._base import Parameters, Section
from streambayes.models.network._factor import (
    AbstractFactor,
    ByName,
    Moments,
    Units,
)
from streambayes.models.network._smooth import across_variances, is_short
from streambayes.models.network._structure import Structure
from streambayes.models.network._variables import AbstractVariable

__all__ = ["ConjugateRegression", "IndependentRegression", "JointRegression"]

_FEW_NODES = 24


class RegressionSums(NamedTuple):
    r"""Rows, $\sum y^2$, $\sum y u$ and $\sum u u^\top$ in the shape of the blocks."""

    num_rows: Array
    squares: Array
    products: Array
    gram: Array


class NoisyCoefficients(NamedTuple):
    r"""What is expected of $\tau b$, $\tau b b^\top$, $\tau$ and $\ln\tau$."""

    precision_mean: Array
    precision_outer: Array
    precision: Array
    log_precision: Array


class AbstractRegression(AbstractFactor):
    """What the three share: sums over rows, the density, units."""

    def __init__(self, variable: AbstractVariable, structure: Structure) -> None:
        super().__init__(variable, structure)
        self.regressors = structure.continuous_parents(variable)
        self.size = len(self.regressors) + 1
        taken = [dict(structure.owner[name].transform).get(name) for name in self.regressors]
        self.regressor_texts = [
            f"log {name}" if transform == LOG else name
            for name, transform in zip(self.regressors, taken, strict=True)
        ]

    @abc.abstractmethod
    def expected(self, expectations: Mapping[str, Any]) -> NoisyCoefficients:
        """The four expectations, in the shape of the blocks."""

    @abc.abstractmethod
    def density_of(
        self, belief: AbstractBelief, design: Array, values: Array, present: Array
    ) -> Array:
        """Log predictive density of values (rows, 1.., names) that are present, given a design of (rows, size)."""

    @abc.abstractmethod
    def predictive_of(self, belief: AbstractBelief, design: Array) -> AbstractMarginal:
        """The predictive distribution of a value, all arrays of shape (rows, blocks)."""

    @abc.abstractmethod
    def coefficient_marginals(
        self, belief: AbstractBelief, matrix: Array, offset: Array
    ) -> AbstractMarginal:
        """Marginals of matrix · coefficients + offset, on a last axis."""

    @abc.abstractmethod
    def noise_marginal(self, belief: AbstractBelief, factor: Any) -> AbstractMarginal:
        """Marginals of the noise's standard deviation times a factor."""

    @abc.abstractmethod
    def drawn(self, parameters: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (rows, blocks, size) and precision (rows, blocks) of drawn parameters."""

    @final
    def sums(self, moments: Moments, weights: ByName) -> RegressionSums:
        design = self._design(moments)
        shares = self.weights_of(moments)
        found = []
        for name in self.names:
            # one product of all that is linear in a row, the response last, for each configuration
            columns = jnp.concatenate([design, moments.means[name][None]])
            present = weights[name][None] if shares is None else shares * weights[name]
            weighted = (present[:, None, :] * columns).reshape(-1, columns.shape[-1])
            products = linalg.row_products(weighted, columns)
            products = products.reshape(-1, len(columns), len(columns))
            for place, each in enumerate((*self.regressors, name), start=1):
                if each in moments.squares:  # rows hide it
                    spread = self._spread(moments, each, present)
                    products = products.at[:, place, place].add(spread)
            found.append(
                RegressionSums(
                    products[:, 0, 0],
                    products[:, -1, -1],
                    products[:, :-1, -1],
                    products[:, :-1, :-1],
                )
            )
        stacked = jax.tree.map(lambda *parts: jnp.stack(parts, 1), *found)
        sums: RegressionSums = jax.tree.map(
            lambda part: part.reshape(*self.shape, *part.shape[2:]), stacked
        )
        return sums

    @final
    def log_density(self, expectations: Mapping[str, Any], sums: RegressionSums) -> Array:
        precision_mean, precision_outer, precision, log_precision = self.expected(expectations)
        fit = (
            precision * sums.squares
            - 2.0 * (precision_mean * sums.products).sum(-1)
            + (precision_outer * sums.gram).sum((-1, -2))
        )
        density: Array = (sums.num_rows * (0.5 * log_precision - HALF_LOG_TWO_PI) - 0.5 * fit).sum()
        return density

    @final
    def counts(self, sums: RegressionSums) -> dict[str, Array]:
        return dict.fromkeys(self.prior(), sums.num_rows)

    @final
    def log_predictive(self, belief: AbstractBelief, moments: Moments, observed: ByName) -> Array:
        values = self.against_blocks(self.stacked(moments.means))
        present = self.against_blocks(self.stacked(observed))
        density = self.density_of(belief, self._design(moments).T, values, present)
        return self.over_names(density, observed)

    @final
    def predictive(
        self, belief: AbstractBelief, moments: Moments, observed: ByName, name: str
    ) -> Any:
        del observed
        return self.of_name(self.predictive_of(belief, self._design(moments).T), name)

    @final
    def marginals(self, belief: AbstractBelief, units: Units) -> list[Section]:
        matrix, _, offset = self.change_of_units(units)
        names = [
            self.text("intercept of {}", "intercept of log {}"),
            *(
                self.text(f"slope of {{}} on {name}", f"slope of log {{}} on {name}")
                for name in self.regressor_texts
            ),
        ]
        _, factor = self.own_units(units)
        noise = self.text(
            "residual standard deviation of {}", "residual standard deviation of log {}"
        )
        *others, last = self.labels().values()  # that of the noise, or of all
        blocks = np.stack(others, -1) if len(others) > 1 else (others or [last])[0]
        found = self.coefficient_marginals(belief, matrix, offset)
        return [
            (Parameters.of(np.stack(names, -1), found, blocks),),
            (Parameters.of(noise, self.noise_marginal(belief, factor), last),),
        ]

    @final
    def shown(self, parameters: Mapping[str, Any]) -> list[tuple[np.ndarray, ...]]:
        coefficients, precision = self.drawn(parameters)
        return [(coefficients,), (1.0 / np.sqrt(precision),)]

    @final
    def draw(
        self,
        rng: np.random.Generator,
        parameters: Mapping[str, Any],
        values: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        coefficients, precision = self.of_rows(self.drawn(parameters), values)
        design = np.stack(
            [np.ones(len(precision)), *(values[name] for name in self.regressors)], -1
        )
        if self.variable.is_grouped:
            design = design[:, None, :]
        noise = rng.standard_normal(precision.shape) / np.sqrt(precision)
        return self.by_name((coefficients * design).sum(-1) + noise)

    @final
    def change_of_units(self, units: Units) -> tuple[Array, Array, Array]:
        r"""$T$, $T^{-1}$ and $t$ with user's coefficients $= T b + t$; a leading axis over a list of names.

        With $y' = s + f y$ and $x_j' = s_j + f_j x_j$: $b_j' = b_j f / f_j$ and
        $b_0' = s + f b_0 - \sum_j b_j' s_j$.
        """
        shift, factor = (xp.asarray(part)[..., None] for part in self.own_units(units))
        shifts, factors = units(self.regressors)
        shifts, factors = xp.append(0.0, shifts), xp.append(1.0, factors)
        first = xp.eye(self.size)[0]
        diagonal = (factor / factors)[..., None] * xp.eye(self.size)
        matrix = diagonal - first[:, None] * (factor * shifts / factors)[..., None, :]
        back = (factors / factor)[..., None] * xp.eye(self.size)
        inverse = back + first[:, None] * (shifts / factor)[..., None, :]
        return matrix, inverse, shift * first

    def _design(self, moments: Moments) -> Array:
        """Means of (1, regressors), shape (size, num_padded)."""
        means = moments.means.of(self.regressors)
        return jnp.concatenate([jnp.ones((1, means.shape[-1])), means])

    @staticmethod
    def _spread(moments: Moments, name: str, present: Array) -> Array:
        """Summed variances of a variable that rows hide, by configuration."""
        variances = moments.square(name) - jnp.square(moments.means[name])
        return linalg.row_products(present, variances[None])[:, 0]


class AbstractSeparate(AbstractRegression):
    """Coefficients and noise are blocks of their own, which take turns."""

    @property
    @final
    def noise(self) -> str:
        """The entry of the noise's precision."""
        return f"{self.entry}: noise"

    @final
    def noise_prior(self) -> dict[str, AbstractFamily]:
        """Gamma(1, 0.1)."""
        one = Gamma.from_shape_rate(1.0, self.left_over)
        return {self.noise: one.broadcast_to(self.shape)}

    @final
    def noise_marginal(self, belief: AbstractBelief, factor: Any) -> AbstractMarginal:
        return belief.marginal(self.noise, lambda family: SpreadMarginal.of(family).in_unit(factor))


@final
class JointRegression(AbstractSeparate):
    r"""$b \sim N(0, I)$ as one block, $\tau \sim \mathrm{Gamma}(1, 0.1)$ as another."""

    @property
    def coefficients(self) -> str:
        """The entry of the coefficients."""
        return f"{self.entry}: coefficients"

    @property
    def turns(self) -> tuple[tuple[str, ...], ...]:
        return ((self.noise,), (self.coefficients,))

    def prior(self) -> dict[str, AbstractFamily]:
        one = MultivariateNormal.from_mean_precision(np.zeros(self.size), np.eye(self.size))
        return {self.coefficients: one.broadcast_to(self.shape), **self.noise_prior()}

    def labels(self) -> dict[str, np.ndarray]:
        return {
            self.coefficients: self.text("{}: coefficients"),
            self.noise: self.text("{}: noise"),
        }

    def touched_by(self, column: str) -> dict[str, np.ndarray]:
        touched = super().touched_by(column)
        if column in self.regressors:  # with the coefficients, what they leave unexplained
            touched = dict.fromkeys(touched, np.ones(self.shape, bool))
        return touched

    def expected(self, expectations: Mapping[str, Any]) -> NoisyCoefficients:
        value, outer = expectations[self.coefficients]
        log_precision, precision = expectations[self.noise]
        return NoisyCoefficients(
            precision[..., None] * value,
            precision[..., None, None] * outer,
            precision,
            log_precision,
        )

    def density_of(
        self, belief: AbstractBelief, design: Array, values: Array, present: Array
    ) -> Array:
        if is_short(belief, design, most_members=0):  # even one member has an integral for each row
            density: Array = self._over_both(
                belief.log_mean,
                lambda coefficients, noise: _log_prob(
                    belief, self._noisy(design, coefficients, noise), values
                ),
            )
            return density

        def moments(coefficients: MultivariateNormal) -> tuple[Array, Array]:
            factor, mean = coefficients.parts()
            return _projected(mean, design), _spread_of_many(factor, design)

        def with_noise(distance: Array, variance: Array) -> Array:
            return belief.log_mean(
                self.noise,
                lambda noise: _log_prob(
                    belief, NoisyNormal(jnp.zeros_like(variance), variance, noise), distance
                ),
            )

        noise: Any = belief.summary().params[self.noise]
        location, variance = belief.of_members(self.coefficients, moments)
        counts = belief.weights(self.coefficients)[:, None] > 0.0
        each = across_variances(
            with_noise, values - location, variance, present & counts, noise.rate / noise.shape
        )
        return belief.log_mean_of(self.coefficients, each)

    def predictive_of(self, belief: AbstractBelief, design: Array) -> AbstractMarginal:
        marginal: AbstractMarginal = self._over_both(
            belief.shortened().predictive,
            lambda coefficients, noise: _coarse(belief, self._noisy(design, coefficients, noise)),
        )
        return marginal

    def coefficient_marginals(
        self, belief: AbstractBelief, matrix: Array, offset: Array
    ) -> AbstractMarginal:
        def one(family: MultivariateNormal) -> AbstractMarginal:
            factor, mean = family.parts()
            mean = (matrix * mean[..., None, :]).sum(-1) + offset
            turned = xp.swapaxes(matrix, -1, -2)
            half = linalg.solve_lower(factor, xp.broadcast_to(turned, factor.lower.shape))
            return NormalMarginal(mean, xp.sqrt(xp.square(half).sum(-2)))

        return belief.marginal(self.coefficients, one)

    def in_units(self, entry: str, family: Any, units: Units) -> Any:
        matrix, inverse, offset = self.change_of_units(units)
        if entry == self.coefficients:
            return family.rescaled(matrix, inverse, offset)
        return _noise_times(family, self.own_units(units)[1])

    def from_units(self, entry: str, family: Any, units: Units) -> Any:
        matrix, inverse, offset = self.change_of_units(units)
        if entry == self.coefficients:
            return family.rescaled(inverse, matrix, -(inverse * offset[..., None, :]).sum(-1))
        return _noise_times(family, 1.0 / self.own_units(units)[1])

    def drawn(self, parameters: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        return parameters[self.coefficients], parameters[self.noise]

    def _over_both(self, mean_over: Callable[..., Any], of: Callable[..., Any]) -> Any:
        """Over what is believed of the coefficients and, within, of the noise."""
        return mean_over(
            self.coefficients,
            lambda coefficients: mean_over(self.noise, lambda noise: of(coefficients, noise)),
        )

    def _noisy(self, design: Array, coefficients: MultivariateNormal, noise: Gamma) -> NoisyNormal:
        factor, mean = coefficients.parts()
        location, variance = _projected(mean, design), _spread(factor, design)
        return NoisyNormal(location, variance, noise.broadcast_to(location.shape))


@final
class IndependentRegression(AbstractSeparate):
    r"""Each coefficient $b_j \sim N(0, 1)$ is a block of its own, and $\tau \sim \mathrm{Gamma}(1, 0.1)$.

    The paper's form. The intercept is the mean at the centres of the regressors' columns (0 where
    units are left alone): only so do coefficients stay independent in the user's units.
    """

    @property
    def coefficients(self) -> tuple[str, ...]:
        """The entries of the coefficients."""
        slopes = (f"{self.entry}: b[{name}]" for name in self.regressors)
        return (f"{self.entry}: intercept", *slopes)

    @property
    def turns(self) -> tuple[tuple[str, ...], ...]:
        return ((self.noise,), *((name,) for name in self.coefficients))

    def prior(self) -> dict[str, AbstractFamily]:
        one = Normal.from_mean_precision(0.0, 1.0).broadcast_to(self.shape)
        return {**dict.fromkeys(self.coefficients, one), **self.noise_prior()}

    def labels(self) -> dict[str, np.ndarray]:
        patterns = ["{}: intercept", *(f"{{}}: b[{name}]" for name in self.regressors)]
        return {
            **{n: self.text(p) for n, p in zip(self.coefficients, patterns, strict=True)},
            self.noise: self.text("{}: noise"),
        }

    def touched_by(self, column: str) -> dict[str, np.ndarray]:
        touched = super().touched_by(column)
        if column in self.regressors:
            slope = self.coefficients[1 + self.regressors.index(column)]
            for name in (self.coefficients[0], slope, self.noise):
                touched[name] = np.ones(self.shape, bool)
        return touched

    def expected(self, expectations: Mapping[str, Any]) -> NoisyCoefficients:
        value = jnp.stack([expectations[name].value for name in self.coefficients], -1)
        square = jnp.stack([expectations[name].square for name in self.coefficients], -1)
        diagonal = jnp.eye(self.size, dtype=bool)
        outer = jnp.where(diagonal, square[..., None], value[..., :, None] * value[..., None, :])
        log_precision, precision = expectations[self.noise]
        return NoisyCoefficients(
            precision[..., None] * value,
            precision[..., None, None] * outer,
            precision,
            log_precision,
        )

    def density_of(
        self, belief: AbstractBelief, design: Array, values: Array, present: Array
    ) -> Array:
        del present
        location, variance = self._moments(belief, design)

        def density(noise: Gamma) -> Array:
            one = NoisyNormal(location, variance, noise.broadcast_to(location.shape))
            return _log_prob(belief, one, values)

        return belief.log_mean(self.noise, density)

    def predictive_of(self, belief: AbstractBelief, design: Array) -> AbstractMarginal:
        location, variance = self._moments(belief, design)
        return belief.shortened().predictive(
            self.noise,
            lambda noise: _coarse(
                belief, NoisyNormal(location, variance, noise.broadcast_to(location.shape))
            ),
        )

    def coefficient_marginals(
        self, belief: AbstractBelief, matrix: Array, offset: Array
    ) -> AbstractMarginal:
        mean, variance = self._each(belief)
        return NormalMarginal(
            (matrix * mean[..., None, :]).sum(-1) + offset,
            xp.sqrt((xp.square(matrix) * variance[..., None, :]).sum(-1)),
        )

    def in_units(self, entry: str, family: Any, units: Units) -> Any:
        shift, factor = self._own_or_slope(entry, units)
        if entry == self.noise:
            return _noise_times(family, factor)
        return family.rescaled(shift, factor)

    def from_units(self, entry: str, family: Any, units: Units) -> Any:
        shift, factor = self._own_or_slope(entry, units)
        if entry == self.noise:
            return _noise_times(family, 1.0 / factor)
        return family.rescaled(-shift / factor, 1.0 / factor)

    def drawn(self, parameters: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        each = np.stack([parameters[name] for name in self.coefficients], -1)
        return each, parameters[self.noise]

    def _own_or_slope(self, entry: str, units: Units) -> tuple[Any, Any]:
        shift, factor = self.own_units(units)
        if entry in self.coefficients[1:]:
            regressor = self.regressors[self.coefficients.index(entry) - 1]
            _, (width,) = units((regressor,))
            return 0.0 * shift, factor / width
        return shift, factor

    def _each(self, belief: AbstractBelief) -> tuple[Array, Array]:
        """Means and variances of the coefficients on a last axis; of a bank, its mixture's."""

        def one(family: Normal) -> AbstractMarginal:
            return NormalMarginal(family.mean(), 1.0 / xp.sqrt(family.precision))

        each = [belief.marginal(name, one) for name in self.coefficients]
        means = xp.stack([marginal.mean() for marginal in each], -1)
        return means, xp.stack([marginal.variance() for marginal in each], -1)

    def _moments(self, belief: AbstractBelief, design: Array) -> tuple[Array, Array]:
        mean, variance = self._each(belief)
        return _projected(mean, design), _projected(variance, jnp.square(design))


@final
class ConjugateRegression(AbstractRegression):
    r"""$(b, \tau)$ as one block; exact.

    $\tau \sim \mathrm{Gamma}(1, 0.1)$ and $b \mid \tau \sim N(0, 10 I / \tau)$.
    """

    def prior(self) -> dict[str, AbstractFamily]:
        one = MultivariateNormalGamma.from_shape_rate_mean_scale(
            1.0, self.left_over, np.zeros(self.size), self.left_over * np.eye(self.size)
        )
        return {self.entry: one.broadcast_to(self.shape)}

    def labels(self) -> dict[str, np.ndarray]:
        return {self.entry: self.text("{}")}

    def touched_by(self, column: str) -> dict[str, np.ndarray]:
        if column in self.regressors:
            return {self.entry: np.ones(self.shape, bool)}
        return super().touched_by(column)

    def expected(self, expectations: Mapping[str, Any]) -> NoisyCoefficients:
        return NoisyCoefficients(*expectations[self.entry])

    def density_of(
        self, belief: AbstractBelief, design: Array, values: Array, present: Array
    ) -> Array:
        del present
        return belief.log_mean(
            self.entry, lambda family: self._student(family, design).log_prob(values)
        )

    def predictive_of(self, belief: AbstractBelief, design: Array) -> AbstractMarginal:
        return belief.predictive(self.entry, lambda family: self._student(family, design))

    def coefficient_marginals(
        self, belief: AbstractBelief, matrix: Array, offset: Array
    ) -> AbstractMarginal:
        def one(family: MultivariateNormalGamma) -> AbstractMarginal:
            gamma = family.precision
            mean = (matrix * family.location[..., None, :]).sum(-1) + offset
            half = linalg.solve_lower(
                linalg.cholesky(family.scale),
                xp.broadcast_to(xp.swapaxes(matrix, -1, -2), family.scale.shape),
            )
            spread = xp.sqrt((gamma.rate / gamma.shape)[..., None] * xp.square(half).sum(-2))
            degrees = xp.broadcast_to(2.0 * gamma.shape[..., None], spread.shape)
            return StudentMarginal(degrees, mean, spread)

        return belief.marginal(self.entry, one)

    def noise_marginal(self, belief: AbstractBelief, factor: Any) -> AbstractMarginal:
        return belief.marginal(
            self.entry, lambda family: SpreadMarginal.of(family.precision).in_unit(factor)
        )

    def in_units(self, entry: str, family: Any, units: Units) -> Any:
        del entry
        matrix, inverse, offset = self.change_of_units(units)
        return family.rescaled(matrix, inverse, offset, self.own_units(units)[1])

    def from_units(self, entry: str, family: Any, units: Units) -> Any:
        del entry
        matrix, inverse, offset = self.change_of_units(units)
        back = -(inverse * offset[..., None, :]).sum(-1)
        return family.rescaled(inverse, matrix, back, 1.0 / self.own_units(units)[1])

    def drawn(self, parameters: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        coefficients, precision = parameters[self.entry]
        return coefficients, precision

    def _student(self, family: MultivariateNormalGamma, design: Array) -> StudentMarginal:
        gamma = family.precision
        location = _projected(family.location, design)
        wide = 1.0 + _spread(linalg.cholesky(family.scale), design)
        spread = jnp.sqrt(gamma.rate / gamma.shape * wide)
        return StudentMarginal(
            jnp.broadcast_to(2.0 * gamma.shape, location.shape), location, spread
        )


def _log_prob(belief: AbstractBelief, one: NoisyNormal, values: Array) -> Array:
    """Log density of one member's predictive; of many, each need not have ten digits."""
    return one.log_prob(values) if belief.num_members == 1 else one.student_log_prob(values)


def _coarse(belief: AbstractBelief, one: NoisyNormal) -> NoisyNormal:
    """The same, for quantiles."""
    if belief.num_members == 1:
        return one
    return dataclasses.replace(one, num_nodes=_FEW_NODES)


def _projected(coefficients: Array, design: Array) -> Array:
    """(blocks, size) and (rows, size) to (rows, blocks)."""
    return jnp.einsum("...p,np->n...", coefficients, design)


def _spread(factor: linalg.Factor, design: Array) -> Array:
    r"""$u^\top (LL^\top)^{-1} u$: (blocks, size, size) and (rows, size) to (rows, blocks)."""
    half = linalg.solve_lower(factor, design.T)
    return jnp.moveaxis(jnp.square(half).sum(-2), -1, 0)


def _spread_of_many(factor: linalg.Factor, design: Array) -> Array:
    """The same as one product of matrices, for many rows."""
    size = design.shape[-1]
    covariance = jnp.swapaxes(factor.inverse, -1, -2) @ factor.inverse
    left, right = np.triu_indices(size)
    twice = np.where(left == right, 1.0, 2.0)
    found = jnp.einsum(
        "...p,np->n...", twice * covariance[..., left, right], design[:, left] * design[:, right]
    )
    return jnp.maximum(found, 0.0)


def _noise_times(noise: Gamma, factor: Any) -> Gamma:
    """The precision of noise that is a factor as large."""
    return Gamma.from_shape_rate(noise.shape, noise.rate * factor**2)
