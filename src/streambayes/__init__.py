"""Bayesian models of data streams that know what to forget."""

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"


def _is_command() -> bool:
    """Whether this process is the command, whose help is not to wait a second for JAX."""
    is_module = ("-m", "streambayes") in itertools.pairwise(sys.orig_argv)
    return is_module or Path(sys.argv[0] if sys.argv else "").stem == "streambayes"


if TYPE_CHECKING or not _is_command():
    from streambayes._public import *  # noqa: F403
    from streambayes._public import __all__ as __all__
else:

    def __getattr__(name: str) -> Any:
        """All that is public is imported when something of it is first asked for."""
        if name == "__all__" or not name.startswith("_"):
            from streambayes import _public

            if hasattr(_public, "__all__"):  # else it asks itself, half imported
                globals().update({each: getattr(_public, each) for each in _public.__all__})
                globals()["__all__"] = _public.__all__
                if name in globals():
                    return globals()[name]
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted(sys.modules[__name__].__all__)
