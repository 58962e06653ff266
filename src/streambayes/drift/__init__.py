"""What has changed in a stream, when, and by how much: from the records of a run."""

from streambayes.drift._drift import BatchDrift, Drift, find_drift
from streambayes.drift._event import Change, DriftEvent
from streambayes.drift._monitor import DriftMonitor, Unusual
from streambayes.drift._pattern import Pattern

__all__ = [
    "BatchDrift",
    "Change",
    "Drift",
    "DriftEvent",
    "DriftMonitor",
    "Pattern",
    "Unusual",
    "find_drift",
]
