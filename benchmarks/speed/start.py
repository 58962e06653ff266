"""Cold and warm start: first calls in a new process, without and with programs on disk."""

import tempfile

from benchmarks.speed.timing import Measurement, Plan, measured, say
from benchmarks.start import CASES, times

__all__ = ["SECTION", "SIDES", "measure"]

SECTION = "start"
SIDES = ("programs on disk", "nothing on disk")


def measure(plan: Plan) -> list[Measurement]:
    """Every first call, in two processes one after the other.

    Args:
        plan: Makes no difference here.
    """
    del plan
    found = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            cold, warm = times(folder, case), times(folder, case)
        for side, calls in zip(SIDES, (warm, cold), strict=True):
            for call, took in calls.items():
                name = f"{case}: {call}"
                found.append(measured(SECTION, name, side, {}, "seconds", [took["wall"]]))
                say(found[-1])
    return found
