"""merge: one state from states that were learned apart."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from streambayes._core.precision import float64_scope
from streambayes.families import Blocks
from streambayes.forgetting import HPP, MHPP, PVB, SVB, SVI, Auto, Fading, PowerPrior
from streambayes.learning._state import LearnerState

__all__ = ["merge"]


def merge(states: Iterable[LearnerState], *, common: LearnerState | None = None) -> LearnerState:
    r"""One state that has learned what several sites have learned, each from rows of its own.

    Natural parameters that the sites have added to a common beginning add up:

    $$\lambda = c(K) + \sum_i (\lambda_i - c(k_i)).$$

    $c(k)$ is what the policy leaves of the common state after k batches, and K is the largest of the
    sites' $k_i$. Rows retained add up alike. Every row has the weight that it has at its site.

    Where rows hide nothing and blocks are not coupled, the result is that of learning the rows of all
    sites together: with ``SVB`` however they are cut into batches, with ``PowerPrior(rho)`` and ``Fading``
    batch by batch. Otherwise messages depend on what a site believed, and it is an approximation, as
    learning batch after batch is one. So it is with ``HPP``, ``MHPP`` and ``PowerPrior(kl_budget=...)``,
    where every site forgets as its own rows suggest.

    Args:
        states: One for each site, all begun from one state that ``StreamLearner.init`` has made. A site
            may have learned nothing.
        common: The state that all sites began from, if it had learned batches; otherwise their prior.
            Policies that learn what to keep must begin without batches.
    """
    sites = _checked(states, common)
    first = sites[0]
    if common is None:
        common = _unlearned(first)
    num_batches = max(int(site.num_batches) for site in sites)
    with float64_scope():
        memory = _left(common, num_batches)
        for site in sites:
            gone = _left(common, int(site.num_batches)).scaled(-1.0)
            memory = memory + (site.memory + gone)
        if not (memory.is_finite() and memory.is_proper()):
            message = (
                "merge: what the sites have added to the common state is no distribution; common "
                "must be the state that all of them began from"
            )
            raise ValueError(message)
        nothing = num_batches == int(common.num_batches)
        # before the first batch the belief is where sweeps start, not what was learned
        belief = first.belief if nothing else first.forgetting.belief(memory)
    gained = np.array([float(site.rows_seen) for site in sites]) - float(common.rows_seen)
    last_time, pending = _times(sites)
    return dataclasses.replace(
        first,
        memory=memory,
        belief=belief,
        num_batches=np.int64(num_batches),
        rows_seen=np.float64(common.rows_seen + gained.sum()),
        pending=pending,
        last_time=last_time,
    )


def _left(common: LearnerState, num_batches: int) -> Blocks:
    """What is left of the common state when so many batches have been learned in all."""
    policy, passed = common.forgetting, num_batches - int(common.num_batches)
    memory: Blocks = common.memory
    if isinstance(policy, PowerPrior) and policy.rho is not None:
        return memory.lerp(common.prior, policy.rho**passed)
    if isinstance(policy, Fading):  # the first batch's prior is not faded
        return memory.scaled(policy.rho ** (passed if common.rows_seen else max(passed - 1, 0)))
    return memory


def _unlearned(state: LearnerState) -> LearnerState:
    """The state before any batch."""
    with float64_scope():
        memory = state.forgetting.init(state.prior)
    return dataclasses.replace(
        state, memory=memory, num_batches=np.int64(0), rows_seen=np.float64(0.0)
    )


def _times(sites: list[LearnerState]) -> tuple[np.float64, np.float64]:
    """The last time of all sites, and what has passed then since any of them had rows."""
    times = np.array([float(site.last_time) for site in sites])
    waited = np.array([float(site.pending) for site in sites])
    known = ~np.isnan(times)
    if not known.any():
        return np.float64(np.nan), np.float64(waited.min())
    last = times[known].max()
    return np.float64(last), np.float64(last - (times - waited)[known].max())


def _checked(states: Any, common: Any) -> list[LearnerState]:
    """The states as a list, if they can be merged."""
    if not isinstance(states, Iterable) or isinstance(states, Mapping | str):
        hint = "; give its values()" if isinstance(states, Mapping) else ""
        message = f"merge: states must be a list of states, got a {type(states).__name__}{hint}"
        raise TypeError(message)
    sites = list(states)
    if not sites:
        message = "merge: there are no states; give the state of each site"
        raise ValueError(message)
    named = {f"state {place}": site for place, site in enumerate(sites)}
    if common is not None:
        named["common"] = common
    for name, state in named.items():
        if not isinstance(state, LearnerState):
            message = (
                f"merge: {name} must be a state from StreamLearner.init or step, got a "
                f"{type(state).__name__}"
            )
            raise TypeError(message)
    _check_policy(sites[0])
    for name, state in named.items():
        _check_alike(name, state, sites[0])
    if common is not None:
        _check_common(sites, common)
    return sites


def _check_policy(state: LearnerState) -> None:
    """Raise unless what the policy keeps adds up over sites."""
    policy = state.forgetting
    if isinstance(policy, SVB | PowerPrior | Fading | HPP | MHPP):
        return
    if isinstance(policy, Auto):
        reason = "its memories are weighed by the rows of one site alone"
    elif isinstance(policy, PVB | SVI):
        reason = "each of them stands for all rows of a population"
    else:
        reason = "merge does not know what it leaves of a common state"
    message = (
        f"merge: states of {policy.name} do not add up, because {reason}; learn the sites with SVB, "
        "PowerPrior, Fading, HPP or MHPP"
    )
    raise ValueError(message)


def _check_alike(name: str, state: LearnerState, first: LearnerState) -> None:
    """Raise unless the state has the first one's model, policy, units and prior."""
    if (state.model, state.forgetting) != (first.model, first.forgetting):
        mine, theirs = _described(state), _described(first)
        if mine == theirs:
            theirs += " of other columns or settings"
        message = f"merge: {name} belongs to {mine}, state 0 to {theirs}; learn all sites alike"
        raise ValueError(message)
    if not _same(_units(state), _units(first)):
        message = (
            f"merge: {name} and state 0 are in different units; begin all sites from one state of "
            "StreamLearner.init, made from rows in which every column varies, or give the learner "
            "its scale"
        )
        raise ValueError(message)
    if not _same(state.prior, first.prior):
        message = f"merge: {name} and state 0 have different priors; begin all sites from one state"
        raise ValueError(message)


