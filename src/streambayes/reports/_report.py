"""A report: one file with the story in words, figures and tables, for any browser and no network."""

import html
import importlib.resources
import json
import os
import string
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from streambayes.learning import Comparison, Run, StepRecord
from streambayes.learning._record import RECORDS, RecordReader, RunFacts, records_of
from streambayes.learning._run import RecordSource
from streambayes.reports._digest import SCORES, Digest, short
from streambayes.reports._folder import runs_in
from streambayes.reports._story import best_of, compare_in_words, tell

__all__ = ["asset", "fill_page", "plotly_script", "write_report"]

_MOST_RUNS = 50
_BYTES = 5_500_000
"""For the parameters of all runs, so that a report stays small enough to send."""
_TOLD_OF_OTHERS = 2
_COLUMNS = 4
_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:\">\n"
)

Reportable = RecordSource | Comparison | Mapping[str, RecordSource]


def write_report(
    source: Reportable,
    path: str | Path,
    *,
    title: str | None = None,
    on_progress: Callable[[str, float], Any] | None = None,
    **drift: Any,
) -> Path:
    """Write a report of a run, or of several, into one file that needs no network.

    Args:
        source: A run, a comparison, runs by name, records, or a folder of records or of such folders.
        path: The file to write; what is there is replaced.
        title: What the report is called; by default the name of the run's folder, or its columns.
        on_progress: Called with the name of a run and the share of its records that has been read.
        **drift: Settings of ``DriftMonitor``: ``false_alarms``, ``min_change``, ``seasonal``.
    """
    target = Path(path).resolve()
    if target.name == RECORDS:
        message = f"{path} is what the records of a run are called; choose another name"
        raise ValueError(message)
    if target.is_dir():
        message = (
            f"{path} is a folder; give the name of a file, such as {Path(path) / 'report.html'}"
        )
        raise IsADirectoryError(message)
    digests = []
    for name, run in _named(source).items():
        digest = Digest(name, **drift)
        _read(digest, run, on_progress or (lambda *_: None))
        digests.append(digest)
    if not any(digest.num_batches for digest in digests):
        message = "there is nothing to report: no batch has been learned yet"
        raise ValueError(message)
    _write(target, _page(digests, title))
    return Path(path)


def asset(name: str) -> str:
    """A part of the page."""
    file = importlib.resources.files("streambayes.reports") / "page" / name
    return file.read_text(encoding="utf-8")


def plotly_script() -> str:
    """The library that draws the figures."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        message = "reports need plotly: pip install 'streambayes[report]'"
        raise ImportError(message) from None
    return str(get_plotlyjs())


def fill_page(**parts: str) -> str:
    """The page with its parts, which are markup already."""
    return string.Template(asset("page.html")).substitute(parts)


def _named(source: Reportable) -> Mapping[str, RecordSource]:
    if isinstance(source, Comparison):
        return source.runs
    if isinstance(source, Mapping):
        named = cast("Mapping[str, RecordSource]", source)
        if not named:
            message = "there is nothing to report: no runs were given"
            raise ValueError(message)
        return named
    if isinstance(source, Run):
        return {_called(source): source}
    if not isinstance(source, str | Path):
        return {"run": source}
    if Path(source).is_file():
        message = f"{source} is a file; give the folder that run(..., record=folder) wrote to"
        raise NotADirectoryError(message)
    runs = runs_in(source)
    if not runs:
        message = f"{source}: no records of a run there; run(..., record=folder) writes some"
        raise FileNotFoundError(message)
    if len(runs) > _MOST_RUNS:
        first = next(iter(runs.values()))
        message = f"{source} holds {len(runs):,} runs, and a report has room for {_MOST_RUNS}: choose one, such as {first}"
        raise ValueError(message)
    return dict(runs)


def _called(run: Run) -> str:
    """A run's folder, else the columns of its data."""
    if run.folder is not None:
        return next(iter(runs_in(run.folder)), run.folder.name)
    names = [column.name for column in run.learner.model.columns]
    more = f" and {len(names) - _COLUMNS} more" if len(names) > _COLUMNS else ""
    return ", ".join(names[:_COLUMNS]) + more


