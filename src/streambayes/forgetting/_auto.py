r"""Auto: a bank of memories for every block, weighed by the evidence of each batch."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, final, get_args

import jax
import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.precision import to_host
from streambayes._core.pytree import definition, pytree
from streambayes.families import (
    AbstractBelief,
    Bank,
    Blocks,
    Packing,
    log_shares,
    log_total,
    total_of,
)
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
    """A batch's memories before it is learned; what is per block is packed.

    Attributes:
        packed: Priors of the batch, one for each slot.
        log_normalizers: Of those priors, by entry.
        log_shared: Log weights of the slots before the batch, some of it shared; by entry.
        log_target: What it is shared by.
        memory: What was held before; blocks that have no rows in this batch go on with it.
        retained: Rows that were retained then.
        prior: The uninformed prior.
        ages: As in the memory, this batch not counted.
        seen: As in the memory.
        aged: Clock since the last batch that weighed the slots: with one choice for all blocks, any.
        passed: Reading of the clock at the end of this batch.
        unit: Time per row.
    """

    packed: Array
    log_normalizers: PerBlock
    log_shared: PerBlock
    log_target: Array
    memory: AutoMemory
    retained: Array
    prior: Blocks
    ages: Array
    seen: Array
    aged: Array
    passed: Array
    unit: Array

    @property
    def tempered(self) -> Blocks:
        """Priors of the batch, one for each slot."""
        return Packing(self.prior).unpacked(self.packed)


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
            bank=self._bank({name: _target(each) for name, each in ages.items()}, members),
            recalls=_slots(members, _RECALLS),
            log_trust={name: _target(each) + np.log(UNTRIED) for name, each in ages.items()},
            ages=ages,
            seen={
                name: xp.full(count.shape, _EMPTY, float) for name, count in prior.counts.items()
            },
            passed=xp.zeros(()),
            unit=xp.ones(()) if self.clock == "rows" else xp.zeros(()),
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
        packing, time = Packing(prior), self._time(memory, clock)
        before, ages, seen = (
            packing.side_by_side(each)
            for each in (memory.bank.log_weights, memory.ages, memory.seen)
        )
        if self.clock == "time":  # what was born before times were known has lived since the start
            known = memory.unit > 0
            ages = xp.where(known | _is_unborn(ages), ages, time.before)
            seen = xp.where(known | (seen < 0), seen, time.before)
        target = _target(ages)
        # one choice for all blocks is weighed with every batch
        weighed = xp.full_like(seen, seen.max()) if self.shared else seen
        steps, aged = (time.after - xp.maximum(last, 0.0) for last in (seen, weighed))
        # at one and the same time rows are all there is to count
        by_rows = clock.rows / xp.maximum(clock.rows_seen + clock.rows, 1.0)
        share = xp.where(aged > 0, aged / xp.maximum(time.after, 1e-300), by_rows)
        share = xp.where(weighed >= 0, share, 1.0)
        shared = xp.logaddexp(xp.log1p(-share) + before, xp.log(share) + target)
        members = packing.packed(memory.bank.members)[: _RECALLS.start]
        held = xp.concatenate([members, packing.packed(memory.recalls)])
        unit = xp.where(time.unit > 0, time.unit, 1.0)
        fades = xp.exp(-steps / (unit * HORIZONS)[:, None])
        others = xp.ones((_NUM_SLOTS - len(HORIZONS), packing.num_blocks))
        keep = packing.repeated(xp.concatenate([fades, others]))
        tempered = keep * held + (1.0 - keep) * packing.packed(prior)
        return AutoAnchor(
            packed=tempered,
            log_normalizers=packing.unpacked(tempered).log_normalizers(),
            log_shared=packing.by_entry(shared),
            log_target=target,
            memory=memory,
            retained=total_of(xp.exp(before) * packing.counts(held)),
            prior=prior,
            ages=ages,
            seen=seen,
            aged=aged,
            passed=time.after,
            unit=time.unit,
        )

    def update(self, anchor: AutoAnchor, belief: AbstractBelief, messages: Blocks) -> Bank:
        assert isinstance(belief, Bank)
        members = (anchor.tempered.only(messages.params) + messages).factored()
        evidence = {
            name: log_normalizer - anchor.log_normalizers[name]
            for name, log_normalizer in members.log_normalizers().items()
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
        log_weights = Packing(anchor.prior).side_by_side(belief.log_weights)
        log_evidence = log_total(log_weights)
        return total(spent) - (log_evidence[0] if self.shared else log_evidence.sum())

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
        return xp.ones((), bool)

    def close(
        self, anchor: AutoAnchor, belief: AbstractBelief, clock: Clock
    ) -> tuple[AutoMemory, Report]:
        assert isinstance(belief, Bank)
        packing, before = Packing(anchor.prior), anchor.memory
        prior, believed = packing.packed(anchor.prior), packing.packed(before.bank.members)
        members = packing.packed(belief.members)
        learned = _Slots(
            members=members,
            recalls=members[_RECALLS],
            log_weights=log_shares(packing.side_by_side(belief.log_weights)),
            log_trust=self._trusted(anchor, packing, believed, members[_NEWBORN] - prior, clock),
            ages=xp.where(anchor.ages >= 0, anchor.ages + anchor.aged, anchor.ages),
        )
        # a block without rows in this batch stays as it is; the next time all that has passed counts
        has_rows = packing.counts(members[_NEWBORN]) > 0
        held = _Slots(
            members=believed,
            recalls=packing.packed(before.recalls),
            log_weights=packing.side_by_side(before.bank.log_weights),
            log_trust=packing.side_by_side(before.log_trust),
            ages=packing.side_by_side(before.ages),
        )
        if self.shared:  # slots are those of all blocks, so its members move along
            chosen = xp.where(packing.repeated(has_rows), members, _undisturbed(packing, held))
            after = _reborn(packing, learned._replace(members=chosen), anchor, prior, has_rows)
        else:
            after = _reborn(packing, learned, anchor, prior, has_rows)
            after = after.where(packing, has_rows, held)
        kept = anchor.seen if self.shared else packing.side_by_side(before.seen)
        memory = AutoMemory(
            bank=self._bank(packing.by_entry(after.log_weights), packing.unpacked(after.members)),
            recalls=packing.unpacked(after.recalls),
            log_trust=packing.by_entry(after.log_trust),
            ages=packing.by_entry(after.ages),
            seen=packing.by_entry(xp.where(has_rows, anchor.passed, kept)),
            passed=anchor.passed,
            unit=anchor.unit,
        )
        return memory, self._report(packing, anchor, learned.log_weights, after, has_rows)

    def forecast(self, memory: AutoMemory, belief: AbstractBelief) -> Bank:
        assert isinstance(belief, Bank)
        weights = {}
        for name, log_weights in to_host(belief.log_weights).items():
            trust, normal = to_host(memory.log_trust[name]), log_shares(log_weights)
            weights[name] = xp.logaddexp(trust, _log_rest(trust) + normal)
        return self._bank(weights, belief.members)

    def changed_within(self, memory: AutoMemory, span: Any) -> PerBlock:
        """Per block, the weight of memories that reach no further back than ``span`` on the clock."""
        return {
            name: _within(weights, _reach(memory.ages[name], memory.unit), span)
            for name, weights in memory.bank.log_weights.items()
        }

    def _trusted(
        self, anchor: AutoAnchor, packing: Packing, members: Array, message: Array, clock: Clock
    ) -> Array:
        """Trust after a batch: each forecaster's by the evidence of an average row, then some of it shared."""
        held = anchor.memory
        counts = packing.counts(message)
        # where the choice is one, a row is one of the model
        rows = xp.full_like(counts, clock.rows) if self.shared else counts
        gained = _gained(packing, members, message, rows)
        if self.shared:
            gained = xp.broadcast_to(gained.sum(1, keepdims=True), gained.shape)
        share = xp.where(clock.rows_seen > 0, 1.0 / (clock.rows_seen + clock.rows), 0.0)
        log_trust = packing.side_by_side(held.log_trust)
        log_weights = packing.side_by_side(held.bank.log_weights)
        believed = log_total(log_weights + gained)
        joint = log_trust + gained
        total = xp.logaddexp(log_total(joint), _log_rest(log_trust) + believed)
        return xp.logaddexp(
            xp.log1p(-share) + joint - total,
            xp.log(share) + np.log(UNTRIED) + anchor.log_target,
        )

    def _bank(self, log_weights: PerBlock, members: Blocks) -> Bank:
        return Bank(log_weights=log_weights, members=members, is_joint=self.shared)

    def _report(
        self,
        packing: Packing,
        anchor: AutoAnchor,
        log_weights: Array,
        after: "_Slots",
        has_rows: Array,
    ) -> Report:
        kept = total_of(xp.exp(log_weights) * packing.counts(anchor.packed))
        kept = xp.where(has_rows, kept, anchor.retained)
        shared = packing.side_by_side(anchor.log_shared)
        gain = xp.where(xp.isfinite(shared), log_weights - shared, -xp.inf)
        before = packing.side_by_side(anchor.memory.bank.log_weights)
        switched, stayed = xp.logsumexp(xp.stack([anchor.log_target + gain, before + gain]), axis=1)
        reach = _reach(after.ages, anchor.unit)
        unit = xp.where(anchor.unit > 0, anchor.unit, 1.0)
        weights = xp.exp(after.log_weights)
        found = {
            "log_bf": xp.where(has_rows, switched - stayed, 0.0),
            "drifting": _within(after.log_weights, reach, 0.25 * anchor.passed),
            "recalled": weights[_RECALLS].sum(0),
            "memory": _by_horizon(weights, reach / unit),
        }
        if self.shared:  # all blocks say the same
            one = {what: each[..., 0] for what, each in found.items()}
            return Report(rho=_ratio(kept.sum(), anchor.retained.sum()), omega=None, **one)
        by_entry = {what: packing.by_entry(each) for what, each in found.items()}
        rho = packing.by_entry(_ratio(kept, anchor.retained))
        return Report(rho=rho, omega=None, **by_entry)

    def _time(self, memory: AutoMemory, clock: Clock) -> "_Time":
        if self.clock == "rows":
            return _Time(clock.rows, clock.rows_seen, clock.rows_seen + clock.rows, memory.unit)
        known = memory.unit > 0
        unit = xp.where(known, memory.unit, clock.elapsed / xp.maximum(clock.rows, 1.0))
        before = xp.where(known, memory.passed, clock.rows_seen * unit)
        return _Time(clock.elapsed, before, before + clock.elapsed, unit)


