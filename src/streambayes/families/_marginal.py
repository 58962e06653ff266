"""Distributions of single quantities: what a person is shown of parameters and of values to come."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, Self, final

import jax
from jax import Array

from streambayes._core.arrays import holds_jax, xp
from streambayes._core.numerics import HALF_LOG_TWO_PI, log_gamma_half_step
from streambayes._core.pytree import pytree
from streambayes.families._beta import Beta
from streambayes.families._gamma import Gamma

__all__ = [
    "AbstractMarginal",
    "AbstractPredictive",
    "BetaMarginal",
    "GammaMarginal",
    "MixtureMarginal",
    "NormalMarginal",
    "SpreadMarginal",
    "StudentMarginal",
    "WeightedDraws",
]


_MOST_ROUNDS = 200
_RESOLUTION = 1e-14
_STEP = 1e-9
"""The last step of Newton's method, whose error is its square."""


class AbstractMarginal(abc.ABC):
    """A batch of one-dimensional distributions with mean, variance and distribution function."""

    support: ClassVar[Literal["real", "positive", "nonnegative", "unit"]] = "real"
    """Where values lie, and what few rows show of them: anywhere, above 0, from 0 on, or from 0 to 1."""

    @abc.abstractmethod
    def mean(self) -> Array:
        """Expected value; infinite or NaN where there is none."""

    @abc.abstractmethod
    def variance(self) -> Array:
        """Variance; infinite where there is none."""

    def deviation(self) -> Array:
        """Standard deviation; stated where its square would overflow in extreme units."""
        return xp.sqrt(self.variance())

    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation, with what both need computed once."""
        return self.mean(), self.deviation()

    @abc.abstractmethod
    def cdf(self, x: Array) -> Array:
        """Probability of at most ``x``."""

    @abc.abstractmethod
    def bracket(self) -> tuple[Array, Array]:
        """Two points with nearly all of the mass between them."""

    @property
    def is_continuous(self) -> bool:
        """Whether the distribution function has no jumps."""
        return True

    def density(self, x: Array) -> Array | None:
        """The derivative of the distribution function, where it costs little: quantiles are found in fewer steps."""
        del x
        return None

    def for_quantiles(self, tail: Any) -> "AbstractMarginal":
        """The same or much the same, for quantiles that leave no less than ``tail`` on either side."""
        del tail
        return self

    @final
    def quantile(self, probability: Any) -> Array:
        """The least point where the distribution function reaches ``probability``.

        Axes of ``probability`` before those of the batch lead.
        """
        tail = xp.minimum(xp.asarray(probability), 1.0 - xp.asarray(probability)).min()
        short = self.for_quantiles(tail)
        low, high = short.bracket()
        shape = xp.broadcast_shapes(low.shape, high.shape, xp.shape(probability))
        low, high, wanted = (xp.broadcast_to(end, shape) for end in (low, high, probability))
        if not short.is_continuous:
            return _bisected(short.cdf, low, high, wanted)
        mean, deviation = short.mean(), short.deviation()
        # Cantelli's inequality, and room for rounding
        known = xp.isfinite(mean) & xp.isfinite(deviation)
        room = 1e-9 * deviation + 1e-12 * xp.abs(mean)
        left = mean - deviation * xp.sqrt((1.0 - wanted) / wanted) - room
        right = mean + deviation * xp.sqrt(wanted / (1.0 - wanted)) + room
        low = xp.where(known, xp.maximum(low, left), low)
        high = xp.where(known, xp.minimum(high, right), high)
        if short.density(low) is not None:
            return _by_newton(short, low, high, wanted)
        return _interpolated(short.cdf, low, high, wanted)


def _bisected(cdf: Callable[[Array], Array], low: Array, high: Array, probability: Array) -> Array:
    """By bisection, which meets jumps."""

    def apart(at: tuple[Array, Array, Array]) -> Array:
        below, above, halvings = at
        return (halvings < _MOST_ROUNDS) & ~_is_near(below, above).all()

    def halve(at: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        below, above, halvings = at
        middle = 0.5 * (below + above)
        short = cdf(middle) < probability
        below, above = xp.where(short, middle, below), xp.where(short, above, middle)
        return below, above, halvings + 1

    quantile: Array
    # the upper end: at a jump, the function reaches the probability there and not below
    _, quantile, _ = xp.while_loop(apart, halve, (low, high, xp.zeros((), int)))
    return quantile


def _by_newton(marginal: Any, low: Array, high: Array, probability: Array) -> Array:
    """By Newton's method, and by bisection where it would leave what is left."""
    mean, deviation = marginal.mean(), marginal.deviation()
    start = mean + deviation * xp.ndtri(probability)
    is_inside = (low < start) & (start < high)

    def goes_on(at: tuple[Array, ...]) -> Array:
        _, below, above, step, rounds = at
        return (rounds < _MOST_ROUNDS) & ~(_is_near(below, above) | (step <= _STEP)).all()

    def narrow(at: tuple[Array, ...]) -> tuple[Array, ...]:
        x, below, above, _, rounds = at
        error = marginal.cdf(x) - probability
        below, above = xp.where(error < 0.0, x, below), xp.where(error < 0.0, above, x)
        new = x - error / marginal.density(x)
        new = xp.where((below <= new) & (new <= above), new, 0.5 * (below + above))
        scale = xp.maximum(xp.abs(x), deviation)
        return new, below, above, xp.abs(new - x) / scale, rounds + 1

    x = xp.where(is_inside, start, 0.5 * (low + high))
    quantile: Array
    quantile, *_ = xp.while_loop(
        goes_on, narrow, (x, low, high, xp.full_like(x, xp.inf), xp.zeros((), int))
    )
    return quantile


