"""Runs as pictures, which functions return and do not show, and as a report in one file."""

from streambayes.reports._bound import plot_bound
from streambayes.reports._memory import plot_memory
from streambayes.reports._over_time import plot_retained, plot_rho, plot_run, plot_scores
from streambayes.reports._parameters import plot_components, plot_parameter
from streambayes.reports._report import write_report

__all__ = [
    "plot_bound",
    "plot_components",
    "plot_memory",
    "plot_parameter",
    "plot_retained",
    "plot_rho",
    "plot_run",
    "plot_scores",
    "write_report",
]
