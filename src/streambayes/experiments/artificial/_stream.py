"""The stream: 100 batches of draws from a probability that changes twice."""

import dataclasses
from collections.abc import Iterator
from typing import final

import numpy as np

__all__ = ["SEED", "Stream", "generated", "true_probability"]

SEED = 2017  # of generated streams, unless another is asked for


@final
@dataclasses.dataclass(frozen=True)
class Stream:
    """Numbers of successes in batches of equal size.

    Attributes:
        batch_size: Draws in every batch.
        successes: Successes in every batch, shape (num_batches,).
        source: Where the numbers come from, in words.
    """

    batch_size: int
    successes: np.ndarray
    source: str

    def __len__(self) -> int:
        return len(self.successes)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        """The batches: one row each, with the counts that its draws amount to."""
        for successes in self.successes:
            yield {"successes": np.array([successes]), "draws": np.array([self.batch_size])}


def true_probability() -> np.ndarray:
    """The probability in each batch: 0.2 for 30 batches, 0.5 for 30, 0.8 for 40."""
    return np.repeat([0.2, 0.5, 0.8], [30, 30, 40])


def generated(batch_size: int, seed: int = SEED) -> Stream:
    """A stream drawn with a seed."""
    if batch_size < 1:
        message = f"generated: batch_size must be at least 1, got {batch_size}"
        raise ValueError(message)
    generator = np.random.default_rng([seed, batch_size])
    successes = generator.binomial(batch_size, true_probability())
    return Stream(batch_size, successes, f"generated with seed {seed}")
