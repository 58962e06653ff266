"""Settings shared by all tests."""

import os

import hypothesis
import jax
import pytest

# two test processes share the machine: one thread each
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

hypothesis.settings.register_profile(
    "streambayes", deadline=None, max_examples=30, derandomize=True, print_blob=True
)
hypothesis.settings.load_profile("streambayes")


@pytest.fixture
def key():
    """One fixed key; split it for more."""
    return jax.random.key(20170806)


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_functions():
    """Thousands of compiled functions in one process exhaust its memory maps."""
    yield
    jax.clear_caches()