def _ratio(kept: Array, had: Array) -> Array:
    """The share of what was had that is kept; all of it where there was nothing."""
    return xp.where(had > 0, xp.minimum(kept / xp.where(had > 0, had, 1.0), 1.0), 1.0)


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
    return xp.asarray(ages)


def _is_unborn(age: Array) -> Array:
    """Slots that are empty or newborn."""
    place = xp.arange(2 * _NUM_BORN).reshape(-1, *(1,) * (age.ndim - 1))
    return (age < 0) | (place % _NUM_BORN == _NUM_BORN - 1)


def _target(ages: Array) -> Array:
    """Log of the weights that sharing moves towards: a quarter each to fades and recalls, half to the newborn."""
    fades = xp.full((len(HORIZONS), *ages.shape[1:]), 0.25 / len(HORIZONS))
    newborn = (xp.arange(_NUM_BORN) == _NUM_BORN - 1).reshape(-1, *(1,) * (ages.ndim - 1))
    restarts = xp.broadcast_to(0.5 * newborn, ages[:_NUM_BORN].shape)
    live = ages[_NUM_BORN:] >= 0
    recalls = 0.25 * live / xp.maximum(live.sum(0), 1)
    weights = xp.concatenate([fades, restarts, recalls])
    return xp.log(weights) - xp.log(total_of(weights))


