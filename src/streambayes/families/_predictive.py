"""Values to come whose rate or precision is a Gamma: noisy normals, counts, waiting times."""

from typing import Any, Self, final

import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.numerics import HALF_LOG_TWO_PI, excess, stirling_error
from streambayes._core.pytree import pytree, static
from streambayes.families._gamma import Gamma
from streambayes.families._marginal import (
    AbstractMarginal,
    AbstractPredictive,
    GammaMarginal,
    MixtureMarginal,
    NormalMarginal,
    StudentMarginal,
)

__all__ = ["Lomax", "NegativeBinomial", "NoisyNormal"]

_NODES = 96  # ten digits within ten deviations at shapes of 1/10 and more
_DROP = 36.0  # nats below the peak where an integrand ends: the rounding of float64
_SHORT_DROP = 25.0  # the same for quantiles by few nodes
_LEGENDRE = np.polynomial.legendre.leggauss(64)


@final
@pytree
class NoisyNormal(AbstractPredictive):
    r"""$y \sim N(m, v + 1 / \tau)$, $\tau \sim \mathrm{Gamma}(a, b)$: location and noise independent.

    The value to come of a regression that believes $N(m, v)$ of the row's mean and
    $\mathrm{Gamma}(a, b)$ of the noise precision. Rows may lead the batch axes of the precision.
    With $u = \ln(b\tau / a)$ the density is

    $$p(y) = \int N(y \mid m, v + 1 / \tau)\, p(u)\, du, \quad
    \ln p(u) = \tfrac12 \ln\tfrac{a}{2\pi} - c(a) - a\,(e^u - 1 - u)$$

    with Stirling's error $c$, and the trapezoidal sum converges exponentially, as all is smooth.
    """

    location: Array
    location_variance: Array
    precision: Gamma
    num_nodes: int = static(default=_NODES)

    def moved(self, shift: Any, factor: Any) -> Self:
        r"""The distribution of $s + f y$."""
        return type(self)(
            shift + factor * self.location,
            xp.square(factor) * self.location_variance,
            _in_unit(self.precision, xp.square(factor)),
            self.num_nodes,
        )

    def mean(self) -> Array:
        return xp.where(self.precision.shape > 0.5, self.location, xp.nan)

    def variance(self) -> Array:
        shape = self.precision.shape
        noise = self.precision.rate / xp.maximum(shape - 1.0, 1e-300)
        return xp.where(shape > 1.0, self.location_variance + noise, xp.inf)

    def cdf(self, x: Array) -> Array:
        log_weights, precisions = self._quadrature(x)
        distance = (x - self.location)[..., None] * xp.sqrt(precisions)
        tail = (xp.exp(log_weights) * xp.ndtr(-xp.abs(distance))).sum(-1)
        return xp.where(x > self.location, 1.0 - tail, tail)

    def bracket(self) -> tuple[Array, Array]:
        shape, rate = self.precision.shape, self.precision.rate
        noise = StudentMarginal(2.0 * shape, self.location, xp.sqrt(rate / shape))
        low, high = noise.bracket()
        reach = 40.0 * xp.sqrt(self.location_variance)
        return low - reach, high + reach

    def for_quantiles(self, tail: Any) -> AbstractMarginal:
        r"""Where few nodes do, a mixture of normals: nodes that serve every such quantile.

        Values beyond which a tail $p$ lies have $\ln(1 + r^2 / 2b) \le -\ln(p) / a$.
        """
        if self.num_nodes == _NODES:
            return self
        shape = self.precision.shape
        reach = _reach(_SHORT_DROP / shape)[0]
        log_weights, precisions = self._nodes(xp.log(tail) / shape, reach, _SHORT_DROP)
        weights = xp.moveaxis(xp.softmax(log_weights, axis=-1), -1, 0)
        scale = xp.moveaxis(1.0 / xp.sqrt(precisions), -1, 0)
        location = xp.broadcast_to(self.location, scale.shape)
        return MixtureMarginal(weights, NormalMarginal(location, scale))

    def log_prob(self, x: Array) -> Array:
        log_weights, precisions = self._quadrature(x)
        square = precisions * xp.square(x - self.location)[..., None]
        log_densities = 0.5 * (xp.log(precisions) - square) - HALF_LOG_TWO_PI
        return xp.logsumexp(log_weights + log_densities, axis=-1)

    def student_log_prob(self, x: Array) -> Array:
        r"""Log density of a Student distribution that is much the same, at a fraction of the cost.

        With $V = v + b / a$ and $r = b / (aV)$, the share of the noise in it: $2a / r^2$ degrees of freedom and
        scale $\sqrt V$. Exact for $v = 0$ and for $a \to \infty$, up to three digits of a ratio of Gamma functions.
        """
        shape, rate = self.precision.shape, self.precision.rate
        noise = rate / shape
        square = self.location_variance + noise
        half = shape * xp.square(square / noise)  # of the degrees of freedom
        ratio = half - 0.25 + 0.03125 / half  # Gamma(half + 1/2)^2 / Gamma(half)^2
        height = 0.5 * xp.log(ratio / (2.0 * xp.pi * half * square))
        distance = xp.square(x - self.location) / (2.0 * half * square)
        return height - (half + 0.5) * xp.log1p(distance)

    def _quadrature(self, x: Array) -> tuple[Array, Array]:
        r"""Log weights of nodes over $u$, on a last axis, and the precisions $w$ of $y$ there.

        Far values move the peak of the integrand to precisions of which little is believed, so the
        nodes depend on $y$. With $\rho = 1 - vw$ and $r = y - m$ its log has the slope
        $a - b\tau + \tfrac12 \rho (1 - r^2 w)$: at most $(a + \tfrac12)(1 - e^{u - h})$ for
        $h = \ln(1 + 1 / 2a)$; at least $a\,(1 - e^{u - l})$ for $l = -\ln(1 + r^2 / 2b)$, as
        $\rho w \le \tau$; and at least $as\,(1 - e^{u - l})$ for $s = 1 - r^2 / 8av$ and $l = \ln s$,
        where $s > 0$, as $\rho w \le 1 / 4v$. So beyond $l$ and $h$ it falls as fast as a $p(u)$.
        """
        shape, rate = self.precision.shape, self.precision.rate
        distance = xp.square(x - self.location) / (2.0 * rate)
        limit = 4.0 * shape * self.location_variance / rate
        is_bounded = distance < limit
        share = 1.0 - xp.where(is_bounded, distance, 0.0) / xp.where(is_bounded, limit, 1.0)
        near, near_reach = xp.log(share), _reach(_DROP / (shape * share))[0]
        low, reach = -xp.log1p(distance), _reach(_DROP / shape)[0]
        is_nearer = is_bounded & (near - near_reach > low - reach)
        low, reach = xp.where(is_nearer, near, low), xp.where(is_nearer, near_reach, reach)
        return self._nodes(low, reach, _DROP)

    def _nodes(self, low: Array, reach: Array, drop: float) -> tuple[Array, Array]:
        """The same for given ends: as far to the left of ``low`` as ``reach``."""
        shape, rate = self.precision.shape, self.precision.rate
        high = xp.log1p(0.5 / shape) + _reach(drop / (shape + 0.5))[1]
        # u = l + z + (1 - e^(-z/3)) / 2: at small shapes the tail on the left is long, and smooth
        start = -xp.minimum(reach, 3.0 * xp.log1p(2.0 * reach))
        step = (high - low - start) / (self.num_nodes - 1)
        z = start[..., None] + step[..., None] * xp.arange(self.num_nodes)
        u = low[..., None] + z - 0.5 * xp.expm1(-z / 3.0)
        log_height = 0.5 * xp.log(shape) - HALF_LOG_TWO_PI - stirling_error(shape)
        log_step = (log_height + xp.log(step))[..., None] + xp.log1p(xp.exp(-z / 3.0) / 6.0)
        log_weights = log_step - shape[..., None] * _exp_excess(u)
        noise = (rate / shape)[..., None] * xp.exp(-u)
        return log_weights, 1.0 / (self.location_variance[..., None] + noise)


