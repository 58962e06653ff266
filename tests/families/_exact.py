"""Arithmetic of seventy digits for the tests of extremes."""

import mpmath


def exact(value):
    """The number that a float is."""
    return mpmath.mpf(float(value))


def error(found, wanted):
    """Relative error; absolute where the value is below 1, so that a zero can be asked for."""
    return float(abs(mpmath.mpf(float(found)) - wanted) / max(abs(wanted), mpmath.mpf(1)))


def relative(found, wanted):
    """Relative error."""
    return float(abs(mpmath.mpf(float(found)) - wanted) / abs(wanted))


def gamma_kl(shape, rate, other_shape, other_rate):
    """Divergence of one Gamma from another."""
    a, b, c, d = map(exact, (shape, rate, other_shape, other_rate))
    gammas = mpmath.loggamma(c) - mpmath.loggamma(a) + (a - c) * mpmath.psi(0, a)
    return gammas + c * mpmath.log(b / d) + a * (d - b) / b
