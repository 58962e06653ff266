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

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.pytree import pytree
from streambayes.families import AbstractFamily, Blocks

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

    def compared(self, prior: Blocks) -> tuple[Blocks, Blocks]:
        """Of the last look at each scale: what was usual before it, and what it says by itself.

        Both for people, so the prior weighs next to nothing beside rows: in the units of the first batch it may be far
        from where the block is now.
        """
        weights = {name: _of_fades(each[:, 1]) for name, each in self.scales.log_weights.items()}
        before: Blocks = jax.tree.map(lambda leaf: leaf[:, 1], self.scales.fades)
        usual: Blocks = jax.tree.map(lambda leaf: leaf.sum(1), before.scaled(weights))
        usual = usual + _repeated(prior, len(SCALES)).scaled(-1.0)  # rows alone
        return _with_weak(prior, usual), _with_weak(prior, self.scales.last)


class Looks(NamedTuple):
    """What the watch saw in a batch.

    Attributes:
        evidence: Per block, the first look at this batch and the second at the last one, (scales, 2, *blocks); NaN
            at scales without a look.
        pattern: Per block, the weight of levels that fluctuate, that of fades that wander, and how many rows those
            remember, (3, *blocks).
    """

    evidence: PerBlock
    pattern: PerBlock


def threshold(num_blocks: int, false_alarms: float, scale: int) -> float:
    """The log Bayes factor that a change needs, for so many false alarms per batch of all blocks and scales together.

    A look at ``k`` batches comes once in ``k`` batches and may use ``k`` times as much.
    """
    return max(float(np.log(num_blocks * len(SCALES) / (false_alarms * SCALES[scale]))), _LEAST)


def watched(watch: Watch, prior: Blocks, message: Blocks) -> tuple[Watch, Looks]:
    """The watch after a batch, and what it saw."""
    num_blocks = sum(math.prod(count.shape) for count in prior.counts.values())
    thresholds = jnp.asarray(
        [threshold(num_blocks, _FALSE_ALARMS, scale) for scale in range(len(SCALES))]
    )
    number = watch.num_batches + 1
    num_due = _num_due(number)
    unseen = {
        name: jnp.full((len(SCALES), 2, *count.shape), jnp.nan)
        for name, count in prior.counts.items()
    }

    def body(at: tuple[Array, Scale, Blocks, PerBlock]) -> tuple[Array, Scale, Blocks, PerBlock]:
        place, scales, carried, seen = at
        scales, carried, look = _looked(scales, place, prior, carried, thresholds[place])
        return place + 1, scales, carried, _put(seen, place, look)

    start = (jnp.zeros((), int), watch.scales, message, unseen)
    place, scales, carried, seen = jax.lax.while_loop(lambda at: at[0] < num_due, body, start)
    gathered: Blocks = jax.tree.map(
        lambda held, more: held.at[place].add(more, mode="drop"), scales.gathered, carried
    )
    pattern = {
        name: _pattern(
            jax.nn.softmax(scales.log_weights[name][0, 0], axis=0),
            scales.fades.counts[name][0, 0, -1],
            scales.last.counts[name][0],
        )
        for name in prior.counts
    }
    after = Watch(_with(scales, gathered=gathered), number, watch.recent)
    return after, Looks(seen, pattern)


def pattern_of(pattern: tuple[float, float, float]) -> str:
    """The pattern of a block in a word: ``fluctuates``, ``wanders`` or ``steady``."""
    fluctuates, wanders, _ = pattern
    if max(fluctuates, wanders) < 0.5:
        return "steady"
    return "fluctuates" if fluctuates >= wanders else "wanders"


