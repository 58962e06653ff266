"""The paper's artificial stream: a probability that changes twice, tracked by nine methods."""

from streambayes.experiments.artificial._figures import (
    plot_estimates,
    plot_forgetting,
    plot_omega,
    plot_sample_sizes,
)
from streambayes.experiments.artificial._findings import Finding, findings
from streambayes.experiments.artificial._method import methods
from streambayes.experiments.artificial._parity import Parity, parity
from streambayes.experiments.artificial._reference import Reference, reference
from streambayes.experiments.artificial._reproduce import Reproduction, reproduce
from streambayes.experiments.artificial._stream import Stream, generated, true_probability
from streambayes.experiments.artificial._track import Track, track

__all__ = [
    "Finding",
    "Parity",
    "Reference",
    "Reproduction",
    "Stream",
    "Track",
    "findings",
    "generated",
    "methods",
    "parity",
    "plot_estimates",
    "plot_forgetting",
    "plot_omega",
    "plot_sample_sizes",
    "reference",
    "reproduce",
    "track",
    "true_probability",
]
