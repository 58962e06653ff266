"""Two sides that are timed must do the same: their results are held together."""

from typing import Any

import numpy as np

__all__ = ["agree"]

LARGEST = 1e-8


def agree(what: str, mine: Any, theirs: Any) -> float:
    """How far numbers are apart, relative to the largest; ends the run if they are not the same.

    Args:
        what: What is compared.
        mine: Numbers of the library.
        theirs: Numbers of a peer.
    """
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    apart = float(np.abs(mine - theirs).max() / np.abs(mine).max())
    if not apart < LARGEST:
        message = f"{what}: the two sides differ by {apart:.1e}; they do not do the same"
        raise SystemExit(message)
    return apart
