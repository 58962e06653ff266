"""No forgetting: streaming variational Bayes."""

from typing import final

from streambayes._core.arrays import xp
from streambayes._core.pytree import definition
from streambayes.families import Blocks
from streambayes.forgetting._base import AbstractSinglePrior, Clock, PriorAnchor

__all__ = ["SVB"]


@final
@definition
class SVB(AbstractSinglePrior):
    """Yesterday's posterior is today's prior; nothing is forgotten (streaming variational Bayes)."""

    @property
    def name(self) -> str:
        return "SVB"

    def open(self, memory: Blocks, prior: Blocks, clock: Clock) -> PriorAnchor:
        del prior, clock
        return PriorAnchor(tempered=memory, rho=xp.ones(()))