class _Bracket(NamedTuple):
    """Two points with the quantile between them, the one before, and how far each is off."""

    newest: Array
    other: Array
    last: Array
    newest_error: Array
    other_error: Array
    last_error: Array
    share: Array
    rounds: Array


def _interpolated(
    cdf: Callable[[Array], Array], low: Array, high: Array, probability: Array
) -> Array:
    """By inverse quadratic interpolation where it is safe, by bisection elsewhere.

    The rule of T. R. Chandrupatla (Advances in Engineering Software 28, 1997): about ten evaluations
    instead of fifty.
    """

    def is_done(at: _Bracket) -> Array:
        hit = xp.abs(at.newest_error) <= 2e-15 * probability
        return hit | _is_near(at.newest, at.other)

    def goes_on(at: _Bracket) -> Array:
        return (at.rounds < _MOST_ROUNDS) & ~is_done(at).all()

    def narrow(at: _Bracket) -> _Bracket:
        x = xp.where(is_done(at), at.newest, at.newest + at.share * (at.other - at.newest))
        error = cdf(x) - probability
        same = xp.sign(error) == xp.sign(at.newest_error)
        last = xp.where(same, at.newest, at.other)
        last_error = xp.where(same, at.newest_error, at.other_error)
        other = xp.where(same, at.other, at.newest)
        other_error = xp.where(same, at.other_error, at.newest_error)
        place = (x - other) / (last - other)
        height = (error - other_error) / (last_error - other_error)
        safe = (xp.square(height) < place) & (xp.square(1.0 - height) < 1.0 - place)
        share = error / (other_error - error) * last_error / (other_error - last_error) + (
            last - x
        ) / (other - x) * error / (last_error - error) * other_error / (last_error - other_error)
        least = 0.5 * _RESOLUTION * xp.maximum(xp.abs(x), xp.abs(other)) / xp.abs(other - x)
        share = xp.where(safe, xp.clip(share, least, 1.0 - least), 0.5)
        return _Bracket(x, other, last, error, other_error, last_error, share, at.rounds + 1)

    begin = _Bracket(
        low, high, low, -probability, 1.0 - probability, -probability,
        xp.full_like(low, 0.5), xp.zeros((), int),
    )  # fmt: skip
    end = xp.while_loop(goes_on, narrow, begin)
    better = xp.abs(end.newest_error) <= xp.abs(end.other_error)
    return xp.where(better, end.newest, end.other)