@final
@pytree
class NegativeBinomial(AbstractPredictive):
    r"""$k \sim \mathrm{Poisson}(r)$, $r \sim \mathrm{Gamma}(a, b)$: a count to come.

    With $g_{a,c}$ the density of the log odds $\ln\tfrac{t}{1 - t}$ of $t \sim \mathrm{Beta}(a, c)$,
    $P(k) = g_{a,k}(\ln b) / k$ for $k > 0$ and $P(\le k) = \int_{-\infty}^{\ln b} g_{a,k+1}(s)\,ds$.
    """

    rate: Gamma

    @property
    def is_continuous(self) -> bool:
        return False

    def mean(self) -> Array:
        return self.rate.mean()

    def variance(self) -> Array:
        return self.rate.mean() * (1.0 + 1.0 / self.rate.rate)

    def cdf(self, x: Array) -> Array:
        shape, rate = self.rate.shape, self.rate.rate
        above = xp.floor(xp.maximum(x, 0.0)) + 1.0
        # JAX's function is out of terms, and of digits, where the concentrations are large
        large = shape + above > 1e4
        safe_shape, safe_above = (xp.where(large, 1.0, value) for value in (shape, above))
        few = xp.betainc(safe_shape, safe_above, rate / (1.0 + rate))
        many = _log_odds_cdf(shape, above, rate)
        return xp.where(x < 0.0, 0.0, xp.where(large, many, few))

    def bracket(self) -> tuple[Array, Array]:
        _, rate = GammaMarginal(self.rate).bracket()
        _, exponent = xp.frexp(rate + 40.0 * xp.sqrt(rate) + 800.0)
        # halving powers of two meets every count: quantiles are whole numbers
        reach = xp.ldexp(xp.ones_like(rate), exponent)
        return -reach, reach

    def log_prob(self, x: Array) -> Array:
        shape, rate = self.rate.shape, self.rate.rate
        inside = (x >= 0.0) & (x == xp.floor(x))
        count = xp.where(inside & (x > 0.0), x, 1.0)
        some = _log_odds_log_prob(shape, count, rate) - xp.log(count)
        none = -shape * xp.log1p(1.0 / rate)
        return xp.where(inside, xp.where(x > 0.0, some, none), -xp.inf)


