r"""The watch: does a block go on as it usually does, or does it start over?

It belongs to a block, not to a policy. All that it needs is the message $s$ of each batch, the prior $\alpha$ and the
log-normalizer $a$, so that drift is the same question for every model and every policy.

A block can go on in several ways $e$, each with a prior $\eta_e$ for the batch:

- *fades* forget with horizons $h$ of 8, 16, ..., 131,072 rows or never: $\eta = \rho\lambda + (1 - \rho)\alpha$,
  $\rho = e^{-n/h}$. The block is steady, or wanders.
- *levels* know all rows $\lambda$ since the last change and trust them like $m$ rows: $\eta = r\lambda + (1 - r)\alpha$,
  $r = \min(1, m / \mathrm{rows})$. The block fluctuates from batch to batch around a stable level. With $m = 0$ every
  batch is a world of its own.

They are averaged by their evidence, without switching: $w_e \propto w_e \exp(a(\eta_e + s) - a(\eta_e))$ from a uniform start.

**First look.** $z = [a(\alpha + s) - a(\alpha)] - \ln \sum_e w_e \exp(a(\eta_e + s) - a(\eta_e))$ is the log Bayes factor of
starting over with this batch. Under the average's own predictive $E[e^z] = 1$, so $P(z \ge \ln c) \le 1 / c$.

**Second look.** The next batch compares a block that has started over, with the weights from before, with one that has never seen the
first batch: $d$ is the log Bayes factor. $e^{z + d}$ has expectation 1, too. A change is one with $d > 0$ and
$z + d$ above the threshold, $z$ above half of it; then the watch goes on with what the two batches have brought. Where
$d \le 0$, the first batch was unusual: memories go on as if it had not been, but weights have learned from it how restless
the block is. In a restless block an extreme batch may not stand out at once, since anything may come; but the next one does, beside
memories that have taken the extreme one in. Where it does not beside those that have not, the first one was unusual, too.

**Scales.** The same on sums of 4, 16 and 64 batches finds slow changes. A coarser scale hears of a look when the next one has not called it
unusual, so it is one look behind. A change at one scale starts the others over.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.pytree import pytree
from streambayes.families import Blocks, Packing

__all__ = [
    "BEHIND",
    "FIRST_SHARE",
    "KEPT",
    "SCALES",
    "Looks",
    "Watch",
    "pattern_of",
    "threshold",
    "watched",
]

HORIZONS = np.append(2.0 ** np.arange(3, 18), np.inf)
LEVELS = np.append(0.0, 4.0 ** np.arange(7))
SCALES = (1, 4, 16, 64)
"""Batches in a look."""
BEHIND = tuple(sum(SCALES[:place]) for place in range(len(SCALES)))
"""Batches between the last one of a look and the one with which it is made."""
KEPT = 64
"""Batches whose parameters are kept, so that the next batch's can be foretold."""
FIRST_SHARE = 0.5
"""Share of the threshold that the first look alone must reach."""
_LEAST = 1.0
"""The least threshold, however many false alarms are allowed."""
_FALSE_ALARMS = 0.01
"""At which rate of false alarms the watch itself starts over; what is told is decided later, from its looks."""
_WEAK = 1e-6
_FEWEST = 0.5
"""Rows of a block that a look needs; fewer wait for more."""
_NUM_WAYS = len(HORIZONS) + len(LEVELS)

PerBlock = dict[str, Array]


@final
@pytree
class Scale:
    """What is kept of one scale, or of all of them on a leading axis.

    Attributes:
        fades: Memories of the fades, now and before the last look, (2, 16, *blocks). The one that never forgets has all rows
            since the last change, so it is the memory of the levels, too.
        log_weights: Log weights of fades and levels, likewise, (2, 24, *blocks).
        last: Message of the last look.
        first_look: Log Bayes factor of starting over there; minus infinity where there is nothing to confirm.
        gathered: Messages since then.
    """

    fades: Blocks
    log_weights: PerBlock
    last: Blocks
    first_look: PerBlock
    gathered: Blocks

    def select(self, condition: PerBlock, other: "Scale") -> "Scale":
        """This where the condition holds for a block, ``other`` elsewhere."""
        return Scale(
            fades=self.fades.select(condition, other.fades),
            log_weights=_where(condition, self.log_weights, other.log_weights),
            last=self.last.select(condition, other.last),
            first_look=_where(condition, self.first_look, other.first_look),
            gathered=self.gathered.select(condition, other.gathered),
        )


