"""Every family under every law: one table, and random parameters over it."""

import functools
import inspect

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streambayes import families
from streambayes._core.precision import float64_scope
from streambayes._core.pytree import pytree
from streambayes.families import (
    AbstractFamily,
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    MultivariateNormal,
    MultivariateNormalGamma,
    Normal,
    NormalGamma,
    NormalWishart,
    TruncatedExponential,
    TruncatedNormal,
)
from streambayes.families._normal import NormalStats
from streambayes.testing import check_family

SCATTER = np.array([[2.0, 0.5], [0.5, 1.0]])

MEMBERS = {
    "Beta": Beta.from_concentrations([[0.5, 30.0, 1.0]], [[0.5], [400.0]]),
    "Dirichlet": Dirichlet.from_concentration([[0.8, 2.0, 5.0], [1.0, 1.0, 1.0]]),
    "Categorical": Categorical.from_probabilities([[0.2, 0.5, 0.3], [1 / 3, 1 / 3, 1 / 3]]),
    "Gamma": Gamma.from_shape_rate([0.7, 1.0, 1e4], [3.0, 1e-3, 2.0]),
    "Normal": Normal.from_mean_precision(-1.0, 4.0),
    "Normal, batch": Normal.from_mean_precision([0.0, 1e3], [1e-2, 1.0]),
    "NormalGamma": NormalGamma.from_shape_rate_mean_scale([0.8, 60.0], 1.0, [0.0, 3.0], 2.0),
    "MultivariateNormal": MultivariateNormal.from_mean_precision(
        [[1.0, -2.0], [0.0, 0.0]], np.stack([SCATTER, 10.0 * np.eye(2)])
    ),
    "MultivariateNormalGamma": MultivariateNormalGamma.from_shape_rate_mean_scale(
        2.5, 0.5, [1.0, -0.5], SCATTER
    ),
    "MultivariateNormalGamma, batch": MultivariateNormalGamma.from_shape_rate_mean_scale(
        [0.8, 60.0], 1.0, [[0.0, 0.0], [3.0, -1.0]], np.stack([SCATTER, 10.0 * np.eye(2)])
    ),
    "NormalWishart": NormalWishart.from_degrees_scatter_mean_scale(
        [2.5, 40.0], SCATTER, [[0.0, 0.0], [2.0, -1.0]], [0.5, 3.0]
    ),
    "TruncatedExponential": TruncatedExponential.from_gamma(0.1),
    "TruncatedExponential, batch": TruncatedExponential.from_gamma([-40.0, 0.0, 1e-3, 3.0]),
    "TruncatedNormal": TruncatedNormal.from_mean_variance([0.5, -1.0, 3.0], [0.1, 0.2, 1.0]),
}

positive = st.floats(0.05, 500.0)
location = st.floats(-30.0, 30.0)


def pairs(*entries):
    """Arrays of two members, so that one compilation serves every example."""
    return st.tuples(*(st.lists(entry, min_size=2, max_size=2).map(np.array) for entry in entries))


def matrix(log_first, log_second, angle):
    """A positive definite matrix from its eigenvalues and the angle of its axes."""
    axes = np.moveaxis(
        np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]), -1, 0
    )
    values = np.exp(np.stack([log_first, log_second], -1))
    return (axes * values[:, None, :]) @ np.swapaxes(axes, -1, -2)


log_value, turn = st.floats(-3.0, 3.0), st.floats(0.0, 3.0)

