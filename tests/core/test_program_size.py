"""Programs stay small: their lines of StableHLO do not depend on how many columns of a kind there are."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes._core.program import options_for
from streambayes._core.scale import Scale
from streambayes.families import Blocks
from streambayes.forgetting import MHPP, SVB, Auto, PowerPrior
from streambayes.learning._compiled import scorer, settings_of, standardised, stepper
from streambayes.learning._intake import pad, read_rows
from streambayes.learning._notes import noter
from streambayes.models import (
    ConditionalMixture,
    Gaussian,
    GaussianMixture,
    LinearRegression,
    NaiveBayes,
)
from tests.tables import paired

_ROWS = 20


def _network(names: list[str]) -> sb.Network:
    fourth = len(names) // 4
    net = sb.Network()
    day = net.categorical("day", ["Mon", "Tue", "Wed"])
    net.normal(names[:fourth], parents=[day])
    net.exponential(names[fourth : 2 * fourth], parents=[day])
    net.poisson(names[2 * fourth : 3 * fourth])
    net.normal(names[3 * fourth :], transform="log")
    return net


MODELS: dict[str, Callable[[list[str]], Any]] = {
    "Gaussian": Gaussian,
    "Gaussian, some logarithms": lambda names: Gaussian(names, dict.fromkeys(names[::2], "log")),
    "NaiveBayes": lambda names: NaiveBayes("y", 3, normal=names[::2], poisson=names[1::2]),
    "GaussianMixture": lambda names: GaussianMixture(names, 3),
    "GaussianMixture, full": lambda names: GaussianMixture(names, 3, covariance="full"),
    "ConditionalMixture": lambda names: ConditionalMixture(names, "day", 2, 3),
    "LinearRegression": lambda names: LinearRegression("y", names),
    "Network": _network,
}
HIDES = {"LinearRegression"}
"""Where a regressor is missing, a row hides it: it is updated by itself, whatever its neighbours are."""
POLICIES = {
    "SVB": SVB(),
    "MHPP": MHPP(),
    "Auto": Auto(),
    "PowerPrior, budget": PowerPrior(kl_budget=0.2),
}


def _num_lines(function: Callable[..., Any], *args: Any) -> int:
    return jax.jit(function).lower(*args).as_text().count("\n")


def _lines_of_step(model: Any, policy: Any, *, missing: bool) -> int:
    """Of the program of a step."""
    with float64_scope():
        rows = np.full((len(model.columns), _ROWS), np.nan if missing else 1.0)
        batch = pad(rows, model.columns)
        prior = Blocks.of_prior(model.prior())
        memory = policy.init(prior)
        shift, factor = np.zeros(len(rows)), np.ones(len(rows))
        given = memory, policy.belief(memory), prior, shift, factor, batch, 0.0, 0.0
        learned = stepper(model, policy).learned
        return _num_lines(learned, settings_of(policy, 1e-6, 10), *given)


def _lines_of_others(model: Any) -> dict[str, int]:
    """Of the programs that a first step needs beside it, of scores and of samples."""
    with float64_scope():
        rows = np.ones((len(model.columns), _ROWS))
        batch = pad(rows, model.columns)
        prior = Blocks.of_prior(model.prior())
        belief = SVB().belief(SVB().init(prior))
        shift, factor = np.zeros(len(rows)), np.ones(len(rows))
        scale = Scale.identity(model.columns, free=True)
        notes = noter(model)

        def start(key: Any, batch: Any) -> Any:
            return model.start(key, standardised(model, batch, shift, factor)[0], prior)

        return {
            "densities": _num_lines(scorer(model).densities, belief, shift, factor, batch),
            "watch": _num_lines(notes.watched, notes.begin(prior), prior, scale, prior),
            "start": _num_lines(start, jax.random.key(0), batch),
        }


def _names(size: int) -> list[str]:
    return [f"x{number}" for number in range(size)]


@pytest.mark.parametrize(("model", "policy"), paired(MODELS, POLICIES))
def test_a_step_does_not_grow_with_columns(model: str, policy: str) -> None:
    few, many = (
        _lines_of_step(MODELS[model](_names(size)), POLICIES[policy], missing=False)
        for size in (8, 64)
    )
    assert many <= 1.02 * few


@pytest.mark.parametrize("model", sorted(MODELS.keys() - HIDES))
def test_missing_cells_do_not_make_it_grow(model: str) -> None:
    few, many = (
        _lines_of_step(MODELS[model](_names(size)), SVB(), missing=True) for size in (8, 64)
    )
    assert many <= 1.02 * few


@pytest.mark.parametrize("model", MODELS)
def test_other_programs_do_not_grow_with_columns(model: str) -> None:
    few, many = (_lines_of_others(MODELS[model](_names(size))) for size in (8, 64))
    assert all(many[program] <= 1.02 * few[program] for program in few)


def _weekdays() -> sb.Network:
    net = sb.Network()
    day = net.categorical("day", 7)
    z = net.categorical("z", 5, parents=[day], latent=True)
    net.normal(["x", "y"], parents=[z, day])
    return net


SIZES: dict[tuple[str, str], tuple[int, int]] = {
    ("Gaussian", "SVB"): (1492, 23),
    ("Gaussian", "MHPP"): (2349, 53),
    ("Gaussian", "Auto"): (1938, 112),
    ("Gaussian", "PowerPrior, budget"): (3447, 47),
    ("network", "SVB"): (3477, 121),
    ("network", "MHPP"): (4904, 148),
    ("network", "Auto"): (4921, 284),
}
"""Lines of StableHLO, and kernels that XLA makes of them: what takes time to compile. Raise one with a reason only."""


@pytest.mark.parametrize(("model", "policy"), SIZES)
def test_sizes_of_steps(model: str, policy: str) -> None:
    made: Any = Gaussian(["x", "y"]) if model == "Gaussian" else _weekdays()
    learner = sb.StreamLearner(made, POLICIES[policy])
    rng = np.random.default_rng(0)
    columns = {column.name: rng.normal(size=100) for column in made.columns}
    if "day" in columns:
        columns["day"] = rng.integers(0, 7, 100)
    state = learner.init(columns)
    rows = read_rows(made, made.columns, columns)
    given = (
        *(learner._settings, state.memory, state.belief, state.prior),
        *(
            state.scale.shift,
            state.scale.factor,
            pad(rows, made.columns),
            np.float64(0),
            np.float64(0),
        ),
    )
    with float64_scope():
        step = jax.jit(learner._stepper.learned, compiler_options=options_for()).lower(*given)
        kernels = step.compile().as_text().count(" fusion(")
    lines = step.as_text().count("\n")
    most = SIZES[model, policy]
    found = lines, kernels
    assert found[0] <= 1.03 * most[0], found
    assert found[1] <= 1.03 * most[1], found
