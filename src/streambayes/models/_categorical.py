"""The model of one column of categories."""

from collections.abc import Sequence
from typing import final

from streambayes._core.pytree import definition
from streambayes.models.network import AbstractNetwork, AbstractVariable, Network, values_of

__all__ = ["Categorical"]


@final
@definition
class Categorical(AbstractNetwork):
    r"""$x_i \sim \mathrm{Categorical}(p)$, $p \sim \mathrm{Dirichlet}(1, \dots, 1)$.

    Args:
        column: The column.
        categories: Its possible values, or how many there are: then 0, 1, 2, ...
    """

    column: str
    categories: tuple[str | int, ...]

    def __init__(self, column: str, categories: Sequence[str | int] | int) -> None:
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "categories", values_of(column, categories))

    @property
    def variables(self) -> tuple[AbstractVariable, ...]:
        net = Network()
        net.categorical(self.column, self.categories)
        return net.declared