def _looked(
    scales: Scale, place: Array, prior: Blocks, carried: Blocks, least: Array
) -> tuple[Scale, Blocks, PerBlock]:
    """A look at one scale: all scales after it, what the next one gets of it, and both looks, (2, *blocks)."""
    at: Scale = jax.tree.map(lambda leaf: leaf[place], scales)
    message = at.gathered + carried
    # memory now, memory before the last look, started over at the last look: (3, 16, *blocks)
    ways: Blocks = jax.tree.map(
        lambda held, one: jnp.concatenate([held, jnp.broadcast_to(one, (1, *held.shape[1:]))]),
        at.fades,
        prior + at.last,
    )
    log_weights = {name: jnp.concatenate([each, each[1:]]) for name, each in at.log_weights.items()}
    waits = {name: look >= _LEAST * FIRST_SHARE for name, look in at.first_look.items()}
    faded, evidence, restart = _evidence(
        ways, prior, message, log_weights, waits, FIRST_SHARE * least
    )
    joint = {name: log_weights[name] + each for name, each in evidence.items()}
    total = {name: jax.nn.logsumexp(each, axis=1) for name, each in joint.items()}
    second = {
        name: jnp.where(waits[name], each[2] - each[1], -jnp.inf) for name, each in total.items()
    }
    enough = {name: count >= _FEWEST for name, count in message.counts.items()}
    changed = {
        name: enough[name]
        & (second[name] > 0.0)
        & (first >= FIRST_SHARE * least)
        & (first + second[name] >= least)
        for name, first in at.first_look.items()
    }
    without = {  # the last look, but with the weights that it has left
        name: jax.nn.logsumexp(log_weights[name][0] + each[1], axis=0)
        for name, each in evidence.items()
    }
    spoilt = {
        name: enough[name]
        & (first < FIRST_SHARE * least)
        & (ways.counts[name][1, -1] > 0.0)
        & (restart[name] - total[name][0] >= FIRST_SHARE * least)
        & (restart[name] - without[name] < FIRST_SHARE * least)
        & (without[name] - total[name][0] >= FIRST_SHARE * least)
        for name, first in at.first_look.items()
    }
    second = {
        name: jnp.where(spoilt[name], total[name][0] - without[name], each)
        for name, each in second.items()
    }
    unusual = {
        name: enough[name] & (second[name] <= 0.0) & (first >= FIRST_SHARE * least) | spoilt[name]
        for name, first in at.first_look.items()
    }
    first = {
        name: jnp.where(
            ways.counts[name][0, -1] > 0.0,
            restart[name]
            - jnp.where(spoilt[name], without[name], _chosen(each, changed[name], unusual[name])),
            -jnp.inf,
        )
        for name, each in total.items()
    }
    learned = faded + message
    weighed = {name: each - total[name][:, None] for name, each in joint.items()}
    none = message.scaled(0.0)
    after = Scale(
        fades=_stacked(*(_goes_on(each, changed, unusual) for each in (learned, ways))),
        log_weights={
            name: jnp.stack(
                [jnp.where(changed[name], each[2], each[0]) for each in (weighed[name], before)]
            )
            for name, before in log_weights.items()
        },
        last=message,
        first_look=first,
        gathered=none,
    )
    after = after.select(enough, _with(at, gathered=message))
    others = _restarted(scales, place, changed, prior, message)
    looks = {
        name: jnp.where(enough[name], jnp.stack([first[name], second[name]]), jnp.nan)
        for name in first
    }
    heard = {name: enough[name] & ~unusual[name] for name in enough}
    return _put(others, place, after), at.last.select(heard, none), looks


def _ways(ways: Blocks, prior: Blocks, message: Blocks) -> tuple[Blocks, Blocks]:
    """Fades and levels as priors of a batch with the rows of a message."""
    kept = {
        name: jnp.exp(-count / HORIZONS.reshape(-1, *(1,) * count.ndim))
        for name, count in message.counts.items()
    }
    every: Blocks = jax.tree.map(lambda leaf: leaf[:, -1:], ways)  # all rows since the last change
    trusted = {
        name: jnp.minimum(1.0, _levels(count) / jnp.maximum(count, 1e-300))
        for name, count in every.counts.items()
    }
    return ways.lerp(prior, kept), every.lerp(prior, trusted)


def _evidence(
    ways: Blocks,
    prior: Blocks,
    message: Blocks,
    log_weights: PerBlock,
    waits: PerBlock,
    least: Array,
) -> tuple[Blocks, PerBlock, PerBlock]:
    """Fades as priors of the batch, the log evidence of all ways to go on, and that of starting over.

    Of the first memory; of the others only where a block waits for a second look, or this batch stands out by more than ``least``.
    """

    def body(at: tuple[Any, ...]) -> tuple[Any, ...]:
        place, faded, evidence, _, is_more = at
        one: Blocks = jax.tree.map(lambda leaf: leaf[place][None], ways)
        fades, levels = _ways(one, prior, message)
        gained = {
            name: _gained(
                jax.tree.map(
                    lambda some, others, start: jnp.concatenate([some[0], others[0], start[None]]),
                    fades.params[name],
                    levels.params[name],
                    prior.params[name],
                ),
                message.params[name],
            )
            for name in prior.params
        }
        evidence = {name: each.at[place].set(gained[name][:-1]) for name, each in evidence.items()}
        faded = _put(faded, place, jax.tree.map(lambda leaf: leaf[0], fades))
        restart = {name: each[-1] for name, each in gained.items()}
        stands_out = [
            restart[name] - jax.nn.logsumexp(log_weights[name][0] + each[:-1], axis=0) >= least
            for name, each in gained.items()
        ]
        is_more |= (place == 0) & jnp.stack([each.any() for each in stands_out]).any()
        return place + 1, faded, evidence, restart, is_more

    shapes = {name: jnp.shape(count) for name, count in prior.counts.items()}
    start = (
        jnp.zeros((), int),
        ways,
        {name: jnp.zeros((3, _NUM_WAYS, *shape)) for name, shape in shapes.items()},
        {name: jnp.zeros(shape) for name, shape in shapes.items()},
        jnp.stack([each.any() for each in waits.values()]).any(),
    )

    def goes_on(at: tuple[Any, ...]) -> Array:
        place, *_, is_more = at
        found: Array = (place == 0) | is_more & (place < 3)
        return found

    _, faded, evidence, restart, _ = jax.lax.while_loop(goes_on, body, start)
    return faded, evidence, restart


