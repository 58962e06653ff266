"""The paper's Finance experiment on a stand-in: loans of Lending Club, a batch for each month."""

from streambayes.experiments.finance._experiment import MODEL, PUBLISHED, months, reproduce

__all__ = ["MODEL", "PUBLISHED", "months", "reproduce"]
