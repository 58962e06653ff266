"""Where batches come from."""

from streambayes.sources._memory import Batches, batches

__all__ = ["Batches", "batches"]
