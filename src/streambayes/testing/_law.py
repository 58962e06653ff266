"""How a broken law is said."""

from typing import Any, NoReturn

import jax
import numpy as np

__all__ = ["agree", "broken", "close"]


def close(law: str, found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    """Two trees of numbers agree to a relative (below 1: absolute) tolerance."""
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        if not np.allclose(mine, theirs, rtol=tolerance, atol=tolerance):
            broken(f"{law}: found {mine}, expected {theirs}")


def agree(law: str, found: Any, expected: Any) -> None:
    """Two values are equal."""
    if found != expected:
        broken(f"{law}: found {found}, expected {expected}")


def broken(sentence: str) -> NoReturn:
    """Raise ``AssertionError``."""
    message = f"law broken: {sentence}"
    raise AssertionError(message)
