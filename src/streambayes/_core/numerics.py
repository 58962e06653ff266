r"""Special functions that keep their digits where differences of log-gammas lose them.

Everything about gamma functions comes from one decomposition, Stirling's,
$\ln\Gamma(x) = (x - 1/2)\ln x - x + \ln\sqrt{2\pi} + c(x)$, with the large parts cancelled on paper.

Quotients with several uses are written as products with an inverse: XLA makes a kernel of its own of each quotient of two
arrays that is used twice, and kernels are what takes time to compile.
"""

from collections.abc import Sequence

from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.formula import Formula
from streambayes._core.precision import compiled

__all__ = [
    "deviance",
    "deviance_drop",
    "digamma_difference",
    "excess",
    "gamma_entropy",
    "gammaln_bregman",
    "log_beta",
    "log_beta_bregman",
    "log_gamma_half_step",
    "log_gamma_ratio",
    "masked_sum",
    "product_excess",
    "ratio_excess",
    "stirling_bregman",
    "stirling_error",
    "sum_of_others",
]

HALF_LOG_TWO_PI = 0.9189385332046727
# B_2k / (2k (2k - 1)), k = 1..8: the asymptotic series of Stirling's error in odd powers of 1/x
_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)
# those of ln Gamma(x + 1/2) - ln Gamma(x) - ln(x) / 2
_HALF_STEP = (
    -1 / 8,
    1 / 192,
    -1 / 640,
    17 / 14336,
    -31 / 18432,
    691 / 180224,
    -5461 / 425984,
)
_SHIFT = 10  # from here on the series has full precision


@compiled
def excess(e: Array) -> Array:
    r"""$e - \ln(1 + e) \ge 0$ for $e > -1$, to full relative precision near 0."""
    small = xp.abs(e) < 0.25
    s = xp.where(small, e, 0.0)
    # ln(1 + e) = 2 artanh t with t = e / (2 + e), and e - 2t = et
    t = s * (1.0 / (2.0 + s))
    series = t * (s - 2.0 * xp.square(t) * _horner([1 / k for k in range(3, 25, 2)], t * t))
    return xp.where(small, series, e - xp.log1p(xp.where(small, 0.0, e)))


def ratio_excess(x: Array, y: Array) -> Formula:
    r"""$e - \ln(1 + e) \ge 0$ for $1 + e = y / x$, precise for ratios near 1 and near 0."""
    return Formula.of(_gap, x, y - x, y)


def product_excess(x: Array, y: Array, u: Array, v: Array) -> Formula:
    r"""$e - \ln(1 + e) \ge 0$ for $1 + e = (y / x)(v / u)$, precise where the two ratios cancel."""
    per_x, per_u = 1.0 / x, 1.0 / u
    first, second = (y - x) * per_x, (v - u) * per_u
    rounding = xp.abs(first) + xp.abs(second) + xp.abs(first * second)
    ratio = y * per_x * (v * per_u)
    e = xp.where(rounding < 1.0, first + second + first * second, ratio - 1.0)
    return Formula.of(_gap, xp.ones_like(e), e, ratio)


@compiled
def deviance(x: Array, mean: Array) -> Array:
    r"""$x \ln(x / m) + m - x \ge 0$, to full relative precision where $x \approx m$."""
    return _deviance(mean, x - mean, x)


@compiled
def deviance_drop(x: Array, mean: Array, shift: Array | float) -> Array:
    r"""Deviance of $x$ from $m$ less that of $x + s$ from $m + s$, at least 0 for $s \ge 0$.

    With $d = x - m$, $u = sd / m(x + s)$ it is $(sd)^2 / m(m + s)(x + s)$ plus $s$ times the excess
    of $d / (m + s)$ less $x$ times the excess of $u$; the direct difference loses what both share.
    """
    return _deviance_drop(mean, x - mean, x, shift)


@compiled
def stirling_error(x: Array) -> Array:
    r"""$c(x)$, what Stirling's formula leaves of $\ln\Gamma(x)$; about $1 / 12x$.

    N steps up of $c(z) - c(z + 1) = (z + 1/2) \ln(1 + 1/z) - 1 = t^2/3 + t^4/5 + \dots$ with $t = 1 / (2z + 1)$.
    """
    z = x[..., None] + xp.arange(_SHIFT, dtype=x.dtype)
    near = z >= 1.0
    square = xp.square(xp.where(near, 1.0 / (2.0 * z + 1.0), 0.0))
    series = square * _horner([1 / k for k in range(3, 37, 2)], square)
    direct = (z + 0.5) * xp.log1p(1.0 / xp.where(near, 1.0, z)) - 1.0
    return xp.where(near, series, direct).sum(-1) + _stirling_series(x + _SHIFT)