STRATEGIES = {
    Beta: pairs(positive, positive).map(lambda p: Beta.from_concentrations(*p)),
    Dirichlet: pairs(positive, positive, positive).map(
        lambda p: Dirichlet.from_concentration(np.stack(p, -1))
    ),
    Categorical: pairs(location, location, location).map(
        lambda p: Categorical(logits=np.stack(p, -1))
    ),
    Gamma: pairs(positive, positive).map(lambda p: Gamma.from_shape_rate(*p)),
    Normal: pairs(location, positive).map(lambda p: Normal.from_mean_precision(*p)),
    NormalGamma: pairs(positive, positive, location, positive).map(
        lambda p: NormalGamma.from_shape_rate_mean_scale(*p)
    ),
    MultivariateNormal: pairs(location, location, log_value, log_value, turn).map(
        lambda p: MultivariateNormal.from_mean_precision(np.stack(p[:2], -1), matrix(*p[2:]))
    ),
    MultivariateNormalGamma: pairs(
        positive, positive, location, location, log_value, log_value, turn
    ).map(
        lambda p: MultivariateNormalGamma.from_shape_rate_mean_scale(
            *p[:2], np.stack(p[2:4], -1), matrix(*p[4:])
        )
    ),
    NormalWishart: pairs(positive, location, location, log_value, log_value, turn, positive).map(
        lambda p: NormalWishart.from_degrees_scatter_mean_scale(
            1.0 + p[0], matrix(*p[3:6]), np.stack(p[1:3], -1), p[6]
        )
    ),
    TruncatedExponential: pairs(st.floats(-300.0, 300.0)).map(
        lambda p: TruncatedExponential.from_gamma(*p)
    ),
    # one variance for both members: it is no natural parameter
    TruncatedNormal: pairs(st.floats(-20.0, 20.0)).map(
        lambda p: TruncatedNormal.from_mean_variance(*p, 0.2)
    ),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_laws(name, rng):
    check_family(MEMBERS[name], rng)


def test_every_family_is_in_the_tables():
    exported = {
        value
        for name in families.__all__
        if inspect.isclass(value := getattr(families, name))
        and issubclass(value, AbstractFamily)
        and not inspect.isabstract(value)
    }
    assert {type(member) for member in MEMBERS.values()} == exported
    assert set(STRATEGIES) == exported


@functools.cache
def _compiled(_family):
    """Everything compared below, in one program per family."""

    def compute(one, two, weight):
        def total(naturals):
            fields = dict(zip(one.natural, naturals, strict=True))
            return one._replace(fields).log_normalizer().sum()

        def pair(mine, theirs):
            stats = mine.expected_stats()
            size = abs(theirs.log_normalizer()) + abs(theirs.dot(stats))
            return mine.kl(theirs), AbstractFamily.kl(mine, theirs), size

        between = one.lerp(two, weight)
        mine, theirs = (
            jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
            for members in ((one, one, between), (two, one, two))
        )
        kl, defined, size = jax.vmap(pair)(mine, theirs)
        return {
            "gradient": jax.grad(total)(one.naturals()),
            "stats": tuple(one.expected_stats()),
            "entropy": (one.entropy(), AbstractFamily.entropy(one)),
            "kl": (kl[0], defined[0]),
            "to itself": kl[1],
            "between": kl[2],
            "size": 1.0 + size[0] + size[1],
            "proper": between.is_proper(),
        }

    return jax.jit(compute)


@pytest.mark.parametrize("family", STRATEGIES, ids=lambda family: family.__name__)
def test_laws_at_random_parameters(family):
    @hypothesis.settings(max_examples=30)
    @hypothesis.given(STRATEGIES[family], STRATEGIES[family], st.floats(0.0, 1.0))
    def check(one, two, weight):
        with float64_scope():
            found = jax.tree.map(np.asarray, _compiled(family)(one, two, weight))
        for slope, stat in zip(found["gradient"], found["stats"], strict=True):
            np.testing.assert_allclose(slope, stat, rtol=1e-8, atol=1e-8 * np.abs(stat).max())
        assert (np.abs(np.subtract(*found["entropy"])) <= 1e-11 * found["size"]).all()
        assert (np.abs(np.subtract(*found["kl"])) <= 1e-11 * found["size"]).all()
        assert (found["kl"][0] >= 0).all()
        # a compiler may compute one matrix in two ways: zero to rounding
        assert (found["to itself"] <= 1e-14 * found["size"]).all()
        assert (one.kl(one) == 0).all()
        assert found["proper"].all()
        # on the way from one to two in natural parameters the divergence from two never grows
        assert (found["between"] <= found["kl"][0] * (1 + 1e-9) + 1e-12).all()

    check()


def _broken(**methods):
    """A Normal with some methods replaced, as a family of its own."""
    return pytree(type("Broken", (Normal,), methods)).from_mean_precision(1.0, 2.0)


def _with_a_setting(self):
    jax.config.update("jax_numpy_rank_promotion", "warn")
    return Normal.log_normalizer(self)


BROKEN = {
    "gradient of log_normalizer": {"expected_stats": lambda self: NormalStats(self.mean(), 1.0)},
    "kl of a member to itself": {"kl": lambda self, other: Normal.kl(self, other) + 1e-12},
    "positive": {"kl": lambda self, other: -Normal.kl(self, other)},
    "kl must agree": {"kl": lambda self, other: 1.001 * Normal.kl(self, other)},
    "entropy must agree": {"entropy": lambda self: Normal.entropy(self) + 1e-3},
    "log_prob must agree": {"log_prob": lambda self, x: Normal.log_prob(self, x) + 1e-3},
    "over samples": {"sample": lambda self, rng, size: 1.1 * Normal.sample(self, rng, size)},
    "lerp of proper members": {
        "is_proper": lambda self: abs(abs(self.precision - 2.0) - 0.1) >= 0.1 - 1e-9
    },
    "equal hashes": {"__hash__": lambda self: hash(repr(vars(self)) + str(id(self)))},
    "NumPy float64": {"entropy": lambda self: Normal.entropy(self).astype("float32")},
    "shape": {"log_normalizer": lambda self: Normal.log_normalizer(self)[None]},
}


@pytest.mark.parametrize("law", BROKEN)
def test_a_broken_family_is_named(law, rng):
    with pytest.raises(AssertionError, match=f"Broken: .*{law}|Broken: {law}"):
        check_family(_broken(**BROKEN[law]), rng)


def test_a_whole_family_made_the_same_way_passes(rng):
    check_family(_broken(), rng)


def test_a_changed_setting_is_named(rng):
    before = jax.config.jax_numpy_rank_promotion
    try:
        with pytest.raises(AssertionError, match="jax_numpy_rank_promotion"):
            check_family(_broken(log_normalizer=_with_a_setting), rng)
    finally:
        jax.config.update("jax_numpy_rank_promotion", before)
