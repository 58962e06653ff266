"""The network engine: any conjugate-exponential Bayesian network over the variables of one row."""

from streambayes.models.network._network import AbstractNetwork, Network, names_of, values_of
from streambayes.models.network._variables import (
    AbstractVariable,
    Coefficients,
    Transform,
    Transforms,
    transforms_of,
)

__all__ = [
    "AbstractNetwork",
    "AbstractVariable",
    "Coefficients",
    "Network",
    "Transform",
    "Transforms",
    "names_of",
    "transforms_of",
    "values_of",
]