def _reach(ages: Array, unit: Array) -> Array:
    """How far back each slot reaches; recalls, which reach nowhere in particular, to NaN.

    Until the time per row is known, nothing is said to be recent.
    """
    age = xp.where((ages >= 0) & (unit <= 0), xp.inf, ages)
    restarts = xp.where(age[:_NUM_BORN] >= 0, age[:_NUM_BORN], xp.nan)
    fades = xp.where(unit > 0, unit, xp.inf) * HORIZONS
    fades = xp.broadcast_to(
        fades.reshape(-1, *(1,) * (age.ndim - 1)), (len(HORIZONS), *age.shape[1:])
    )
    return xp.concatenate([fades, restarts, xp.full_like(restarts, xp.nan)])


def _within(log_weights: Array, reach: Array, span: Any) -> Array:
    """The weight of slots that reach no further back than so far."""
    return total_of(xp.where(reach <= span, xp.exp(log_weights), 0.0))


def _pooled(per_slot: PerBlock) -> PerBlock:
    """Sums over all blocks, for every block."""
    pooled = sum(each.reshape(_NUM_SLOTS, -1).sum(1) for each in per_slot.values())
    return {
        name: xp.broadcast_to(xp.reshape(pooled, (-1, *(1,) * (each.ndim - 1))), each.shape)
        for name, each in per_slot.items()
    }


