"""Electricity: the numbers of the authors' own program, month by month, for all seven methods.

The authors' program (the AMIDST toolbox, Java) was run on Elec2 with every column scaled to [0, 1] and
no cell missing, 32 months in the order of the data, two thirds of each month to learn from and one to
test on. Three tables beside this file carry what it read and what it printed:

- ``electricity_normalised.csv``, per month and split: the sums over rows of all products of
  (1, six predictors, class), which is all that the model reads of them;
- ``electricity_normalised_runs.csv``, per method and month: the test mean log-likelihood, E[rho] and
  omega; MHPP has fourteen of each, one per block, joined by semicolons;
- ``electricity_normalised_posteriors.csv``: natural parameters after months 1, 13 (where the market
  changes) and 32, and (month 0) the random q that every run of the program starts from. NormalGammas
  and Gammas are stored as the library has them, coefficients as mean and precision.

The program stops sooner than the library would, so its numbers depend on its stopping rule. That rule is
``program_run``; the sweeps, the messages and the updates of omega are the library's.
"""

import csv
import itertools
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.families import Blocks, Point
from streambayes.forgetting import Clock
from streambayes.learning import sweep
from streambayes.models import Batch
from streambayes.models.network._network import NetworkSums
from streambayes.models.network._normal import NormalSums
from streambayes.models.network._regression import RegressionSums

PREDICTORS = ("period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer")
MODEL = sb.models.LinearRegression("class", PREDICTORS, "independent")
COLUMNS, NOISE = ", ".join(PREDICTORS), "class: noise"
COEFFICIENTS = ("class: intercept", *(f"class: b[{name}]" for name in PREDICTORS))
NORMAL = sb.Normal.from_mean_precision(0.0, 1e-10)
PRIOR = {
    COLUMNS: sb.NormalGamma.from_shape_rate_mean_scale(np.ones(6), 1.0, 0.0, 1e-10),
    **dict.fromkeys(COEFFICIENTS, NORMAL),
    NOISE: sb.Gamma.from_shape_rate(1.0, 1.0),
}
RTOL = 1e-9  # 1e-10 is met
NO_ROWS = Batch(np.zeros((7, 0)), np.int64(0), (*PREDICTORS, "class"))
# a policy, and the change in percent at which the program's rounds over omega end
METHODS = {
    "svb": (sb.SVB(), None),
    "pp_0.9": (sb.PowerPrior(0.9), None),
    "pp_0.99": (sb.PowerPrior(0.99), None),
    "fading_0.9": (sb.Fading(0.9), None),
    "fading_0.99": (sb.Fading(0.99), None),
    "hpp": (sb.HPP(), 1e-4),
    "mhpp": (sb.MHPP(), 1e-7),
}


def test_the_model_has_fourteen_blocks():
    """Six columns, seven coefficients and the noise."""
    assert sum(label.size for label in MODEL.labels().values()) == 14
    assert {name: family.batch_shape for name, family in MODEL.prior().items()} == {
        name: family.batch_shape for name, family in PRIOR.items()
    }


@pytest.mark.parametrize("method", METHODS)
def test_every_month_meets_the_authors_run(method):
    found = program_run(*METHODS[method])
    expected = [row for row in read("electricity_normalised_runs.csv") if row["method"] == method]
    assert len(expected) == len(found) == 32
    for month, row in zip(found, expected, strict=True):
        assert month["tmll"] == pytest.approx(float(row["tmll"]), rel=RTOL)
        if "rho" in month:
            for what in ("rho", "omega"):
                theirs = [float(number) for number in row[what].split(";")]
                np.testing.assert_allclose(month[what], theirs, rtol=RTOL)
    for number in (1, 13, 32):
        mine, theirs = found[number - 1]["posterior"], stored_blocks(method, number)
        for name, family in theirs.items():
            for ours, stored in zip(numbers(mine[name]), numbers(family), strict=True):
                np.testing.assert_allclose(ours, stored, rtol=RTOL, err_msg=f"{name}, {number}")


