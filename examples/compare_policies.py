"""Which policy for which kind of change? One click stream that jumps, one that wanders, one that stays."""

import numpy as np

import streambayes as sb

POLICIES = [
    sb.SVB(),
    sb.PowerPrior(0.9),
    sb.PVB(population_size=1000, step_size=0.1),
    sb.HPP(),
    sb.Auto(),
]


def clicks(rates: np.ndarray, seed: int) -> list[dict[str, np.ndarray]]:
    """One batch of 100 draws for each rate."""
    rng = np.random.default_rng(seed)
    return [{"click": rng.random(100) < rate} for rate in rates]


def main() -> None:
    """Print a table for each stream."""
    steps = np.random.default_rng(0).normal(0.0, 0.02, 90)
    streams = {
        "stays at 0.3": np.full(90, 0.3),
        "jumps 0.2, 0.5, 0.8": np.repeat([0.2, 0.5, 0.8], 30),
        "wanders": np.clip(0.4 + np.cumsum(steps), 0.05, 0.95),
    }
    for seed, (name, rates) in enumerate(streams.items()):
        comparison = sb.compare(
            sb.models.BetaBinomial("click"), clicks(rates, seed), POLICIES, seed=seed
        )
        print(name)
        print(comparison.table())
        last = {
            policy: run.state.summary()["probability of click"].mean
            for policy, run in comparison.runs.items()
        }
        said = ", ".join(f"{policy} {mean:.2f}" for policy, mean in last.items())
        print(f"true rate at the end {rates[-1]:.2f}; believed: {said}\n")


if __name__ == "__main__":
    main()
