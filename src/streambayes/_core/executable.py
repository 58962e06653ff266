"""Compiled functions as bytes of XLA, and back without tracing them; the one place that looks inside of JAX.

JAX's own way to write a compiled function pickles what belongs to it, and what lies on a disk is never unpickled here.
So the bytes are XLA's alone, and what belongs to them is JSON. Where JAX has changed inside, nothing is written or read,
and calls go through what is public.
"""

# ruff: noqa: SLF001 - see above
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

__all__ = ["Given", "dispatched", "given", "read", "written"]

try:
    from jax._src import core, tree_util
    from jax._src.interpreters import pxla
    from jax._src.lib import _jax, xla_client  # type: ignore[attr-defined]
except ImportError:  # pragma: no cover
    pxla = None  # type: ignore[assignment]

Given = tuple[jax.tree_util.PyTreeDef, tuple[tuple[tuple[int, ...], Any, bool], ...]]
"""What a program is compiled for: the tree of its arguments; shape, type and whether that is weak of every leaf."""


def given(args: tuple[Any, ...], device: jax.Device) -> Given | None:
    """What a program would be compiled for; ``None`` if that is not a program for a device by itself."""
    leaves, tree = jax.tree.flatten(args)
    kinds = []
    for leaf in leaves:
        if isinstance(leaf, jax.core.Tracer):
            return None
        if isinstance(leaf, jax.Array) and leaf.devices() != {device}:
            return None
        is_python = isinstance(leaf, bool | int | float) and not isinstance(leaf, np.generic)
        weak = is_python or bool(getattr(leaf, "weak_type", False))
        kinds.append((np.shape(leaf), jax.dtypes.result_type(leaf), weak))
    return tree, tuple(kinds)


def written(compiled: jax.stages.Compiled) -> tuple[dict[str, Any], bytes] | None:
    """Facts as JSON, without the tree of what it returns, and XLA's bytes of a function that was just compiled.

    Not of one that was read: it has not got its code any more.
    """
    try:
        inside: Any = compiled._executable
        unloaded = inside._unloaded_executable
        needs = (
            unloaded.ordered_effects,
            unloaded.unordered_effects,
            unloaded.host_callbacks,
            unloaded.mut,
            compiled._params.const_args,
            [layout for layout in inside._dispatch_in_layouts if layout is not None],
        )
        if any(needs) or len(unloaded.device_list) > 1:
            return None
        facts = {
            "name": unloaded.name,
            "kept": sorted(inside._kept_var_idx),
            "returns": [
                [list(each.shape), each.dtype.name, each.weak_type] for each in inside.out_avals
            ],
        }
        executable = inside.xla_executable
        return facts, executable.client.serialize_executable(executable)
    except (AttributeError, TypeError, NotImplementedError, RuntimeError):
        return None


def read(
    facts: dict[str, Any],
    code: bytes,
    for_what: Given,
    returns: jax.tree_util.PyTreeDef,
    device: jax.Device,
) -> jax.stages.Compiled | None:
    """The compiled function of what ``written`` has returned; ``None`` if JAX or XLA does not take it."""
    if pxla is None:
        return None
    tree, kinds = for_what
    try:
        devices = xla_client.DeviceList((device,))
        place = jax.sharding.SingleDeviceSharding(device)
        kept = set(facts["kept"])
        takes = [
            core.ShapedArray(shape, dtype, weak_type=weak)
            for number, (shape, dtype, weak) in enumerate(kinds)
            if number in kept
        ]
        makes = [
            core.ShapedArray(tuple(shape), np.dtype(dtype), weak_type=weak)
            for shape, dtype, weak in facts["returns"]
        ]
        loaded = pxla.UnloadedMeshExecutable(
            xla_executable=device.client.deserialize_executable(code, executable_devices=devices),
            device_list=devices,
            backend=device.client,
            input_avals=takes,
            input_shardings=[place] * len(takes),
            output_avals=makes,
            output_shardings=[place] * len(makes),
            committed=False,
            name=facts["name"],
            unordered_effects=[],
            ordered_effects=[],
            keepalive=(),
            host_callbacks=(),
            kept_var_idx=kept,
            mut=None,
            xla_in_layouts=[None] * len(takes),
            dispatch_in_layouts=[None] * len(takes),
            xla_out_layouts=[None] * len(makes),
            all_args_info=None,
            pgle_profiler=None,
        ).load()
        return jax.stages.Compiled(
            loaded, [], (jax.tree.unflatten(tree, range(len(kinds))), {}), returns
        )
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None


def dispatched(find: Callable[[tuple[Any, ...]], Callable[..., Any]]) -> Callable[..., Any]:
    """A function that calls what ``find`` has for the kinds of its arguments.

    ``find`` is asked once for each kind: from then on JAX calls the executable without a line of Python, as it does for
    ``jax.jit``.
    """

    def slow(*args: Any) -> Any:
        return find(args)(*args)

    def missed(*args: Any) -> tuple[Any, Any, bool]:
        compiled = find(args)
        found = compiled(*args)
        return found, _shortcut(compiled, found, args), False

    try:
        fast: Callable[..., Any] = _jax.pjit(
            "program",
            slow,  # what JAX calls where it is told to compile nothing
            missed,
            [],
            [],
            pxla.JitGlobalCppCacheKeys(),
            tree_util.dispatch_registry,
            pxla.cc_shard_arg,
        )
    except (AttributeError, NameError, TypeError):  # pragma: no cover
        return slow
    return fast


def _shortcut(compiled: Any, found: Any, args: tuple[Any, ...]) -> Any:
    """What JAX needs to call an executable again by itself; ``None`` if it cannot."""
    try:
        inside = compiled._executable
        returned, returns = tree_util.dispatch_registry.flatten(found, None)
        if compiled._params.const_args or not all(isinstance(x, jax.Array) for x in returned):
            return None
        return pxla.MeshExecutableFastpathData(
            inside.xla_executable,
            returns,
            inside._in_shardings,
            inside._out_shardings,
            [each.aval for each in returned],
            [each._committed for each in returned],
            [number in inside._kept_var_idx for number in range(len(jax.tree.leaves(args)))],
            inside._dispatch_in_layouts,
            [],
        )
    except AttributeError:  # a function of jax.jit, or another JAX
        return None
