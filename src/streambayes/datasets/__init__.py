"""Streams to learn from: generated ones with known truth, and real ones."""

from streambayes.datasets._drift import Change, DriftStream, make_drift
from streambayes.datasets._electricity import electricity
from streambayes.datasets._geolife import geolife
from streambayes.datasets._lending_club import lending_club
from streambayes.datasets._minneapolis import minneapolis_stops

__all__ = [
    "Change",
    "DriftStream",
    "electricity",
    "geolife",
    "lending_club",
    "make_drift",
    "minneapolis_stops",
]
