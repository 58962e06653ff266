"""Mixtures of Gaussians, for all rows alike or for each value of an observed column."""

from collections.abc import Sequence
from typing import Literal, final, get_args

import numpy as np

from streambayes._core.pytree import definition
from streambayes.models.network import (
    AbstractNetwork,
    AbstractVariable,
    Network,
    Transform,
    Transforms,
    names_of,
    transforms_of,
    values_of,
)

__all__ = ["ConditionalMixture", "GaussianMixture"]

Covariance = Literal["diagonal", "full"]
COMPONENT = "component"


def names_beside_component(names: str | Sequence[str], *others: str) -> tuple[str, ...]:
    """Names of columns, none of which is that of the hidden variable."""
    chosen = names_of(names)
    if COMPONENT in (*chosen, *others):
        message = f"{COMPONENT!r} is what the hidden variable is called; call the column otherwise"
        raise ValueError(message)
    return chosen


def check_num_components(model: str, num_components: int) -> None:
    """Raise unless the hidden variable has as many values as that."""
    if not isinstance(num_components, int | np.integer) or num_components < 2:
        message = (
            f"{model}: num_components must be a whole number of at least 2, got {num_components!r}"
        )
        raise ValueError(message)


@final
@definition
class GaussianMixture(AbstractNetwork):
    r"""$z \sim \mathrm{Categorical}(\pi)$ hidden, columns normal given $z$.

    Args:
        names: The columns.
        num_components: How many values the hidden variable ``component`` has.
        covariance: ``diagonal``, a mean and a precision for each column and component, or ``full``, a
            mean vector and a precision matrix for each component.
        transform: ``"log"`` for columns whose logarithms are normal: for all of them, or a mapping for some.
    """

    names: tuple[str, ...]
    num_components: int
    covariance: Covariance = "diagonal"
    transform: Transforms = ()

    def __init__(
        self,
        names: str | Sequence[str],
        num_components: int,
        covariance: Covariance = "diagonal",
        transform: Transform = (),
    ) -> None:
        if covariance not in get_args(Covariance):
            message = (
                f"GaussianMixture: covariance must be 'diagonal' or 'full', got {covariance!r}"
            )
            raise ValueError(message)
        check_num_components("GaussianMixture", num_components)
        chosen = names_beside_component(names)
        object.__setattr__(self, "names", chosen)
        object.__setattr__(self, "num_components", num_components)
        object.__setattr__(self, "covariance", covariance)
        taken = transforms_of(transform, chosen, "GaussianMixture")
        object.__setattr__(self, "transform", taken)
        _ = self.structure

    @property
    def variables(self) -> tuple[AbstractVariable, ...]:
        net = Network()
        z = net.categorical(COMPONENT, self.num_components, latent=True)
        declare = net.normal if self.covariance == "diagonal" else net.multivariate_normal
        declare(self.names, parents=[z], transform=self.transform)
        return net.declared


@final
@definition
class ConditionalMixture(AbstractNetwork):
    r"""A mixture for each value of an observed column: the paper's GPS model.

    $d \sim \mathrm{Categorical}$ observed, $z \mid d \sim \mathrm{Categorical}$ hidden, columns normal given
    $z$ and $d$.

    Args:
        names: The columns.
        given: The observed column $d$.
        categories: Its values, or how many there are: then 0, 1, 2, ...
        num_components: How many values the hidden variable ``component`` has.
        transform: ``"log"`` for columns whose logarithms are normal: for all of them, or a mapping for some.
    """

    names: tuple[str, ...]
    given: str
    categories: tuple[str | int, ...]
    num_components: int
    transform: Transforms = ()

    def __init__(
        self,
        names: str | Sequence[str],
        given: str,
        categories: Sequence[str | int] | int,
        num_components: int,
        transform: Transform = (),
    ) -> None:
        check_num_components("ConditionalMixture", num_components)
        chosen = names_beside_component(names, given)
        object.__setattr__(self, "names", chosen)
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "categories", values_of(given, categories))
        object.__setattr__(self, "num_components", num_components)
        taken = transforms_of(transform, chosen, "ConditionalMixture")
        object.__setattr__(self, "transform", taken)
        _ = self.structure

    @property
    def variables(self) -> tuple[AbstractVariable, ...]:
        net = Network()
        day = net.categorical(self.given, self.categories)
        z = net.categorical(COMPONENT, self.num_components, parents=[day], latent=True)
        net.normal(self.names, parents=[z, day], transform=self.transform)
        return net.declared