def _check_common(sites: list[LearnerState], common: LearnerState) -> None:
    """Raise unless the sites may have begun from the common state, and its part in them is known."""
    for place, site in enumerate(sites):
        if site.num_batches < common.num_batches or site.rows_seen < common.rows_seen:
            message = (
                f"merge: state {place} has learned {_learned(site)}, fewer than the "
                f"{_learned(common)} of common, which must be the state that all sites began from"
            )
            raise ValueError(message)
    policy = common.forgetting
    fixed = isinstance(policy, SVB | Fading) or (
        isinstance(policy, PowerPrior) and policy.rho is not None
    )
    if common.num_batches > 0 and not fixed:
        message = (
            f"merge: with {policy.name} every site keeps another share of a common state, which "
            "would be counted more than once; begin the sites from a state without batches, or use "
            "SVB, PowerPrior(rho) or Fading"
        )
        raise ValueError(message)


def _units(state: LearnerState) -> tuple[Any, ...]:
    return state.scale.shift, state.scale.factor, state.scale.frozen


def _same(mine: Any, theirs: Any) -> bool:
    """Whether two trees of arrays hold the same numbers."""
    pairs = zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True)
    return all(np.array_equal(one, other) for one, other in pairs)


def _described(state: LearnerState) -> str:
    return f"{type(state.model).__name__} with {state.forgetting.name}"


def _learned(state: LearnerState) -> str:
    return f"{float(state.rows_seen):g} rows in {int(state.num_batches)} batches"