def _is_near(one: Array, other: Array) -> Array:
    return xp.abs(one - other) <= _RESOLUTION * xp.maximum(xp.abs(one), xp.abs(other))


class AbstractPredictive(AbstractMarginal):
    """What a value to come is drawn from: a marginal that values can be scored with."""

    @abc.abstractmethod
    def log_prob(self, x: Array) -> Array:
        """Log density, or log mass of a count; axes of ``x`` before those of the batch lead."""


@final
@pytree
class BetaMarginal(AbstractMarginal):
    """A probability."""

    support: ClassVar[Literal["unit"]] = "unit"
    belief: Beta

    def mean(self) -> Array:
        return self.belief.mean()

    def variance(self) -> Array:
        total = self.belief.alpha + self.belief.beta
        mean = self.belief.mean()
        return mean * (self.belief.beta / total) / (total + 1.0)

    def cdf(self, x: Array) -> Array:
        return xp.betainc(self.belief.alpha, self.belief.beta, x)

    def bracket(self) -> tuple[Array, Array]:
        mean = self.belief.mean()
        return xp.zeros_like(mean), xp.ones_like(mean)


@final
@pytree
class GammaMarginal(AbstractMarginal):
    """A rate."""

    support: ClassVar[Literal["nonnegative"]] = "nonnegative"
    belief: Gamma

    def mean(self) -> Array:
        return self.belief.mean()

    def variance(self) -> Array:
        return self.belief.shape / xp.square(self.belief.rate)

    def cdf(self, x: Array) -> Array:
        return xp.gammainc(self.belief.shape, self.belief.rate * x)

    def bracket(self) -> tuple[Array, Array]:
        shape, rate = self.belief.shape, self.belief.rate
        return xp.zeros_like(rate), (shape + 40.0 * xp.sqrt(shape) + 800.0) / rate


@final
@pytree
class NormalMarginal(AbstractPredictive):
    """A quantity with a normal distribution; ``scale`` is its standard deviation."""

    location: Array
    scale: Array

    def moved(self, shift: Any, factor: Any) -> Self:
        r"""The distribution of $s + f x$."""
        return type(self)(shift + factor * self.location, factor * self.scale)

    def mean(self) -> Array:
        return self.location

    def variance(self) -> Array:
        return xp.square(self.scale)

    def deviation(self) -> Array:
        return self.scale

    def cdf(self, x: Array) -> Array:
        return xp.ndtr((x - self.location) / self.scale)

    def density(self, x: Array) -> Array:
        return xp.exp(self.log_prob(x))

    def bracket(self) -> tuple[Array, Array]:
        return self.location - 40.0 * self.scale, self.location + 40.0 * self.scale

    def log_prob(self, x: Array) -> Array:
        distance = xp.square((x - self.location) / self.scale)
        return -0.5 * distance - xp.log(self.scale) - HALF_LOG_TWO_PI


