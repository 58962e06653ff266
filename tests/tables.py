"""Every model with a way to draw batches for it, and every policy: what the laws run over."""

import numpy as np

import streambayes as sb


def choose(rng, n):
    return rng.choice(["red", "green", "blue"], n)


MODELS = {
    "draws": (sb.models.BetaBinomial("x"), lambda rng, n: {"x": rng.random(n) < rng.random()}),
    "counts": (
        sb.models.BetaBinomial("k", trials="n"),
        lambda rng, n: {"k": rng.integers(0, 5, n), "n": rng.integers(4, 30, n)},
    ),
    "categories": (
        sb.models.Categorical("c", ["red", "green", "blue"]),
        lambda rng, n: {"c": choose(rng, n)},
    ),
    "events": (sb.models.Poisson("x"), lambda rng, n: {"x": rng.poisson(rng.gamma(2.0, 5.0), n)}),
    "gaussian": (
        sb.models.Gaussian(["x", "y"]),
        lambda rng, n: {"x": rng.normal(3.0, 2.0, n), "y": rng.normal(-1e3, 20.0, n)},
    ),
    "multivariate": (
        sb.models.MultivariateGaussian(["x", "y", "z"]),
        lambda rng, n: {name: rng.normal(size=n) @ np.eye(n) + 5.0 for name in "xyz"},
    ),
}


NORMAL = sb.TruncatedNormal.from_mean_variance(0.5, 0.1)
POLICIES = [
    sb.SVB(),
    sb.PowerPrior(0.9),
    sb.PowerPrior(kl_budget=0.2),
    sb.Fading(0.9),
    sb.HPP(),
    sb.HPP(rho_prior=NORMAL),
    sb.MHPP(),
    sb.MHPP(rho_prior=NORMAL),
    sb.PVB(100, 0.1),
    sb.PVB(100, 0.1, minibatch_size=16),
    sb.SVI(1000),
    sb.SVI(1000, step_size=0.2),
]
