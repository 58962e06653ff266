"""What workers do, without a cluster between: partitions of all kinds, lost files, bad rows, other versions."""

import os
import pickle
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streambayes as sb
from streambayes._core.folder import make_private
from streambayes.distributed import ClusterError, ClusterShards, _shards, _work
from streambayes.distributed._dask import (
    add_replies,
    hold_partition,
    perform_order,
    read_partition,
    spread,
    tell_parts,
)
from streambayes.learning import _progress
from tests.distributed._cases import CASES, NUM_ROWS, assert_same, cut
from tests.tables import POLICIES


class Here(ClusterShards):
    """Partitions in this process; ``before`` is called with every order."""

    def __init__(self, partitions, before=lambda _: None, **facts):
        super().__init__(**facts)
        self.partitions = partitions
        self.before = before
        self.orders = []
        self.held = None

    @staticmethod
    def _pickled(value):
        return pickle.dumps(value)

    def _place(self, _, order):
        self.held = [hold_partition(order, number, p) for number, p in enumerate(self.partitions)]
        told = [tell_parts(b"", blocks) for blocks in self.held]
        return [
            each
            for number, found in enumerate(told)
            for each in ([_shards.Reply(number, found, None)] if isinstance(found, str) else found)
        ]

    def _read(self, _, order, *, add):
        return self._replies(read_partition, order, self.partitions, add=add)

    def _perform(self, order, *, add):
        return self._replies(perform_order, order, self.held, add=add)

    def _replies(self, performing, order, parts, *, add):
        self.orders.append(pickle.loads(order))
        self.before(self.orders[-1])
        replies = [performing(order, number, part) for number, part in enumerate(parts)]
        if add:
            half = len(replies) // 2
            parts = [(0, replies[:half]), (half, replies[half:])]
            replies = [add_replies(b"", start, part) for start, part in parts if part]
        return replies

    def _let_go(self):
        self.held = None


@pytest.fixture(scope="module")
def known():
    """The states before and after the second batch, and what was reported, on one machine."""
    found = {}

    def of(name):
        if name not in found:
            case = CASES[name]
            start = case.start()
            found[name] = (start, *case.learner.step(start, case.batch(1)))
        return found[name]

    return of


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=8, deadline=None)
@given(bounds=st.lists(st.integers(0, NUM_ROWS), max_size=8))
def test_any_partitioning_gives_the_same_posterior(known, name, bounds):
    start, one, info = known(name)
    case = CASES[name]
    batch = Here(cut(case.batch(1), bounds))
    state, told = case.learner.step(start, batch)
    assert_same(one, state)
    assert told.num_sweeps == info.num_sweeps
    assert told.num_rows == NUM_ROWS
    assert told.bound == pytest.approx(info.bound, rel=1e-9)
    assert batch.held is None


@pytest.mark.parametrize(
    "policy", [each for each in POLICIES if each.minibatch_size is None], ids=repr
)
def test_every_policy_ends_where_it_does_on_one_machine(policy):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), policy)
    first, *batches = (CASES["regression"].batch(seed) for seed in range(4))
    one = other = learner.init(first)  # in whose units its own sums would be zero up to rounding
    for time, rows in enumerate(batches):
        one, info = learner.step(one, rows, time=time)
        other, told = learner.step(other, Here(cut(rows, [100, 100, 350]), time=time))
        assert_same(one, other)
        assert told.num_sweeps == info.num_sweeps
        assert told.retained == pytest.approx(info.retained, rel=1e-9)


def test_rows_that_hide_nothing_are_passed_once(known):
    start, _, info = known("regression")
    batch = Here(cut(CASES["regression"].batch(1), [100]))
    CASES["regression"].learner.step(start, batch)
    assert [order.operation for order in batch.orders] == ["summed"]
    assert info.num_sweeps > 1


def test_rows_are_held_only_if_they_hide_something():
    """Missing cells of a regressor do; those of a column that nothing depends on are left out."""
    rng = np.random.default_rng(4)
    rows = {name: rng.normal(size=9000) for name in "xy"}
    first = {name: values + 1.0 for name, values in rows.items()}
    rows["y"][::7] = np.nan
    gaps = {**rows, "x": np.where(rng.random(9000) < 0.1, np.nan, rows["x"])}
    plain = {name: values.astype(np.float32) for name, values in rows.items()}
    for model, batch, operations in (
        (sb.models.LinearRegression("y", ["x"]), rows, ["summed"]),
        (sb.models.LinearRegression("y", ["x"]), gaps, ["summed", "passed", "passed", "forgotten"]),
        (sb.models.Gaussian(["x", "y"]), gaps, ["summed"]),
        (sb.models.Gaussian(["x", "y"]), plain, ["summed"]),
    ):
        learner = sb.StreamLearner(model, sb.MHPP(), max_sweeps=2)
        start = learner.step(learner.init(first), first)[0]
        shards = Here(
            [
                {name: cells[part] for name, cells in batch.items()}
                for part in np.split(np.arange(9000), [100, 5000])
            ]
        )
        state, info = learner.step(start, shards)
        assert [order.operation for order in shards.orders] == operations
        one, told = learner.step(start, batch)
        assert_same(one, state)
        assert info.num_rows == told.num_rows == 9000


