"""How far back a block's memories reach, batch by batch, as a picture."""

from typing import TYPE_CHECKING

import numpy as np

from streambayes.learning import StepRecord
from streambayes.learning._record import records_of
from streambayes.learning._run import RecordSource
from streambayes.reports._plotting import add_bar, label_batches, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_memory"]


def plot_memory(
    records: RecordSource,
    block: str | None = None,
    *,
    dark: bool = False,
) -> "Figure":
    """The memories that ``Auto`` holds valid for one block: how much weight reaches how far back.

    After a change the weight moves to the bottom, and climbs from there while nothing changes.

    Args:
        records: Of a run with ``Auto``, the run itself, or the folder of its records.
        block: The block's readable name; may be left out if there is one, or one memory for all.
        dark: Light on dark.
    """
    held = [record for record in records_of(records) if record.memory is not None]
    if not held:
        message = "plot_memory: these are no records of Auto, the policy that has several memories"
        raise ValueError(message)
    weights = np.array([_weights(record, block) for record in held])
    names = [*(f"{2**k:,}" for k in range(3, 18)), "all of it", "recalled"]
    figure, (ax,) = new_figure(9.0, 4.0, dark=dark)
    image = ax.imshow(
        weights.T,
        origin="lower",
        aspect="auto",
        cmap="cividis",
        vmin=0.0,
        vmax=1.0,
        interpolation="nearest",
    )
    ax.set_yticks(range(len(names)), names)
    label_batches(ax, [record.label for record in held])
    ax.grid(visible=False)
    ax.set_ylabel("reach of the memory (rows, or the time of so many)")
    ax.set_title("memory" if block is None else f"memory of {plain(block)}")
    add_bar(ax, image, "weight")
    return figure


def _weights(record: StepRecord, block: str | None) -> tuple[float, ...]:
    """Weights by horizon, and that of recalls."""
    memory, recalled = record.memory, record.recalled
    if isinstance(memory, dict):
        if block is None and len(memory) > 1:
            message = f"plot_memory: name one of the blocks: {', '.join(map(repr, memory))}"
            raise ValueError(message)
        name = next(iter(memory)) if block is None else block
        if name not in memory:
            message = f"plot_memory: no block {name!r}; there are {', '.join(map(repr, memory))}"
            raise ValueError(message)
        memory = memory[name]
        recalled = recalled[name] if isinstance(recalled, dict) else None
    elif block is not None:
        message = f"plot_memory: all blocks share one memory; leave {block!r} out"
        raise ValueError(message)
    assert memory is not None
    return (*memory, recalled if isinstance(recalled, float) else 0.0)
