"""What has changed in a stream, when, and by how much: from the records of a run."""

from streambayes.drift._drift import Drift, find_drift
from streambayes.drift._event import Change, DriftEvent
from streambayes.drift._monitor import DriftMonitor

__all__ = ["Change", "Drift", "DriftEvent", "DriftMonitor", "find_drift"]
