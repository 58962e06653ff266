r"""Auto: a bank of memories for every block, weighed by the evidence of each batch."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, final, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.pytree import definition, pytree
from streambayes.families import AbstractBelief, Bank, Blocks
from streambayes.forgetting._base import AbstractForgetting, Clock, Report, total

__all__ = ["UNTRIED", "Auto"]

HORIZONS = np.append(2.0 ** np.arange(3, 18), np.inf)
_FADES = slice(0, len(HORIZONS))
_NUM_BORN = 9
"""Slots of restarts, and of recalls; the last one is for the newborn."""
_RESTARTS = slice(_FADES.stop, _FADES.stop + _NUM_BORN)
_RECALLS = slice(_RESTARTS.stop, _RESTARTS.stop + _NUM_BORN)
_NUM_SLOTS = _RECALLS.stop
_NEWBORN = _RESTARTS.stop - 1
_EMPTY = -1.0
UNTRIED = 0.1
"""Trust in memories, rather than in what is believed, before any batch."""

PerBlock = dict[str, Array]
ClockKind = Literal["rows", "time"]


@final
@pytree
class AutoMemory:
    """What stays between batches.

    Slots are 16 fades, 9 restarts and 9 recalls; the last of those two kinds are newborn and without
    weight, the others in the order of their births, and empty ones come first.

    Attributes:
        bank: What is believed: all slots have learned the last batch.
        recalls: Where recalls go on from: they have learned it to the extent that they were believed.
        log_trust: Log weights of the slots by which rows to come are predicted; what they lack to 1 is the trust
            in what is believed.
        ages: Clock since the birth of restarts and recalls, (18, *blocks); below 0 for an empty slot.
        seen: Reading of the clock when each block last had rows; below 0 before.
        passed: Reading of the clock.
        unit: Time per row, once it is known; 1 on the clock of rows.
    """

    bank: Bank
    recalls: Blocks
    log_trust: PerBlock
    ages: PerBlock
    seen: PerBlock
    passed: Array
    unit: Array


@final
@pytree
class AutoAnchor:
    """A batch's memories before it is learned.

    Attributes:
        tempered: Priors of the batch, one for each slot.
        log_normalizers: Of those priors.
        log_shared: Log weights of the slots before the batch, some of it shared.
        log_target: What it is shared by.
        memory: What was held before; blocks that have no rows in this batch go on with it.
        retained: Rows that were retained then.
        prior: The uninformed prior.
        ages: As in the memory, this batch not counted.
        seen: As in the memory.
        steps: Clock since the last batch that had rows for a block.
        aged: Clock since the last batch that weighed its slots: with one choice for all blocks, any.
        passed: Reading of the clock at the end of this batch.
        unit: Time per row.
    """

    tempered: Blocks
    log_normalizers: PerBlock
    log_shared: PerBlock
    log_target: PerBlock
    memory: AutoMemory
    retained: PerBlock
    prior: Blocks
    ages: PerBlock
    seen: PerBlock
    steps: PerBlock
    aged: PerBlock
    passed: Array
    unit: Array


@final
@definition
class Auto(AbstractForgetting[AutoMemory, AutoAnchor]):
    r"""Forgetting without a setting: each block has a bank of memories, and the evidence chooses.

    Memories of a block are *fades*, which forget with horizons of 8, 16, ..., 131,072 rows or never;
    *restarts*, born from the prior with every batch, the useful ones kept; and *recalls*, snapshots of
    earlier posteriors. Which of them holds is a hidden variable with a sticky prior that the joint
    evidence of each batch updates,

    $$w_e \propto w^-_e \exp(a(\eta_e + s) - a(\eta_e)),$$

    for the prior $\eta_e$ that memory $e$ gives the batch and the batch's message $s$. What is believed
    of a block is the mixture $\sum_e w_e q(\beta \mid \lambda_e)$.

    Args:
        shared: One hidden variable for the whole model instead of one for each block.
        clock: What horizons and ages are measured in: ``rows``, or ``time`` for batches that come with
            times; then a horizon of 8 is the time that 8 rows took when the stream began.
    """

    has_forecast: ClassVar[bool] = True

    shared: bool = False
    clock: ClockKind = "rows"

    def __post_init__(self) -> None:
        if not isinstance(self.shared, bool):
            message = f"Auto: shared must be True or False, got {self.shared!r}"
            raise TypeError(message)
        if self.clock not in get_args(ClockKind):
            message = f"Auto: clock must be 'rows' or 'time', got {self.clock!r}"
            raise ValueError(message)

    @property
    def name(self) -> str:
        settings = [
            *(["shared"] if self.shared else []),
            *(["by time"] if self.clock == "time" else []),
        ]
        return " ".join(["Auto", *settings])

    @property
    def takes_coupled(self) -> bool:
        return not self.shared

    @property
    def needs_times(self) -> bool:
        return self.clock == "time"

    def init(self, prior: Blocks) -> AutoMemory:
        ages = {name: _unborn(count.shape) for name, count in prior.counts.items()}
        members = _repeated(prior, _NUM_SLOTS)
        return AutoMemory(
            bank=self._bank(_target(ages), members),
            recalls=_slots(members, _RECALLS),
            log_trust={name: each + np.log(UNTRIED) for name, each in _target(ages).items()},
            ages=ages,
            seen={name: jnp.full(count.shape, _EMPTY) for name, count in prior.counts.items()},
            passed=jnp.zeros(()),
            unit=jnp.ones(()) if self.clock == "rows" else jnp.zeros(()),
        )

    def belief(self, memory: AutoMemory) -> Bank:
        return memory.bank

    def restart(self, memory: AutoMemory, prior: Blocks, chosen: Mapping[str, Any]) -> AutoMemory:
        fresh = self.init(prior)
        if self.shared:  # the choice is that of all blocks
            fresh = dataclasses.replace(
                fresh,
                bank=self._bank(memory.bank.log_weights, fresh.bank.members),
                log_trust=memory.log_trust,
                ages=memory.ages,
                seen=memory.seen,
            )
        fresh = dataclasses.replace(fresh, passed=memory.passed, unit=memory.unit)
        return _selected(dict(chosen), fresh, memory)

    def open(self, memory: AutoMemory, prior: Blocks, clock: Clock) -> AutoAnchor:
        time = self._time(memory, clock)
        before, ages, seen = memory.bank.log_weights, memory.ages, memory.seen
        if self.clock == "time":  # what was born before times were known has lived since the start
            known = memory.unit > 0
            ages = jax.tree.map(
                lambda age: jnp.where(known | _is_unborn(age), age, time.before), ages
            )
            seen = jax.tree.map(lambda last: jnp.where(known | (last < 0), last, time.before), seen)
        target = _target(ages)
        weighed = self._weighed(seen)
        steps, aged = (
            jax.tree.map(lambda last: time.after - jnp.maximum(last, 0.0), each)
            for each in (seen, weighed)
        )
        # at one and the same time rows are all there is to count
        by_rows = clock.rows / jnp.maximum(clock.rows_seen + clock.rows, 1.0)
        shares = {
            name: jnp.where(
                last >= 0,
                jnp.where(aged[name] > 0, aged[name] / jnp.maximum(time.after, 1e-300), by_rows),
                1.0,
            )
            for name, last in weighed.items()
        }
        shared = {
            name: jnp.logaddexp(
                jnp.log1p(-shares[name]) + before[name], jnp.log(shares[name]) + target[name]
            )
            for name in before
        }
        held = _joined(_slots(memory.bank.members, slice(0, _RECALLS.start)), memory.recalls)
        unit = jnp.where(time.unit > 0, time.unit, 1.0)
        keep = {}
        for name, step in steps.items():
            horizons = (unit * HORIZONS).reshape(-1, *(1,) * step.ndim)
            fades = jnp.exp(-step / horizons)
            others = jnp.ones((_NUM_SLOTS - len(HORIZONS), *step.shape))
            keep[name] = jnp.concatenate([fades, others])
        tempered = held.lerp(prior, keep)
        return AutoAnchor(
            tempered=tempered,
            log_normalizers=_log_normalizers(tempered),
            log_shared=shared,
            log_target=target,
            memory=memory,
            retained={
                name: (jnp.exp(before[name]) * count).sum(0) for name, count in held.counts.items()
            },
            prior=prior,
            ages=ages,
            seen=seen,
            steps=steps,
            aged=aged,
            passed=time.after,
            unit=time.unit,
        )

    def update(self, anchor: AutoAnchor, belief: AbstractBelief, messages: Blocks) -> Bank:
        assert isinstance(belief, Bank)
        members = anchor.tempered.only(messages.params) + messages
        evidence = {
            name: log_normalizer - anchor.log_normalizers[name]
            for name, log_normalizer in _log_normalizers(members).items()
        }
        if self.shared:  # blocks are not coupled, so these are all of them
            evidence = _pooled(evidence)
        joint = {name: anchor.log_shared[name] + each for name, each in evidence.items()}
        return self._bank({**belief.log_weights, **joint}, belief.members.replaced(members))

    def weigh(
        self, anchor: AutoAnchor, belief: AbstractBelief, expectations: Mapping[str, Any]
    ) -> Array:
        r"""$\sum_m s_m \cdot \bar E_m - \ln Z_m$: what the structured posterior costs, at its optimum."""
        assert isinstance(belief, Bank)
        spent = {
            name: message.dot(expectations[name])
            for name, message in self.message(anchor, belief).params.items()
        }
        log_evidence = {
            name: jax.nn.logsumexp(joint, axis=0) for name, joint in belief.log_weights.items()
        }
        if self.shared:
            return total(spent) - next(iter(log_evidence.values())).ravel()[0]
        return total(spent) - total(log_evidence)

    def message(self, anchor: AutoAnchor, belief: AbstractBelief) -> Blocks:
        assert isinstance(belief, Bank)
        # the newborn restart comes from the prior: nothing large that the message could drown in
        return _slots(belief.members, _NEWBORN) + anchor.prior.scaled(-1.0)

    def refine(self, anchor: AutoAnchor, weighed: Array) -> AutoAnchor:
        del weighed
        return anchor

    def divergence(self, anchor: AutoAnchor, weighed: Array) -> Array:
        del anchor
        return weighed

    def is_proper(self, anchor: AutoAnchor) -> Array:
        del anchor  # averages of the prior and of posteriors, which are proper
        return jnp.ones((), bool)

    def close(
        self, anchor: AutoAnchor, belief: AbstractBelief, clock: Clock
    ) -> tuple[AutoMemory, Report]:
        assert isinstance(belief, Bank)
        bank = belief.normalized()
        ages = {
            name: jnp.where(age >= 0, age + anchor.aged[name], age)
            for name, age in anchor.ages.items()
        }
        trust = self._trusted(anchor, bank, clock)
        # a block without rows in this batch stays as it is; the next time all that has passed counts
        has_rows = {name: count[_NEWBORN] > 0 for name, count in bank.members.counts.items()}
        if self.shared:  # slots are those of all blocks, so its members move along
            kept = bank.members.select(has_rows, _undisturbed(anchor.memory.bank))
            mine = dataclasses.replace(bank, members=kept)
            memory = _reborn(mine, trust, anchor, ages, has_rows)
        else:
            memory = _reborn(bank, trust, anchor, ages, has_rows)
            memory = _selected(has_rows, memory, anchor.memory)
        return memory, self._report(anchor, bank, memory, has_rows)

    def forecast(self, memory: AutoMemory, belief: AbstractBelief) -> Bank:
        assert isinstance(belief, Bank)
        bank = belief.normalized()
        weights = {
            name: jnp.logaddexp(log_trust, _log_rest(log_trust) + bank.log_weights[name])
            for name, log_trust in memory.log_trust.items()
        }
        return self._bank(weights, belief.members)

    def changed_within(self, memory: AutoMemory, span: Any) -> PerBlock:
        """Per block, the weight of memories that reach no further back than ``span`` on the clock."""
        reach = self._reach(memory)
        return {
            name: jnp.where(reach[name] <= span, jnp.exp(weights), 0.0).sum(0)
            for name, weights in memory.bank.log_weights.items()
        }

    def _weighed(self, seen: PerBlock) -> PerBlock:
        """Reading of the clock when the slots of each block were last weighed."""
        if not self.shared:
            return seen
        last = jnp.stack([each.max() for each in seen.values()]).max()
        return {name: jnp.full_like(each, last) for name, each in seen.items()}

    def _trusted(self, anchor: AutoAnchor, bank: Bank, clock: Clock) -> PerBlock:
        """Trust after a batch: each forecaster's by the evidence of an average row, then some of it shared."""
        held = anchor.memory
        message = self.message(anchor, bank)
        if self.shared:  # the choice is one, so a row is one of the model
            rows = dict.fromkeys(message.counts, clock.rows)
            gained = _pooled(_gained(held.bank.members, message, rows))
        else:
            gained = _gained(held.bank.members, message, message.counts)
        share = jnp.where(clock.rows_seen > 0, 1.0 / (clock.rows_seen + clock.rows), 0.0)
        found = {}
        for name, log_trust in held.log_trust.items():
            believed = jax.nn.logsumexp(held.bank.log_weights[name] + gained[name], axis=0)
            joint = log_trust + gained[name]
            total = jnp.logaddexp(jax.nn.logsumexp(joint, axis=0), _log_rest(log_trust) + believed)
            found[name] = jnp.logaddexp(
                jnp.log1p(-share) + joint - total,
                jnp.log(share) + np.log(UNTRIED) + anchor.log_target[name],
            )
        return found

    def _bank(self, log_weights: PerBlock, members: Blocks) -> Bank:
        return Bank(log_weights=log_weights, members=members, is_joint=self.shared)

    def _reach(self, memory: AutoMemory) -> PerBlock:
        """How far back each slot reaches; recalls, which reach nowhere in particular, to NaN.

        Until the time per row is known, nothing is said to be recent.
        """
        reach = {}
        for name, since in memory.ages.items():
            age = jnp.where((since >= 0) & (memory.unit <= 0), jnp.inf, since)
            restarts = jnp.where(age[:_NUM_BORN] >= 0, age[:_NUM_BORN], jnp.nan)
            fades = jnp.where(memory.unit > 0, memory.unit, jnp.inf) * HORIZONS
            fades = fades.reshape(-1, *(1,) * (age.ndim - 1))
            fades = jnp.broadcast_to(fades, (len(HORIZONS), *age.shape[1:]))
            reach[name] = jnp.concatenate([fades, restarts, jnp.full_like(restarts, jnp.nan)])
        return reach

    def _report(
        self, anchor: AutoAnchor, bank: Bank, memory: AutoMemory, has_rows: PerBlock
    ) -> Report:
        kept = {
            name: jnp.where(
                has_rows[name],
                (jnp.exp(each) * anchor.tempered.counts[name]).sum(0),
                anchor.retained[name],
            )
            for name, each in bank.log_weights.items()
        }
        log_bf = {}
        for name, log_weights in bank.log_weights.items():
            shared = anchor.log_shared[name]
            gain = jnp.where(jnp.isfinite(shared), log_weights - shared, -jnp.inf)
            switched, stayed = (
                jax.nn.logsumexp(each[name] + gain, axis=0)
                for each in (anchor.log_target, anchor.memory.bank.log_weights)
            )
            log_bf[name] = jnp.where(has_rows[name], switched - stayed, 0.0)
        after = jax.tree.map(jnp.exp, memory.bank.log_weights)
        reach = self._reach(memory)
        unit = jnp.where(memory.unit > 0, memory.unit, 1.0)
        found: dict[str, Any] = {
            "log_bf": log_bf,
            "drifting": self.changed_within(memory, 0.25 * memory.passed),
            "recalled": {name: each[_RECALLS].sum(0) for name, each in after.items()},
            "memory": {name: _by_horizon(each, reach[name] / unit) for name, each in after.items()},
        }
        if not self.shared:
            rho = {name: _ratio(each, anchor.retained[name]) for name, each in kept.items()}
            return Report(rho=rho, omega=None, **found)
        # all blocks say the same
        one = {what: next(iter(each.values())) for what, each in found.items()}
        axes = {what: int(what == "memory") for what in one}
        one = {
            what: each.reshape(*each.shape[: axes[what]], -1)[..., 0] for what, each in one.items()
        }
        return Report(rho=_ratio(total(kept), total(anchor.retained)), omega=None, **one)

    def _time(self, memory: AutoMemory, clock: Clock) -> "_Time":
        if self.clock == "rows":
            return _Time(clock.rows, clock.rows_seen, clock.rows_seen + clock.rows, memory.unit)
        known = memory.unit > 0
        unit = jnp.where(known, memory.unit, clock.elapsed / jnp.maximum(clock.rows, 1.0))
        before = jnp.where(known, memory.passed, clock.rows_seen * unit)
        return _Time(clock.elapsed, before, before + clock.elapsed, unit)


