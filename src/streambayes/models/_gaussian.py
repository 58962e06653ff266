"""Gaussian columns: independent of each other, or with a full covariance."""

from collections.abc import Sequence
from typing import final

from streambayes._core.pytree import definition
from streambayes.models.network import (
    AbstractNetwork,
    AbstractVariable,
    Network,
    Transform,
    Transforms,
    names_of,
    transforms_of,
)

__all__ = ["Gaussian", "MultivariateGaussian"]


@final
@definition
class Gaussian(AbstractNetwork):
    r"""Columns $x_{id} \sim N(\mu_d, 1 / \tau_d)$, independent; $(\mu_d, \tau_d) \sim \mathrm{NormalGamma}$.

    Every column is one block. The prior has shape 1, rate 1, mean 0, scale 1 on centred and scaled
    columns.

    Args:
        names: One column or several.
        transform: ``"log"`` for columns whose logarithms are normal: for all of them, or a mapping for some.
    """

    names: tuple[str, ...]
    transform: Transforms = ()

    def __init__(self, names: str | Sequence[str], transform: Transform = ()) -> None:
        chosen = names_of(names)
        object.__setattr__(self, "names", chosen)
        object.__setattr__(self, "transform", transforms_of(transform, chosen, "Gaussian"))

    @property
    def variables(self) -> tuple[AbstractVariable, ...]:
        net = Network()
        net.normal(self.names, transform=self.transform)
        return net.declared


@final
@definition
class MultivariateGaussian(AbstractNetwork):
    r"""Rows $x_i \sim N(\mu, \Lambda^{-1})$; $(\mu, \Lambda) \sim \mathrm{NormalWishart}$, one block.

    The prior has $d + 1$ degrees of freedom, scatter the identity, mean 0, scale 1 on centred and
    scaled columns.

    Args:
        names: The columns.
        transform: ``"log"`` for columns whose logarithms are normal: for all of them, or a mapping for some.
    """

    names: tuple[str, ...]
    transform: Transforms = ()

    def __init__(self, names: str | Sequence[str], transform: Transform = ()) -> None:
        chosen = names_of(names)
        object.__setattr__(self, "names", chosen)
        object.__setattr__(
            self, "transform", transforms_of(transform, chosen, "MultivariateGaussian")
        )

    @property
    def variables(self) -> tuple[AbstractVariable, ...]:
        net = Network()
        net.multivariate_normal(self.names, transform=self.transform)
        return net.declared
