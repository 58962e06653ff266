"""How fast the library is beside scikit-learn, BayesPy, river and plain NumPy, in one run.

Every side does its turns in the same process on the same data. Writes results.json, results.md and
figures. Parts of the suite:

    sweep     time of one sweep over a mixture, 1e3 to 1e7 rows
    bound     time to the same bound from the same start; what HPP and MHPP add to SVB
    run       rows per second of a whole run, a regression on ten columns
    streams   updates per second of 1, 100 and 10,000 streams
    memory    peak memory while streaming up to 1e8 rows from Parquet
    growth    time of a sweep against components, of a step against past batches
    start     first calls in a new process, cold and warm

    python -m benchmarks.speed                          # everything, about a quarter of an hour
    python -m benchmarks.speed --quick                  # small sizes and no start: a minute, two if cold
    python -m benchmarks.speed --only run,streams       # parts of it
    python -m benchmarks.speed --from benchmarks/results.json    # tables and figures anew
"""

import argparse
import sys
import time
from pathlib import Path

from benchmarks.speed import bound, growth, memory, run, start, streams, sweep
from benchmarks.speed.figures import draw
from benchmarks.speed.machine import busy_share
from benchmarks.speed.report import BUSY, report
from benchmarks.speed.results import Results
from benchmarks.speed.timing import Plan

SECTIONS = {
    part.SECTION: part.measure for part in (sweep, bound, run, streams, memory, growth, start)
}
QUICK = Plan(quick=True, turns=3, seconds=1.0, patience=3.0)
ROOT = Path(__file__).parents[2]


def main() -> None:
    """Measure, or read what was measured; write tables and figures."""
    arguments = _arguments()
    output, figures = _folders(arguments)
    output.mkdir(parents=True, exist_ok=True)
    if arguments.read is None:
        results = Results.begin(quick=arguments.quick)
        for name in _chosen(arguments):
            busy = busy_share()
            results.about["busy share"] = max(busy, results.about["busy share"])
            if busy > BUSY:
                print(f"{name}: others use {busy:.0%} of the processors", file=sys.stderr)
            began = time.perf_counter()
            results.measurements.extend(SECTIONS[name](QUICK if arguments.quick else Plan()))
            results.write(output / "results.json")
            print(f"{name} took {time.perf_counter() - began:.0f} s", file=sys.stderr)
    else:
        results = Results.read(arguments.read)
    (output / "results.md").write_text(report(results), encoding="utf-8")
    draw(results, figures)
    print(f"{output / 'results.md'} has the tables, {figures} the figures", file=sys.stderr)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", type=_parts, help="parts, with commas between them")
    parser.add_argument("--quick", action="store_true", help="small sizes, for trying it out")
    parser.add_argument(
        "--output",
        type=Path,
        help="folder for results; benchmarks, but build/speed where not everything is measured",
    )
    parser.add_argument(
        "--figures",
        type=Path,
        help="folder for figures; docs/figures/speed, or that of the results",
    )
    parser.add_argument(
        "--from", type=Path, dest="read", metavar="FILE", help="measure nothing, draw this again"
    )
    return parser.parse_args()


def _chosen(arguments: argparse.Namespace) -> list[str]:
    """What was asked for; a quick run leaves out the cold start, which has no small size."""
    names: list[str] = arguments.only or list(SECTIONS)
    if arguments.quick and arguments.only is None:
        names.remove(start.SECTION)
    return names


def _parts(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in SECTIONS:
            message = f"there is no part {name!r}; there are {', '.join(SECTIONS)}"
            raise argparse.ArgumentTypeError(message)
    return [name for name in SECTIONS if name in names]


def _folders(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """Numbers of a whole run are kept with the code; others are not."""
    if arguments.read is not None:
        whole = arguments.read.resolve().parent == ROOT / "benchmarks"
    else:
        whole = not arguments.quick and _chosen(arguments) == list(SECTIONS)
    output: Path = arguments.output or (ROOT / ("benchmarks" if whole else "build/speed"))
    kept = whole and arguments.output is None
    figures: Path = arguments.figures or (ROOT / "docs/figures/speed" if kept else output)
    return output, figures


if __name__ == "__main__":
    main()
