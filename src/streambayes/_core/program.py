"""Programs: compiled functions that the next process finds on disk."""

import contextlib
import errno
import functools
import gc
import hashlib
import itertools
import json
import os
import platform
import re
import sys
import threading
import warnings
import weakref
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, final

import jax
import jaxlib.version
from jax.experimental.compilation_cache import compilation_cache

from streambayes._core.batch import Batch
from streambayes._core.executable import Given, dispatched, given, read, written
from streambayes._core.folder import NotPrivateError, make_private, own_files
from streambayes._core.precision import float64_scope
from streambayes._core.structure import ForeignError, describe, restore

__all__ = [
    "Program",
    "caches_of_the_user",
    "compile_cache",
    "folder_for_programs",
    "options_for",
    "prepared",
]

_VARIABLE = "STREAMBAYES_COMPILE_CACHE"
_OFF = ("", "0", "off", "false", "no")
_ON = ("1", "on", "true", "yes")
_MOST_BYTES = 2**30
_WRITTEN = re.compile(r".+-(cache|atime)|program-[0-9a-f]{64}(\..+)?")
"""Files that JAX writes, and those of programs that were found whole or are being written."""
_MOST_MAPS = 12_000
_MOST_HELD = 500
"""Of programs in memory, and memory maps of the process; the fewest of them are held all the same."""
_FEWEST_HELD = 4
_AT_ONCE = 4
_FEW_ROWS = 512
_MANY_ROWS = 4096
_NO_SUCH_OPTION = "No such compile option"
_chosen: Path | str | None = None