def _gained(packing: Packing, members: Array, message: Array, rows: Array) -> Array:
    r"""Log evidence of an average row for each member: $a(\lambda + s / n) - a(\lambda)$.

    No more than the mean of the log predictive densities of the $n$ rows, and equal to it for one row.
    """
    one = packing.repeated(1.0 / xp.maximum(rows, 1.0)) * message
    ends = packing.unpacked(xp.stack([members, members + one]))
    found = packing.side_by_side(ends.log_normalizers())
    return found[1] - found[0]


def _log_rest(log_trust: Array) -> Array:
    """Log of what trust lacks to 1."""
    return xp.log(xp.maximum(1.0 - total_of(xp.exp(log_trust)), 0.0))


class _Slots(NamedTuple):
    """What an ``AutoMemory`` has for the slots of all blocks, packed."""

    members: Array
    recalls: Array
    log_weights: Array
    log_trust: Array
    ages: Array

    def where(self, packing: Packing, chosen: Array, others: "_Slots") -> "_Slots":
        """These of the chosen blocks, the others elsewhere."""
        numbers = packing.repeated(chosen)
        masks = (numbers, numbers, chosen, chosen, chosen)
        pairs = zip(masks, self, others, strict=True)
        return _Slots(*(xp.where(mask, mine, theirs) for mask, mine, theirs in pairs))


def _undisturbed(packing: Packing, held: _Slots) -> Array:
    """Members after a batch without rows: what starts over with it starts over in other blocks only."""
    weights = packing.repeated(xp.exp(log_shares(held.log_weights)))
    return xp.put(held.members, _NEWBORN, total_of(weights * held.members))


def _reborn(
    packing: Packing, slots: _Slots, anchor: AutoAnchor, prior: Array, has_rows: Array
) -> _Slots:
    """After a batch: one restart and one recall leave, others take their places, new ones are born."""
    log_weights, log_trust = (
        xp.stack([each[_RESTARTS], each[_RECALLS]]) for each in (slots.log_weights, slots.log_trust)
    )
    ages = slots.ages.reshape(2, _NUM_BORN, -1)
    move = _Move.of(log_weights, ages)
    born, trusted = (
        move.merged(each).reshape(2 * _NUM_BORN, -1) for each in (log_weights, log_trust)
    )
    after = xp.concatenate([slots.log_weights[_FADES], born])
    restarts, recalls = (
        _Move(*(packing.repeated(place[kind]) for place in move)) for kind in (0, 1)
    )
    learned = slots.members[_RECALLS]
    older = xp.concatenate([slots.members[_FADES], restarts.moved(slots.members[_RESTARTS], prior)])
    # a recall goes on from where it was, less what it was not believed to have seen
    believed = packing.repeated(xp.exp(slots.log_weights[_RECALLS]))
    before = anchor.packed[_RECALLS]
    gone_on = believed * learned + (1.0 - believed) * before
    gone_on = xp.where(packing.repeated(has_rows), gone_on, before)
    # the newborn has no weight yet, so any will do to find what it is born from
    unborn = xp.concatenate([older, recalls.moved(gone_on, prior)])
    weights = packing.repeated(xp.exp(log_shares(after)))
    snapshot = total_of(weights * unborn)
    return _Slots(
        members=xp.concatenate([older, recalls.moved(learned, snapshot)]),
        recalls=recalls.moved(gone_on, snapshot),
        log_weights=after,
        log_trust=xp.concatenate([slots.log_trust[_FADES], trusted]),
        ages=move.moved(ages, xp.zeros((2, packing.num_blocks))).reshape(2 * _NUM_BORN, -1),
    )


