"""Models of one batch of rows."""

from streambayes._core.batch import Batch
from streambayes._core.column import Column
from streambayes._core.scale import Scale
from streambayes.models._base import AbstractModel
from streambayes.models._beta_binomial import BetaBinomial
from streambayes.models._categorical import Categorical
from streambayes.models._conjugate import AbstractConjugate
from streambayes.models._gaussian import Gaussian, MultivariateGaussian
from streambayes.models._poisson import Poisson

__all__ = [
    "AbstractConjugate",
    "AbstractModel",
    "Batch",
    "BetaBinomial",
    "Categorical",
    "Column",
    "Gaussian",
    "MultivariateGaussian",
    "Poisson",
    "Scale",
]
