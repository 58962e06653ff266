"""Runs as pictures: functions return figures and show nothing."""

from streambayes.reports._memory import plot_memory
from streambayes.reports._over_time import plot_retained, plot_rho, plot_scores
from streambayes.reports._parameters import plot_components, plot_parameter

__all__ = [
    "plot_components",
    "plot_memory",
    "plot_parameter",
    "plot_retained",
    "plot_rho",
    "plot_scores",
]
