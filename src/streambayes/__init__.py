"""Bayesian models of data streams that know what to forget."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from streambayes._public import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """All that is public is imported when something of it is first asked for.

        What needs none of it does not wait a second for JAX, such as the command's help.
        """
        if "__all__" not in globals() and (name == "__all__" or not name.startswith("_")):
            from streambayes import _public

            if hasattr(_public, "__all__"):  # else it asks itself, half imported
                globals().update({each: getattr(_public, each) for each in _public.__all__})
                globals()["__all__"] = _public.__all__
                if name in globals():
                    return globals()[name]
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)

    def __dir__() -> list[str]:
        if "__all__" not in globals():
            __getattr__("__all__")
        return sorted(globals())
