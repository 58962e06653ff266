"""A network as text."""

from collections.abc import Mapping

import numpy as np

from streambayes._core.column import CATEGORY
from streambayes._core.table import Table
from streambayes.models.network._factor import AbstractFactor
from streambayes.models.network._structure import Structure

__all__ = ["picture"]


def picture(structure: Structure, factors: Mapping[str, AbstractFactor]) -> str:
    """A line for each declared variable: its distribution, its parents, its blocks."""
    rows = []
    total = 0
    for variable in structure.variables:
        labels = [text for part in factors[variable.entry].labels().values() for text in part.flat]
        total += len(labels)
        rows.append(
            {
                "variable": variable.entry,
                "": "latent" if variable.latent else "",
                "distribution": variable.distribution
                + (f"({len(variable.categories)})" if variable.kind == CATEGORY else ""),
                "given": ", ".join(variable.parents) or "-",
                "blocks": len(labels),
                "for example": str(np.asarray(labels, dtype=object)[-1]),
            }
        )
    columns = ("variable", "", "distribution", "given", "blocks", "for example")
    return f"{Table(columns, tuple(rows))}\n{total} blocks"
