"""Learner states on disk."""

from streambayes.checkpoint._file import load, save

__all__ = ["load", "save"]