def stirling_bregman(x: Array, y: Array) -> Formula:
    r"""$c(y) - c(x) - (y - x)\,c'(x) \ge 0$ for Stirling's error $c$ and positive $x$ and $y$."""
    return Formula.of(_stirling_bregman, *xp.broadcast_arrays(x, y - x, y))


@compiled
def gammaln_bregman(x: Array, y: Array) -> Array:
    r"""$\ln\Gamma(y) - \ln\Gamma(x) - (y - x)\,\psi(x) \ge 0$ for positive $x$ and $y$."""
    return _gammaln_bregman(*xp.broadcast_arrays(x, y - x, y))


def log_beta_bregman(x: Array, y: Array) -> Formula:
    r"""$\ln B(y) - \ln B(x) - (y - x) \cdot \nabla \ln B(x) \ge 0$, $B$ the beta function of the last axis.

    Stirling's formula splits it into $y_0$ times the divergence of the shares $y_i / y_0$ from
    $x_i / x_0$, half of $\sum_i g_i - g_0$ with $g$ the excess of $y / x$, and Stirling's errors. The
    divergences of log-gammas of which it is the difference grow with $x$; these parts do not.
    """
    x, y = xp.broadcast_arrays(x, y)
    x_total, y_total = x.sum(-1, keepdims=True), y.sum(-1, keepdims=True)
    per_x, per_x_total, per_y_total = 1.0 / x, 1.0 / x_total, 1.0 / y_total
    d, share, shrink = y - x, x * per_x_total, x_total * per_y_total
    # z = (y_i / y_0) / (x_i / x_0) - 1 = (e_i - e_0) x_0 / y_0, where e_0 is the mean of e = d / x
    e, ratio = d * per_x, y * per_x * shrink
    others, others_shift = sum_of_others(share), sum_of_others(share * e)
    above = (e * others - others_shift) * shrink
    rounding = (xp.abs(e) * others + sum_of_others(share * xp.abs(e))) * shrink
    z = xp.where(rounding < 1.0, above, ratio - 1.0)
    d_total = d.sum(-1, keepdims=True)
    # the largest share takes g_0: g_i - g_0 = z e_0 + excess(z), the others stand alone
    largest = xp.arange(x.shape[-1]) == xp.argmax(share, -1, keepdims=True)
    tilt = xp.where(largest, z * (d_total * per_x_total), 0.0)
    gapped = tuple(xp.where(largest, v, w) for v, w in ((1.0, x), (z, d), (ratio, y)))
    # Stirling's errors of the parts and, with the other sign, of the total
    every = tuple(xp.concatenate(pair, -1) for pair in ((x, x_total), (d, d_total), (y, y_total)))

    def answer(deviances: Array, gaps: Array, errors: Array) -> Array:
        main = (y_total * share * deviances).sum(-1)
        rest = errors[..., :-1].sum(-1) - errors[..., -1]
        return main + 0.5 * (tilt + gaps).sum(-1) + rest

    deviances = (xp.ones_like(z), z, ratio)
    return Formula(((_deviance, deviances), (_gap, gapped), (_stirling_bregman, every)), answer)


@compiled
def log_gamma_ratio(x: Array, delta: Array) -> Array:
    r"""$\ln\Gamma(x + d) - \ln\Gamma(x)$, $d \ge 0$, without the cancellation at large $x$ or small $d$."""
    x, delta = xp.broadcast_arrays(x, delta)
    up = x + 1.0  # at a small x the logarithm of the step would drown the rest
    near = xp.minimum(delta, up)
    close = _gammaln_bregman(up, near, up + near) + delta * xp.digamma(up)
    stepped = xp.where(delta < up, close, xp.gammaln(up + delta) - xp.gammaln(up))
    return stepped - xp.log1p(delta / x)


