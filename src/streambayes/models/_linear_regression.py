"""Linear regression on columns that have distributions of their own."""

from collections.abc import Sequence
from typing import final

from streambayes._core.pytree import definition
from streambayes.models.network import (
    AbstractNetwork,
    AbstractVariable,
    Coefficients,
    Network,
    Transform,
    Transforms,
    names_of,
    transforms_of,
)

__all__ = ["LinearRegression"]


@final
@definition
class LinearRegression(AbstractNetwork):
    r"""$y \mid x \sim N(b_0 + \sum_j b_j x_j, 1 / \tau)$ with normal $x_j$, so that any cell may be missing.

    Args:
        response: The column $y$.
        regressors: The columns $x_j$.
        coefficients: What is a block: all coefficients together (``joint``), each on its own
            (``independent``, the paper's Electricity model), or coefficients and noise together
            (``conjugate``: the exact posterior).
        transform: ``"log"`` where logarithms take part: for response and regressors, or a mapping for some.
    """

    response: str
    regressors: tuple[str, ...]
    coefficients: Coefficients = "joint"
    transform: Transforms = ()

    def __init__(
        self,
        response: str,
        regressors: str | Sequence[str],
        coefficients: Coefficients = "joint",
        transform: Transform = (),
    ) -> None:
        chosen = names_of(regressors)
        if response in chosen:
            message = f"LinearRegression: the response {response!r} is also among the regressors"
            raise ValueError(message)
        object.__setattr__(self, "response", response)
        object.__setattr__(self, "regressors", chosen)
        object.__setattr__(self, "coefficients", coefficients)
        taken = transforms_of(transform, (response, *chosen), "LinearRegression")
        object.__setattr__(self, "transform", taken)
        _ = self.structure

    @property
    def variables(self) -> tuple[AbstractVariable, ...]:
        net = Network()
        taken = dict(self.transform)
        own = {self.response: taken.pop(self.response)} if self.response in taken else {}
        parents = net.normal(self.regressors, transform=taken)
        net.normal(self.response, parents=parents, coefficients=self.coefficients, transform=own)
        return net.declared

    @property
    def target(self) -> str:
        return self.response
