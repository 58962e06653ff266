"""Ranks, import-time behaviour, one public path per name."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "streambayes"
RANKS = {
    "_core": 0,
    "families": 1,
    "models": 2,
    "forgetting": 2,
    "learning": 3,
    "drift": 4,
    "metrics": 4,
    "testing": 4,
    "sources": 5,
    "checkpoint": 5,
    "datasets": 5,
    "reports": 5,
    "dashboard": 6,
    "distributed": 6,
    "experiments": 6,
    "cli": 7,
}
CORE = {"jax", "jaxlib", "numpy", "streambayes"} | sys.stdlib_module_names
FILES = sorted(SOURCE.rglob("*.py"))


def imports(path, *, top_level_only):
    """Absolute names of imported modules; imports inside functions are optional extras."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module


def package(path):
    return path.relative_to(SOURCE).parts[0]


def test_every_package_has_a_rank():
    packages = {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists()}
    assert packages == set(RANKS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down_the_ranks(path):
    if path.parent == SOURCE:
        return
    mine = package(path)
    for module in imports(path, top_level_only=True):
        parts = module.split(".")
        if parts[0] != "streambayes" or len(parts) == 1:
            continue
        assert parts[1] == mine or RANKS[parts[1]] < RANKS[mine], f"{path} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_core_needs_jax_and_numpy_alone(path):
    if path.parent != SOURCE and RANKS[package(path)] > 5:
        return
    outside = {module.split(".")[0] for module in imports(path, top_level_only=True)} - CORE
    assert not outside, f"{path} needs {outside}"


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_import_changes_no_setting_and_starts_no_device():
    code = """
import jax, warnings
before = dict(jax.config.values), list(warnings.filters)
import streambayes, streambayes.testing
assert streambayes.__all__
assert before == (dict(jax.config.values), list(warnings.filters))
import jax._src.xla_bridge as bridge
assert not bridge._backends
print('same')
"""
    assert run(code).strip() == "same"


def test_import_loads_no_extra():
    code = """
import sys
import streambayes
extras = {'narwhals', 'safetensors', 'matplotlib', 'typer', 'rich', 'pandas', 'polars', 'pyarrow', 'scipy'}
print(sorted(extras & set(sys.modules)))
"""
    assert run(code).strip() == "[]"


def test_what_is_public_is_there_as_if_it_had_been_imported():
    """Also where a part of it was imported first, of itself or by name."""
    code = """
import streambayes.models
import streambayes as sb
from streambayes import Network, datasets
assert sb.Network is Network is streambayes.models.Network
assert sb.models is streambayes.models and sb.datasets is datasets and sb.learning
assert set(sb.__all__) <= set(dir(sb))
try:
    sb.netwrok
except AttributeError as error:
    print(error)
from streambayes import *
assert run is sb.run
"""
    assert run(code).strip() == "module 'streambayes' has no attribute 'netwrok'"


@pytest.mark.parametrize(
    "command", ["", "run", "init", "compare", "demo", "reproduce gps", "watch"]
)
def test_help_does_not_wait_for_jax(command):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "streambayes", *command.split(), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Usage" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "streambayes.cli" in imported
    assert not {"jax", "numpy", "scipy", "pyarrow", "matplotlib"} & imported


def test_extras_are_named_when_missing():
    code = """
import sys
for name in ('narwhals', 'safetensors', 'safetensors.numpy'):
    sys.modules[name] = None
import numpy as np, streambayes as sb
learner = sb.StreamLearner(sb.models.Gaussian('x'), sb.HPP())
state = learner.init({'x': np.arange(5.0)})
for act in (lambda: sb.save(state, 'x'), lambda: learner.init(object())):
    try:
        act()
    except ImportError as error:
        print(error)
"""
    found = run(code)
    assert "pip install 'streambayes[save]'" in found
    assert "pip install 'streambayes[frames]'" in found


def test_private_files_and_public_packages():
    """Implementation files start with an underscore, outside ``_core``."""
    for path in FILES:
        if path.name == "__init__.py" or path.parent == SOURCE:
            continue
        assert path.name.startswith("_") or package(path) == "_core", path