@compiled
def log_gamma_half_step(x: Array) -> Array:
    r"""$\ln\Gamma(x + 1/2) - \ln\Gamma(x)$: N steps up, then the asymptotic series in odd powers of 1/x."""
    steps = xp.arange(_SHIFT, dtype=x.dtype)
    stepped = xp.log1p(0.5 / (x[..., None] + steps)).sum(-1)
    y = x + _SHIFT
    return 0.5 * xp.log(y) - stepped + _horner(_HALF_STEP, 1.0 / (y * y)) / y


@compiled
def digamma_difference(x: Array, delta: Array) -> Array:
    r"""$\psi(x + d) - \psi(x)$, $d \ge 0$, without the cancellation at large $x$ or small $d$."""
    x, delta = xp.broadcast_arrays(x, delta)
    low, d, high = _stairs(x, delta, x + delta)
    shifted = (d / low / high).sum(-1)
    x, y = x + _SHIFT, x + _SHIFT + delta
    # psi(x) = ln x - 1/2x - p(x)
    per_x = 1.0 / x
    main = xp.log1p(delta * per_x) + 0.5 * delta * per_x / y
    return shifted + main + _digamma_series_drop(x, delta)


@compiled
def gamma_entropy(shape: Array) -> Array:
    r"""Entropy of a unit-rate Gamma, $a + \ln\Gamma(a) + (1 - a)\psi(a)$."""
    large = shape >= _SHIFT
    a = xp.where(large, 1.0, shape)
    direct = a + xp.gammaln(a) + (1.0 - a) * xp.digamma(a)
    a = xp.where(large, shape, _SHIFT)
    rest = _stirling_series(a) - (1.0 - a) * _digamma_series(a)
    limit = HALF_LOG_TWO_PI + 0.5 * xp.log(a) + 0.5 - 0.5 / a + rest
    return xp.where(large, limit, direct)


def log_beta(concentration: Array) -> Formula:
    r"""$\sum_i \ln\Gamma(\alpha_i) - \ln\Gamma(\alpha_0)$ over the last axis, $\alpha_0 = \sum_i \alpha_i$."""
    total = concentration.sum(-1)
    others = sum_of_others(concentration)
    per_total = 1.0 / total[..., None]
    share = concentration * per_total
    log_share = xp.where(share > 0.5, xp.log1p(-others * per_total), xp.log(share))
    size = concentration.shape[-1]
    main = (concentration * log_share - 0.5 * xp.log(concentration)).sum(-1)
    every = xp.concatenate([concentration, total[..., None]], -1)

    def answer(errors: Array) -> Array:
        rest = errors[..., :-1].sum(-1) - errors[..., -1]
        return main + 0.5 * xp.log(total) + (size - 1) * HALF_LOG_TWO_PI + rest

    return Formula.of(stirling_error, every).then(answer)


@compiled
def sum_of_others(values: Array) -> Array:
    """For each entry of the last axis, the sum of all the others, without subtracting it."""
    size = values.shape[-1]
    if size == 2:
        return values[..., ::-1]
    return xp.where(xp.eye(size, dtype=bool), 0.0, values[..., None, :]).sum(-1)


def masked_sum(values: Array, mask: Array) -> Array:
    """Sum over the last axis where the mask holds; what is masked may be NaN."""
    return xp.where(mask, values, 0.0).sum(-1)


def _gap(x: Array, d: Array, y: Array) -> Array:
    """Excess of the ratio of y = x + d to x, where the sum has rounded d away."""
    inverse = 1.0 / x
    e = d * inverse
    down = xp.log(xp.where(e > -0.5, 1.0, y * inverse))
    return xp.where(e > -0.5, excess(xp.maximum(e, -0.5)), e - down)


def _deviance(x: Array, d: Array, y: Array) -> Array:
    """Deviance of y = x + d from x, y ln(y / x) - d."""
    inverse = 1.0 / x
    e = d * inverse
    near = xp.abs(e) < 0.5
    s = xp.where(near, e, 0.0)
    ratio = xp.where(near | (y <= 0), 1.0, y * inverse)
    return xp.where(near, x * (s * xp.log1p(s) - excess(s)), y * xp.log(ratio) - d)


