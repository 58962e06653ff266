"""How well a learner did, and how far the bound it climbs is from the truth."""

from streambayes.metrics._rho import ExactRho, bound_gap, exact_rho
from streambayes.metrics._sample_size import retained_limit

__all__ = ["ExactRho", "bound_gap", "exact_rho", "retained_limit"]