def _read(digest: Digest, source: RecordSource, on_progress: Callable[[str, float], Any]) -> None:
    """All records of a run."""
    if isinstance(source, Run):
        learner = source.learner
        digest.facts = RunFacts(learner.forgetting.name, type(learner.model).__name__)
    folder = _folder_of(source)
    if folder is None:
        for record in records_of(source):
            if not isinstance(record, StepRecord):
                message = (
                    f"expected records of a run, got {record!r}; several runs are given by name: "
                    "{'first': run, 'second': folder}"
                )
                raise TypeError(message)
            digest.take(record)
        return
    reader = RecordReader(folder)
    for number, record in enumerate(reader.new()):
        digest.take(record)
        if number % 50 == 0:
            on_progress(digest.name, reader.share_read)
    digest.facts, digest.ended = reader.facts, reader.ended


def _folder_of(source: RecordSource) -> Path | None:
    """Where all records are, if they were written and are still there."""
    if isinstance(source, str | Path):
        return Path(source)
    folder = source.folder if isinstance(source, Run) else None
    return folder if folder is not None and (folder / RECORDS).is_file() else None


def _page(digests: list[Digest], title: str | None) -> str:
    if title is None:
        title = digests[0].name if len(digests) == 1 else f"{len(digests)} runs"
    budget = _BYTES // len(digests)
    runs = [
        {
            "news": {**digest.news(0), "events": digest.told()},
            "overview": digest.overview(max(1000 // len(digests), 100)),
            "parameters": digest.all_parameters(budget),
        }
        for digest in digests
    ]
    data = json.dumps({"runs": runs}, allow_nan=False, ensure_ascii=False)
    for letter in "<>&":  # so that nothing in it ends the element that it stands in
        data = data.replace(letter, f"\\u{ord(letter):04x}")
    return fill_page(
        policy=_POLICY,
        title=html.escape(short(title)),
        head=f"<style>\n{asset('page.css')}</style>",
        story=_story(digests),
        footer=html.escape("Written by streambayes; this file needs no network."),
        tail=f'<script type="application/json" id="data">{data}</script>\n'
        f"<script>{plotly_script()}</script>\n<script>\n{asset('page.js')}</script>",
    )


def _story(digests: list[Digest]) -> str:
    """In words, the most important changes, and a table of scores."""
    parts = []
    best = best_of(digests)
    if len(digests) > 1:
        parts += [_paragraph(sentence, "lead") for sentence in compare_in_words(digests)]
        parts.append(_table(digests))
    for digest in digests:
        if len(digests) > 1:
            parts.append(f"<h2>{html.escape(short(digest.name))}</h2>")
        story = tell(digest) if digest is best else tell(digest, _TOLD_OF_OTHERS)
        parts.append(_paragraph(story.headline, "headline"))
        parts.append(_paragraph(story.changed, "lead"))
        if story.changes:
            items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in story.changes)
            parts.append(f"<ul>{items}</ul>")
        parts += [_paragraph(said) for said in (story.more, *story.said) if said is not None]
    return "\n".join(parts)


def _table(digests: list[Digest]) -> str:
    scores = [name for name in SCORES if any(name in digest.scores for digest in digests)]
    heads = ["run", "batches", "rows", *(SCORES[name] for name in scores), "changes", "seconds"]
    rows = [
        [
            short(digest.name, 40),
            f"{digest.num_batches:,}",
            f"{digest.num_rows:,}",
            *(f"{digest.scores[name]:.4f}" if name in digest.scores else "-" for name in scores),
            f"{len(digest.events):,}",
            f"{digest.seconds:.1f}",
        ]
        for digest in digests
    ]
    return (
        f"<table><thead>{_row('th', heads)}</thead>"
        f"<tbody>{''.join(_row('td', row) for row in rows)}</tbody></table>"
    )


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _paragraph(text: str, kind: str | None = None) -> str:
    opened = "<p>" if kind is None else f'<p class="{kind}">'
    return f"{opened}{html.escape(text)}</p>"


def _write(path: Path, text: str) -> None:
    """All of it, or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8", errors="replace")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