def _deviance_drop(x: Array, d: Array, y: Array, shift: Array | float) -> Array:
    high_x, high_y = x + shift, y + shift
    per_x, per_high_y = 1.0 / x, 1.0 / high_y
    risen = shift * d * per_x
    u = risen * per_high_y
    bend = u * (shift * d * (1.0 / high_x))
    down = xp.log(xp.where(u > -0.5, 1.0, y * per_x * (high_x * per_high_y)))
    tilt = xp.where(u > -0.5, excess(xp.maximum(u, -0.5)), u - down)
    near = bend + shift * _gap(high_x, d, high_y) - y * tilt
    return xp.where(shift > x, _deviance(x, d, y) - _deviance(high_x, d, high_y), near)


def _stirling_bregman(x: Array, d: Array, y: Array) -> Array:
    large = xp.minimum(x, y) >= _SHIFT
    top = (x + _SHIFT, d, y + _SHIFT)
    series = _series_bregman(*(xp.where(large, v, w) for v, w in zip((x, d, y), top, strict=True)))
    # below, N steps up: the trapezoidal sum of the gaps between x and x + N less their integral
    gaps = _gap(*_stairs(x, d, y, _SHIFT + 1))
    at_end = (xp.arange(_SHIFT + 1) % _SHIFT) == 0
    total = xp.where(at_end, 0.5 * gaps, gaps).sum(-1)
    stepped = total - _deviance_drop(x, d, y, _SHIFT) + series
    return xp.where(large, series, stepped)


def _stairs(x: Array, d: Array, y: Array, num: int = _SHIFT) -> tuple[Array, Array, Array]:
    """x, d and y on a last axis of steps up."""
    steps = xp.arange(num, dtype=x.dtype)
    return x[..., None] + steps, d[..., None], y[..., None] + steps


def _gammaln_bregman(x: Array, d: Array, y: Array) -> Array:
    # ln Gamma(x) = ln Gamma(x + N) - sum_k ln(x + k): N gaps, and Stirling's formula, all positive
    stepped = _gap(*_stairs(x, d, y)).sum(-1)
    x, y = x + _SHIFT, y + _SHIFT
    return stepped + _deviance(x, d, y) + 0.5 * _gap(x, d, y) + _series_bregman(x, d, y)


def _series_bregman(x: Array, d: Array, y: Array) -> Array:
    r"""$c(x + d) - c(x) - d c'(x)$ where both arguments are large, power by power.

    $y^{-n} - x^{-n} + n d x^{-n-1} = x^{-n} e \rho\,(r q_n + n)$ with $e = d / x$, $\rho = d / y$,
    $r = x / y$ and $q_n = \sum_{j \le n - 2} (n - 1 - j)\,r^j$.
    """
    per_x, per_y = 1.0 / x, 1.0 / y
    e, rho, r = d * per_x, d * per_y, x * per_y
    geometric, weighted, power = xp.ones_like(x), xp.zeros_like(x), per_x
    series = xp.zeros_like(x)
    for n in range(1, 2 * len(_STIRLING)):
        if n % 2:
            series = series + _STIRLING[n // 2] * power * (r * weighted + n)
        weighted, geometric, power = weighted + geometric, 1.0 + r * geometric, power * per_x
    return e * rho * series


def _digamma_series_drop(x: Array, d: Array) -> Array:
    """p(x) - p(x + d), power by power: 1 - r^n = (1 - r) (1 + r + ... + r^(n-1)) with r = x / (x + d)."""
    per_x, per_y = 1.0 / x, 1.0 / (x + d)
    rho, r = d * per_y, x * per_y
    geometric, power = xp.ones_like(x), per_x
    series = xp.zeros_like(x)
    for n in range(1, 2 * len(_STIRLING) + 1):
        if n % 2 == 0:
            series = series + (n - 1) * _STIRLING[n // 2 - 1] * power * geometric
        geometric, power = 1.0 + r * geometric, power * per_x
    return rho * series


def _horner(coefficients: Sequence[float], x: Array) -> Array:
    total = x * coefficients[-1]
    for coefficient in reversed(coefficients[1:-1]):
        total = (total + coefficient) * x
    return total + coefficients[0]


def _stirling_series(x: Array) -> Array:
    inverse = 1.0 / x
    return _horner(_STIRLING, inverse * inverse) * inverse


def _digamma_series(x: Array) -> Array:
    """p(x) in psi(x) = ln x - 1/2x - p(x): minus the derivative of the series above."""
    inverse_square = 1.0 / (x * x)
    slopes = [coefficient * (2 * k + 1) for k, coefficient in enumerate(_STIRLING)]
    return _horner(slopes, inverse_square) * inverse_square
