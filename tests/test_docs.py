"""Documentation tells the truth: its code runs and prints what it says, its links lead somewhere.

The ``python`` blocks of one page run in order in one namespace and in an empty folder. A ``text`` block
directly below one is its output, numbers to three digits. ``python no-run`` is compiled only;
``python spark`` and ``python dask`` run on the clusters of ``tests/distributed``.
"""

import importlib
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest

import streambayes as sb
from tests._pages import FENCE, blocks, run_page

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PACKAGES = (
    "streambayes",
    "streambayes.distributed",
    "streambayes.families",
    "streambayes.forgetting",
    "streambayes.metrics",
    "streambayes.models",
    "streambayes.testing",
)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
KINDS = {
    "python",
    "python no-run",
    "python spark",  # run in tests/distributed, where there are clusters
    "python dask",
}


def relative(path):
    return str(path.relative_to(ROOT))


def has_code(page):
    return any(block.kind.startswith("python") for block in blocks(page))


@pytest.mark.parametrize("page", [page for page in PAGES if has_code(page)], ids=relative)
def test_code_of_a_page_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name = "page_" + re.sub(r"\W", "_", relative(page))
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    kinds = {block.kind for block in blocks(page) if block.kind.startswith("python")}
    assert kinds <= KINDS
    run_page(page, "python", module.__dict__, lambda: capsys.readouterr().out)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_of_a_page_lead_to_files(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        path = page.parent / target.partition("#")[0]
        assert path.exists(), f"{page}: {target} is not there"


def test_every_page_can_be_reached():
    links = {}
    for page in PAGES:
        targets = _LINK.findall(page.read_text(encoding="utf-8"))
        links[page] = {(page.parent / target.partition("#")[0]).resolve() for target in targets}
    reached, found = set(), {ROOT / "README.md"}
    while found:
        page = found.pop()
        reached.add(page)
        found |= (links[page] & links.keys()) - reached
    unreachable = [relative(page) for page in PAGES if page not in reached]
    assert not unreachable


@pytest.mark.parametrize("package", PACKAGES)
def test_reference_names_everything_public(package):
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    module = importlib.import_module(package)
    missing = [name for name in module.__all__ if not re.search(rf"`{name}\b", reference)]
    assert not missing


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_public_has_a_docstring(package):
    module = importlib.import_module(package)
    public = {name: getattr(module, name) for name in module.__all__ if name != "__version__"}
    bare = [name for name, value in public.items() if not (value.__doc__ or "").strip()]
    assert not bare
    # a dataclass without a docstring shows its signature
    generated = [
        name
        for name, value in public.items()
        if isinstance(value, type) and value.__doc__.startswith(f"{name}(")
    ]
    assert not generated


@pytest.mark.parametrize("example", EXAMPLES, ids=relative)
def test_example_runs(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_benchmark_finds_the_same_posterior_as_plain_numpy(tmp_path):
    script = ROOT / "benchmarks" / "step_latency.py"
    output = tmp_path / "numbers.json"
    done = subprocess.run(  # our own script
        [sys.executable, script, "--steps", "60", "--output", output],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert output.exists()


def test_citation_has_the_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {sb.__version__}" in citation