@final
@pytree
class StudentMarginal(AbstractPredictive):
    """A mean whose precision is uncertain, or a value to come around it: Student-t."""

    degrees: Array
    location: Array
    scale: Array

    def moved(self, shift: Any, factor: Any) -> Self:
        r"""The distribution of $s + f x$."""
        return type(self)(self.degrees, shift + factor * self.location, factor * self.scale)

    def mean(self) -> Array:
        return xp.where(self.degrees > 1.0, self.location, xp.nan)

    def variance(self) -> Array:
        return xp.square(self.deviation())

    def deviation(self) -> Array:
        safe = xp.maximum(self.degrees - 2.0, 1e-300)
        finite = self.scale * xp.sqrt(self.degrees / safe)
        return xp.where(self.degrees > 2.0, finite, xp.inf)

    def cdf(self, x: Array) -> Array:
        t = (x - self.location) / self.scale
        total = self.degrees + t * t
        tail = 0.5 * xp.betainc(0.5 * self.degrees, 0.5, self.degrees / total)
        # near the centre from there outwards: t^2 is lost beside the degrees
        centre = 0.5 - 0.5 * xp.betainc(0.5, 0.5 * self.degrees, t * t / total)
        tail = xp.where(t * t < self.degrees, centre, tail)
        tail = xp.where(self.degrees > 1e8, xp.ndtr(-xp.abs(t)), tail)
        return xp.where(t > 0, 1.0 - tail, tail)

    def bracket(self) -> tuple[Array, Array]:
        # beyond this many scales lies less than 1e-12 of the mass, at one degree of freedom too
        reach = self.scale * xp.exp(28.0 / xp.clip(self.degrees, 0.5, 10.0)) * 10.0
        return self.location - reach, self.location + reach

    def log_prob(self, x: Array) -> Array:
        t = (x - self.location) / self.scale
        half = 0.5 * self.degrees
        constant = log_gamma_half_step(half) - 0.5 * xp.log(xp.pi * self.degrees)
        tail = (half + 0.5) * xp.log1p(t * t / self.degrees)
        return constant - xp.log(self.scale) - tail


@final
@pytree
class SpreadMarginal(AbstractMarginal):
    r"""A standard deviation $u \tau^{-1/2}$ of a Gamma precision $\tau$, in units of $u$."""

    support: ClassVar[Literal["positive"]] = "positive"
    precision: Gamma
    unit: Array

    @classmethod
    def of(cls, precision: Gamma) -> Self:
        """In the units of the precision."""
        return cls(precision, xp.ones(precision.batch_shape))

    def in_unit(self, factor: Any) -> Self:
        """The distribution times a factor; squares of extreme factors would not fit the precision."""
        return type(self)(self.precision, factor * self.unit)

    def mean(self) -> Array:
        return self.unit * self._mean_in_unit()

    def variance(self) -> Array:
        return xp.square(self.deviation())

    def deviation(self) -> Array:
        return self.moments()[1]

    def moments(self) -> tuple[Array, Array]:
        shape, rate, mean = self.precision.shape, self.precision.rate, self._mean_in_unit()
        safe = xp.maximum(shape - 1.0, 1e-300)
        # E[1/tau] - E[tau^-1/2]^2; for large shapes the delta method, where the difference cancels
        exact = rate / safe - xp.square(mean)
        limit = rate / (4.0 * xp.square(shape)) * (1.0 + 7.0 / (4.0 * shape))
        square = xp.where(shape > 1e5, limit, exact)
        return self.unit * mean, xp.where(shape > 1.0, self.unit * xp.sqrt(square), xp.inf)

    def cdf(self, x: Array) -> Array:
        safe = xp.maximum(x / self.unit, 1e-150)
        return 1.0 - xp.gammainc(self.precision.shape, self.precision.rate / xp.square(safe))

    def bracket(self) -> tuple[Array, Array]:
        shape, rate = self.precision.shape, self.precision.rate
        # xp.gammainc(a, y) ~ y^a / Gamma(a + 1) = 1e-12 bounds the upper end
        log_low = (xp.gammaln(shape + 1.0) - 28.0) / shape
        reach = xp.sqrt(rate * xp.exp(-xp.clip(log_low, -600.0, 700.0)))
        return xp.zeros_like(reach), self.unit * reach

    def _mean_in_unit(self) -> Array:
        shape, rate = self.precision.shape, self.precision.rate
        # E[tau^-1/2] = sqrt(b) Gamma(a - 1/2) / Gamma(a)
        safe = xp.maximum(shape - 0.5, 1e-300)
        mean = xp.sqrt(rate) * xp.exp(-log_gamma_half_step(safe))
        return xp.where(shape > 0.5, mean, xp.inf)


