"""Track: what one method believed after every batch of a stream."""

import dataclasses
from collections.abc import Callable
from typing import Any, final

import numpy as np

from streambayes.experiments.artificial._stream import Stream
from streambayes.forgetting import AbstractForgetting
from streambayes.learning import StreamLearner
from streambayes.models import BetaBinomial

__all__ = ["Track", "track"]


@final
@dataclasses.dataclass(frozen=True)
class Track:
    r"""The Beta posterior after every batch, and what was kept of the past; shapes (num_batches,).

    Attributes:
        alpha: Pseudo-counts of successes, the prior's 1 included.
        beta: Pseudo-counts of failures, the prior's 1 included.
        rho: $E[\rho_t]$, the share of the past that was kept; ``None`` for methods without one.
        omega: Natural parameter of $q(\rho_t)$; ``None`` where rho is not learned.
    """

    alpha: np.ndarray
    beta: np.ndarray
    rho: np.ndarray | None = None
    omega: np.ndarray | None = None

    @property
    def mean(self) -> np.ndarray:
        r"""$E[\beta_t]$, the expected probability of success."""
        mean: np.ndarray = self.alpha / self.sample_size
        return mean

    @property
    def sample_size(self) -> np.ndarray:
        """The paper's equivalent sample size: the sum of both, the prior's 2 included."""
        size: np.ndarray = self.alpha + self.beta
        return size


def track(
    stream: Stream,
    policy: AbstractForgetting[Any, Any],
    advance: Callable[[], None] | None = None,
    **settings: Any,
) -> Track:
    """Learn the stream with a policy, from Beta(1, 1).

    Args:
        stream: The stream.
        policy: What to keep of the past.
        advance: Called after every batch.
        **settings: Passed on to ``StreamLearner``.
    """
    learner = StreamLearner(BetaBinomial("successes", trials="draws"), policy, **settings)
    state = None
    posteriors, shares, slopes = [], [], []
    for batch in stream:
        state = learner.init(batch) if state is None else state
        state, info = learner.step(state, batch)
        beta: Any = state.posterior["successes"]
        posteriors.append((float(beta.alpha), float(beta.beta)))
        shares.append(_scalar(info.rho))
        slopes.append(_scalar(info.omega))
        if advance is not None:
            advance()
    alpha, beta = np.array(posteriors).T
    return Track(alpha, beta, _series(shares), _series(slopes))


def _scalar(value: float | dict[str, float] | None) -> float | None:
    """The model has one block, so that one number per block is one number."""
    if isinstance(value, dict):
        (value,) = value.values()
    return value


def _series(values: list[float | None]) -> np.ndarray | None:
    known = [value for value in values if value is not None]
    return np.array(known) if known else None
