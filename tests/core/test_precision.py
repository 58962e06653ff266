"""Float64 for the library, nothing changed for the program around it."""

import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streambayes._core.precision import as_real, float64_scope, in_float64
from streambayes.families import Beta, Gamma, NormalWishart


def run(code):
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_import_changes_no_setting_and_starts_no_backend():
    done = run("""
        import jax
        before = dict(jax.config.values)
        import streambayes.families, streambayes.forgetting, streambayes.models, streambayes.testing
        changed = {k for k, v in jax.config.values.items() if before.get(k, v) != v}
        assert not changed, changed
        from jax._src import xla_bridge
        assert not xla_bridge.backends_are_initialized()
    """)
    assert done.returncode == 0, done.stderr


def test_results_do_not_depend_on_the_users_precision():
    code = """
        import jax
        jax.config.update("jax_enable_x64", {})
        import jax.numpy as jnp
        import numpy as np
        from streambayes.families import Beta
        one = Beta.from_concentrations(jnp.array([1, 3]), 0.1)
        two = Beta.from_concentrations(2.0, 1e9)
        draws = one.sample(np.random.default_rng(3), 2)
        values = [one.kl(two), one.entropy(), one.mean(), draws, one.log_prob(draws)]
        print([[x.hex() for x in v.ravel().tolist()] for v in values])
        assert jnp.ones(1).dtype == ("float64" if {} else "float32")
    """
    on, off = (run(code.replace("{}", switch)) for switch in ("True", "False"))
    assert on.returncode == 0, on.stderr
    assert off.returncode == 0, off.stderr
    assert on.stdout == off.stdout


def test_inputs_of_any_precision_become_float64():
    for value in (jnp.array([1, 2]), jnp.ones(2, "float32"), [1, 2], np.ones(2, "int8")):
        member = Gamma.from_shape_rate(value, 1.0)
        assert all(type(leaf) is np.ndarray for leaf in jax.tree.leaves(member))
        assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(member))
    assert as_real(jnp.ones(2, "float32")).dtype == np.float64
    with float64_scope():
        assert as_real(jnp.arange(2)).dtype == np.float64


def test_properties_and_families_come_back_on_the_host():
    member = NormalWishart.from_degrees_scatter_mean_scale(3.0, np.eye(2), [0.0, 1.0], 1.0)
    for value in (member.degrees, member.scatter, member.location, member.scaled(2.0)):
        for leaf in jax.tree.leaves(value):
            assert isinstance(leaf, np.ndarray | np.generic)
            assert leaf.dtype == np.float64


def test_the_scope_ends_where_it_began():
    outside = jax.config.jax_enable_x64
    with float64_scope():
        with float64_scope():
            assert jnp.ones(1).dtype == np.float64
        assert jnp.ones(1).dtype == np.float64  # an inner end is not the outer one

    @in_float64
    def fail():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert jax.config.jax_enable_x64 == outside
    assert isinstance(in_float64(lambda: jnp.ones(1))(), np.ndarray)  # the depth is back at zero


def test_threads_have_their_own_scope():
    entered, seen = threading.Barrier(2, timeout=30), {}

    def inside():
        with float64_scope():
            entered.wait()
            seen["inside"] = jnp.ones(1).dtype
            entered.wait()

    def outside():
        entered.wait()
        seen["outside"] = jnp.ones(1, dtype=float).dtype
        entered.wait()

    threads = [threading.Thread(target=target) for target in (inside, outside)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen["inside"] == np.float64
    assert seen["outside"] == (np.float64 if jax.config.jax_enable_x64 else np.float32)


def test_threads_agree():
    alphas = [0.5, 2.0, 1e6, 3.0]
    alone = [Beta.from_concentrations(alpha, 1.0).entropy() for alpha in alphas]
    together = [None] * len(alphas)

    def work(place):
        for _ in range(20):
            together[place] = Beta.from_concentrations(alphas[place], 1.0).entropy()

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(alphas))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(together, alone)