def program_run(policy, rounds_threshold):
    """What the authors' program computes of the 32 months.

    A sweep updates the columns and the noise, then the intercept and the slopes in turn. After each
    sweep it computes the bound under the tempered prior, and ends when that has changed by less than
    1e-7 percent of its value before.

    Where rho is learned, a month (but the first, which has no past) begins with omega at its prior. A
    round sweeps to that end and computes a new omega, and with it the prior of the next round. The
    rounds end when the bound of the sweeps, less the divergence of the new q(rho) from its prior,
    changes by less than the threshold, or after ten. Reported are the posterior of the last round,
    which has seen the omega before, and the omega computed from it.
    """

    @jax.jit
    def one_sweep(sums, anchor, belief):
        belief, _, _ = sweep(MODEL, policy, NO_ROWS, anchor, belief, ((), sums))
        divergences = belief.summary().kl(anchor.tempered).values()
        joint = MODEL.expected_log_joint(belief.expectations(), sums)
        return belief, joint - sum(each.sum() for each in divergences)

    @jax.jit
    def refined(anchor, belief):
        anchor = policy.refine(anchor, policy.weigh(anchor, belief, belief.expectations()))
        posteriors = [policy.rho_prior.with_slope(slope) for slope in in_order(anchor.omega)]
        cost = sum(jnp.maximum(0.0, each.kl(policy.rho_prior)).sum() for each in posteriors)
        return anchor, cost

    history = []
    with float64_scope():
        prior = in_blocks(PRIOR)
        memory, belief = policy.init(prior), Point(in_blocks(stored_blocks("start", 0)))
        for number, (train, test) in enumerate(months()):
            anchor = policy.open(memory, prior, Clock(1.0, float(number), 0.0))
            before = math.nan
            for _ in range(10):
                belief, bound = settled(one_sweep, train, anchor, belief)
                if rounds_threshold is None or number == 0:
                    break
                anchor, cost = refined(anchor, belief)
                watched = bound - float(cost)
                if 100 * abs(watched - before) / abs(before) < rounds_threshold:
                    break
                before = watched
            memory = belief.summary()
            total = MODEL.expected_log_joint(belief.expectations(), test)
            month = {
                "tmll": float(total / test.factors["class"].num_rows),
                "posterior": memory.params,
            }
            if rounds_threshold is not None:
                month["omega"] = np.hstack(in_order(anchor.omega))
                month["rho"] = policy.rho_prior.with_slope(month["omega"]).mean()
            history.append(month)
    return history


def settled(one_sweep, sums, anchor, belief):
    """The belief where the bound changes by less than 1e-7 percent in a sweep, and the bound."""
    before = math.nan
    for _ in range(1000):
        belief, bound = one_sweep(sums, anchor, belief)
        bound = float(bound)
        if 100 * abs(bound - before) / abs(before) < 1e-7:
            break
        before = bound
    return belief, bound


def in_order(omega):
    """One slope, or those of the blocks in the program's order."""
    if not isinstance(omega, dict):
        return [omega]
    return [omega[name] for name in (COLUMNS, NOISE, *COEFFICIENTS)]


def in_blocks(params):
    return jax.tree.map(jnp.asarray, Blocks.of_prior({name: params[name] for name in PRIOR}))


def numbers(family):
    """What the program stores of a block."""
    if isinstance(family, sb.Normal):
        return family.mean(), family.precision
    return family.naturals()


def months():
    """Sums over rows as the model has them, to learn from and to test on, month by month."""
    rows = read("electricity_normalised.csv")
    for train, test in zip(rows[::2], rows[1::2], strict=True):
        assert (train["month"], train["split"], test["split"]) == (test["month"], "train", "test")
        yield sums_of(train), sums_of(test)


def sums_of(row):
    """The model's summary from the sums of products of (1, predictors, class)."""
    names = ("1", *PREDICTORS, "class")
    products = np.empty((8, 8))
    for i, j in itertools.combinations_with_replacement(range(8), 2):
        products[i, j] = products[j, i] = float(row[f"{names[i]}*{names[j]}"])
    num_rows = products[0, 0]
    return NetworkSums(
        factors={
            COLUMNS: NormalSums(
                num_rows=np.full(6, num_rows),
                total=products[0, 1:7],
                squares=np.diag(products)[1:7],
            ),
            "class": RegressionSums(
                num_rows=num_rows,
                squares=products[7, 7],
                products=products[:7, 7],
                gram=products[:7, :7],
            ),
        },
        entropy=np.zeros(()),
    )


def stored_blocks(method, month):
    """The program's posterior, by entry of blocks."""
    stored = [
        [float(row[f"nat{place}"]) for place in range(4) if row[f"nat{place}"]]
        for row in read("electricity_normalised_posteriors.csv")
        if (row["method"], row["month"]) == (method, str(month))
    ]
    assert len(stored) == 14
    return {
        COLUMNS: sb.NormalGamma(*np.transpose(stored[:6])),
        NOISE: sb.Gamma(*stored[6]),
        **{
            name: sb.Normal.from_mean_precision(mean, precision)
            for name, (mean, precision) in zip(COEFFICIENTS, stored[7:], strict=True)
        },
    }


def read(name):
    with (Path(__file__).parent / name).open(newline="") as file:
        return list(csv.DictReader(file))
