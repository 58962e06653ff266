"""The graph of a network: what is refused, what its blocks are called, what makes two networks one."""

import pickle

import jax
import numpy as np
import pytest

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.families import Blocks, Point
from streambayes.learning._compiled import scorer, stepper
from tests.tables import MODELS

DAYS = ["Mon", "Tue"]


def weekly():
    """Every kind of distribution, one latent variable, a regression."""
    net = sb.Network()
    day = net.categorical("day", DAYS)
    z = net.categorical("z", 3, parents=[day], latent=True)
    rain = net.bernoulli("rain", parents=[z])
    net.normal(["x", "y"], parents=[z, day])
    net.normal("w", parents=["x", day])
    net.multivariate_normal(["p", "q"], parents=[rain])
    net.poisson("calls")
    net.exponential("wait", parents=[rain])
    return net


def small():
    """Quick to compile: a mixture for each day."""
    net = sb.Network()
    day = net.categorical("day", DAYS)
    z = net.bernoulli("z", parents=[day], latent=True)
    net.normal(["x", "y"], parents=[z])
    return net


def rows(seed=0):
    """Rows of the small network."""
    rng = np.random.default_rng(seed)
    return {
        "day": rng.choice(DAYS, 16),
        "x": rng.normal(size=16),
        "y": rng.normal(size=16),
    }


