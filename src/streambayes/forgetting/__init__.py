"""Forgetting policies: what the prior of a batch keeps of the past."""

from streambayes.forgetting._auto import Auto
from streambayes.forgetting._base import (
    AbstractForgetting,
    AbstractSinglePrior,
    Clock,
    PriorAnchor,
    Report,
)
from streambayes.forgetting._hierarchical import HPP, MHPP
from streambayes.forgetting._none import SVB
from streambayes.forgetting._population import PVB, SVI
from streambayes.forgetting._power_prior import Fading, PowerPrior

__all__ = [
    "HPP",
    "MHPP",
    "PVB",
    "SVB",
    "SVI",
    "AbstractForgetting",
    "AbstractSinglePrior",
    "Auto",
    "Clock",
    "Fading",
    "PowerPrior",
    "PriorAnchor",
    "Report",
]