@final
@pytree
class Lomax(AbstractPredictive):
    r"""$x \sim \mathrm{Exponential}(r)$, $r \sim \mathrm{Gamma}(a, b)$: $P(> x) = (1 + x / b)^{-a}$."""

    rate: Gamma

    def moved(self, factor: Any) -> Self:
        """The distribution of $f x$."""
        return type(self)(_in_unit(self.rate, factor))

    def mean(self) -> Array:
        shape = self.rate.shape
        finite = self.rate.rate / xp.maximum(shape - 1.0, 1e-300)
        return xp.where(shape > 1.0, finite, xp.inf)

    def variance(self) -> Array:
        return xp.square(self.deviation())

    def deviation(self) -> Array:
        shape = self.rate.shape
        finite = self.mean() * xp.sqrt(shape / xp.maximum(shape - 2.0, 1e-300))
        return xp.where(shape > 2.0, finite, xp.inf)

    def cdf(self, x: Array) -> Array:
        return -xp.expm1(-self.rate.shape * xp.log1p(xp.maximum(x, 0.0) / self.rate.rate))

    def bracket(self) -> tuple[Array, Array]:
        # less than 1e-12 of the mass lies beyond; further out, bisection would not come back
        reach = self.rate.rate * xp.expm1(xp.minimum(28.0 / self.rate.shape, 90.0))
        return xp.zeros_like(reach), reach

    def log_prob(self, x: Array) -> Array:
        shape, rate = self.rate.shape, self.rate.rate
        tail = (shape + 1.0) * xp.log1p(xp.maximum(x, 0.0) / rate)
        return xp.where(x >= 0.0, xp.log(shape / rate) - tail, -xp.inf)