def test_a_belief_alone_goes_out_where_nothing_is_kept(known):
    start, _, info = known("mixture HPP")
    batch = Here(cut(CASES["mixture HPP"].batch(1), [100]))
    CASES["mixture HPP"].learner.step(start, batch)
    assert [len(order.beliefs) for order in batch.orders] == [1] * info.num_sweeps


def test_what_is_kept_between_passes_may_be_lost(known):
    start, one, info = known("network with missing cells")
    case = CASES["network with missing cells"]
    lost = []

    def lose(order):
        folder = _work._folder() / order.token
        if order.operation == "passed" and order.stage in (2, 4) and len(order.beliefs) == 1:
            lost.append(len(list(folder.glob("*.npz"))))
            if order.stage == 2:
                shutil.rmtree(folder)
            else:
                for path in folder.glob("1-*.npz"):
                    path.write_bytes(b"damaged")

    batch = Here(cut(case.batch(1), [100, 400]), lose)
    state, _ = case.learner.step(start, batch)
    assert_same(one, state, 1e-12)
    assert min(lost) >= 3  # there was something to lose
    beliefs = [len(order.beliefs) for order in batch.orders if order.operation == "passed"]
    assert beliefs == [1, 1, 1, 3, 1, 1, 5, 1]  # all so far go out only if something is lost
    assert info.num_sweeps == 6
    assert not (_work._folder() / batch.orders[0].token).exists()


@pytest.mark.parametrize("planted", ["link", "folder for all"])
def test_nothing_is_kept_or_removed_where_others_can_write(known, tmp_path, monkeypatch, planted):
    """A folder of ours at which a link points, planted where the shared temporary folder is looked for."""
    start, one, _ = known("network with missing cells")
    case = CASES["network with missing cells"]
    precious, shared = tmp_path / "precious", tmp_path / "shared"
    for folder in (precious, shared, precious / "a"):
        folder.mkdir(mode=0o700)
    (precious / "a" / "file").write_text("")
    os.utime(precious / "a", (0, 0))
    monkeypatch.setattr(_work.tempfile, "gettempdir", lambda: str(shared))
    _work._warn_once.cache_clear()
    if planted == "link":
        _work._folder().symlink_to(precious)
    else:
        _work._folder().mkdir()
        _work._folder().chmod(0o777)
    with pytest.warns(UserWarning, match=r"hidden variables are not kept .* is not private"):
        state, _ = case.learner.step(start, Here(cut(case.batch(1), [100, 400])))
    assert_same(one, state, 1e-12)
    assert [path.name for path in precious.rglob("*")] == ["a", "file"]


def test_batches_that_were_left_behind_go(tmp_path, monkeypatch):
    monkeypatch.setattr(_work.tempfile, "gettempdir", lambda: str(tmp_path))
    left, others = _work._folder() / ("a" * 32), _work._folder() / "notes"
    for folder in (left, others):
        make_private(folder)
        (folder / "0-0-7-1.npz").write_text("")
        os.utime(folder, (0, 0))
    assert _work._make_folder(_work._folder() / ("b" * 32))
    assert {path.name for path in _work._folder().iterdir()} == {"b" * 32, "notes"}


def test_local_sweeps_raise_the_bound_and_spare_passes():
    """To the same optimum; a chain of which half is missing, so that cells of a row depend on each other."""
    rng = np.random.default_rng(0)
    net, values, rows, parents = sb.Network(), rng.normal(size=2000), {}, []
    for name in "abcdef":
        parents = [net.normal(name, parents=parents)]
        values = 0.95 * values + 0.2 * rng.normal(size=2000)
        rows[name] = np.where(rng.random(2000) < 0.5, np.nan, values)
    learner = sb.StreamLearner(net, sb.SVB(), tolerance=1e-8)
    start = learner.init(rows)
    found = {
        repeats: learner.step(start, Here([rows], local_sweeps=repeats))[1] for repeats in (1, 2)
    }
    assert found[2].num_sweeps < 0.75 * found[1].num_sweeps
    assert found[2].bound == pytest.approx(found[1].bound, abs=1e-3)
    for info in found.values():
        assert info.fall <= 1e-12 * abs(info.bound)


