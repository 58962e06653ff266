"""An electricity market by month: which column moved, when, and from where to where.

Three years of half-hours are made up here; with a table of your own, start at ``sb.batches``.
"""

import numpy as np
import pandas as pd

import streambayes as sb


def made_up_market() -> pd.DataFrame:
    """Prices jump in July 2023; transfer spreads out from March 2024 on; demand stays."""
    rng = np.random.default_rng(0)
    when = pd.date_range("2022-01-01", "2024-12-31 23:30", freq="30min")
    price = np.where(when < "2023-07-01", 48.0, 66.0) + rng.normal(0.0, 9.0, len(when))
    transfer = rng.normal(410.0, np.where(when < "2024-03-01", 30.0, 55.0))
    demand = rng.normal(5200.0, 450.0, len(when))
    return pd.DataFrame({"when": when, "price": price, "transfer": transfer, "demand": demand})


def main() -> None:
    """Learn month by month and print every month in which a column dropped its past."""
    columns = ["price", "transfer", "demand"]
    learner = sb.StreamLearner(sb.models.Gaussian(columns), sb.MHPP())
    state, previous = None, None
    for batch in sb.batches(made_up_market(), time="when", every="1mo"):
        if state is None:
            state = learner.init(batch)
        state, info = learner.step(state, batch)
        now = state.summary()
        for column in columns:
            if previous is None or info.rho[column] > 0.1:
                continue
            print(f"{batch.label}: {column} kept {info.rho[column]:.1%} of its past")
            for parameter in (f"mean of {column}", f"standard deviation of {column}"):
                print(
                    f"    {parameter}: {previous[parameter].mean:.4g} -> {now[parameter].mean:.4g}"
                )
        previous = now
    print()
    print(now)


if __name__ == "__main__":
    main()
