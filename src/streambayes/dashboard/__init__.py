"""A live page over the records of a run, while it goes on and afterwards."""

from streambayes.dashboard._server import Dashboard, watch

__all__ = ["Dashboard", "watch"]
