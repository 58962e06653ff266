"""Laws that every forgetting policy keeps."""

from typing import Any

import jax
import numpy as np

from streambayes._core.outcome import Outcome
from streambayes._core.precision import in_float64
from streambayes.forgetting import SVB, AbstractForgetting
from streambayes.learning import StreamLearner
from streambayes.models import Gaussian
from streambayes.testing._climb import check_climb
from streambayes.testing._law import agree, broken, close

__all__ = ["check_forgetting"]

Policy = AbstractForgetting[Any, Any]
_MODEL = Gaussian(["steady", "moving"])


def check_forgetting(policy: Policy, *, seed: int = 0) -> None:
    """Raise ``AssertionError`` naming the law that a policy breaks on a small drifting stream.

    Args:
        policy: The policy.
        seed: For the stream.
    """
    stream = _stream(seed)
    learner = StreamLearner(_MODEL, policy)
    agree("equal settings are equal policies", hash(policy), hash(policy))
    _check_first_batch(learner, stream)
    _check_steps(learner, stream)
    _check_restart(learner, stream)
    _check_symmetry(policy, stream)
    if policy.maximises_bound:
        check_climb(learner, stream)


def _stream(seed: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    means = [0.0, 0.0, 0.1, 0.2, 4.0, 4.0]
    return [
        {"steady": rng.normal(10.0, 2.0, 40), "moving": rng.normal(mean, 1.0, 40)} for mean in means
    ]


def _check_first_batch(learner: StreamLearner, stream: list[dict[str, np.ndarray]]) -> None:
    """There is no past to forget: the first batch is learned from the prior."""
    if not learner.forgetting.maximises_bound:
        return
    after, _ = learner.step(learner.init(stream[0]), stream[0])
    plain = StreamLearner(_MODEL, SVB())
    expected, _ = plain.step(plain.init(stream[0]), stream[0])
    close("the first batch is learned from the prior", after.posterior, expected.posterior)


def _check_steps(learner: StreamLearner, stream: list[dict[str, np.ndarray]]) -> None:
    state = learner.init(stream[0])
    seen = 0
    for batch in stream:
        waiting, info = learner.step(state, {name: [] for name in batch})
        agree("an empty batch ends as such", info.outcome, Outcome.EMPTY)
        close("an empty batch forgets nothing", waiting.memory, state.memory, tolerance=0.0)
        after, info = learner.step(state, batch)
        agree(
            "memory keeps its structure",
            [(leaf.shape, leaf.dtype) for leaf in map(np.asarray, jax.tree.leaves(after.memory))],
            [(leaf.shape, leaf.dtype) for leaf in map(np.asarray, jax.tree.leaves(state.memory))],
        )
        close(
            "belief is a view of the memory",
            learner.forgetting.belief(after.memory),
            after.belief,
            tolerance=0.0,
        )
        _check_info(learner.forgetting, info, len(batch["steady"]), seen)
        seen += len(batch["steady"])
        state = after


def _check_info(policy: Policy, info: Any, num_rows: int, seen: int) -> None:
    shares = info.rho.values() if isinstance(info.rho, dict) else [info.rho]
    for rho in shares:
        if rho is not None and not 0.0 <= rho <= 1.0:
            broken(f"rho lies in [0, 1]: found {rho}")
    if not policy.maximises_bound:
        agree("no bound is claimed where none is climbed", info.bound, None)
        return
    for label, count in info.retained.items():
        if not num_rows * (1 - 1e-12) <= count <= (seen + num_rows) * (1 + 1e-12):
            broken(f"{label!r} retains between this batch's rows and all rows: found {count}")


@in_float64
def _check_restart(learner: StreamLearner, stream: list[dict[str, np.ndarray]]) -> None:
    state = learner.init(stream[0])
    for batch in stream[:2]:
        state, _ = learner.step(state, batch)
    name = next(iter(state.prior.params))
    chosen = {name: np.array([False, True])}
    restarted = learner.forgetting.restart(state.memory, state.prior, chosen)
    found = learner.forgetting.belief(restarted).summary()
    expected = state.prior.select(chosen, state.belief.summary())
    close("a restart forgets the chosen blocks and no others", found, expected)


def _check_symmetry(policy: Policy, stream: list[dict[str, np.ndarray]]) -> None:
    """Blocks that trade places trade results."""
    swapped = StreamLearner(Gaussian(["moving", "steady"]), policy)
    learner = StreamLearner(_MODEL, policy)
    mine, theirs = learner.init(stream[0]), swapped.init(stream[0])
    for batch in stream:
        mine, info = learner.step(mine, batch)
        theirs, other = swapped.step(theirs, batch)
        for label, count in info.retained.items():
            close(
                f"the order of blocks changes nothing for {label!r}", other.retained[label], count
            )
