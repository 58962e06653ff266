"""Models that can be asked for by name where one is proposed for a table."""

from typing import Literal

__all__ = ["MODELS_OF_NUMBERS", "ProposedModel"]

ProposedModel = Literal["Gaussian", "MultivariateGaussian", "GaussianMixture", "Network"]
MODELS_OF_NUMBERS = ("Gaussian", "MultivariateGaussian", "GaussianMixture")
