r"""Special functions that keep their digits where differences of log-gammas lose them.

Everything about gamma functions comes from one decomposition, Stirling's,
$\ln\Gamma(x) = (x - 1/2)\ln x - x + \ln\sqrt{2\pi} + c(x)$, with the large parts cancelled on paper.
"""

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import digamma, gammaln

__all__ = [
    "deviance",
    "digamma_difference",
    "excess",
    "gamma_entropy",
    "gammaln_bregman",
    "log_beta",
    "log_gamma_ratio",
    "masked_sum",
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
_SHIFT = 10  # from here on the series has full precision


def excess(e: Array) -> Array:
    r"""$e - \ln(1 + e) \ge 0$ for $e > -1$, to full relative precision near 0."""
    small = jnp.abs(e) < 0.03
    s = jnp.where(small, e, 0.0)
    series = jnp.zeros_like(s)
    for k in range(11, 1, -1):  # e²/2 - e³/3 + ...
        series = series * s + (-1.0) ** k / k
    return jnp.where(small, series * s * s, e - jnp.log1p(jnp.where(small, 0.0, e)))


def deviance(x: Array, mean: Array) -> Array:
    r"""$x \ln(x / m) + m - x \ge 0$, to full relative precision where $x \approx m$."""
    e = (x - mean) / mean
    near = mean * (e * jnp.log1p(jnp.maximum(e, -1.0)) - excess(jnp.maximum(e, -0.9)))
    far = x * jnp.log(jnp.where(x > 0, x / mean, 1.0)) + mean - x
    return jnp.where(jnp.abs(e) < 0.5, near, far)


def stirling_error(x: Array) -> Array:
    r"""$c(x)$, what Stirling's formula leaves of $\ln\Gamma(x)$; about $1 / 12x$."""
    large = x >= _SHIFT
    safe = jnp.where(large, 1.0, x)
    direct = gammaln(safe) - (safe - 0.5) * jnp.log(safe) + safe - HALF_LOG_TWO_PI
    return jnp.where(large, _stirling_series(jnp.where(large, x, _SHIFT)), direct)


def gammaln_bregman(x: Array, y: Array) -> Array:
    r"""$\ln\Gamma(y) - \ln\Gamma(x) - (y - x)\,\psi(x) \ge 0$ for positive $x$ and $y$.

    With $\ln\Gamma(x) = \ln\Gamma(x + N) - \sum_{k<N} \ln(x + k)$ this is the same quantity at
    $x + N$ and $y + N$ plus $\sum_k [e_k - \ln(1 + e_k)]$, $e_k = (y - x) / (x + k)$: all positive.
    """
    x, y = jnp.broadcast_arrays(x, y)
    steps = jnp.arange(_SHIFT, dtype=x.dtype)
    shifted = _ratio_excess(x[..., None] + steps, y[..., None] + steps).sum(-1)
    e, gap = (y - x) / (x + _SHIFT), _ratio_excess(x + _SHIFT, y + _SHIFT)
    # (y - 1/2) ln y - y - (x - 1/2) ln x + x - d (ln x - 1/2x) = x [(1 + e) ln(1 + e) - e] + gap / 2
    x, y = x + _SHIFT, y + _SHIFT
    log_ratio = jnp.where(jnp.abs(e) < 0.5, jnp.log1p(jnp.maximum(e, -0.5)), jnp.log(y / x))
    main = x * (e * log_ratio - gap) + 0.5 * gap
    rest = _stirling_series(y) - _stirling_series(x) + (y - x) * _digamma_series(x)
    return shifted + main + rest


def log_gamma_ratio(x: Array, delta: Array) -> Array:
    r"""$\ln\Gamma(x + d) - \ln\Gamma(x)$, $d \ge 0$, without the cancellation at large $x$."""
    close = gammaln_bregman(x, x + jnp.minimum(delta, x)) + delta * digamma(x)
    return jnp.where(delta < x, close, gammaln(x + delta) - gammaln(x))


def digamma_difference(x: Array, delta: Array) -> Array:
    r"""$\psi(x + d) - \psi(x)$, $d \ge 0$, without the cancellation at large $x$."""
    x, delta = jnp.broadcast_arrays(x, delta)
    steps = jnp.arange(_SHIFT, dtype=x.dtype)
    low, high = x[..., None] + steps, (x + delta)[..., None] + steps
    shifted = (delta[..., None] / low / high).sum(-1)
    x, y = x + _SHIFT, x + _SHIFT + delta
    # psi(x) = ln x - 1/2x - p(x)
    main = jnp.log1p(delta / x) + 0.5 * delta / x / y
    return shifted + main + _digamma_series(x) - _digamma_series(y)


def gamma_entropy(shape: Array) -> Array:
    r"""Entropy of a unit-rate Gamma, $a + \ln\Gamma(a) + (1 - a)\psi(a)$."""
    large = shape >= _SHIFT
    a = jnp.where(large, 1.0, shape)
    direct = a + gammaln(a) + (1.0 - a) * digamma(a)
    a = jnp.where(large, shape, _SHIFT)
    rest = _stirling_series(a) - (1.0 - a) * _digamma_series(a)
    limit = HALF_LOG_TWO_PI + 0.5 * jnp.log(a) + 0.5 - 0.5 / a + rest
    return jnp.where(large, limit, direct)


def log_beta(concentration: Array) -> Array:
    r"""$\sum_i \ln\Gamma(\alpha_i) - \ln\Gamma(\alpha_0)$ over the last axis, $\alpha_0 = \sum_i \alpha_i$."""
    total = concentration.sum(-1)
    others = sum_of_others(concentration)
    share = concentration / total[..., None]
    log_share = jnp.where(share > 0.5, jnp.log1p(-others / total[..., None]), jnp.log(share))
    size = concentration.shape[-1]
    main = (concentration * log_share - 0.5 * jnp.log(concentration)).sum(-1)
    rest = stirling_error(concentration).sum(-1) - stirling_error(total)
    return main + 0.5 * jnp.log(total) + (size - 1) * HALF_LOG_TWO_PI + rest


def sum_of_others(values: Array) -> Array:
    """For each entry of the last axis, the sum of all the others, without subtracting it."""
    zeros = jnp.zeros_like(values[..., :1])
    before = jnp.concatenate([zeros, jnp.cumsum(values, -1)[..., :-1]], -1)
    after = jnp.concatenate([jnp.cumsum(values[..., ::-1], -1)[..., -2::-1], zeros], -1)
    return before + after


def masked_sum(values: Array, mask: Array) -> Array:
    """Sum over the last axis where the mask holds; what is masked may be NaN."""
    return jnp.where(mask, values, 0.0).sum(-1)


def _ratio_excess(x: Array, y: Array) -> Array:
    r"""$e - \ln(1 + e)$ for $1 + e = y / x$, precise for ratios near 1 and near 0."""
    e = (y - x) / x
    near = jnp.abs(e) < 0.03
    return jnp.where(near, excess(jnp.where(near, e, 0.0)), e - jnp.log(y / x))


def _stirling_series(x: Array) -> Array:
    inverse_square = 1.0 / (x * x)
    series = jnp.zeros_like(x)
    for coefficient in reversed(_STIRLING):
        series = series * inverse_square + coefficient
    return series / x


def _digamma_series(x: Array) -> Array:
    """p(x) in psi(x) = ln x - 1/2x - p(x): minus the derivative of the series above."""
    inverse_square = 1.0 / (x * x)
    series = jnp.zeros_like(x)
    for k, coefficient in reversed(list(enumerate(_STIRLING))):
        series = series * inverse_square + coefficient * (2 * k + 1)
    return series * inverse_square
