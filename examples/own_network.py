"""A network of one's own: machines whose state nobody records, with missing cells, in a stream that drifts.

The stream is drawn from the network itself, so that what is found can be held against the truth.
"""

import numpy as np

import streambayes as sb


def machines() -> sb.Network:
    """A hidden state decides how hot and how loud a machine runs and how often it stops."""
    net = sb.Network()
    state = net.categorical("state", 2, latent=True)
    net.normal(["heat", "noise"], parents=[state])
    net.poisson("stops", parents=[state])
    return net


def main() -> None:
    """Learn, say what drifted and when, and predict."""
    net = machines()
    print(net.show(), end="\n\n")
    stream = sb.datasets.make_drift(
        net,
        "partial",
        blocks=["noise | state=0"],
        changes=[8],
        num_batches=12,
        num_rows=120,
        missing={"heat": 0.2, "stops": 0.1},
        seed=5,
    )
    learner = sb.StreamLearner(net, sb.MHPP())
    run = sb.run(learner, stream, prequential=False)

    true = stream.changes[0]
    print(f"true: batch {true.batch}, {', '.join(true.blocks)}")
    print("found (values of a hidden variable have no order):")
    for record in run.records[1:]:
        moved = {name: rho for name, rho in record.rho.items() if rho < 0.1}
        for name, rho in moved.items():
            print(f"  batch {record.label}: {name!r} kept {rho:.1%} of its past")

    truth = [stream.truth(11)[f"mean of noise | state={value}"] for value in (0, 1)]
    learned = run.state.posterior["heat, noise"].location[:, 1]  # states by columns
    print(f"\nmeans of noise: true {np.sort(truth).round(2)}, learned {np.sort(learned).round(2)}")

    rows = {"heat": [np.nan, np.nan], "noise": [-3.0, 0.0], "stops": [4, np.nan]}
    print("\nwhich state is it, given noise and stops:")
    print(learner.predict(run.state, rows, "state"))


if __name__ == "__main__":
    main()
