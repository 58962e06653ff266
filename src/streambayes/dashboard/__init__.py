"""A live page over the records of a run, while it goes on and afterwards."""

from streambayes.dashboard._server import Dashboard

__all__ = ["Dashboard"]
