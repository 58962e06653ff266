"""Models without hidden variables: a batch is its sums, and the posterior is exact."""

import abc
from collections.abc import Mapping
from typing import Any, TypeVar, final

from streambayes._core.batch import Batch
from streambayes.models._base import AbstractModel

__all__ = ["AbstractConjugate"]

Sums = TypeVar("Sums")


class AbstractConjugate(AbstractModel[tuple[()], Sums]):
    """A model whose complete conditional is in the family of its prior: one sweep is exact."""

    @property
    @final
    def is_coupled(self) -> bool:
        return False

    @final
    def has_hidden(self, batch: Batch) -> bool:
        del batch
        return False

    @abc.abstractmethod
    def sums(self, batch: Batch) -> Sums:
        """Sums over the rows."""

    @final
    def init_local(self, batch: Batch) -> tuple[()]:
        del batch
        return ()

    @final
    def row_pass(
        self, expectations: Mapping[str, Any], batch: Batch, local: tuple[()]
    ) -> tuple[tuple[()], Sums]:
        del expectations
        return local, self.sums(batch)