class _Scales(NamedTuple):
    """A ``Scale``, or all of them, with the blocks of all entries side by side on the last axis, as ``Packing`` has them."""

    fades: Array
    log_weights: Array
    last: Array
    first_look: Array
    gathered: Array

    @classmethod
    def of(cls, packing: Packing, scale: Scale) -> "_Scales":
        """The same blocks."""
        return cls(
            fades=packing.packed(scale.fades),
            log_weights=packing.side_by_side(scale.log_weights),
            last=packing.packed(scale.last),
            first_look=packing.side_by_side(scale.first_look),
            gathered=packing.packed(scale.gathered),
        )

    def by_entry(self, packing: Packing) -> Scale:
        """The same blocks by entry."""
        return Scale(
            fades=packing.unpacked(self.fades),
            log_weights=packing.by_entry(self.log_weights),
            last=packing.unpacked(self.last),
            first_look=packing.by_entry(self.first_look),
            gathered=packing.unpacked(self.gathered),
        )

    def where(self, packing: Packing, chosen: Array, others: "_Scales") -> "_Scales":
        """These of the chosen blocks, the others elsewhere."""
        numbers = packing.repeated(chosen)
        masks = (numbers, chosen, numbers, chosen, numbers)
        pairs = zip(masks, self, others, strict=True)
        return _Scales(*(jnp.where(mask, mine, theirs) for mask, mine, theirs in pairs))


@final
@pytree
class Watch:
    """What the watch keeps between batches.

    Attributes:
        scales: Memories, on a leading axis of ``SCALES``.
        num_batches: Batches that were watched.
        recent: Each parameter by the last batches alone, (KEPT, num_parameters), in the user's units: batch number
            ``t`` in row ``t`` modulo ``KEPT``, NaN where a block had too few rows.
    """

    scales: Scale
    num_batches: Any
    recent: Any

    @classmethod
    def begin(cls, prior: Blocks, num_parameters: int) -> "Watch":
        """Before any batch."""
        none = prior.scaled(0.0)
        one = Scale(
            fades=_repeated(prior, 2, len(HORIZONS)),
            log_weights={
                name: xp.full((2, _NUM_WAYS, *np.shape(count)), -np.log(_NUM_WAYS))
                for name, count in prior.counts.items()
            },
            last=none,
            first_look={
                name: xp.full(np.shape(count), -np.inf) for name, count in prior.counts.items()
            },
            gathered=none,
        )
        return cls(
            scales=_repeated(one, len(SCALES)),
            num_batches=np.int64(0),
            recent=np.full((KEPT, num_parameters), np.nan),
        )

    def restarted(self, prior: Blocks, chosen: Mapping[str, Any], parameters: Any) -> "Watch":
        """Without what was seen of the chosen blocks, and of the parameters in them."""
        every = {name: jnp.asarray(chosen.get(name, False)) for name in prior.counts}
        fresh = Watch.begin(prior, len(parameters))
        return Watch(
            fresh.scales.select(every, self.scales),
            self.num_batches,
            jnp.where(jnp.asarray(parameters), fresh.recent, self.recent),
        )

    @property
    def num_due(self) -> Array:
        """Scales at which the last batch completed a look, from the finest on."""
        return _num_due(self.num_batches)


class Looks(NamedTuple):
    """What the watch saw in a batch.

    Attributes:
        evidence: Per block, the first look at this batch and the second at the last one, (scales, 2, *blocks); NaN
            at scales without a look.
        pattern: Per block, the weight of levels that fluctuate, that of fades that wander, and how many rows those
            remember, (3, *blocks).
        compared: Of the last look at each scale, what was usual before it and what it says by itself, (2, scales, numbers), as ``Packing``
            has blocks. Both for people, so the prior weighs next to nothing beside rows: in the units of the first batch it
            may be far from where the block is now.
    """

    evidence: PerBlock
    pattern: PerBlock
    compared: Array


def threshold(num_blocks: int, false_alarms: float, scale: int) -> float:
    """The log Bayes factor that a change needs, for so many false alarms per batch of all blocks and scales together.

    A look at ``k`` batches comes once in ``k`` batches and may use ``k`` times as much.
    """
    return max(float(np.log(num_blocks * len(SCALES) / (false_alarms * SCALES[scale]))), _LEAST)


