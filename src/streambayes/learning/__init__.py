"""Learning from a sequence of batches."""

from streambayes._core.table import Table
from streambayes.learning._intake import Pieces, Resumable, Shards, StreamBatch, bucket_size, table
from streambayes.learning._learner import Score, StepError, StreamLearner
from streambayes.learning._many import ManyInfo, ManyLearner, ManyStates, many
from streambayes.learning._merge import merge
from streambayes.learning._prediction import Classification, Prediction
from streambayes.learning._record import StepRecord, read_records
from streambayes.learning._run import Comparison, Run, Scores, compare, run
from streambayes.learning._schema import SchemaPolicy
from streambayes.learning._state import LearnerState, ParameterSummary, PosteriorSummary, StepInfo
from streambayes.learning._sweep import Ascent, ascend, sweep

__all__ = [
    "Ascent",
    "Classification",
    "Comparison",
    "LearnerState",
    "ManyInfo",
    "ManyLearner",
    "ManyStates",
    "ParameterSummary",
    "Pieces",
    "PosteriorSummary",
    "Prediction",
    "Resumable",
    "Run",
    "SchemaPolicy",
    "Score",
    "Scores",
    "Shards",
    "StepError",
    "StepInfo",
    "StepRecord",
    "StreamBatch",
    "StreamLearner",
    "Table",
    "ascend",
    "bucket_size",
    "compare",
    "many",
    "merge",
    "read_records",
    "run",
    "sweep",
    "table",
]
