"""Streams to learn from: generated ones with known truth."""

from streambayes.datasets._drift import Change, DriftStream, make_drift

__all__ = ["Change", "DriftStream", "make_drift"]
