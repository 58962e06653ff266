"""The whole experiment: learn, compare, draw, and write everything into a folder."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, final

from streambayes.experiments._contest import Advance
from streambayes.experiments._files import write_rows
from streambayes.experiments.artificial._figures import (
    plot_estimates,
    plot_forgetting,
    plot_omega,
    plot_sample_sizes,
)
from streambayes.experiments.artificial._findings import Finding, findings
from streambayes.experiments.artificial._method import methods
from streambayes.experiments.artificial._parity import Parity, parity
from streambayes.experiments.artificial._reference import reference
from streambayes.experiments.artificial._stream import SEED, Stream, generated, true_probability
from streambayes.experiments.artificial._track import Track, track
from streambayes.reports._plotting import save_figure

__all__ = ["Reproduction", "reproduce"]


@final
@dataclasses.dataclass(frozen=True)
class Reproduction:
    """What the experiment found.

    Attributes:
        streams: The streams by batch size.
        tracks: What each method believed, by batch size and name.
        findings: The paper's statements with the numbers measured here.
        parity: Differences from the authors' run, on its counts, whatever the streams are.
        files: What was written.
    """

    streams: Mapping[int, Stream]
    tracks: Mapping[int, Mapping[str, Track]]
    findings: tuple[Finding, ...]
    parity: tuple[Parity, ...]
    files: tuple[Path, ...]


def reproduce(
    output: str | Path, *, seed: int | None = None, advance: Advance | None = None
) -> Reproduction:
    """Run the artificial experiment and write its numbers and figures.

    Args:
        output: Folder to write into; it is made if it is not there.
        seed: Draws both streams anew. By default the batches of 100 are those of the authors' run.
        advance: Called with what is being done, how many batches are learned and how many there are.
    """
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    stored = reference()
    streams = {
        100: stored.stream if seed is None else generated(100, seed),
        1000: generated(1000, SEED if seed is None else seed),
    }
    runs = list(streams.values())
    if seed is not None:
        runs.append(stored.stream)  # for the comparison with the authors' run
    learned = _learn(runs, advance)
    tracks = dict(zip(streams, learned, strict=False))
    found = findings(tracks)
    differences = parity(learned[-1] if seed is not None else tracks[100], stored.tracks)
    files = [
        write_rows(folder / "estimates.csv", _estimates(tracks)),
        write_rows(folder / "comparison.csv", map(_row, differences)),
        write_rows(folder / "findings.csv", ({**_row(one), "holds": one.holds} for one in found)),
    ]
    hpp = {batch_size: by_name["HPP"] for batch_size, by_name in tracks.items()}
    for name, figure in (
        ("expected_probability", plot_estimates(tracks[100])),
        ("sample_size", plot_sample_sizes(tracks[100], 100)),
        ("expected_rho", plot_forgetting(hpp)),
        ("rho_against_omega", plot_omega(hpp)),
    ):
        files += save_figure(figure, folder, name)
    return Reproduction(streams, tracks, found, differences, tuple(files))


def _learn(streams: list[Stream], advance: Advance | None) -> list[dict[str, Track]]:
    policies = [methods(stream.batch_size) for stream in streams]
    total = sum(
        len(stream) * len(members) for stream, members in zip(streams, policies, strict=True)
    )
    done = 0
    learned: list[dict[str, Track]] = []
    for stream, members in zip(streams, policies, strict=True):
        learned.append({})
        for name, policy in members.items():
            doing = f"{name}, batches of {stream.batch_size}"

            def one_more(doing: str = doing) -> None:
                nonlocal done
                done += 1
                if advance is not None:
                    advance(doing, done, total)

            if advance is not None:
                advance(doing, done, total)
            learned[-1][name] = track(stream, policy, one_more)
    return learned


def _estimates(tracks: Mapping[int, Mapping[str, Track]]) -> Iterable[dict[str, Any]]:
    """One row per batch size, method and batch; t counts from 1, ess includes the prior's 2."""
    truth = true_probability()
    for batch_size, by_name in tracks.items():
        for method, one in by_name.items():
            for place, probability in enumerate(truth):
                yield {
                    "batch_size": batch_size,
                    "t": place + 1,
                    "method": method,
                    "mean": one.mean[place],
                    "ess": one.sample_size[place],
                    "rho": None if one.rho is None else one.rho[place],
                    "omega": None if one.omega is None else one.omega[place],
                    "true_p": probability,
                }


def _row(value: Parity | Finding) -> dict[str, Any]:
    return dataclasses.asdict(value)
