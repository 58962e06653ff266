"""Programs: compiled functions that the next process finds on disk."""

import contextlib
import functools
import gc
import hashlib
import os
import platform
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import jax
from jax.experimental.compilation_cache import compilation_cache

from streambayes._core.batch import Batch
from streambayes._core.folder import NotPrivateError, make_private, own_files

__all__ = ["Program", "caches_of_the_user", "compile_cache", "folder_for_programs"]

_VARIABLE = "STREAMBAYES_COMPILE_CACHE"
_OFF = ("", "0", "off", "false", "no")
_ON = ("1", "on", "true", "yes")
_MOST_BYTES = 2**30
_WRITTEN = re.compile(r".+-(cache|atime)")
"""Files that JAX writes."""
_COMPILER_OPTIONS = {"xla_disable_hlo_passes": "tree_reduction_rewriter"}
"""On CPUs that pass makes two kernels of a sum over more than 32 entries, and kernels are what takes time to compile."""
_FEW_ROWS = 512
_OPTIONS_FOR_MANY_ROWS = {**_COMPILER_OPTIONS, "xla_cpu_prefer_vector_width": 512}
"""The widest vectors that the processor has: XLA's own choice is half of them, at which exponentials take twice as long."""
_chosen: Path | str | None = None


@final
class Program:
    """A function of arrays, compiled for every shape of the batches among its arguments.

    What is compiled is kept in the folder of ``compile_cache``. JAX's own setting for that is a matter
    of the whole process, so it holds only while a program of ours compiles, and not at all where the
    user has set it.

    Args:
        function: What to compile.
        static_argnames: As for ``jax.jit``.
    """

    def __init__(
        self, function: Callable[..., Any], *, static_argnames: tuple[str, ...] = ()
    ) -> None:
        self._run, self._run_large = (
            jax.jit(function, static_argnames=static_argnames, compiler_options=options)
            for options in (_COMPILER_OPTIONS, _OPTIONS_FOR_MANY_ROWS)
        )
        self._known: set[Any] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        batches = [arg for arg in args if isinstance(arg, Batch)]
        key = (*(_kind(batch) for batch in batches), *kwargs.values())
        run = self._run_large if any(map(_has_many_rows, batches)) else self._run
        if key in self._known:
            return run(*args, **kwargs)
        with _compiling(), _kept():
            found = run(*args, **kwargs)
        self._known.add(key)
        return found


def _has_many_rows(batch: Batch) -> bool:
    return batch.values.size > _FEW_ROWS * max(len(batch.columns), 1)


def _kind(batch: Batch) -> tuple[Any, ...]:
    return batch.values.shape, batch.values.dtype, batch.missing, batch.fused


def compile_cache(folder: str | Path | bool = True) -> Path | None:
    """Where compiled programs are kept from one process to the next; returns the folder, if any.

    By default a folder ``streambayes`` among the user's caches, or that of the environment variable
    ``STREAMBAYES_COMPILE_CACHE`` (``off`` for none). A cache directory that is set in JAX itself comes
    first. Whoever can write there can have this process run code: a folder that others can write to is not used, with
    a warning.

    Args:
        folder: Another folder; ``False`` for none, ``True`` for the default.
    """
    global _chosen  # noqa: PLW0603
    if not isinstance(folder, bool | str | Path) or folder == "":
        message = f"compile_cache: expected a folder, True or False, got {folder!r}"
        raise TypeError(message)
    if not isinstance(folder, bool) and Path(folder).exists() and not Path(folder).is_dir():
        message = f"compile_cache: {folder} is a file; give a folder"
        raise ValueError(message)
    _chosen = None if folder is True else "off" if folder is False else Path(folder)
    return _folder()


def _folder() -> Path | None:
    chosen = _chosen if _chosen is not None else os.environ.get(_VARIABLE)
    if chosen is None or str(chosen).lower() in _ON:
        return caches_of_the_user() / "compiled"
    return None if str(chosen).lower() in _OFF else Path(chosen).expanduser()


def caches_of_the_user() -> Path:
    """Where the library may keep what can be made again."""
    if sys.platform == "darwin":
        caches = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        caches = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "streambayes"


class _Compiling:
    """How many threads are compiling, and the settings from before the first of them."""

    lock = threading.Lock()
    threads = 0
    collects_garbage = True
    threads_kept = 0
    before: dict[str, Any] = {}  # noqa: RUF012


@contextlib.contextmanager
def _compiling() -> Iterator[None]:
    """Garbage waits meanwhile, or a Ctrl-C would be lost.

    It is heeded when XLA returns. If the first Python code after that is what JAX has the collector call, then
    Python reports the exception and goes on.
    """
    with _Compiling.lock:
        _Compiling.threads += 1
        if _Compiling.threads == 1:
            _Compiling.collects_garbage = gc.isenabled()
            gc.disable()
    try:
        yield
    finally:
        with _Compiling.lock:
            _Compiling.threads -= 1
            if _Compiling.threads == 0 and _Compiling.collects_garbage:
                gc.enable()


@contextlib.contextmanager
def _kept() -> Iterator[None]:
    folder = _usable_folder()
    if folder is None:
        yield
        return
    with _Compiling.lock:
        _Compiling.threads_kept += 1
        if _Compiling.threads_kept == 1:
            _Compiling.before = _set(
                {
                    "jax_compilation_cache_dir": str(folder),
                    "jax_persistent_cache_min_compile_time_secs": 0.0,
                    "jax_persistent_cache_min_entry_size_bytes": -1,
                }
            )
    try:
        yield
    finally:
        with _Compiling.lock:
            _Compiling.threads_kept -= 1
            if _Compiling.threads_kept == 0:
                _set(_Compiling.before)
                compilation_cache.reset_cache()  # it would stay with our folder otherwise


def _set(settings: dict[str, Any]) -> dict[str, Any]:
    before = {name: _read(name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    return before


def _read(name: str) -> Any:
    return getattr(jax.config, name)


def _usable_folder() -> Path | None:
    """The folder that is used now; none if the user has set one in JAX itself."""
    set_by_user = _read("jax_compilation_cache_dir") is not None and not _Compiling.threads_kept
    folder = _folder()
    if set_by_user or folder is None:
        return None
    return folder_for_programs(folder)


def folder_for_programs(folder: Path) -> Path | None:
    """The folder within this one that is for this processor and version of JAX; none if it cannot be used."""
    return _prepared(folder / f"jax-{jax.__version__}-{_processor()}")


@functools.cache
def _prepared(folder: Path) -> Path | None:
    """The folder, made, private and not too full; none where that is not to be had."""
    try:
        make_private(folder)
        if not os.access(folder, os.W_OK):
            return None
        files = sorted(
            ((entry.stat(), Path(entry.path)) for entry in own_files(folder, _WRITTEN)),
            key=lambda file: -file[0].st_mtime,
        )
        total = 0
        for facts, path in files:  # the newest stay
            total += facts.st_size
            if total > _MOST_BYTES:
                path.unlink(missing_ok=True)
    except NotPrivateError as error:  # what lies there is run
        message = f"compiled programs are neither read nor kept: {error}; remove it, or name a folder of your own in {_VARIABLE}"
        warnings.warn(message, stacklevel=2)
        return None
    except OSError:
        return None
    return folder


@functools.cache
def _processor() -> str:
    """What this machine's programs may not run without: its kind, and its features where they are told."""
    told = platform.machine() + platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        told += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        pass
    return hashlib.sha256(told.encode()).hexdigest()[:12]