def _ratio(kept: Array, had: Array) -> Array:
    """The share of what was had that is kept; all of it where there was nothing."""
    return jnp.where(had > 0, jnp.minimum(kept / jnp.where(had > 0, had, 1.0), 1.0), 1.0)


class _Time(NamedTuple):
    """The clock: since the last batch, its readings before and after this one, time per row."""

    step: Array
    before: Array
    after: Array
    unit: Array


def _unborn(shape: tuple[int, ...]) -> Array:
    """Ages before any batch: one newborn restart."""
    ages = np.full((2 * _NUM_BORN, *shape), _EMPTY)
    ages[_NUM_BORN - 1] = 0.0
    return jnp.asarray(ages)


def _is_unborn(age: Array) -> Array:
    """Slots that are empty or newborn."""
    place = jnp.arange(2 * _NUM_BORN).reshape(-1, *(1,) * (age.ndim - 1))
    return (age < 0) | (place % _NUM_BORN == _NUM_BORN - 1)


def _target(ages: PerBlock) -> PerBlock:
    """Log of the weights that sharing moves towards: a quarter each to fades and recalls, half to the newborn."""
    found = {}
    for name, age in ages.items():
        fades = jnp.full((len(HORIZONS), *age.shape[1:]), 0.25 / len(HORIZONS))
        newborn = (jnp.arange(_NUM_BORN) == _NUM_BORN - 1).reshape(-1, *(1,) * (age.ndim - 1))
        restarts = jnp.broadcast_to(0.5 * newborn, age[:_NUM_BORN].shape)
        live = age[_NUM_BORN:] >= 0
        recalls = 0.25 * live / jnp.maximum(live.sum(0), 1)
        weights = jnp.concatenate([fades, restarts, recalls])
        found[name] = jnp.log(weights) - jnp.log(weights.sum(0))
    return found