@final
class Program:
    """A function of arrays, compiled for every shape of the batches among its arguments.

    What is compiled is kept in the folder of ``compile_cache``, and the next process finds it there without tracing the
    function, if ``of`` says what it is. Of all programs, those that were used last are held in memory.

    Keyword arguments are static: the function is compiled for each of their values.

    Args:
        function: What to compile.
        of: What the function is and all that it depends on but its arguments, as values of the library's classes; nothing
            if there is more to it. Then the next process traces it anew and JAX finds what XLA has made of it, as it does
            for models and policies of someone else's.
        sets: An object and its attribute that tracing sets, if there is one: it is kept beside the program.
        repeats: Whether the program passes over the rows of a batch again and again.
        in_turn: Whether it takes batches on a leading axis one after the other, instead of all at once.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        of: tuple[Any, ...] = (),
        sets: tuple[Any, str] | None = None,
        repeats: Callable[[Batch], bool] = lambda _: False,
        in_turn: bool = False,
    ) -> None:
        self._function = function
        self._of = of
        self._sets = sets
        self._repeats = repeats
        self._in_turn = in_turn
        self._shapes: dict[Any, _Shape] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        shape = self._shape_of(args, kwargs)
        shape.used = next(_calls)
        return shape.run(*args)

    @property
    def num_held(self) -> int:
        """How many compiled functions it holds."""
        return sum(shape.finder.num_found for shape in list(self._shapes.values()))

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Load or compile what a call with arguments such as these will need; ``jax.ShapeDtypeStruct`` will do."""
        self._shape_of(args, kwargs).finder.find(args)

    def _shape_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "_Shape":
        key = (*(_kind(arg) for arg in args if isinstance(arg, Batch)), *kwargs.values())
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes.setdefault(key, _Shape(self._shapes, key, self._finder(kwargs)))
            with _letting_go:
                _held.add(found)
        return found

    def _finder(self, kwargs: dict[str, Any]) -> "_Finder":
        of = (*self._of, *sorted(kwargs.items())) if self._of else ()
        function: Any = functools.partial(self._function, **kwargs)
        function.__name__ = getattr(self._function, "__name__", "program")
        return _Finder(function, of, self._sets, self._options)

    def _options(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """How to compile it for these arguments."""
        batches = [arg for arg in args if isinstance(arg, Batch)]
        rows = [
            batch.values.shape[-1]
            if self._in_turn
            else batch.values.size // max(len(batch.columns), 1)
            for batch in batches
        ]
        return options_for(max(rows, default=0), repeats=any(map(self._repeats, batches)))


def options_for(num_rows: int = 0, *, repeats: bool = False) -> dict[str, Any]:
    """How XLA is to compile a program for a processor: mostly what takes least time to compile.

    Its newer way to write kernels takes twice as long to compile. They run faster where exponentials of many rows are taken
    again and again, and as fast elsewhere; so do, over few rows, kernels that are little optimised.

    Args:
        num_rows: Of the batches that the program takes.
        repeats: Whether it passes over them again and again.
    """
    has_long_loops = repeats and num_rows > _FEW_ROWS
    # this one makes two kernels of a sum over more than 32 entries, and kernels are what takes time to compile
    without = ["tree_reduction_rewriter"]
    if num_rows <= _FEW_ROWS:
        # and this one hands sums and products to a library whose threads take longer to meet than to add so few
        without.append("dot-library-rewriter")
    options: dict[str, Any] = {
        "xla_disable_hlo_passes": ",".join(without),
        "xla_cpu_use_fusion_emitters": has_long_loops,
    }
    if has_long_loops or num_rows > _MANY_ROWS:
        # the widest vectors that there are: XLA's own choice is half, at which exponentials take twice as long
        return {
            **options,
            "xla_cpu_prefer_vector_width": 512,
            "xla_backend_optimization_level": 3,
        }
    return {**options, "xla_backend_optimization_level": 1}


@contextlib.contextmanager
def prepared(*preparations: Callable[[], Any]) -> Iterator[None]:
    """While the block runs, load or compile what will be needed after it, each in a thread of its own.

    What goes wrong there goes wrong again where it is needed, and is told there.
    """

    def prepare(preparation: Callable[[], Any]) -> None:
        with contextlib.suppress(Exception), float64_scope():
            preparation()

    threads = [threading.Thread(target=prepare, args=(each,)) for each in preparations]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def _kind(batch: Batch) -> tuple[Any, ...]:
    return batch.values.shape, batch.values.dtype, batch.missing, batch.fused


@final
class _Finder:
    """What is compiled of a function, for different arguments; it is held by whoever calls it."""

    def __init__(
        self,
        function: Callable[..., Any],
        of: tuple[Any, ...],
        sets: tuple[Any, str] | None,
        options: Callable[[tuple[Any, ...]], dict[str, Any]],
    ) -> None:
        self._function = function
        self._of = of
        self._sets = sets
        self._options = options
        self._lock = threading.Lock()  # what one thread compiles another one waits for
        self._found: dict[Any, Any] = {}

    def find(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        """A function for these arguments and others of their shapes and types."""
        device = _device()
        for_what = None if _is_watched() else given(args, device)
        if for_what is None:
            return self._traced()
        key = for_what, device, _settings()
        with self._lock:
            found = self._found.get(key)
            if found is None:
                with _compiling():
                    found = self._loaded_or_compiled(args, for_what, device)
                self._found[key] = found
                _let_go()
        function: Callable[..., Any] = found
        return function

    @property
    def num_found(self) -> int:
        """For how many kinds of arguments it has one."""
        return len(self._found)

    def _traced(self) -> Callable[..., Any]:
        """What JAX makes of the function, for arguments that no program takes."""
        with self._lock:
            function: Callable[..., Any] = self._found.setdefault(None, jax.jit(self._function))
        return function

    def _compiled(self, args: tuple[Any, ...], device: jax.Device) -> jax.stages.Compiled:
        if device.platform != "cpu":
            return jax.jit(self._function).lower(*args).compile()
        with _traced_by_itself():
            lowered = jax.jit(self._function).lower(*args)
        try:
            return lowered.compile(compiler_options=self._options(args))
        except jax.errors.JaxRuntimeError as error:
            if _NO_SUCH_OPTION not in str(error):
                raise
            return lowered.compile()  # another XLA, which has others

    def _loaded_or_compiled(
        self, args: tuple[Any, ...], for_what: Given, device: jax.Device
    ) -> jax.stages.Compiled:
        path = self._path(args, for_what, device)
        found = None if path is None else self._loaded(path, for_what, device)
        if found is None:
            # the programs that JAX keeps by itself are those that are not kept here
            with _kept() if path is None else _kept_by_no_other():
                found = self._compiled(args, device)
            if path is not None:
                self._write(path, found)
        return found

    def _path(self, args: tuple[Any, ...], for_what: Given, device: jax.Device) -> Path | None:
        """Where the program is or will be; ``None`` if its like in another process cannot be told."""
        folder = _usable_folder() if self._of else None
        if folder is None:
            return None
        tree, kinds = for_what
        try:
            told = [
                *_process(device),
                _settings(),
                self._options(args),
                describe((self._of, tree)),
                [[shape, str(dtype), weak] for shape, dtype, weak in kinds],
            ]
        except ForeignError:
            return None
        digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()
        return folder / f"program-{digest}"

    def _loaded(
        self, path: Path, for_what: Given, device: jax.Device
    ) -> jax.stages.Compiled | None:
        """The program that was written there; ``None`` unless it is whole."""
        try:
            digest, packed = path.read_bytes().split(b"\n", 1)
            if digest.decode() != hashlib.sha256(packed).hexdigest():
                return None
            line, code = zlib.decompress(packed).split(b"\n", 1)
            facts = json.loads(line)
            if facts["program"] != path.name:  # it was put here by someone
                return None
            found = read(facts, code, for_what, restore(facts["tree"]), device)
            if found is not None and self._sets is not None:
                setattr(*self._sets, restore(facts["sets"]))
            os.utime(path)
        except (OSError, ValueError, KeyError, TypeError, zlib.error):
            return None
        return found

    def _write(self, path: Path, compiled: jax.stages.Compiled) -> None:
        """Write the program, whole or not at all."""
        told = written(compiled)
        if told is None:
            return
        facts, code = told
        try:
            facts["program"] = path.name
            facts["tree"] = describe(compiled.out_tree)
            if self._sets is not None:
                facts["sets"] = describe(getattr(*self._sets))
        except ForeignError:
            return
        packed = zlib.compress(json.dumps(facts).encode() + b"\n" + code, 1)
        beside = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
        with contextlib.suppress(OSError):
            beside.write_bytes(hashlib.sha256(packed).hexdigest().encode() + b"\n" + packed)
            beside.replace(path)


@final
class _Shape:
    """What a program has compiled for a shape of its batches; it can be let go."""

    def __init__(self, home: dict[Any, "_Shape"], key: Any, finder: _Finder) -> None:
        self._home = home
        self._key = key
        self.finder = finder
        self.run = dispatched(finder.find)
        self.used = next(_calls)

    def let_go(self) -> None:
        """Whoever runs it now finishes; the next call loads or compiles it anew."""
        self._home.pop(self._key, None)
        _held.discard(self)


_tracing = threading.RLock()
_PATIENCE = 5.0
"""Seconds."""
_calls = itertools.count()
_held: "weakref.WeakSet[_Shape]" = weakref.WeakSet()
_letting_go = threading.Lock()


def _let_go() -> None:
    """Let go of the programs that were used least recently, until the process is far from the memory maps that it may have."""
    with _letting_go:
        kept = sorted(_held, key=lambda shape: shape.used)[:-_FEWEST_HELD]
        while kept and (_num_maps() > _MOST_MAPS or len(kept) > _MOST_HELD):
            for shape in kept[:_AT_ONCE]:
                shape.let_go()
            del kept[:_AT_ONCE], shape


def _num_maps() -> int:
    """Memory maps of this process, of which Linux grants 65,530; every kernel of XLA takes three."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


def _device() -> jax.Device:
    """Where programs run."""
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    return chosen if isinstance(chosen, jax.Device) else jax.devices(chosen)[0]


def _is_watched() -> bool:
    """Whether JAX is to look at each operation, or to compile none."""
    return bool(_read("jax_disable_jit") or _read("jax_debug_nans") or _read("jax_debug_infs"))


def _settings() -> tuple[str, ...]:
    """JAX's settings of this thread, as far as they may change what is compiled."""
    return tuple(
        f"{name}={getattr(jax.config, name, None)}"
        for name in sorted(getattr(jax.config, "values", ()))
        if "cache" not in name and "log" not in name
    )


@functools.cache
def _process(device: jax.Device) -> tuple[str, ...]:
    """All else that programs depend on and two processes may differ in: the code, what compiles it, what runs it."""
    library = Path(__file__).parent.parent
    code = hashlib.sha256()
    for path in sorted(library.rglob("*.py")):
        code.update(path.relative_to(library).as_posix().encode() + b"\0")
        code.update(path.read_bytes())
    client = device.client
    return (
        code.hexdigest(),
        jax.__version__,
        jaxlib.version.__version__,
        f"{client.platform} {client.platform_version} {device.device_kind} {device.id} of {len(jax.devices())}",
        f"{os.cpu_count()} {len(_cores())} {os.environ.get('XLA_FLAGS')}",
    )


def _cores() -> Collection[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(1)


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
        given = Path(os.environ.get("XDG_CACHE_HOME", ""))
        caches = given if given.is_absolute() else Path.home() / ".cache"
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


@contextlib.contextmanager
def _traced_by_itself() -> Iterator[None]:
    """One function is traced at a time: two would take as long together, and XLA would wait for both.

    Whoever has waited for long goes ahead, lest two wait for each other.
    """
    is_held = _tracing.acquire(timeout=_PATIENCE)
    try:
        yield
    finally:
        if is_held:
            _tracing.release()


@contextlib.contextmanager
def _kept_by_no_other() -> Iterator[None]:
    """JAX goes on with a cache directory after it was taken away, and what it has read there cannot be written again."""
    compilation_cache.reset_cache()
    yield


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
            raise PermissionError(errno.EACCES, "it cannot be written to")
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
    except OSError as error:
        if _folder() != caches_of_the_user() / "compiled":  # it was asked for
            message = f"compiled programs are neither read nor kept in {folder}: {error.strerror}; name another folder in {_VARIABLE}"
            warnings.warn(message, stacklevel=2)
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
