"""The model of one column of counts."""

from typing import final

from streambayes._core.pytree import definition
from streambayes.models.network import AbstractNetwork, AbstractVariable, Network

__all__ = ["Poisson"]


@final
@definition
class Poisson(AbstractNetwork):
    r"""$x_i \sim \mathrm{Poisson}(r)$, $r \sim \mathrm{Gamma}(1, 1)$.

    Args:
        column: The column of counts.
    """

    column: str

    @property
    def variables(self) -> tuple[AbstractVariable, ...]:
        net = Network()
        net.poisson(self.column)
        return net.declared
