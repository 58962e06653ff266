"""What everyone is called."""

__all__ = ["BAYESPY", "NUMPY", "OURS", "RIVER", "RIVER_BOTH", "RIVER_MANY", "SKLEARN"]

OURS = "streambayes"
SKLEARN = "scikit-learn"
BAYESPY = "BayesPy"
NUMPY = "plain NumPy"
RIVER = "river, row by row"
RIVER_BOTH = "river, row by row, predicted and learned"
RIVER_MANY = "river, batch by batch"