@pytest.mark.parametrize(
    "policy", [sb.SVB(), sb.HPP(), sb.MHPP(), sb.Auto()], ids=lambda policy: policy.name
)
def test_acceleration_spares_passes(policy):
    """Groups that overlap, for which sweeps are slow; the bound never falls, and ends no lower."""
    rng = np.random.default_rng(1)
    model = sb.models.GaussianMixture(["x"], 3)
    learner = sb.StreamLearner(model, policy, tolerance=1e-8, max_sweeps=400)
    rows = {"x": rng.normal(2.5 * rng.integers(0, 3, 2000), 1.0)}
    start = learner.init(rows)
    bounds = []

    def heed(order):
        bounds.append(len(order.beliefs))

    plain = learner.step(start, Here([rows]))[1]
    fast = learner.step(start, Here([rows], heed, accelerate=True))[1]
    assert fast.num_sweeps < 0.5 * plain.num_sweeps
    assert fast.num_sweeps == len(bounds)  # those that were taken back included
    assert fast.bound >= plain.bound - 1e-8 * 2000
    assert fast.fall <= 1e-9
    assert fast.outcome == sb.Outcome.CONVERGED


def test_start_and_scores_are_those_of_the_rows():
    case = CASES["mixture HPP"]
    rows = case.batch(2)
    whole, parts = case.learner.init(rows), case.learner.init(Here(cut(rows, [7, 7, 300])))
    assert_same(whole, parts)
    state = case.start()
    one, other = (case.learner.score(state, each) for each in (rows, Here(cut(rows, [50]))))
    assert other[:3] == pytest.approx(one[:3], rel=1e-12)
    assert other.method == one.method


def test_of_many_rows_some_at_equal_distances_serve():
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    rows = {"x": np.arange(1000.0)}
    parts = [{"x": rows["x"][:333]}, {"x": rows["x"][333:334]}, {"x": rows["x"][334:]}]
    found = Here(parts).some_rows(learner, 300)
    np.testing.assert_array_equal(found, rows["x"][None, ::4])


def test_large_partitions_are_cut_into_blocks(monkeypatch):
    monkeypatch.setattr(_work, "_BYTES", 8 * 2 * 512)
    case = CASES["mixture HPP"]
    rows = {name: np.tile(values, 3) for name, values in case.batch(1).items()}
    start = case.start()
    batch = Here([rows])
    state, _ = case.learner.step(start, batch)
    assert_same(case.learner.step(start, rows)[0], state)
    blocks = list(_work.Worker(case.learner.model, case.learner.forgetting).blocks(0, [rows]))
    assert [block.facts.num_rows for block in blocks] == [512, 512, 512, 264]


def test_rows_are_spread_over_workers():
    alike = {"a": 1, "b": 1}
    assert not spread([5, 5], {"a": [0], "b": [1]}, alike)
    assert not spread([9], {"a": [0], "b": []}, alike)  # there is nothing to gain
    assert spread([5, 5, 5, 5], {"a": [0, 1, 2, 3], "b": []}, alike) == [(3, "b"), (2, "b")]
    assert spread([4, 4, 4, 4], {"a": [0, 1, 2, 3], "b": []}, {"a": 3, "b": 1}) == [(3, "b")]
    assert not spread([0, 0, 7], {"a": [0, 1, 2], "b": []}, alike)


def test_an_empty_batch_waits():
    case = CASES["regression"]
    state, info = case.learner.step(case.start(), Here([{"x": [], "y": []}, {"x": [], "y": []}]))
    assert info.outcome == sb.Outcome.EMPTY
    assert int(state.num_batches) == 1
    assert case.learner.score(state, Here([{"x": [], "y": []}])).num_rows == 0


def test_a_run_shows_the_sweeps_of_a_batch(monkeypatch, capsys):
    monkeypatch.setattr(_progress, "_INTERVAL", 0.0)
    case = CASES["mixture HPP"]
    batches = [Here([case.batch(seed)]) for seed in range(2)]
    sb.run(case.learner, batches, progress=True, prequential=False)
    lines = capsys.readouterr().err.split("\r")
    # said before the first, if its programs take long
    lines = [line for line in lines if not line.startswith("preparing: ")]
    assert lines[1].startswith("batch 1/2  sweep 1  bound -")
    assert sum(line.startswith("batch 2/2  sweep ") for line in lines) == 6
    assert lines[-1].startswith("batch 2/2  ")
    assert "rows/s" in lines[-1]
    assert batches[0].on_sweep is None


