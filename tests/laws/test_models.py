"""Every model keeps the laws of ``streambayes.testing.check_model``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.learning._intake import pad, read_rows
from streambayes.models import AbstractModel
from streambayes.testing import check_model
from tests.tables import EXACT, MODELS


@pytest.fixture(autouse=True)
def _forget_one_model_before_the_next():
    """The check compiles more for a model than one process can hold for all of them."""
    yield
    jax.clear_caches()


@pytest.mark.parametrize("name", MODELS)
def test_laws(name):
    model, draw = MODELS[name]
    rng = np.random.default_rng(11)
    check_model(model, [draw(rng, 30) for _ in range(4)])


@pytest.mark.parametrize("name", MODELS)
def test_table_says_where_one_sweep_is_exact(name):
    model, draw = MODELS[name]
    rows = read_rows(model, model.columns, draw(np.random.default_rng(0), 30))
    with float64_scope():
        hides = model.has_hidden(pad(rows, model.columns))
    assert (name in EXACT) == (not hides and not model.is_coupled)


def test_table_is_complete():
    """A new model gets its line in the table."""
    known = {type(model) for model, _ in MODELS.values()}
    concrete = {
        value
        for name, value in vars(sb.models).items()
        if isinstance(value, type) and issubclass(value, AbstractModel) and "Abstract" not in name
    }
    assert known == concrete


class TestTheCheckItself:
    """A check that cannot fail is none."""

    def test_a_wrong_joint_is_found(self, monkeypatch):
        true = sb.models.Poisson.expected_log_joint
        monkeypatch.setattr(
            sb.models.Poisson,
            "expected_log_joint",
            lambda self, expectations, summary: (
                true(self, expectations, summary) + summary.factors["wrong"].total
            ),
        )
        rng = np.random.default_rng(0)
        with pytest.raises(AssertionError, match="law broken"):
            check_model(
                sb.models.Poisson("wrong"), [{"wrong": rng.poisson(3, 20)} for _ in range(2)]
            )

    def test_a_missing_cell_that_is_counted_is_found(self, monkeypatch):
        true = sb.models.BetaBinomial.sums
        monkeypatch.setattr(
            sb.models.BetaBinomial,
            "sums",
            lambda self, batch: true(self, batch.with_values(jnp.nan_to_num(batch.values))),
        )
        rng = np.random.default_rng(0)
        with pytest.raises(AssertionError, match="a row that misses every cell adds nothing"):
            check_model(
                sb.models.BetaBinomial("gap"), [{"gap": rng.random(20) < 0.3} for _ in range(2)]
            )
