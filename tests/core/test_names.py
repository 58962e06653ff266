"""What a misspelt name may stand for."""

import pytest

import streambayes as sb
from streambayes._core.names import meant


def test_the_name_that_is_most_alike():
    assert meant("Tempreature", ["temperature", "time"]) == " (did you mean 'temperature'?)"
    assert meant("x", ["temperature", "time"]) == ""
    assert meant(2019, [2010, 2018]) == " (did you mean 2018?)"
    learner = sb.StreamLearner(sb.models.Gaussian("temperature"))
    with pytest.raises(ValueError, match=r"lacks column 'temperature' \(did you mean 'temperatur'"):
        learner.init({"temperatur": [1.0], "load": [2.0]})
