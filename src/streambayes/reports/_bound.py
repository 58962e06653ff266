"""The bound over the sweeps of one step."""

from typing import TYPE_CHECKING, Any

from streambayes.learning import LearnerState, StreamLearner
from streambayes.reports._plotting import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_bound"]


def plot_bound(
    learner: StreamLearner, state: LearnerState, data: Any, *, most: int = 50, dark: bool = False
) -> "Figure":
    """How the bound climbs from sweep to sweep while a batch is learned; it never falls.

    The batch is learned again for each number of sweeps, so this is to look at one step, not at a stream.

    Args:
        learner: The learner.
        state: Its state before the batch.
        data: The batch.
        most: The most sweeps to draw.
        dark: Light on dark.
    """
    if not isinstance(most, int) or most < 1:
        message = f"plot_bound: most must be a whole number of at least 1, got {most}"
        raise ValueError(message)
    last = learner.step(state, data)[1]
    if last.bound is None:
        message = f"plot_bound: {learner.forgetting.name} climbs no bound"
        raise ValueError(message)
    bounds = []
    for number in range(1, min(last.num_sweeps, most) + 1):
        info = learner.replace(max_sweeps=number).step(state, data)[1]
        assert info.bound is not None
        bounds.append(info.bound / max(info.num_rows, 1))
    figure, (ax,) = new_figure(6.0, 3.6, dark=dark)
    ax.plot(range(1, len(bounds) + 1), bounds, color=COLOURS["blue"], marker=".", linewidth=1.4)
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("sweep")
    ax.set_ylabel("bound, nats a row")
    ax.set_title(f"{last.num_sweeps} sweeps, {last.outcome.name.lower()}")
    return figure
