"""The paper's nine methods."""

from typing import Any

from streambayes.forgetting import HPP, MHPP, PVB, SVB, AbstractForgetting, PowerPrior

__all__ = ["methods"]


def methods(batch_size: int) -> dict[str, AbstractForgetting[Any, Any]]:
    """The nine methods by name, for batches of one size.

    ``M=batch`` is a population as large as a batch; with batches of 1000 it is that of ``M=1000``.
    """
    return {
        "SVB": SVB(),
        "PVB M=1000 nu=0.1": PVB(population_size=1000, step_size=0.1),
        "PVB M=1000 nu=0.01": PVB(population_size=1000, step_size=0.01),
        "PVB M=batch nu=0.1": PVB(population_size=batch_size, step_size=0.1),
        "PVB M=batch nu=0.01": PVB(population_size=batch_size, step_size=0.01),
        "PP 0.9": PowerPrior(0.9),
        "PP 0.99": PowerPrior(0.99),
        "HPP": HPP(),
        "MHPP": MHPP(),
    }