def _selected(chosen: Mapping[str, Any], some: AutoMemory, others: AutoMemory) -> AutoMemory:
    """Blocks of one memory where they are chosen, those of the other elsewhere; the clock is the first one's."""

    def of_blocks(mine: PerBlock, theirs: PerBlock) -> PerBlock:
        return {name: xp.where(chosen[name], mine[name], theirs[name]) for name in mine}

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

    Slots are on the last axis but one, blocks on the last; masks instead of indices, whose bounds XLA would check
    over and over.

    Attributes:
        dropped: A place per block.
        heir: Likewise; the place of an empty slot inherits nothing.
    """

    dropped: Array
    heir: Array

    @classmethod
    def of(cls, log_weights: Array, ages: Array) -> "_Move":
        older, younger = ages[..., :-1, :], ages[..., 1:, :]
        ratio = xp.where(older == younger, 1.0, older / younger)
        nearest = _first_least(ratio)
        pair = [_at(log_weights, nearest + k) for k in (0, 1)]
        lighter = xp.where(pair[0] < pair[1], nearest, nearest + 1)
        is_full = ages[..., 0, :] >= 0
        dropped = xp.where(is_full, lighter, 0)
        return cls(dropped, xp.where(is_full, 2 * nearest + 1 - lighter, 0))

    def moved(self, slots: Array, newborn: Array) -> Array:
        """The slots without the one that is dropped, and the newborn last."""
        is_beyond = _places(_NUM_BORN - 1) >= self.dropped[..., None, :]
        kept = xp.where(is_beyond, slots[..., 1:, :], slots[..., :-1, :])
        return xp.concatenate([kept, newborn[..., None, :]], -2)

    def merged(self, log_weights: Array) -> Array:
        """The same for log weights, with what the dropped slot leaves to its heir."""
        left = _at(log_weights, self.dropped)[..., None, :]
        inherits = (_places(_NUM_BORN) == self.heir[..., None, :]) & (self.heir != self.dropped)[
            ..., None, :
        ]
        sums = xp.where(inherits, xp.logaddexp(log_weights, left), log_weights)
        return self.moved(sums, xp.full_like(left[..., 0, :], -xp.inf))


def _places(size: int) -> Array:
    return xp.arange(size)[:, None]


def _first_least(values: Array) -> Array:
    """The first place of the least value on the last axis but one."""
    size = values.shape[-2]
    least = values == values.min(-2, keepdims=True)
    return xp.where(least, _places(size), size - 1).min(-2)


def _at(values: Array, place: Array) -> Array:
    """The value at a place on the last axis but one."""
    chosen = _places(values.shape[-2]) == place[..., None, :]
    return xp.where(chosen, values, -xp.inf).max(-2)


def _slots(blocks: Blocks, which: Any) -> Blocks:
    part: Blocks = jax.tree.map(lambda leaf: leaf[which], blocks)
    return part


def _repeated(blocks: Blocks, times: int) -> Blocks:
    copies: Blocks = jax.tree.map(
        lambda leaf: xp.broadcast_to(leaf, (times, *xp.shape(leaf))), blocks
    )
    return copies


def _by_horizon(weights: Array, reach: Array) -> Array:
    """Weights of fades and restarts by the horizon that is nearest to what they reach, (16, blocks)."""
    rows = xp.maximum(reach[_RESTARTS], HORIZONS[0])  # NaN stays
    place = xp.clip(xp.round(xp.log2(rows / HORIZONS[0])), 0, len(HORIZONS) - 2)
    kinds = xp.arange(len(HORIZONS)).reshape(-1, 1, 1)
    return weights[_FADES] + xp.where(place == kinds, weights[_RESTARTS], 0.0).sum(1)
