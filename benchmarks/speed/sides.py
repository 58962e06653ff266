"""What everyone is called."""

__all__ = ["BAYESPY", "NUMPY", "OURS", "RIVER", "RIVER_MANY", "SKLEARN"]

OURS = "streambayes"
SKLEARN = "scikit-learn"
BAYESPY = "BayesPy"
NUMPY = "plain NumPy"
RIVER = "river, row by row"
RIVER_MANY = "river, batch by batch"
