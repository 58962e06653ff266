"""Cold and warm start: first calls in a new process, without and with programs on disk."""

import tempfile

from benchmarks.cold_start import times
from benchmarks.speed.timing import Measurement, Plan, measured, say

__all__ = ["SECTION", "SIDES", "measure"]

SECTION = "start"
SIDES = ("programs on disk", "nothing on disk")
SIZE = {"rows": 1_000, "columns": 2, "components": 5}


def measure(plan: Plan) -> list[Measurement]:
    """Every first call, in two processes one after the other.

    Args:
        plan: Makes no difference here.
    """
    del plan
    found = []
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = times(folder), times(folder)
    for side, calls in zip(SIDES, (warm, cold), strict=True):
        for call, seconds in calls.items():
            found.append(measured(SECTION, call, side, SIZE, "seconds", [seconds]))
            say(found[-1])
    return found
