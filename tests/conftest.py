"""Settings shared by all tests."""

import os
from pathlib import Path
from unittest import mock

import hypothesis
import jax
import numpy as np
import pytest

from streambayes._core import program
from streambayes._core.program import caches_of_the_user, folder_for_programs, options_for

# what tests compile by themselves; it is read here, and processes that tests start do not inherit it
with mock.patch.dict(
    os.environ,
    XLA_FLAGS="--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false",
):
    jax.devices()

_LONGEST = ("test_spark.py", "test_docs.py", "test_networks.py", "test_models.py", "test_work.py")
_AS_FOR_USERS = (
    *("test_docs.py", "test_program.py", "test_program_size.py", "test_interpolation.py"),
    *(
        "checkpoint",
        "cli",
        "dashboard",
        "distributed",
        "experiments",
        "sources",
        "test_calibration.py",
    ),
)
"""Modules and folders of tests whose programs are compiled as for users."""

# compilation is nearly all of the time: processes, modules and the next run share what was compiled once
_programs = folder_for_programs(caches_of_the_user() / "tests")
jax.config.update("jax_compilation_cache_dir", None if _programs is None else str(_programs))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

hypothesis.settings.register_profile(
    "streambayes", deadline=None, max_examples=30, derandomize=True, print_blob=True
)
hypothesis.settings.load_profile("streambayes")


def pytest_collection_modifyitems(items):
    """The longest files first: workers take whole files, and should end together."""
    items.sort(key=lambda item: (*_LONGEST, item.path.name).index(item.path.name))


def pytest_terminal_summary(terminalreporter):
    """Print what tests have measured with ``record_property``; nothing is asserted of times."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")


@pytest.fixture
def rng():
    """A NumPy generator with a fixed seed."""
    return np.random.default_rng(20170806)


@pytest.fixture
def key():
    """One fixed key; split it for more."""
    return jax.random.key(20170806)


def _quick_options(num_rows=0, *, repeats=False):
    """No optimisations: a sixth of the time to compile, and what tests run is small."""
    chosen = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
    return {**options_for(num_rows, repeats=repeats), **chosen}


@pytest.fixture(scope="module", autouse=True)
def _compiled_for_one_module(request):
    """A module's compiled functions serve no other; most are compiled quickly, unless all tests are run."""
    as_for_users = os.environ.get("STREAMBAYES_TESTS") == "all" or any(
        part in _AS_FOR_USERS for part in request.path.parts
    )
    chosen = options_for if as_for_users else _quick_options
    with mock.patch.object(program, "options_for", chosen):
        yield
    jax.clear_caches()
    for shape in list(program._held):
        shape.let_go()


@pytest.fixture(autouse=True)
def _stay_within_memory_maps():
    """Thousands of compiled functions exhaust a process's memory maps, of which Linux grants 65,530."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 25_000:
        jax.clear_caches()
