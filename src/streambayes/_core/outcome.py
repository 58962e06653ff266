"""How a step ended, as a value that compiled code can return."""

import enum

__all__ = ["Outcome"]


class Outcome(enum.IntEnum):
    """How a step ended; ``sentence`` says it in words."""

    CONVERGED = 0
    MAX_SWEEPS = 1
    EMPTY = 2
    IMPROPER = 3
    NOT_FINITE = 4

    @property
    def sentence(self) -> str:
        """What happened, and what to do about it where that is needed."""
        return _SENTENCES[self]

    @property
    def failed(self) -> bool:
        """Whether the step has no usable posterior."""
        return self in (Outcome.IMPROPER, Outcome.NOT_FINITE)


_SENTENCES = {
    Outcome.CONVERGED: "the bound settled",
    Outcome.MAX_SWEEPS: "stopped at max_sweeps before the bound settled; raise max_sweeps or tolerance",
    Outcome.EMPTY: "the batch has no rows, nothing was learned or forgotten",
    Outcome.IMPROPER: (
        "forgetting leaves a prior that is not a distribution: too little of the past is kept and "
        "nothing replaces it; use a larger rho, or PowerPrior, which fades towards the prior"
    ),
    Outcome.NOT_FINITE: (
        "the posterior or its bound is not finite; check the data for values many orders of "
        "magnitude apart and the prior for extreme settings"
    ),
}