def watched(watch: Watch, prior: Blocks, message: Blocks) -> tuple[Watch, Looks]:
    """The watch after a batch, and what it saw."""
    packing = Packing(prior)
    thresholds = jnp.asarray(
        [threshold(packing.num_blocks, _FALSE_ALARMS, scale) for scale in range(len(SCALES))]
    )
    number = watch.num_batches + 1
    num_due = _num_due(number)
    before = packing.packed(prior)

    def body(at: tuple[Array, _Scales, Array, Array]) -> tuple[Array, _Scales, Array, Array]:
        place, scales, carried, seen = at
        scales, carried, look = _looked(packing, scales, place, before, carried, thresholds[place])
        return place + 1, scales, carried, seen.at[place].set(look)

    unseen = jnp.full((len(SCALES), 2, packing.num_blocks), jnp.nan)
    start = (
        jnp.zeros((), int),
        _Scales.of(packing, watch.scales),
        packing.packed(message),
        unseen,
    )
    place, scales, carried, seen = jax.lax.while_loop(lambda at: at[0] < num_due, body, start)
    scales = scales._replace(gathered=scales.gathered.at[place].add(carried, mode="drop"))
    pattern = _pattern(
        jax.nn.softmax(scales.log_weights[0, 0], axis=0),
        packing.counts(scales.fades[0, 0, -1]),
        packing.counts(scales.last[0]),
    )
    weights = packing.repeated(_of_fades(scales.log_weights[:, 1]))
    usual = (weights * scales.fades[:, 1]).sum(1) - before  # rows alone
    return (
        Watch(scales.by_entry(packing), number, watch.recent),
        Looks(
            evidence=packing.by_entry(seen),
            pattern=packing.by_entry(pattern),
            compared=jnp.stack([usual, scales.last]) + _WEAK * before,
        ),
    )


def pattern_of(pattern: tuple[float, float, float]) -> str:
    """The pattern of a block in a word: ``fluctuates``, ``wanders`` or ``steady``."""
    fluctuates, wanders, _ = pattern
    if max(fluctuates, wanders) < 0.5:
        return "steady"
    return "fluctuates" if fluctuates >= wanders else "wanders"


def _looked(
    packing: Packing, scales: _Scales, place: Array, prior: Array, carried: Array, least: Array
) -> tuple[_Scales, Array, Array]:
    """A look at one scale: all scales after it, what the next one gets of it, and both looks, (2, blocks)."""
    at = _Scales(*(leaf[place] for leaf in scales))
    message = at.gathered + carried
    # memory now, memory before the last look, started over at the last look: (3, 16, numbers)
    started = jnp.broadcast_to(prior + at.last, (1, *at.fades.shape[1:]))
    ways = jnp.concatenate([at.fades, started])
    log_weights = jnp.concatenate([at.log_weights, at.log_weights[1:]])
    waits = at.first_look >= _LEAST * FIRST_SHARE
    clear = FIRST_SHARE * least
    faded, evidence, restart = _evidence(packing, ways, prior, message, log_weights, waits, clear)
    joint = log_weights + evidence
    total = jax.nn.logsumexp(joint, axis=1)
    second = jnp.where(waits, total[2] - total[1], -jnp.inf)
    enough = packing.counts(message) >= _FEWEST
    changed = enough & (second > 0.0) & (at.first_look >= clear) & (at.first_look + second >= least)
    # the last look, but with the weights that it has left
    without = jax.nn.logsumexp(log_weights[0] + evidence[1], axis=0)
    rows = packing.counts(ways[:2, -1])
    spoilt = (
        enough
        & (at.first_look < clear)
        & (rows[1] > 0.0)
        & (restart - total[0] >= clear)
        & (restart - without < clear)
        & (without - total[0] >= clear)
    )
    second = jnp.where(spoilt, total[0] - without, second)
    unusual = enough & (second <= 0.0) & (at.first_look >= clear) | spoilt
    gone_on = jnp.where(spoilt, without, _chosen(total, changed, unusual))
    first = jnp.where(rows[0] > 0.0, restart - gone_on, -jnp.inf)
    weighed = joint - total[:, None]
    goes_on = packing.repeated(changed), packing.repeated(unusual)
    after = _Scales(
        fades=jnp.stack([_chosen(each, *goes_on) for each in (faded + message, ways)]),
        log_weights=jnp.stack(
            [jnp.where(changed, each[2], each[0]) for each in (weighed, log_weights)]
        ),
        last=message,
        first_look=first,
        gathered=jnp.zeros_like(message),
    )
    after = after.where(packing, enough, at._replace(gathered=message))
    others = _restarted(packing, scales, place, changed, prior, message)
    looks = jnp.where(enough, jnp.stack([first, second]), jnp.nan)
    heard = packing.repeated(enough & ~unusual)
    both = zip(others, after, strict=True)
    return (
        _Scales(*(every.at[place].set(one) for every, one in both)),
        jnp.where(heard, at.last, 0.0),
        looks,
    )


def _ways(packing: Packing, ways: Array, prior: Array, message: Array) -> tuple[Array, Array]:
    """Fades and levels as priors of a batch with the rows of a message."""
    kept = packing.repeated(jnp.exp(-packing.counts(message) / HORIZONS[:, None]))
    every = ways[-1]  # all rows since the last change
    rows = jnp.maximum(packing.counts(every), 1e-300)
    trusted = packing.repeated(jnp.minimum(1.0, LEVELS[:, None] / rows))
    return kept * ways + (1.0 - kept) * prior, trusted * every + (1.0 - trusted) * prior


