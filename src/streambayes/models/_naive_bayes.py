"""Classifiers: naive Bayes, and naive Bayes with a hidden component for each class."""

from collections.abc import Mapping, Sequence
from typing import final

from streambayes._core.pytree import definition
from streambayes.models._mixture import COMPONENT, check_num_components, names_beside_component
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

__all__ = ["MixtureNaiveBayes", "NaiveBayes"]


@final
@definition
class NaiveBayes(AbstractNetwork):
    r"""A class, and columns that are independent of each other given the class.

    Args:
        label: The column of the class.
        classes: Its values, or how many there are: then 0, 1, 2, ...
        normal: Columns that are normal given the class.
        categorical: Columns of categories, with their values or how many there are.
        poisson: Columns of counts.
        transform: ``"log"`` for columns whose logarithms are normal: for all normal ones, or a mapping for some.
    """

    label: str
    classes: tuple[str | int, ...]
    normal: tuple[str, ...] = ()
    categorical: tuple[tuple[str, tuple[str | int, ...]], ...] = ()
    poisson: tuple[str, ...] = ()
    transform: Transforms = ()

    def __init__(
        self,
        label: str,
        classes: Sequence[str | int] | int,
        normal: str | Sequence[str] = (),
        categorical: Mapping[str, Sequence[str | int] | int]
        | tuple[tuple[str, Sequence[str | int] | int], ...] = (),
        poisson: str | Sequence[str] = (),
        transform: Transform = (),
    ) -> None:
        pairs = categorical.items() if isinstance(categorical, Mapping) else categorical
        if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
            message = (
                "NaiveBayes: categorical must be a mapping of columns to their values or how many, "
                f"such as {{'colour': ['red', 'blue']}}, got {categorical!r}"
            )
            raise TypeError(message)
        tables = {name: values_of(name, values) for name, values in pairs}
        if not (normal or tables or poisson):
            message = "NaiveBayes: at least one column besides the class is needed"
            raise ValueError(message)
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "classes", values_of(label, classes))
        object.__setattr__(self, "normal", names_of(normal) if normal else ())
        object.__setattr__(self, "categorical", tuple(tables.items()))
        object.__setattr__(self, "poisson", names_of(poisson) if poisson else ())
        taken = transforms_of(transform, self.normal, "NaiveBayes")
        object.__setattr__(self, "transform", taken)
        _ = self.structure

    @property
    def variables(self) -> tuple[AbstractVariable, ...]:
        net = Network()
        label = net.categorical(self.label, self.classes)
        if self.normal:
            net.normal(self.normal, parents=[label], transform=self.transform)
        for name, values in self.categorical:
            net.categorical(name, values, parents=[label])
        if self.poisson:
            net.poisson(self.poisson, parents=[label])
        return net.declared

    @property
    def target(self) -> str:
        return self.label


@final
@definition
class MixtureNaiveBayes(AbstractNetwork):
    r"""A class, a hidden component given the class, columns normal given both: the paper's Finance model.

    Args:
        label: The column of the class.
        classes: Its values, or how many there are: then 0, 1, 2, ...
        names: The normal columns.
        num_components: How many values the hidden variable ``component`` has.
        transform: ``"log"`` for columns whose logarithms are normal: for all of them, or a mapping for some.
    """

    label: str
    classes: tuple[str | int, ...]
    names: tuple[str, ...]
    num_components: int
    transform: Transforms = ()

    def __init__(
        self,
        label: str,
        classes: Sequence[str | int] | int,
        names: str | Sequence[str],
        num_components: int,
        transform: Transform = (),
    ) -> None:
        check_num_components("MixtureNaiveBayes", num_components)
        chosen = names_beside_component(names, label)
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "classes", values_of(label, classes))
        object.__setattr__(self, "names", chosen)
        object.__setattr__(self, "num_components", num_components)
        taken = transforms_of(transform, chosen, "MixtureNaiveBayes")
        object.__setattr__(self, "transform", taken)
        _ = self.structure

    @property
    def variables(self) -> tuple[AbstractVariable, ...]:
        net = Network()
        label = net.categorical(self.label, self.classes)
        z = net.categorical(COMPONENT, self.num_components, parents=[label], latent=True)
        net.normal(self.names, parents=[z, label], transform=self.transform)
        return net.declared

    @property
    def target(self) -> str:
        return self.label
