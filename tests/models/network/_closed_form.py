"""Posteriors and evidences of conjugate pairs, from the textbook."""

import numpy as np
from scipy.special import digamma, gammaln, multigammaln

HALF_LOG_TWO_PI = 0.5 * np.log(2.0 * np.pi)


def posterior_of_normal(x, shape, rate, mean, scale):
    """NormalGamma after rows x: shape, rate, mean, scale."""
    n, kappa = len(x), scale + len(x)
    location = (scale * mean + x.sum()) / kappa
    squares = ((x - location) ** 2).sum() + scale * (mean - location) ** 2
    return shape + 0.5 * n, rate + 0.5 * squares, location, kappa


def evidence_of_normal(x, shape, rate, mean, scale):
    """Log density of rows under a NormalGamma."""
    after_shape, after_rate, _, kappa = posterior_of_normal(x, shape, rate, mean, scale)
    gammas = gammaln(after_shape) - gammaln(shape)
    rates = shape * np.log(rate) - after_shape * np.log(after_rate)
    return gammas + rates + 0.5 * np.log(scale / kappa) - len(x) * HALF_LOG_TWO_PI


def evidence_of_vectors(x, degrees, scatter, mean, scale):
    """Log density of rows of vectors under a NormalWishart."""
    (n, size), kappa = x.shape, scale + len(x)
    location = (scale * mean + x.sum(0)) / kappa
    away, moved = x - location, mean - location
    after = scatter + away.T @ away + scale * np.outer(moved, moved)
    gammas = multigammaln(0.5 * (degrees + n), size) - multigammaln(0.5 * degrees, size)
    log_dets = degrees * np.linalg.slogdet(scatter)[1] - (degrees + n) * np.linalg.slogdet(after)[1]
    scales = 0.5 * size * (np.log(scale / kappa) - n * np.log(np.pi))
    return gammas + 0.5 * log_dets + scales


def evidence_of_categories(counts, concentration):
    """Log probability of a sequence with these counts."""
    both = counts + concentration
    totals = gammaln(concentration.sum()) - gammaln(both.sum())
    return totals + (gammaln(both) - gammaln(concentration)).sum()


def evidence_of_counts(k, shape, rate):
    """Log probability of Poisson counts under a Gamma."""
    after = shape + k.sum()
    gammas = gammaln(after) - gammaln(shape) - gammaln(k + 1.0).sum()
    return gammas + shape * np.log(rate) - after * np.log(rate + len(k))


def evidence_of_times(t, shape, rate):
    """Log density of exponential times under a Gamma."""
    gammas = gammaln(shape + len(t)) - gammaln(shape)
    return gammas + shape * np.log(rate) - (shape + len(t)) * np.log(rate + t.sum())


def gamma_kl(shape, rate, other_shape, other_rate):
    """Divergence of one Gamma from another."""
    gammas = gammaln(other_shape) - gammaln(shape) + (shape - other_shape) * digamma(shape)
    return gammas + other_shape * np.log(rate / other_rate) + shape * (other_rate - rate) / rate