def test_a_run_takes_them_beside_others(tmp_path):
    case = CASES["regression"]
    batches = [case.batch(seed) for seed in range(3)]
    one = sb.run(case.learner, batches)
    other = sb.run(
        case.learner,
        [Here(cut(batch, [100]), label=str(n)) for n, batch in enumerate(batches)],
        record=tmp_path / "run",
    )
    assert_same(one.state, other.state)
    assert other.scores.prequential == pytest.approx(one.scores.prequential, rel=1e-9)
    assert [record.label for record in other.records] == ["0", "1", "2"]


BAD = {
    "column": ({"x": [1.0]}, "the batch lacks column 'y'; it has 'x'"),
    "type": ({"x": ["a"], "y": [1.0]}, "column 'x', row 0"),
    "length": ({"x": [1.0], "y": [1.0, 2.0]}, "columns differ in length"),
    "infinite": ({"x": [np.inf], "y": [1.0]}, "column 'x', row 0"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_rows_are_named_with_their_partition(bad):
    case = CASES["regression"]
    rows, message = BAD[bad]
    state = case.start()
    batch = Here([case.batch(1), rows])
    with pytest.raises(ValueError, match=message) as raised:
        case.learner.step(state, batch)
    assert "in partition 1 of the batch" in str(raised.value)
    assert batch.held is None


def test_values_too_far_away_to_be_scored_are_named():
    case = CASES["regression"]
    with pytest.raises(ValueError, match=r"too far away .*in partition 0"):
        case.learner.score(case.start(), Here([{"x": [1e300], "y": [0.0]}]))


@pytest.mark.parametrize("name", ["streambayes", "jax"])
def test_other_versions_are_refused(monkeypatch, name):
    case = CASES["regression"]
    theirs = {**_work.versions(), name: "99.0"}
    monkeypatch.setattr(_shards, "versions", lambda: theirs)
    with pytest.raises(ClusterError, match=f"a worker has {name} .*, the driver 99.0"):
        case.learner.step(case.start(), Here([case.batch(1)]))


def test_what_a_cluster_cannot_do_is_refused():
    case = CASES["regression"]
    state, batch = case.start(), Here([case.batch(1)])
    with pytest.raises(TypeError, match="taken by init, step, score and run only"):
        case.learner.predict(state, batch)
    with pytest.raises(TypeError, match="a batch on a cluster is one already"):
        sb.StreamBatch(batch)
    with pytest.raises(ValueError, match="cannot be split into rows"):
        sb.run(case.learner, [batch], test_fraction=0.5)
    svi = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVI(1000, minibatch_size=10))
    with pytest.raises(ValueError, match="minibatches"):
        svi.step(svi.init({"x": [1.0, 2.0]}), Here([{"x": [1.0, 2.0]}]))


def test_a_batch_says_what_it_is():
    assert repr(Here([], label="January")) == "<batch 'January' on a cluster>"
    assert repr(Here([])) == "<batch on a cluster>"


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2"])
def test_local_sweeps_are_counted(value):
    with pytest.raises(ValueError, match="local_sweeps must be a whole number of at least 1"):
        _shards.check_settings(value, accelerate=False)


@pytest.mark.parametrize("value", [1, "yes", None])
def test_sweeps_are_accelerated_or_not(value):
    with pytest.raises(TypeError, match="accelerate must be True or False"):
        _shards.check_settings(1, value)


@pytest.mark.parametrize(
    ("moments", "said"),
    [
        ({None: 1.0}, "'by' has missing cells"),
        ({float("nan"): 1.0}, "'by' has missing cells"),
        ({1: 1.0, 2: None}, "'when' has no time in the rows of 2"),
        ({1: float("nan")}, "'when' has no time in the rows of 1"),
        ({1: 2.0, 2: 1.0}, "time goes back at 2"),
    ],
)
def test_batches_that_make_no_stream_are_refused(moments, said):
    with pytest.raises(ValueError, match=said):
        _shards.in_order(moments, "by", "when")


def test_batches_come_in_the_order_of_their_values():
    assert _shards.in_order({2: 7.0, 1: 5.0, 3: 7.0}, "by", "when") == [
        (1, 5.0),
        (2, 7.0),
        (3, 7.0),
    ]
    assert _shards.in_order({"b": None, "a": None}, "by", None) == [("a", None), ("b", None)]


def test_a_worker_without_the_library_says_so():
    """The function that is sent knows nothing of the library until it runs."""
    from pyspark import cloudpickle

    sent = _shards.sent("_nowhere", "hold", b"", lambda failure, *args: (failure, args))
    failure, args = pickle.loads(cloudpickle.dumps(sent))(1, 2)
    assert failure.startswith("ClusterError\na worker cannot import streambayes: ModuleNotFound")
    assert args == (1, 2)
