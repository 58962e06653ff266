"""Categorical against SciPy, and with categories that have no mass."""

import numpy as np
import pytest
import scipy.special

from streambayes.families import Categorical


def test_probabilities_and_entropy():
    probabilities = np.array([[0.2, 0.5, 0.3], [1e-300, 0.5, 0.5]])
    member = Categorical.from_probabilities(probabilities)
    np.testing.assert_allclose(member.mean(), probabilities, rtol=1e-13)
    np.testing.assert_allclose(
        member.entropy(), scipy.special.entr(probabilities).sum(-1), rtol=1e-13
    )
    np.testing.assert_allclose(member.log_prob([2, 0]), np.log([0.3, 1e-300]), rtol=1e-13)


def test_probabilities_are_normalized():
    member = Categorical.from_probabilities([0.1, 0.3])
    np.testing.assert_allclose(member.mean(), [0.25, 0.75], rtol=1e-15)


def test_a_constant_added_to_the_logits_changes_nothing():
    one, two = Categorical(logits=[0.0, 1.0, -2.0]), Categorical(logits=[3.0, 4.0, 1.0])
    assert one.kl(two) == pytest.approx(0.0, abs=1e-16)
    np.testing.assert_allclose(one.mean(), two.mean(), rtol=1e-15)
    assert one.log_prob(1) == pytest.approx(two.log_prob(1), rel=1e-15)


def test_categories_without_mass():
    sure, open_ = (
        Categorical.from_probabilities([1.0, 0.0]),
        Categorical.from_probabilities([0.5, 0.5]),
    )
    assert sure.entropy() == 0
    assert sure.kl(open_) == pytest.approx(np.log(2), rel=1e-15)
    assert open_.kl(sure) == np.inf
    assert sure.kl(sure) == 0
    assert sure.log_prob(1) == -np.inf
    assert sure.log_prob(0) == 0