def identical(one, other):
    return jax.tree.structure(one) == jax.tree.structure(other) and all(
        np.array_equal(a, b, equal_nan=True)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


def declared(*calls):
    """A network of (kind, arguments, options); graph errors come at its first use at the latest."""
    net = sb.Network()
    for kind, arguments, options in calls:
        getattr(net, kind)(*arguments, **options)
    return net.structure


NORMAL_X = ("normal", ["x"], {})
ONLY_NORMAL = "cannot have the continuous parent 'x'; only normal variables can"
LEAF = "as a parent; only categorical, Bernoulli and normal variables have children"
UNSEEN = (
    "Network: latent 'z' has no observed descendant, so that nothing can be learned about it; give "
    "it a child with a column"
)


class TestWhatIsRefused:
    """One sentence each, which names the variable."""

    @pytest.mark.parametrize(
        ("calls", "sentence"),
        [
            ([], "Network: it has no variables; declare some, for example net.normal('x')"),
            (
                [("categorical", ["a", 2], {"parents": ["a"]})],
                "Network: its arrows form a cycle: a <- a",
            ),
            (
                [
                    ("bernoulli", ["a"], {"parents": ["b"]}),
                    ("bernoulli", ["b"], {"parents": ["c"]}),
                    ("bernoulli", ["c"], {"parents": ["a"]}),
                    ("normal", ["x"], {"parents": ["c"]}),
                ],
                "Network: its arrows form a cycle: a <- b <- c <- a",
            ),
            (
                [("normal", [["x", "y"]], {"parents": ["x"]})],
                "Network: its arrows form a cycle: x, y <- x, y",
            ),
            (
                [NORMAL_X, ("normal", ["y"], {"parents": ["z"]})],
                "Network: 'y' has an unknown parent 'z'; declared are 'x', 'y'",
            ),
            (
                [NORMAL_X, ("poisson", ["x"], {})],
                "Network: 'x' is declared twice; names must be distinct",
            ),
            (
                [NORMAL_X, ("normal", [["u", "x"]], {})],
                "Network: 'x' is declared twice; names must be distinct",
            ),
            ([("normal", [["x", "x"]], {})], "names must be distinct, got 'x', 'x'"),
            ([("poisson", [[]], {})], "at least one name is needed, got none"),
            (
                [NORMAL_X, ("categorical", ["c", 2], {"parents": ["x"]})],
                f"Network: 'c' is categorical and {ONLY_NORMAL}",
            ),
            (
                [NORMAL_X, ("bernoulli", ["c"], {"parents": ["x"]})],
                f"Network: 'c' is Bernoulli and {ONLY_NORMAL}",
            ),
            (
                [NORMAL_X, ("multivariate_normal", [["p", "q"]], {"parents": ["x"]})],
                f"Network: 'p, q' is multivariate normal and {ONLY_NORMAL}",
            ),
            (
                [("poisson", ["k"], {}), ("normal", ["x"], {"parents": ["k"]})],
                f"Network: 'x' cannot have the Poisson variable 'k' {LEAF}",
            ),
            (
                [("exponential", [["s", "t"]], {}), ("normal", ["x"], {"parents": ["t"]})],
                f"Network: 'x' cannot have the exponential variable 't' {LEAF}",
            ),
            (
                [("multivariate_normal", [["p", "q"]], {}), ("poisson", ["k"], {"parents": ["q"]})],
                f"Network: 'k' cannot have the multivariate normal variable 'q' {LEAF}",
            ),
            (
                [NORMAL_X, ("normal", ["y"], {"parents": ["x", "x"]})],
                "Network: 'y' names a parent twice: x, x",
            ),
            (
                [("categorical", ["z", 2], {"latent": True}), NORMAL_X],
                UNSEEN,
            ),
            (
                [
                    ("categorical", ["z", 2], {"latent": True}),
                    ("normal", [["u", "v"]], {"parents": ["z"], "latent": True}),
                    NORMAL_X,
                ],
                UNSEEN,
            ),
            (
                [("categorical", ["c", 1], {})],
                "'c': at least two distinct categories are needed, got 1",
            ),
            ([("normal", [""], {})], "a name must not be empty"),
            (
                [("normal", ["x"], {"coefficients": "conjugate"})],
                (
                    "Network: 'x' has no normal parent, so that coefficients='conjugate' means nothing; "
                    "leave it out"
                ),
            ),
            (
                [
                    *(("categorical", [name, 100], {}) for name in "abc"),
                    ("normal", ["x"], {"parents": list("abc")}),
                ],
                (
                    "Network: 'x' would have 1,000,000 blocks, one for each combination of its discrete "
                    "parents; at most 100,000 are possible, so give it fewer"
                ),
            ),
            (
                [("categorical", ["c", [1, "1"]], {})],
                "'c': categories must be all text or all whole numbers, got [1, '1']",
            ),
            (
                [("categorical", ["c", ["a", "b", "a"]], {})],
                "'c': at least two distinct categories are needed, got ['a', 'b', 'a']",
            ),
            (
                [("categorical", ["c", ["a", None]], {})],
                "'c': categories must be all text or all whole numbers, got ['a', None]",
            ),
        ],
    )
    def test_graph(self, calls, sentence):
        with pytest.raises(ValueError) as caught:  # noqa: PT011  # compared below as a whole
            declared(*calls)
        assert str(caught.value) == sentence

    @pytest.mark.parametrize(
        ("call", "sentence"),
        [
            (
                ("normal", ["x"], {"parents": "day"}),
                "Network: parents must be a list of variables, got 'day'",
            ),
            (
                ("normal", ["x"], {"parents": None}),
                "Network: parents must be a list of variables, got None",
            ),
            (("normal", ["x"], {"parents": [1]}), "a name must be text, got 1"),
            (("normal", [3], {}), "a name must be text, got 3"),
            (("categorical", [("a", "b"), 2], {}), "a name must be text, got ('a', 'b')"),
            (
                ("bernoulli", ["b"], {"latent": "yes"}),
                "Network: latent of 'b' must be True or False, got 'yes'",
            ),
            *(
                (
                    ("categorical", ["c", values], {}),
                    f"'c': categories must be a list of values, how many, or one of 'month', 'weekday', 'hour', got {values!r}",
                )
                for values in ("abc", 2.5, True, {"a"}, None)
            ),
        ],
    )
    def test_types(self, call, sentence):
        with pytest.raises(TypeError) as caught:
            declared(call)
        assert str(caught.value) == sentence

    @pytest.mark.parametrize(
        ("declare", "error", "sentence"),
        [
            (
                lambda: sb.models.NaiveBayes("l", 2, categorical=["s"]),
                TypeError,
                "NaiveBayes: categorical must be a mapping of columns to their values or how many",
            ),
            (
                lambda: sb.models.LinearRegression("y", ["x", "y"]),
                ValueError,
                "LinearRegression: the response 'y' is also among the regressors",
            ),
            (
                lambda: sb.models.GaussianMixture(["component", "x"], 2),
                ValueError,
                "'component' is what the hidden variable is called; call the column otherwise",
            ),
            (
                lambda: sb.models.GaussianMixture(["x"], 2.5),
                ValueError,
                "GaussianMixture: num_components must be a whole number of at least 2, got 2.5",
            ),
            (
                lambda: sb.models.ConditionalMixture(["x"], "day", 2, "3"),
                ValueError,
                "ConditionalMixture: num_components must be a whole number of at least 2, got '3'",
            ),
            (
                lambda: sb.models.MixtureNaiveBayes("l", 2, ["x"], 1),
                ValueError,
                "MixtureNaiveBayes: num_components must be a whole number of at least 2, got 1",
            ),
            (
                lambda: sb.models.MixtureNaiveBayes("component", 2, ["x"], 2),
                ValueError,
                "'component' is what the hidden variable is called; call the column otherwise",
            ),
        ],
    )
    def test_ready_models(self, declare, error, sentence):
        with pytest.raises(error) as caught:
            declare()
        assert str(caught.value).startswith(sentence)

    def test_coefficients(self):
        net = sb.Network()
        net.normal("x")
        with pytest.raises(
            ValueError,
            match=r"^Network: coefficients of 'y' must be one of 'joint', 'independent', "
            r"'conjugate', got 'both'$",
        ):
            net.normal("y", parents=["x"], coefficients="both")

    @pytest.mark.parametrize(
        "use",
        [
            hash,
            lambda net: net.show(),
            lambda net: net.columns,
            lambda net: sb.StreamLearner(net, sb.SVB()),
        ],
    )
    def test_declaring_after_use(self, use):
        net = sb.Network()
        net.normal("x")
        use(net)
        with pytest.raises(
            ValueError,
            match=r"^Network: 'y' comes too late, the network is in use; declare all variables "
            r"before, or start a new Network\(\)$",
        ):
            net.normal("y")
        assert [column.name for column in net.columns] == ["x"]

    def test_a_refused_declaration_leaves_the_network_as_it_was(self):
        net = sb.Network()
        net.normal("x")
        before = net.declared
        with pytest.raises(ValueError, match="declared twice"):
            net.normal(["u", "x"])
        assert net.declared is before
        net.normal("u")
        assert [column.name for column in net.columns] == ["x", "u"]

    @pytest.mark.parametrize(
        ("calls", "block"),
        [
            ([("normal", [["x", "y"]], {}), ("normal", ["x, y"], {})], "x, y"),
            (
                [
                    NORMAL_X,
                    ("normal", ["y"], {"parents": ["x"]}),
                    ("poisson", ["y: noise"], {}),
                ],
                "y: noise",
            ),
        ],
    )
    def test_blocks_of_the_same_name(self, calls, block):
        """Blocks go by name: one would silently stand for both."""
        net = sb.Network()
        for kind, arguments, options in calls:
            getattr(net, kind)(*arguments, **options)
        with pytest.raises(ValueError, match="two of its blocks would be called") as caught:
            sb.StreamLearner(net, sb.SVB())
        assert repr(block) in str(caught.value)

    def test_a_network_that_is_built_as_a_whole_is_checked_too(self):
        part = sb.Network()
        part.normal("x")
        with pytest.raises(ValueError, match="'x' is declared twice"):
            hash(sb.Network(part.declared * 2))


class TestNames:
    def test_what_a_declaration_returns_can_be_a_parent(self):
        net = sb.Network()
        a = net.bernoulli("a")
        b = net.categorical("b", 2, parents=[a])
        xs = net.normal(["x1", "x2"], parents=[a, b])
        y = net.normal("y", parents=xs)
        assert (a, b, xs, y) == ("a", "b", ("x1", "x2"), "y")
        assert net.structure.owner["y"].parents == ("x1", "x2")

    def test_labels_name_the_configuration(self):
        labels = weekly().labels()
        assert labels["x, y"].shape == (3, 2, 2)
        assert labels["x, y"][2, 0].tolist() == ["x | z=2, day=Mon", "y | z=2, day=Mon"]
        assert labels["z"].tolist() == ["z | day=Mon", "z | day=Tue"]
        assert labels["rain"].tolist() == ["rain | z=0", "rain | z=1", "rain | z=2"]
        assert labels["p, q"].tolist() == ["p, q | rain=0", "p, q | rain=1"]
        assert labels["w: coefficients"][1] == "w: coefficients | day=Tue"
        assert labels["w: noise"][0] == "w: noise | day=Mon"
        assert labels["calls"].item() == "calls"

    def test_parameters_name_the_configuration(self):
        net = weekly()
        with float64_scope():
            prior = Point(Blocks.of_prior(net.prior()))
            sections = net.marginals(prior, net.scale_from_data(free=False))
        names = [str(name) for section in sections for part in section for name in part.names.flat]
        assert len(set(names)) == len(names)
        for name in (
            "probability of day=Tue",
            "probability of z=2 | day=Mon",
            "probability of rain=1 | z=0",
            "mean of x | z=2, day=Mon",
            "standard deviation of y | z=0, day=Tue",
            "slope of w on x | day=Tue",
            "residual standard deviation of w | day=Mon",
            "mean of p | rain=1",
            "rate of calls",
            "rate of wait | rain=0",
        ):
            assert name in names

    def test_order_of_declaration_is_free(self):
        """Children may come first; columns keep the order of declaration."""
        net = sb.Network()
        net.normal("x", parents=["c"])
        net.categorical("c", 2)
        assert [column.name for column in net.columns] == ["x", "c"]
        assert [variable.entry for variable in net.structure.variables] == ["c", "x"]

    def test_names_and_categories_out_of_arrays_are_plain(self, tmp_path):
        """As ``np.unique`` has them; a state with them can be saved."""
        net = sb.Network()
        label = net.categorical(np.array(["label"])[0], np.unique(["b", "a", "b"]))
        net.categorical("c", np.arange(np.int64(2)), parents=np.array([label]))
        net.normal(np.array(["x", "y"]), parents=[label])
        plain = sb.Network()
        plain.categorical("label", ["a", "b"])
        plain.categorical("c", 2, parents=["label"])
        plain.normal(["x", "y"], parents=["label"])
        assert net == plain
        assert repr(net) == repr(plain)
        assert "np." not in repr(net)
        columns = {"label": ["a", "b"], "c": [0, 1], "x": [1.0, 2.0], "y": [0.0, 5.0]}
        state = sb.StreamLearner(net, sb.SVB()).init(columns)
        sb.save(state, tmp_path / "state.sbz")
        assert sb.load(tmp_path / "state.sbz").model == plain


def test_show():
    assert (
        weekly().show()
        == """\
variable                 distribution   given  blocks         for example
day                    categorical(2)       -       1                 day
z         latent       categorical(3)     day       2         z | day=Tue
rain                        Bernoulli       z       3          rain | z=2
x, y                           normal  z, day      12    y | z=2, day=Tue
w                              normal  x, day       4  w: noise | day=Tue
p, q              multivariate normal    rain       2       p, q | rain=1
calls                         Poisson       -       1               calls
wait                      exponential    rain       2       wait | rain=1
27 blocks"""
    )


class TestEquality:
    def test_equal_networks_share_what_is_compiled(self):
        one, other = weekly(), weekly()
        assert one is not other
        assert one == other
        assert hash(one) == hash(other)
        assert scorer(one) is scorer(other)
        assert stepper(one, sb.HPP()) is stepper(other, sb.HPP())

    def test_a_learner_goes_on_with_the_state_of_an_equal_network(self):
        first, second = (sb.StreamLearner(small(), sb.HPP()) for _ in range(2))
        state = first.init(rows())
        assert identical(first.step(state, rows())[0], second.step(state, rows())[0])

    @pytest.mark.parametrize(
        "change",
        [
            lambda net: net.categorical("a", 3),
            lambda net: net.categorical("a", ["0", "1"]),
            lambda net: net.bernoulli("a"),
            lambda net: net.categorical("b", 2),
        ],
    )
    def test_others_differ(self, change):
        one, other = sb.Network(), sb.Network()
        one.categorical("a", 2)
        change(other)
        assert one != other

    def test_coefficients_grouping_and_latency_make_a_difference(self):
        def net(names, **options):
            made = sb.Network()
            made.normal("x", latent=options.pop("latent", False))
            made.normal(names, parents=["x"], **options)
            return made

        nets = [
            net("y"),
            net(["y"]),
            net("y", coefficients="independent"),
            net("y", coefficients="conjugate"),
            net("y", latent=False),
            net("y", latent=True),
        ]
        assert nets[0] == nets[4]
        assert len(set(nets)) == 5

    def test_a_state_of_another_network_is_refused(self):
        small = sb.Network()
        small.normal("x")
        state = sb.StreamLearner(small, sb.SVB()).init({"x": [1.0, 2.0]})
        other = sb.Network()
        other.normal("y")
        with pytest.raises(ValueError, match="the state belongs to"):
            sb.StreamLearner(other, sb.SVB()).step(state, {"y": [1.0, 2.0]})


READY = {
    name: line
    for name, line in MODELS.items()
    if isinstance(line[0], sb.models.AbstractNetwork) and "gaps" not in name
}


@pytest.mark.parametrize("name", READY)
def test_save_and_load_of_ready_models(tmp_path, name):
    """A fresh state comes back leaf by leaf, with an equal model."""
    model, draw = READY[name]
    state = sb.StreamLearner(model, sb.MHPP()).init(draw(np.random.default_rng(0), 20))
    sb.save(state, tmp_path / "state.sbz")
    loaded = sb.load(tmp_path / "state.sbz")
    assert identical(loaded, state)
    assert loaded.model == model
    assert loaded.model.show() == model.show()


def test_a_network_goes_on_after_saving(tmp_path):
    learner = sb.StreamLearner(small(), sb.HPP())
    state, _ = learner.step(learner.init(rows()), rows())
    sb.save(state, tmp_path / "state.sbz")
    loaded = sb.load(tmp_path / "state.sbz")
    after, info = sb.StreamLearner(loaded.model, loaded.forgetting).step(loaded, rows(seed=1))
    expected, expected_info = learner.step(state, rows(seed=1))
    assert identical(after, expected)
    assert info == expected_info


class TestPickles:
    def test_a_learner_and_its_state(self):
        learner = sb.StreamLearner(small(), sb.HPP())
        state, _ = learner.step(learner.init(rows()), rows())
        again, held = pickle.loads(pickle.dumps((learner, state)))
        assert again.model == learner.model
        assert hash(again.model) == hash(learner.model)
        assert identical(again.step(held, rows())[0], learner.step(state, rows())[0])

    def test_settings_are_kept(self):
        learner = sb.StreamLearner(weekly(), sb.MHPP(), num_restarts=3, max_sweeps=50)
        again = pickle.loads(pickle.dumps(learner))
        assert (again.model, again.forgetting) == (learner.model, learner.forgetting)
        assert (again.num_restarts, again.max_sweeps) == (3, 50)

    def test_a_network_that_is_still_being_declared_stays_open(self):
        net = sb.Network()
        net.normal("x")
        more = pickle.loads(pickle.dumps(net))
        more.normal("y")
        assert [column.name for column in more.columns] == ["x", "y"]
        assert [column.name for column in net.columns] == ["x"]
