"""Learner states on disk: one by one, or the last few of a run."""

from streambayes.checkpoint._file import load, save
from streambayes.checkpoint._store import Checkpoint, Checkpoints

__all__ = ["Checkpoint", "Checkpoints", "load", "save"]
