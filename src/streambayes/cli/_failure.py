"""How streambayes run ends when something is wrong: an exit code and a sentence."""

import contextlib
import re
from collections.abc import Callable, Iterator

import typer

__all__ = ["BAD_DATA", "EXIT_CODES", "FAILED", "LATE", "WRONG", "ConfigError", "Failed", "telling"]

WRONG, BAD_DATA, FAILED, LATE = 2, 3, 4, 5
EXIT_CODES = (
    "Exit codes: 0 the stream has ended, or --until is reached; 2 bad configuration or arguments, nothing was "
    "started; 3 bad data or columns that changed, the state up to the batch before is saved; 4 the source or the "
    "disk failed, likewise; 5 as 0, but more than 1 % of the rows came too late for their batch and belong to none; 130 and 143 stopped cleanly by SIGINT and SIGTERM."
)
_OUTSIDE = ("redis", "confluent_kafka", "jax", "jaxlib")
"""Packages whose errors are not mistakes of ours."""
_POLICY = re.compile(r"(?:schema=)?SchemaPolicy\((\w+)='(\w+)'\)")


class ConfigError(ValueError):
    """Something is wrong with a configuration; the message says what in one sentence."""


class Failed(Exception):  # noqa: N818  # how a command ends
    """The command ends; ``code`` is its exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@contextlib.contextmanager
def telling(has_begun: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """What goes wrong, as a code and a sentence; before the stream has begun it is the configuration.

    Mistakes of our own are not caught.
    """
    try:
        yield
    except (Failed, typer.Exit):
        raise
    except KeyboardInterrupt:
        raise Failed(130, "interrupted; the state is saved up to the batch before") from None
    except (FileExistsError, NotADirectoryError, ConfigError, ImportError) as error:
        raise Failed(WRONG, _sentence(error)) from None
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Failed(BAD_DATA if has_begun() else WRONG, _sentence(error)) from None
    except (OSError, MemoryError) as error:
        raise Failed(FAILED, _sentence(error)) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _OUTSIDE:
            raise
        raise Failed(FAILED, _sentence(error)) from None


def _sentence(error: BaseException) -> str:
    """What an error says, with its notes, on one line and in words of the configuration."""
    said = str(error).removeprefix("run: ").removeprefix("batches: ") or type(error).__name__
    if isinstance(error, OSError) and error.strerror is not None:
        where = f"{error.filename} " if error.filename else ""
        said = f"{where}cannot be read or written ({error.strerror.lower()})"
    notes = "; ".join(getattr(error, "__notes__", ()))
    text = " ".join(f"{said} ({notes})".split()) if notes else " ".join(said.split())
    return _POLICY.sub(r'[schema] \1 = "\2"', text)