def _in_unit(gamma: Gamma, factor: Any) -> Gamma:
    r"""The distribution of $x / f$."""
    return Gamma(shape_minus_one=gamma.shape_minus_one, negative_rate=factor * gamma.negative_rate)


def _exp_excess(u: Array) -> Array:
    r"""$e^u - 1 - u \ge 0$, to full relative precision near 0."""
    near = xp.abs(u) < 0.2
    small = excess(xp.expm1(xp.where(near, u, 0.0)))
    return xp.where(near, small, xp.expm1(u) - u)


def _reach(level: Array) -> tuple[Array, Array]:
    r"""How far to the left and to the right of 0 $e^u - 1 - u$ surely exceeds a level."""
    left = 0.5 * level + xp.sqrt(0.25 * xp.square(level) + 2.0 * level)
    return left, xp.log1p(level + xp.sqrt(2.0 * level))


def _log_odds_log_prob(alpha: Array, beta: Array, odds: Array) -> Array:
    r"""Log density of the log odds of $\mathrm{Beta}(\alpha, \beta)$."""
    less, more, odds = _smaller_first(alpha, beta, odds)
    return _log_odds_height(less, more) - _log_odds_drop(less, more, xp.log(odds * more / less))


def _log_odds_cdf(alpha: Array, beta: Array, odds: Array) -> Array:
    r"""Distribution function of the log odds of $\mathrm{Beta}(\alpha, \beta)$, large $\alpha + \beta$.

    By Gauss-Legendre from the point outwards. With $\kappa = \alpha\beta / n$ the log density falls by
    at least $\kappa\,(e^{-d} - 1 + d)$ to the left, and for large $n$ by half of $\kappa\,(e^d - 1 - d)$
    to the right.
    """
    less, more, turned = _smaller_first(alpha, beta, odds)
    start = xp.log(turned * more / less)
    level = _DROP / less * (1.0 + less / more)
    reach = xp.where(start < 0.0, _reach(level)[0], _reach(2.0 * level)[1])
    width = xp.maximum(reach - xp.abs(start), 0.0)
    nodes, weights = _LEGENDRE
    away = xp.abs(start)[..., None] + width[..., None] * (0.5 + 0.5 * nodes)
    d = xp.copysign(away, start[..., None])
    drop = _log_odds_drop(less[..., None], more[..., None], d)
    log_prob = _log_odds_height(less, more)[..., None] - drop
    tail = 0.5 * width * (weights * xp.exp(log_prob)).sum(-1)
    is_lower = (start < 0.0) == (alpha <= beta)
    return xp.where(is_lower, tail, 1.0 - tail)


def _smaller_first(alpha: Array, beta: Array, odds: Array) -> tuple[Array, Array, Array]:
    """The concentrations in order, and the odds, inverted where they changed places."""
    less, more = xp.minimum(alpha, beta), xp.maximum(alpha, beta)
    return less, more, xp.where(alpha <= beta, odds, 1.0 / odds)


def _log_odds_height(alpha: Array, beta: Array) -> Array:
    """Log density of the log odds at their mode, by Stirling's formula."""
    total = alpha + beta
    errors = stirling_error(alpha) + stirling_error(beta) - stirling_error(total)
    return 0.5 * xp.log(alpha / total * beta) - HALF_LOG_TWO_PI - errors


def _log_odds_drop(alpha: Array, beta: Array, d: Array) -> Array:
    r"""By how much it is less at a distance from the mode; digits are kept for $\alpha \le \beta$."""
    total = alpha + beta
    return total * xp.log1p(alpha / total * xp.expm1(d)) - alpha * d
