"""Every model with a way to draw batches for it, and every policy: what the laws run over."""

import itertools
import os

import numpy as np

import streambayes as sb

EVERYTHING = os.environ.get("STREAMBAYES_TESTS") == "all"
"""Whether laws run over all combinations: ``make test-all``."""


def paired(some, others):
    """Pairs in which each of both is there at least once; all pairs where everything is tested."""
    some, others = list(some), list(others)
    if EVERYTHING:
        return list(itertools.product(some, others))
    number = range(max(len(some), len(others)))
    return [(some[place % len(some)], others[place % len(others)]) for place in number]


COLOURS = ["red", "green", "blue"]
SLOPES = {"u": 1.0, "v": -2.0, "w": 3.0}


def choose(rng, n):
    return rng.choice(COLOURS, n)


def gappy(draw, share=0.2):
    """Batches of which a share of the cells is missing; the first row is whole."""

    def draw_with_gaps(rng, n):
        columns = draw(rng, n)
        for name, values in columns.items():
            gaps = rng.random(n) < share
            gaps[0] = False
            kind = object if values.dtype.kind == "U" else float
            columns[name] = np.where(gaps, None, values).astype(kind)
        return columns

    return draw_with_gaps


def clusters(rng, n):
    """Two clusters in two columns."""
    left = rng.random(n) < 0.4
    x = rng.normal(np.where(left, -2.0, 3.0), 1.0)
    return {"x": x, "y": rng.normal(np.where(left, 50.0, 20.0) + 2.0 * x, 4.0)}


def linear(rng, n):
    """One column that is linear in two others."""
    a, b = rng.normal(3.0, 2.0, n), rng.normal(-1.0, 0.5, n)
    return {"a": a, "b": b, "y": 2.0 - a + 3.0 * b + rng.normal(0.0, 0.7, n)}


def mail(rng, n):
    """A class with columns of all kinds."""
    spam = rng.random(n) < 0.4
    colours = np.where(spam, choose(rng, n), "green")
    return {
        "label": np.where(spam, "spam", "ham"),
        "x": rng.normal(np.where(spam, 2.0, 0.0), 1.0),
        "y": rng.normal(size=n),
        "colour": colours,
        "k": rng.poisson(np.where(spam, 6.0, 1.0)),
    }


def labelled(name, values):
    """Clusters with an observed category."""

    def draw(rng, n):
        return {name: rng.choice(values, n), **clusters(rng, n)}

    return draw


def weather():
    """A network with variables of every kind, two of them latent."""
    net = sb.Network()
    z = net.categorical("regime", 2, latent=True)
    rain = net.bernoulli("rain", parents=[z])
    net.exponential("wait", parents=[z])
    net.poisson(["calls", "visits"], parents=[rain])
    front = net.normal("front", latent=True)
    net.normal(list(SLOPES), parents=[front])
    return net


def day(rng, n):
    """Rows of that network."""
    wet = rng.random(n) < 0.5
    rain = rng.random(n) < np.where(wet, 0.8, 0.1)
    front = rng.normal(size=n)
    return {
        "rain": rain,
        "wait": rng.exponential(np.where(wet, 20.0, 2.0)),
        "calls": rng.poisson(np.where(rain, 9.0, 2.0)),
        "visits": rng.poisson(3.0, n),
        **{name: slope * front + rng.normal(0.0, 0.3, n) for name, slope in SLOPES.items()},
    }


# one sweep is exact: nothing is hidden that bears on what is seen, and blocks are not coupled
EXACT = {
    "draws": (sb.models.BetaBinomial("x"), lambda rng, n: {"x": rng.random(n) < rng.random()}),
    "counts": (
        sb.models.BetaBinomial("k", trials="n"),
        lambda rng, n: {"k": rng.integers(0, 5, n), "n": rng.integers(4, 30, n)},
    ),
    "categories": (
        sb.models.Categorical("c", COLOURS),
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
    "regression, conjugate": (sb.models.LinearRegression("y", ["a", "b"], "conjugate"), linear),
    "naive Bayes": (
        sb.models.NaiveBayes(
            "label",
            ["ham", "spam"],
            normal=["x", "y"],
            categorical={"colour": COLOURS},
            poisson="k",
        ),
        mail,
    ),
}
EXACT |= {
    f"{name} with gaps": (EXACT[name][0], gappy(EXACT[name][1])) for name in ("counts", "gaussian")
}
HIDDEN = {
    "regression": (sb.models.LinearRegression("y", ["a", "b"]), linear),
    "regression, independent": (sb.models.LinearRegression("y", ["a", "b"], "independent"), linear),
    "mixture": (sb.models.GaussianMixture(["x", "y"], 2), clusters),
    "mixture, full": (sb.models.GaussianMixture(["x", "y"], 2, "full"), clusters),
    "conditional mixture": (
        sb.models.ConditionalMixture(["x", "y"], "day", ["Mon", "Tue"], 2),
        labelled("day", ["Mon", "Tue"]),
    ),
    "mixture classifier": (
        sb.models.MixtureNaiveBayes("label", 2, ["x", "y"], 2, {"y": "log"}),
        labelled("label", [0, 1]),
    ),
    "network": (weather(), day),
}
HIDDEN |= {
    f"{name} with gaps": (model, gappy(draw))
    for name, (model, draw) in (EXACT | HIDDEN).items()
    if name in ("regression", "naive Bayes", "mixture, full")
}
MODELS = EXACT | HIDDEN
# what compiles in a second or two meets every policy; the others meet SVB, HPP and MHPP
QUICK = tuple(name for name in EXACT if name not in ("regression, conjugate", "naive Bayes"))
SLOW = tuple(name for name in MODELS if name not in QUICK)


NORMAL = sb.TruncatedNormal.from_mean_variance(0.5, 0.1)
POLICIES = [
    sb.SVB(),
    sb.Auto(),
    sb.Auto(shared=True),
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