@final
@pytree
class MixtureMarginal(AbstractMarginal):
    """A weighted bank of marginals; weights and members have a leading axis."""

    weights: Array
    members: AbstractMarginal

    @property
    def is_continuous(self) -> bool:
        return self.members.is_continuous

    def mean(self) -> Array:
        return self._average(self._of_each(lambda member: member.mean()))

    def variance(self) -> Array:
        return xp.square(self.deviation())

    def deviation(self) -> Array:
        return self.moments()[1]

    def moments(self) -> tuple[Array, Array]:
        means, deviations = self._of_each(lambda member: member.moments())
        centre = self._average(means)
        spread = self._average(xp.square(deviations) + xp.square(means - centre))
        return centre, xp.where(xp.isinf(centre), xp.inf, xp.sqrt(spread))

    def cdf(self, x: Array) -> Array:
        extra = max(xp.ndim(x) + 1 - self.weights.ndim, 0)
        each: Array = self._of_each(lambda member: member.cdf(x), extra)
        return (_spaced(self.weights, extra) * each).sum(0)

    def density(self, x: Array) -> Array | None:
        extra = max(xp.ndim(x) + 1 - self.weights.ndim, 0)
        each = self._of_each(lambda member: member.density(x), extra)
        return None if each is None else (_spaced(self.weights, extra) * each).sum(0)

    def for_quantiles(self, tail: Any) -> "MixtureMarginal":
        members = self._of_each(lambda member: member.for_quantiles(tail))
        return MixtureMarginal(self.weights, members)

    def bracket(self) -> tuple[Array, Array]:
        low, high = self._of_each(lambda member: member.bracket())
        return low.min(0), high.max(0)

    def _average(self, values: Array) -> Array:
        # a member without weight may have no mean
        return xp.where(self.weights > 0.0, self.weights * values, 0.0).sum(0)

    def _of_each(self, function: Callable[[AbstractMarginal], Any], extra: int = 0) -> Any:
        """A function of every member, on a leading axis, with so many axes before those of the batch."""
        leaves = jax.tree.leaves(self)
        if holds_jax(leaves):
            # one by one: what has fewer axes than the rest broadcasts within a member, not across them
            return jax.vmap(function)(self.members)
        assert not isinstance(self.members, MixtureMarginal)  # that would take members for a batch
        most = max(map(xp.ndim, leaves))
        return function(
            jax.tree.map(lambda leaf: _spaced(leaf, extra + most - xp.ndim(leaf)), self.members)
        )


def _spaced(leaf: Array, extra: int) -> Array:
    """With axes between that of members and those of the batch."""
    shape = xp.shape(leaf)
    return xp.reshape(leaf, shape[:1] + (1,) * extra + shape[1:])


@final
@pytree
class WeightedDraws(AbstractMarginal):
    """Draws with weights that sum to one over the first axis, where nothing is in closed form."""

    weights: Array
    values: Array

    @property
    def is_continuous(self) -> bool:
        return False

    def mean(self) -> Array:
        return (self.weights * self.values).sum(0)

    def variance(self) -> Array:
        return (self.weights * xp.square(self.values - self.mean())).sum(0)

    def cdf(self, x: Array) -> Array:
        extra = xp.ndim(x) - (self.values.ndim - 1)
        axes = tuple(range(1, 1 + extra))
        values, weights = (xp.expand_dims(part, axes) for part in (self.values, self.weights))
        # rounding must not leave the last draw short of one
        return xp.minimum(xp.where(values <= x, weights, 0.0).sum(0) * (1.0 + 1e-12), 1.0)

    def bracket(self) -> tuple[Array, Array]:
        low, high = self.values.min(0), self.values.max(0)
        return low - (high - low) - 1.0, high
