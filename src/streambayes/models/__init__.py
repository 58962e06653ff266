"""Models of one batch of rows."""

from streambayes._core.batch import Batch
from streambayes._core.column import Column
from streambayes._core.scale import Scale
from streambayes.models._base import AbstractModel, Parameters, Section
from streambayes.models._beta_binomial import BetaBinomial
from streambayes.models._categorical import Categorical
from streambayes.models._column_kinds import ProposedColumn
from streambayes.models._conjugate import AbstractConjugate
from streambayes.models._gaussian import Gaussian, MultivariateGaussian
from streambayes.models._linear_regression import LinearRegression
from streambayes.models._mixture import ConditionalMixture, GaussianMixture
from streambayes.models._naive_bayes import MixtureNaiveBayes, NaiveBayes
from streambayes.models._poisson import Poisson
from streambayes.models._proposal import Proposal, from_frame, propose
from streambayes.models.network import AbstractNetwork, Network

__all__ = [
    "AbstractConjugate",
    "AbstractModel",
    "AbstractNetwork",
    "Batch",
    "BetaBinomial",
    "Categorical",
    "Column",
    "ConditionalMixture",
    "Gaussian",
    "GaussianMixture",
    "LinearRegression",
    "MixtureNaiveBayes",
    "MultivariateGaussian",
    "NaiveBayes",
    "Network",
    "Parameters",
    "Poisson",
    "Proposal",
    "ProposedColumn",
    "Scale",
    "Section",
    "from_frame",
    "propose",
]