def _pooled(per_slot: PerBlock) -> PerBlock:
    """Sums over all blocks, for every block."""
    pooled = sum(each.reshape(_NUM_SLOTS, -1).sum(1) for each in per_slot.values())
    return {
        name: jnp.broadcast_to(jnp.reshape(pooled, (-1, *(1,) * (each.ndim - 1))), each.shape)
        for name, each in per_slot.items()
    }


def _gained(members: Blocks, message: Blocks, rows: PerBlock) -> PerBlock:
    r"""Log evidence of an average row for each member: $a(\lambda + s / n) - a(\lambda)$.

    No more than the mean of the log predictive densities of the $n$ rows, and equal to it for one row.
    """
    one = message.scaled({name: 1.0 / jnp.maximum(each, 1.0) for name, each in rows.items()})
    ends: Blocks = jax.tree.map(lambda *both: jnp.stack(both), members, members + one)
    return {name: each[1] - each[0] for name, each in _log_normalizers(ends).items()}


def _log_rest(log_trust: Array) -> Array:
    """Log of what trust lacks to 1."""
    return jnp.log(jnp.maximum(1.0 - jnp.exp(log_trust).sum(0), 0.0))


def _log_normalizers(blocks: Blocks) -> PerBlock:
    return {name: family.log_normalizer() for name, family in blocks.params.items()}


