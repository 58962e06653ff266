"""How much data a posterior can retain."""

__all__ = ["retained_limit"]


def retained_limit(rho: float, rows_per_batch: float) -> float:
    r"""Rows retained after many batches of equal size at a fixed rho, $n / (1 - \rho)$ (paper, eq. 7)."""
    if not 0.0 <= rho <= 1.0:
        message = f"retained_limit: rho must lie in [0, 1], got {rho}"
        raise ValueError(message)
    if not rows_per_batch >= 0.0:
        message = f"retained_limit: rows_per_batch must be at least 0, got {rows_per_batch}"
        raise ValueError(message)
    return rows_per_batch / (1.0 - rho) if rho < 1.0 else float("inf")