def _evidence(
    packing: Packing,
    ways: Array,
    prior: Array,
    message: Array,
    log_weights: Array,
    waits: Array,
    least: Array,
) -> tuple[Array, Array, Array]:
    """Fades as priors of the batch, the log evidence of all ways to go on, and that of starting over.

    Of the first memory; of the others only where a block waits for a second look, or this batch stands out by more than ``least``.
    """

    def body(at: tuple[Any, ...]) -> tuple[Any, ...]:
        place, faded, evidence, _, is_more = at
        fades, levels = _ways(packing, ways[place], prior, message)
        gained = _gained(packing, jnp.concatenate([fades, levels, prior[None]]), message)
        evidence = evidence.at[place].set(gained[:-1])
        faded = faded.at[place].set(fades)
        restart = gained[-1]
        stands_out = restart - jax.nn.logsumexp(log_weights[0] + gained[:-1], axis=0) >= least
        is_more |= (place == 0) & stands_out.any()
        return place + 1, faded, evidence, restart, is_more

    start = (
        jnp.zeros((), int),
        ways,
        jnp.zeros((3, _NUM_WAYS, packing.num_blocks)),
        jnp.zeros(packing.num_blocks),
        waits.any(),
    )

    def goes_on(at: tuple[Any, ...]) -> Array:
        place, *_, is_more = at
        found: Array = (place == 0) | is_more & (place < 3)
        return found

    _, faded, evidence, restart, _ = jax.lax.while_loop(goes_on, body, start)
    return faded, evidence, restart


def _gained(packing: Packing, given: Array, message: Array) -> Array:
    """Log evidence of a message for each prior on a leading axis."""
    ends = packing.unpacked(jnp.stack([given, given + message]))
    before, after = packing.side_by_side(ends.log_normalizers())  # one program for both
    gained: Array = after - before
    return gained


def _num_due(number: Any) -> Array:
    due: Array = (number % np.array(SCALES) == 0).sum()
    return due


def _restarted(
    packing: Packing, scales: _Scales, place: Array, changed: Array, prior: Array, message: Array
) -> _Scales:
    """What a change at one scale does to the others: finer ones start over with its message, coarser ones with nothing."""
    places = jnp.arange(len(SCALES))[:, None]
    finer, coarser = (places < place) & changed, (places > place) & changed
    start, over = packing.repeated(finer), packing.repeated(coarser)
    fades = jnp.where(start[:, None, None], prior + message, scales.fades)
    return scales._replace(
        fades=jnp.where(over[:, None, None], prior, fades),
        first_look=jnp.where(finer | coarser, -jnp.inf, scales.first_look),
        last=jnp.where(over, 0.0, scales.last),
        gathered=jnp.where(over, 0.0, scales.gathered),
    )


def _pattern(weights: Array, rows: Array, size: Array) -> Array:
    """How a block goes on, by the weights of the ways; ``rows`` since the last change, ``size`` in a look."""
    kinds = (-1, *(1,) * rows.ndim)
    horizons, levels = jnp.asarray(HORIZONS).reshape(kinds), jnp.asarray(LEVELS).reshape(kinds)
    fades, trusts = jnp.split(weights, [len(HORIZONS)])
    # a fade that keeps less than a row of the last look remembers nothing
    remembers = size * jnp.exp(-size / horizons) >= 1.0
    wandering = jnp.where(remembers & (horizons < 0.5 * rows), fades, 0.0)
    wanders = wandering.sum(0)
    finite = jnp.where(jnp.isfinite(horizons), horizons, 1.0)
    memory = jnp.exp((wandering * jnp.log(finite)).sum(0) / jnp.maximum(wanders, 1e-300))
    # a level that trusts more rows than four looks have moves less than chance does
    fluctuates = jnp.where(levels < 4.0 * size, trusts, 0.0).sum(0)
    fluctuates += jnp.where(remembers, 0.0, fades).sum(0)
    return jnp.stack([fluctuates, wanders, memory])


def _of_fades(log_weights: Array) -> Array:
    """Weights of memories, (scales, 16, blocks): the levels' go to the memory that never forgets."""
    weights = jax.nn.softmax(log_weights, axis=1)
    fades, levels = jnp.split(weights, [len(HORIZONS)], axis=1)
    return fades.at[:, -1].add(levels.sum(1))


def _chosen(ways: Array, changed: Array, unusual: Array) -> Array:
    """Of three (now, before the last look, started over there), those with which each block goes on."""
    return jnp.where(changed, ways[2], jnp.where(unusual, ways[1], ways[0]))


def _repeated(tree: Any, *axes: int) -> Any:
    return jax.tree.map(lambda leaf: xp.broadcast_to(leaf, axes + np.shape(leaf)), tree)


def _where(condition: PerBlock, mine: PerBlock, others: PerBlock) -> PerBlock:
    return {name: jnp.where(condition[name], each, others[name]) for name, each in mine.items()}
