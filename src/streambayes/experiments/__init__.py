"""The paper's experiments, each as one call that writes its numbers and figures into a folder."""

from streambayes.experiments import artificial, electricity, finance, gps

__all__ = ["artificial", "electricity", "finance", "gps"]
