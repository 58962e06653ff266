"""The paper's GPS experiment: places and days of the week, a batch for each hour of the day."""

from streambayes.experiments.gps._experiment import DAYS, MODEL, PUBLISHED, hours, reproduce

__all__ = ["DAYS", "MODEL", "PUBLISHED", "hours", "reproduce"]
