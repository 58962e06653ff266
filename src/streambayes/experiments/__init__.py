"""The paper's experiments and a comparison of all policies, each as one call that writes into a folder."""

from streambayes.experiments import artificial, electricity, finance, forgetting, gps

__all__ = ["artificial", "electricity", "finance", "forgetting", "gps"]
