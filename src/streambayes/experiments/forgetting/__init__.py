"""What every policy makes of streams that drift in known ways, and of real ones."""

from streambayes.experiments.forgetting._comparison import Cell, Comparison, compare_generated
from streambayes.experiments.forgetting._cost import Cost, measure_costs
from streambayes.experiments.forgetting._figures import plot_memory, plot_recovery, plot_regret
from streambayes.experiments.forgetting._partial import Ranking, rank_partial
from streambayes.experiments.forgetting._real import RealCell, compare_real
from streambayes.experiments.forgetting._report import Found, compare

__all__ = [
    "Cell",
    "Comparison",
    "Cost",
    "Found",
    "Ranking",
    "RealCell",
    "compare",
    "compare_generated",
    "compare_real",
    "measure_costs",
    "plot_memory",
    "plot_recovery",
    "plot_regret",
    "rank_partial",
]
