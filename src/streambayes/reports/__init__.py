"""Runs as pictures: functions return figures and show nothing."""

from streambayes.reports._memory import plot_memory

__all__ = ["plot_memory"]
