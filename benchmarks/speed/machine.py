"""Where a run takes place."""

import importlib.metadata
import os
import platform
import time
from pathlib import Path
from typing import Any

__all__ = ["busy_share", "bytes_of_memory", "machine"]

PACKAGES = (
    "streambayes",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "scikit-learn",
    "bayespy",
    "river",
    "pyarrow",
    "pyspark",
    "dask",
)


def machine() -> dict[str, Any]:
    """Processor, memory, system and versions."""
    return {
        "processor": _processor(),
        "cores": _cores(),
        "memory in GiB": round(bytes_of_memory() / 2**30, 1),
        "system": platform.system(),
        "versions": {"python": platform.python_version(), **_versions()},
    }


def bytes_of_memory() -> int:
    """All that there is."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def busy_share() -> float:
    """What others use of the processors while this process waits a second; 0 where nobody can tell."""
    before = _ticks()
    time.sleep(1.0)
    total, idle = (after - first for after, first in zip(_ticks(), before, strict=True))
    return 1.0 - idle / total if total else 0.0


def _ticks() -> tuple[int, int]:
    """Time of all processors since they started, and how much of it they had nothing to do."""
    facts = Path("/proc/stat")
    if not facts.exists():
        return 0, 0
    user, nice, system, idle, waiting, *others = map(int, facts.read_text("utf-8").split()[1:9])
    return user + nice + system + idle + waiting + sum(others), idle + waiting


def _cores() -> int | None:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _processor() -> str:
    """What the processor calls itself."""
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