def _undisturbed(bank: Bank) -> Blocks:
    """Members after a batch without rows: what starts over with it starts over in other blocks only."""
    members: Blocks = jax.tree.map(
        lambda leaf, believed: leaf.at[_NEWBORN].set(believed), bank.members, bank.summary()
    )
    return members


def _reborn(
    bank: Bank, log_trust: PerBlock, anchor: AutoAnchor, ages: PerBlock, has_rows: PerBlock
) -> AutoMemory:
    """After a batch: one restart and one recall leave, others take their places, new ones are born."""
    moves = {
        name: (
            _Move.of(log_weights[_RESTARTS], ages[name][:_NUM_BORN]),
            _Move.of(log_weights[_RECALLS], ages[name][_NUM_BORN:]),
        )
        for name, log_weights in bank.log_weights.items()
    }
    believed = {name: jnp.exp(each[_RECALLS]) for name, each in bank.log_weights.items()}
    log_weights, log_trust = (
        {
            name: jnp.concatenate(
                [
                    each[_FADES],
                    moves[name][0].merged(each[_RESTARTS]),
                    moves[name][1].merged(each[_RECALLS]),
                ]
            )
            for name, each in weights.items()
        }
        for weights in (bank.log_weights, log_trust)
    )
    fades, restarts, learned = (
        _slots(bank.members, kind) for kind in (_FADES, _RESTARTS, _RECALLS)
    )
    older = _joined(fades, _moved(restarts, moves, 0, anchor.prior))
    # a recall goes on from where it was, less what it was not believed to have seen
    before = _slots(anchor.tempered, _RECALLS)
    recalls = learned.lerp(before, believed).select(has_rows, before)
    # the newborn has no weight yet, so any will do to find what it is born from
    unborn = _joined(older, _moved(recalls, moves, 1, anchor.prior))
    snapshot = Bank(log_weights=log_weights, members=unborn).summary()
    return AutoMemory(
        bank=dataclasses.replace(
            bank,
            log_weights=log_weights,
            members=_joined(older, _moved(learned, moves, 1, snapshot)),
        ),
        recalls=_moved(recalls, moves, 1, snapshot),
        log_trust=log_trust,
        ages={
            name: jnp.concatenate(
                [
                    moves[name][kind].moved(part, jnp.zeros(part.shape[1:]))
                    for kind, part in enumerate((age[:_NUM_BORN], age[_NUM_BORN:]))
                ]
            )
            for name, age in ages.items()
        },
        seen={
            name: jnp.where(has_rows[name], anchor.passed, last)
            for name, last in anchor.seen.items()
        },
        passed=anchor.passed,
        unit=anchor.unit,
    )


