"""The policies that are compared, and the fixed ones that hindsight chooses from."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from streambayes.forgetting import HPP, MHPP, PVB, SVI, AbstractForgetting, Auto, Fading, PowerPrior

__all__ = ["FIXED", "compared", "fixed"]

Policy = AbstractForgetting[Any, Any]

FIXED = ("SVB", "PP 0.9", "PP 0.99")
_HORIZONS = tuple(2.0**k for k in range(3, 18))


def fixed(batch_size: int) -> Mapping[str, Policy]:
    """Power priors of one kind: never forgetting, two shares per batch, and 15 horizons in rows."""
    horizons = {f"horizon {h:g}": PowerPrior(math.exp(-batch_size / h)) for h in _HORIZONS}
    return {
        "SVB": PowerPrior(1.0),
        "PP 0.9": PowerPrior(0.9),
        "PP 0.99": PowerPrior(0.99),
        **horizons,
    }


def compared(num_rows: int) -> Sequence[Policy]:
    """The others."""
    return (Auto(), HPP(), MHPP(), Fading(0.99), PVB(1000, 0.1), SVI(num_rows))
