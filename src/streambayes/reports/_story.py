"""What a run, or several, has found, in words."""

import collections
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streambayes.reports._digest import KINDS, SCORES, Digest, brief, short

__all__ = ["Story", "best_of", "compare_in_words", "tell"]

_TOLD = 5
_OFTEN = 5


class Story(NamedTuple):
    """What one run has found.

    Attributes:
        headline: Dates, batches, rows, model and policy.
        changed: What has changed, in a sentence.
        changes: Trends, the most important changes, a sentence for each batch, and what else was far from usual.
        more: What was left of the changes, if anything.
        said: How well it predicted, what was kept of the past, and what was out of the ordinary.
    """

    headline: str
    changed: str
    changes: list[str]
    more: str | None
    said: list[str]


def tell(digest: Digest, most: int = _TOLD) -> Story:
    """What one run has found, with so many changes."""
    if not digest.num_batches:
        return Story("No batch has been learned yet.", "", [], None, [])
    changes = digest.drift.by_batch(most)
    left = len(digest.drift) - sum(len(change.events) for change in changes)
    others = "1 other" if left == 1 else f"{left:,} others"
    return Story(
        headline=_headline(digest),
        changed=_changed(digest),
        changes=[short(line, 900) for line in digest.drift.lines(most)]
        if len(digest.drift)
        else [],
        more=f"These are the {most} most important batches; the table of changes has {others}."
        if left
        else None,
        said=[*_predicted(digest), *_kept(digest), *_out_of_the_ordinary(digest)],
    )


def _headline(digest: Digest) -> str:
    first, last = (short(label, 40) for label in digest.span)
    batches = "1 batch" if digest.num_batches == 1 else f"{digest.num_batches:,} batches"
    parts = [first if first == last else f"{first} to {last}", batches]
    held_out = f", {digest.num_test:,} more held out" if digest.num_test else ""
    parts.append(f"{digest.num_rows:,} rows learned{held_out}")
    if digest.facts.model is not None:
        parts.append(f"model {short(digest.facts.model, 60)}")
    if digest.facts.policy is not None:
        parts.append(f"forgetting {short(digest.facts.policy, 60)}")
    return " · ".join(parts)


def _changed(digest: Digest) -> str:
    drift = digest.drift
    if not digest.tells_of_parameters:
        return "Whether anything has changed is not known: its records say nothing of parameters."
    if digest.num_batches == 1:
        return "There is nothing yet to compare the first batch with."
    if not len(drift):
        return short(str(drift), 600)
    batches = {(event.kind, event.first, event.kind == "new" and event.block) for event in drift}
    kinds: collections.Counter[str] = collections.Counter(kind for kind, *_ in batches)
    blocks = drift.count("block")
    parts = [
        f"{count:,} {KINDS[kind][count > 1]}" for kind in KINDS if (count := kinds.get(kind, 0))
    ]
    began = f"{len(drift.by_batch()):,} of {digest.num_batches:,} batches"
    text = f"In {began} something changed: {', '.join(parts)}."
    if 1 < len(blocks) < len(drift):
        often = ", ".join(
            f"{brief(block, 60)} ({count:,})"
            for block, count in blocks.most_common(_OFTEN)
            if count > 1
        )
        text += f" Most often: {often}." if often else ""
    return text


def _predicted(digest: Digest) -> Iterable[str]:
    foreseen = digest.foreseen
    if foreseen is not None:
        mean, last, number = foreseen
        of = "one parameter" if number == 1 else f"{number:,} parameters"
        yield (
            f"How well it foresees the next batch ({of}): its error is {_beside(mean)} that of the mean "
            f"of all batches before (nothing forgotten), and {_beside(last)} that of the last batch "
            "alone (all else forgotten)."
        )
    score = next(iter(digest.scores), None)
    if score is not None:
        yield (
            f"How well it predicts rows ({SCORES[score]}): {digest.scores[score]:.4f} nats a row on "
            "average, to compare with other models or policies on the same rows."
        )


def _beside(ratio: float) -> str:
    """An error beside another."""
    if abs(ratio - 1.0) < 0.005:
        return "as large as"
    if ratio > 2.0:
        return f"{ratio:.1f} times"
    return f"{_percent(abs(1.0 - ratio))} {'less' if ratio < 1.0 else 'more'} than"


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def _kept(digest: Digest) -> Iterable[str]:
    kept = digest.kept()
    if kept is not None:
        mean, lowest, label, block = kept
        where = f"in batch {short(label)}" + (f" for {brief(block)}" if block else "")
        yield (
            f"It kept {_percent(mean)} of the past in every batch."
            if mean - lowest < 1e-9
            else f"It kept {_percent(mean)} of the past on average, and least {where}: {_percent(lowest)}."
        )


def _out_of_the_ordinary(digest: Digest) -> Iterable[str]:
    if digest.ended is not None and digest.ended != "finished":
        yield f"The run has not come to its end: {short(digest.ended, 400)}."
    if digest.num_late:
        rows = "1 row" if digest.num_late == 1 else f"{digest.num_late:,} rows"
        yield f"{rows} came too late for their batches and were not learned."
    unusual = [
        f"{count:,} {outcome.replace('_', ' ')}"
        for outcome, count in digest.outcomes.items()
        if outcome != "converged"
    ]
    if unusual:
        yield f"Steps that did not end as usual: {', '.join(unusual)}."


def compare_in_words(digests: Sequence[Digest]) -> list[str]:
    """A sentence for each score that several runs have: which is best, and by how much."""
    if len({(digest.span, digest.num_rows + digest.num_test) for digest in digests}) > 1:
        return ["The runs are of different batches or rows, so their scores are not compared."]
    said = []
    for score, meaning in SCORES.items():
        known = [digest for digest in digests if score in digest.scores]
        if len(known) < 2:
            continue
        ranked = sorted(known, key=lambda digest: -digest.scores[score])
        best = ranked[0]
        others = ", ".join(
            f"{short(digest.name, 60)} {digest.scores[score] - best.scores[score]:+.4f}"
            for digest in ranked[1:]
        )
        said.append(
            f"Best by {meaning}: {short(best.name, 60)}, {best.scores[score]:.4f} nats a row; {others}."
        )
    return said


def best_of(digests: Sequence[Digest]) -> Digest:
    """The run that predicts best, by the most telling score that any has; the first without scores."""
    for score in SCORES:
        known = [digest for digest in digests if score in digest.scores]
        if known:
            return max(known, key=lambda digest: digest.scores[score])
    return digests[0]
