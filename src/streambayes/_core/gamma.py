"""The log-gamma function and its derivative for positive arguments in compiled programs: a kernel each, and few operations.

Below ten they take ten steps up, by one product; from there on the asymptotic series has full precision.
"""

import jax.numpy as jnp
from jax import Array

__all__ = ["digamma", "gammaln"]

_HALF_LOG_TWO_PI = 0.9189385332046727
_STEPS = 10
# B_2k / (2k (2k - 1)) and B_2k / 2k, k = 1..8
_LOG_SERIES = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)
_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)


def gammaln(x: Array) -> Array:
    r"""$\ln\Gamma(x)$."""
    large = x >= _STEPS
    y = jnp.where(large, x, x + _STEPS)
    # of (y - 1/2) ln y less the logarithm of the product, all that grows with the steps is one logarithm of a ratio
    low = jnp.where(large, 1.0, x)
    product = low
    for step in range(1, _STEPS):
        product = product * (low + step)
    high = jnp.where(large, 1.0, y)
    ratio = jnp.square(jnp.square(jnp.square(high)) * high) / product
    inverse = 1.0 / y
    rest = inverse * _series(_LOG_SERIES, inverse * inverse)
    main = (x - 0.5) * jnp.log(y) + jnp.where(large, 0.0, jnp.log(ratio))
    return main - y + _HALF_LOG_TWO_PI + rest


def digamma(x: Array) -> Array:
    r"""$\psi(x)$, the derivative of $\ln\Gamma(x)$."""
    large = x >= _STEPS
    factor = jnp.where(large, 1.0, x)
    product, slope = factor, jnp.ones_like(x)
    for step in range(1, _STEPS):
        slope = slope * (factor + step) + product
        product = product * (factor + step)
    y = jnp.where(large, x, x + _STEPS)
    inverse = 1.0 / y
    square = inverse * inverse
    limit = jnp.log(y) - 0.5 * inverse - square * _series(_SERIES, square)
    return jnp.where(large, limit, limit - slope / product)


def _series(coefficients: tuple[float, ...], x: Array) -> Array:
    total = x * coefficients[-1]
    for coefficient in reversed(coefficients[1:-1]):
        total = (total + coefficient) * x
    return total + coefficients[0]
