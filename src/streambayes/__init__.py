"""Bayesian models of data streams that know what to forget."""

from streambayes import datasets, families, forgetting, metrics, models, reports
from streambayes._core.kernel import gpu_kernel
from streambayes._core.outcome import Outcome
from streambayes._core.program import compile_cache
from streambayes._core.pytree import definition, number, pytree
from streambayes.checkpoint import Checkpoint, Checkpoints, load, save
from streambayes.drift import Drift, DriftEvent, DriftMonitor, find_drift
from streambayes.families import (
    Beta,
    Dirichlet,
    Gamma,
    MultivariateNormal,
    MultivariateNormalGamma,
    Normal,
    NormalGamma,
    NormalWishart,
    TruncatedExponential,
    TruncatedNormal,
)
from streambayes.forgetting import HPP, MHPP, PVB, SVB, SVI, Auto, Fading, PowerPrior
from streambayes.learning import (
    Classification,
    Comparison,
    Forecast,
    LearnerState,
    ManyInfo,
    ManyStates,
    Prediction,
    Run,
    Score,
    StepError,
    StepInfo,
    StepRecord,
    StreamBatch,
    StreamLearner,
    compare,
    many,
    read_records,
    run,
)
from streambayes.models import Network
from streambayes.sources import batches

__version__ = "0.1.0"

__all__ = [
    "HPP",
    "MHPP",
    "PVB",
    "SVB",
    "SVI",
    "Auto",
    "Beta",
    "Checkpoint",
    "Checkpoints",
    "Classification",
    "Comparison",
    "Dirichlet",
    "Drift",
    "DriftEvent",
    "DriftMonitor",
    "Fading",
    "Forecast",
    "Gamma",
    "LearnerState",
    "ManyInfo",
    "ManyStates",
    "MultivariateNormal",
    "MultivariateNormalGamma",
    "Network",
    "Normal",
    "NormalGamma",
    "NormalWishart",
    "Outcome",
    "PowerPrior",
    "Prediction",
    "Run",
    "Score",
    "StepError",
    "StepInfo",
    "StepRecord",
    "StreamBatch",
    "StreamLearner",
    "TruncatedExponential",
    "TruncatedNormal",
    "__version__",
    "batches",
    "compare",
    "compile_cache",
    "datasets",
    "definition",
    "families",
    "find_drift",
    "forgetting",
    "gpu_kernel",
    "load",
    "many",
    "metrics",
    "models",
    "number",
    "pytree",
    "read_records",
    "reports",
    "run",
    "save",
]
