"""The paper's Electricity experiment, and what becomes of it once everything has converged."""

from streambayes.experiments.electricity._experiment import (
    MODEL,
    PUBLISHED,
    Protocol,
    calendar_months,
    reproduce,
    text_months,
)

__all__ = ["MODEL", "PUBLISHED", "Protocol", "calendar_months", "reproduce", "text_months"]
