"""What a run, or several, has found, in words."""

from collections.abc import Sequence

from streambayes.reports._digest import SCORES, Digest, short

__all__ = ["best_of", "compare_in_words", "tell"]

_KINDS = {
    "abrupt": ("sudden change", "sudden changes"),
    "gradual": ("slow drift", "slow drifts"),
    "recurring": ("return to an earlier state", "returns to an earlier state"),
    "outlier": ("unusual batch that did not last", "unusual batches that did not last"),
    "new": ("column that began to vary", "columns that began to vary"),
}
_OFTEN = 5


def tell(digest: Digest) -> list[str]:
    """Sentences about one run: what was learned, how well, what was kept, what has changed."""
    if not digest.num_batches:
        return ["No batch has been learned yet."]
    said = [_learned(digest)]
    score = next(iter(digest.scores), None)
    if score is not None:
        said.append(
            f"How well it predicts ({SCORES[score]}): {digest.scores[score]:.4f} nats a row on average."
        )
    kept = digest.kept()
    if kept is not None:
        mean, lowest, label, block = kept
        where = f"in batch {short(label)}" + (f" for {short(block)}" if block else "")
        said.append(
            f"It kept {mean:.0%} of the past in every batch."
            if mean - lowest < 1e-9
            else f"It kept {mean:.0%} of the past on average, and least {where}: {lowest:.0%}."
        )
    said.append(_changed(digest))
    if digest.ended is not None and digest.ended != "finished":
        said.append(f"The run has not come to its end: {short(digest.ended, 400)}.")
    unusual = [
        f"{count:,} {outcome.replace('_', ' ')}"
        for outcome, count in digest.outcomes.items()
        if outcome != "converged"
    ]
    if unusual:
        said.append(f"Steps that did not end as usual: {', '.join(unusual)}.")
    return said


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


def _learned(digest: Digest) -> str:
    first, last = digest.span
    batches = "1 batch" if digest.num_batches == 1 else f"{digest.num_batches:,} batches"
    span = short(first) if first == last else f"{short(first)} to {short(last)}"
    were = "was" if digest.num_batches == 1 else "were"
    text = f"{batches} ({span}) of {digest.num_rows:,} rows {were} learned"
    if digest.facts.policy is not None:
        text += f" with {short(digest.facts.policy)}"
    if digest.num_test:
        text += f", and {digest.num_test:,} rows were held out"
    return text + "."


def _changed(digest: Digest) -> str:
    drift = digest.drift
    if not digest.tells_of_parameters:
        return "Whether anything has changed is not known: its records say nothing of parameters."
    if digest.num_batches == 1:
        return "There is nothing yet to compare the first batch with."
    if not drift.events:
        return "Nothing has changed."
    kinds = drift.count("kind")
    parts = [
        f"{count:,} {_KINDS[kind][count > 1]}" for kind in _KINDS if (count := kinds.get(kind, 0))
    ]
    text = f"What has changed: {', '.join(parts)}."
    blocks = drift.count("block")
    if 1 < len(blocks) < len(drift.events):
        often = ", ".join(
            f"{short(block, 60)} ({count:,})" for block, count in blocks.most_common(_OFTEN)
        )
        text += f" Most often: {often}."
    return text
