"""Exponential families in natural parameters, and beliefs made of them."""

from streambayes._core.precision import as_real
from streambayes.families._base import AbstractFamily, check_finite, check_positive
from streambayes.families._belief import AbstractBelief, Bank, Point
from streambayes.families._beta import Beta
from streambayes.families._blocks import Blocks
from streambayes.families._categorical import Categorical
from streambayes.families._dirichlet import Dirichlet
from streambayes.families._gamma import Gamma
from streambayes.families._marginal import (
    AbstractMarginal,
    AbstractPredictive,
    BetaMarginal,
    GammaMarginal,
    MixtureMarginal,
    NormalMarginal,
    SpreadMarginal,
    StudentMarginal,
    WeightedDraws,
)
from streambayes.families._members import log_shares, log_total, total_of
from streambayes.families._multivariate_normal import MultivariateNormal
from streambayes.families._multivariate_normal_gamma import MultivariateNormalGamma
from streambayes.families._normal import Normal
from streambayes.families._normal_gamma import MeanPrecision, NormalGamma
from streambayes.families._normal_wishart import NormalWishart
from streambayes.families._packing import Packing
from streambayes.families._predictive import Lomax, NegativeBinomial, NoisyNormal
from streambayes.families._rho import AbstractRho
from streambayes.families._truncated_exponential import TruncatedExponential
from streambayes.families._truncated_normal import TruncatedNormal

__all__ = [
    "AbstractBelief",
    "AbstractFamily",
    "AbstractMarginal",
    "AbstractPredictive",
    "AbstractRho",
    "Bank",
    "Beta",
    "BetaMarginal",
    "Blocks",
    "Categorical",
    "Dirichlet",
    "Gamma",
    "GammaMarginal",
    "Lomax",
    "MeanPrecision",
    "MixtureMarginal",
    "MultivariateNormal",
    "MultivariateNormalGamma",
    "NegativeBinomial",
    "NoisyNormal",
    "Normal",
    "NormalGamma",
    "NormalMarginal",
    "NormalWishart",
    "Packing",
    "Point",
    "SpreadMarginal",
    "StudentMarginal",
    "TruncatedExponential",
    "TruncatedNormal",
    "WeightedDraws",
    "as_real",
    "check_finite",
    "check_positive",
    "log_shares",
    "log_total",
    "total_of",
]
