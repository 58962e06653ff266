"""What signals do to a command, while its libraries are imported and later."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["SIGNALS", "handling", "left_by_signals", "wait_for_a_signal"]

SIGNALS = {"SIGINT": 130, "SIGTERM": 143}
"""Exit codes of runs that a signal has stopped."""


@contextlib.contextmanager
def left_by_signals() -> Iterator[None]:
    """Before there is anything to end cleanly, a signal ends the program.

    Libraries would swallow one while they are imported.
    """
    with handling(_leave):
        yield


def wait_for_a_signal() -> None:
    """Until Ctrl-C or SIGTERM."""
    over = threading.Event()
    with handling(lambda *_: over.set()):
        while not over.wait(1.0):  # where a wait without end could not be interrupted
            pass


@contextlib.contextmanager
def handling(handle: Callable[[int, Any], None]) -> Iterator[None]:
    """Signals are handled so; nothing is changed in a thread, where that cannot be done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in SIGNALS]
    # what is ignored stays so, such as Ctrl-C by a command in the background of a script
    heeded = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _: object) -> None:
    os._exit(128 + number)
