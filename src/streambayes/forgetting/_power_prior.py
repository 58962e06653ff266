"""Power priors: a fixed share of the past, towards the prior or towards nothing."""

from typing import final

from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.pytree import definition, number
from streambayes.families import Blocks
from streambayes.forgetting._base import (
    AbstractSinglePrior,
    Clock,
    PriorAnchor,
    settle_numbers,
    total,
    unit_interval,
)

__all__ = ["Fading", "PowerPrior"]

_NEXT_TO_NOTHING = 1e-3
_TRACE = 1e-6


@final
@definition
class PowerPrior(AbstractSinglePrior):
    r"""Prior of batch t: $\rho\lambda_{t-1} + (1 - \rho)\alpha_u$ in natural parameters (SVB-PP).

    Equivalent to giving the rows of a batch that lies k batches back the weight $\rho^k$.

    Args:
        rho: The share of the past that is kept, in [0, 1].
        kl_budget: Instead of ``rho``: the paper's $\kappa$. Each batch keeps the least share for which
            $KL(\hat p_t \| q_{t-1}) \le \kappa$ nats, summed over all blocks.
    """

    rho: float | None = number(default=None)
    kl_budget: float | None = number(default=None)

    def __post_init__(self) -> None:
        settle_numbers(self)
        if (self.rho is None) == (self.kl_budget is None):
            message = "PowerPrior: give one of rho and kl_budget"
            raise ValueError(message)
        if self.rho is not None:
            unit_interval("PowerPrior", "rho", self.rho)
        elif self.kl_budget is not None and not 0.0 <= self.kl_budget < float("inf"):
            message = f"PowerPrior: kl_budget must be at least 0 and finite, got {self.kl_budget}"
            raise ValueError(message)

    @property
    def name(self) -> str:
        if self.rho is None:
            return f"PP kappa={self.kl_budget:g}"
        return f"PP {self.rho:g}"

    def open(self, memory: Blocks, prior: Blocks, clock: Clock) -> PriorAnchor:
        del clock
        if self.kl_budget is not None:
            rho = _least_share(memory, prior, self.kl_budget)
        else:
            rho = xp.asarray(self.rho, dtype=float)
        return PriorAnchor(tempered=memory.lerp(prior, rho), rho=rho)


@final
@definition
class Fading(AbstractSinglePrior):
    r"""Prior of batch t: $\rho\lambda_{t-1}$, towards nothing rather than towards the prior.

    What the authors' program calls a power prior. It depends on how a family is parametrised, and
    would become improper where no rows replace what fades: a block that is left with less than a
    thousandth of a row is the prior again, and none fades below a millionth of the prior. The first
    batch's prior is not faded.

    Args:
        rho: The share of the past that is kept, in [0, 1].
    """

    rho: float = number()

    def __post_init__(self) -> None:
        settle_numbers(self)
        unit_interval("Fading", "rho", self.rho)

    @property
    def name(self) -> str:
        return f"Fading {self.rho:g}"

    def open(self, memory: Blocks, prior: Blocks, clock: Clock) -> PriorAnchor:
        rho = xp.where(clock.rows_seen > 0, self.rho, 1.0)
        faded = memory.scaled(rho)
        trace = prior.scaled(_TRACE)
        is_gone = {name: count < _NEXT_TO_NOTHING for name, count in faded.counts.items()}
        is_thin = {
            name: ~family.is_proper()
            for name, family in (faded + trace.scaled(-1.0)).params.items()
        }
        tempered = (faded + trace).select(is_thin, faded)
        return PriorAnchor(tempered=prior.select(is_gone, tempered), rho=rho)


def _least_share(previous: Blocks, prior: Blocks, budget: float) -> Array:
    """The smallest rho within the budget; the divergence falls from rho = 0 to rho = 1."""

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        within = total(previous.lerp(prior, middle).kl(previous)) <= budget
        return xp.where(within, low, middle), xp.where(within, middle, high)

    _, high = xp.fori_loop(0, 60, halve, (xp.zeros(()), xp.ones(())))
    free = total(prior.kl(previous)) <= budget
    return xp.where(free, 0.0, high)
