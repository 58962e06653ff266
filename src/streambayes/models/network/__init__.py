"""The network engine: any conjugate-exponential Bayesian network over the variables of one row."""

from streambayes.models.network._network import AbstractNetwork, Network, names_of, values_of
from streambayes.models.network._variables import AbstractVariable, Coefficients

__all__ = [
    "AbstractNetwork",
    "AbstractVariable",
    "Coefficients",
    "Network",
    "names_of",
    "values_of",
]