def _gained(given: AbstractFamily, message: AbstractFamily) -> Array:
    """Log evidence of a message for each prior on a leading axis."""
    ends = jax.tree.map(lambda *both: jnp.stack(both), given, given + message)
    before, after = ends.log_normalizer()  # one program for both
    gained: Array = after - before
    return gained


def _num_due(number: Any) -> Array:
    due: Array = (number % np.array(SCALES) == 0).sum()
    return due


def _levels(count: Array) -> Array:
    """Rows that levels trust, on the axis of ways: (1, 8, 1, ...)."""
    return jnp.asarray(LEVELS).reshape(1, -1, *(1,) * (count.ndim - 2))


def _restarted(
    scales: Scale, place: Array, changed: PerBlock, prior: Blocks, message: Blocks
) -> Scale:
    """What a change at one scale does to the others: finer ones start over with its message, coarser ones with nothing."""
    places = jnp.arange(len(SCALES))

    def at(which: Array) -> PerBlock:
        return {name: which.reshape(-1, *(1,) * each.ndim) & each for name, each in changed.items()}

    def members(which: PerBlock) -> PerBlock:
        return {name: each[:, None, None] for name, each in which.items()}

    finer, coarser = at(places < place), at(places > place)
    fades = (prior + message).select(members(finer), scales.fades)
    kept = {name: ~each for name, each in coarser.items()}
    return _with(
        scales,
        fades=prior.select(members(coarser), fades),
        first_look={
            name: jnp.where(finer[name] | coarser[name], -jnp.inf, each)
            for name, each in scales.first_look.items()
        },
        last=scales.last.scaled(kept),
        gathered=scales.gathered.scaled(kept),
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


def _with_weak(prior: Blocks, rows: Blocks) -> Blocks:
    """Rows of each scale with a millionth of the prior, which may lie far from them."""
    share = {name: jnp.asarray(_WEAK) for name in prior.counts}
    weak: Blocks = _repeated(prior, len(SCALES)).scaled(share)
    return rows + weak


def _of_fades(log_weights: Array) -> Array:
    """Weights of memories, (scales, 16, *blocks): the levels' go to the memory that never forgets."""
    weights = jax.nn.softmax(log_weights, axis=1)
    fades, levels = jnp.split(weights, [len(HORIZONS)], axis=1)
    return fades.at[:, -1].add(levels.sum(1))


def _goes_on(ways: Blocks, changed: PerBlock, unusual: PerBlock) -> Blocks:
    """The memories with which each block goes on."""
    now, before, started = (
        jax.tree.map(lambda leaf, place=place: leaf[place], ways) for place in range(3)
    )
    chosen: Blocks = started.select(changed, before.select(unusual, now))
    return chosen


def _chosen(ways: Array, changed: Array, unusual: Array) -> Array:
    """Of numbers by memory (now, before the last look, started over there), those with which each block goes on."""
    return jnp.where(changed, ways[2], jnp.where(unusual, ways[1], ways[0]))


def _repeated(tree: Any, *axes: int) -> Any:
    return jax.tree.map(lambda leaf: xp.broadcast_to(leaf, axes + np.shape(leaf)), tree)


def _stacked(*parts: Blocks) -> Blocks:
    stacked: Blocks = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
    return stacked


def _put(tree: Any, place: Array, new: Any) -> Any:
    return jax.tree.map(lambda leaf, entry: leaf.at[place].set(entry), tree, new)


def _where(condition: PerBlock, mine: PerBlock, others: PerBlock) -> PerBlock:
    return {name: jnp.where(condition[name], each, others[name]) for name, each in mine.items()}


def _with(scales: Scale, **changes: Any) -> Scale:
    return Scale(**{**scales.__dict__, **changes})