def _selected(chosen: Mapping[str, Any], some: AutoMemory, others: AutoMemory) -> AutoMemory:
    """Blocks of one memory where they are chosen, those of the other elsewhere; the clock is the first one's."""

    def of_blocks(mine: PerBlock, theirs: PerBlock) -> PerBlock:
        return {name: jnp.where(chosen[name], mine[name], theirs[name]) for name in mine}

    return AutoMemory(
        bank=dataclasses.replace(
            some.bank,
            log_weights=of_blocks(some.bank.log_weights, others.bank.log_weights),
            members=some.bank.members.select(dict(chosen), others.bank.members),
        ),
        recalls=some.recalls.select(dict(chosen), others.recalls),
        log_trust=of_blocks(some.log_trust, others.log_trust),
        ages=of_blocks(some.ages, others.ages),
        seen=of_blocks(some.seen, others.seen),
        passed=some.passed,
        unit=some.unit,
    )


class _Move(NamedTuple):
    """Which slot of a kind is given up, an empty one if there is any, and which one inherits its weight.

    Attributes:
        dropped: A place per block.
        heir: Likewise; the place of an empty slot inherits nothing.
    """

    dropped: Array
    heir: Array

    @classmethod
    def of(cls, log_weights: Array, ages: Array) -> "_Move":
        older, younger = ages[:-1], ages[1:]
        ratio = jnp.where(older == younger, 1.0, older / younger)
        nearest = jnp.argmin(ratio, axis=0)
        pair = [jnp.take_along_axis(log_weights, nearest[None] + k, axis=0)[0] for k in (0, 1)]
        lighter = jnp.where(pair[0] < pair[1], nearest, nearest + 1)
        is_full = ages[0] >= 0
        dropped = jnp.where(is_full, lighter, 0)
        return cls(dropped, jnp.where(is_full, 2 * nearest + 1 - lighter, 0))

    def moved(self, slots: Array, newborn: Array) -> Array:
        """The slots without the one that is dropped, and the newborn last; event axes trail."""
        events = slots.ndim - 1 - self.dropped.ndim
        dropped = self.dropped.reshape(self.dropped.shape + (1,) * events)
        place = jnp.arange(_NUM_BORN - 1).reshape(-1, *(1,) * (slots.ndim - 1))
        kept = jnp.where(place >= dropped, slots[1:], slots[:-1])
        return jnp.concatenate([kept, newborn[None]])

    def merged(self, log_weights: Array) -> Array:
        """The same for log weights, with what the dropped slot leaves to its heir."""
        left = jnp.take_along_axis(log_weights, self.dropped[None], axis=0)
        place = jnp.arange(_NUM_BORN).reshape(-1, *(1,) * (log_weights.ndim - 1))
        sums = jnp.where(
            (place == self.heir) & (self.heir != self.dropped),
            jnp.logaddexp(log_weights, left),
            log_weights,
        )
        return self.moved(sums, jnp.full(log_weights.shape[1:], -jnp.inf))


def _moved(
    blocks: Blocks, moves: Mapping[str, tuple[_Move, _Move]], kind: int, newborn: Blocks
) -> Blocks:
    params, counts = {}, {}
    for name, family in blocks.params.items():
        move = moves[name][kind]
        params[name] = jax.tree.map(move.moved, family, newborn.params[name])
        counts[name] = move.moved(blocks.counts[name], newborn.counts[name])
    return Blocks(params=params, counts=counts)


def _slots(blocks: Blocks, which: Any) -> Blocks:
    part: Blocks = jax.tree.map(lambda leaf: leaf[which], blocks)
    return part


def _joined(first: Blocks, second: Blocks) -> Blocks:
    both: Blocks = jax.tree.map(lambda *parts: jnp.concatenate(parts), first, second)
    return both


def _repeated(blocks: Blocks, times: int) -> Blocks:
    copies: Blocks = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (times, *jnp.shape(leaf))), blocks
    )
    return copies


def _by_horizon(weights: Array, reach: Array) -> Array:
    """Weights of fades and restarts by the horizon that is nearest to what they reach, (16, *blocks)."""
    rows = jnp.maximum(reach[_RESTARTS], HORIZONS[0])  # NaN stays
    place = jnp.clip(jnp.round(jnp.log2(rows / HORIZONS[0])), 0, len(HORIZONS) - 2)
    kinds = jnp.arange(len(HORIZONS)).reshape(-1, *(1,) * rows.ndim)
    return weights[_FADES] + jnp.where(place == kinds, weights[_RESTARTS], 0.0).sum(1)
