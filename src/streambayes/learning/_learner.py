"""StreamLearner: a model and a policy, applied to one batch after another."""

import functools
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, final, get_args

import jax
import numpy as np

from streambayes._core.batch import Batch
from streambayes._core.column import CATEGORY, Column
from streambayes._core.outcome import Outcome
from streambayes._core.precision import float64_scope, to_host
from streambayes._core.program import prepared
from streambayes._core.pytree import is_definition
from streambayes._core.scale import Scale
from streambayes.families import AbstractBelief, AbstractFamily, Blocks
from streambayes.forgetting import SVB, AbstractForgetting, Auto
from streambayes.learning._compiled import Facts, scorer, settings_of, stepper
from streambayes.learning._intake import (
    Kind,
    Pieces,
    Shards,
    StreamBatch,
    kind_of,
    lacking_columns,
    pad,
    read_rows,
    refuse_clusters,
)
from streambayes.learning._next_batch import foretell
from streambayes.learning._notes import Seen, noter
from streambayes.learning._piecewise import (
    Pass,
    PiecePasses,
    cores,
    learn_parts,
    learn_pieces,
)
from streambayes.learning._prediction import Classification, Prediction
from streambayes.learning._rows import BLOCK
from streambayes.learning._state import (
    LearnerState,
    ParameterSummary,
    PosteriorSummary,
    StepInfo,
    arrays_by_label,
    by_label,
    check_level,
    is_traced,
    tails_of,
)
from streambayes.learning._watch import Watch
from streambayes.models import AbstractModel, AbstractNetwork

__all__ = [
    "Learned",
    "Score",
    "StepError",
    "StreamLearner",
    "Using",
    "check_distances",
    "check_time",
    "elapsed_until",
    "needs_time",
    "replaced",
    "start_key",
]

Model = AbstractModel[Any, Any]
Policy = AbstractForgetting[Any, Any]
Priors = Mapping[str, AbstractFamily] | AbstractFamily
Using = Literal["forecast", "belief"]


_FARTHEST = 1e100
_ROWS_FOR_START = 100_000
_ALIKE = 2
"""What ``AbstractModel.alike`` has for values that cannot be told from one another."""
_NUMBERS_OF_A_PART = 2**20
"""In the widest array of a pass: over fewer it takes no longer than threads take to meet."""
_DRAWS = 10_000
_ONE_OPTIMUM = 1e-9
"""Bounds per row of sweeps that end at one optimum differ by less; which is higher is rounding's choice."""


class StepError(ArithmeticError):
    """A batch could not be learned; ``outcome`` says why. The state given to ``step`` still holds."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.sentence)
        self.outcome = outcome


class Score(NamedTuple):
    """Mean over rows of their log-likelihood, in both of its definitions, in the user's units.

    Attributes:
        bound: Expected log-likelihood of a row under the posterior, hidden variables at their own
            optimum: the authors' definition.
        predictive: Log of a row's expected likelihood: the real predictive density.
        num_rows: Rows scored.
        method: How ``predictive`` was computed: ``exact`` (in closed form, up to one-dimensional
            quadrature), or ``importance`` (by weighted draws of what rows hide).
    """

    bound: float
    predictive: float
    num_rows: int
    method: str = "exact"


class Learned(NamedTuple):
    """What learning a batch has led to: the flat facts are those of ``Stepper.learn``."""

    memory: Any
    message: Any
    facts: Facts
    flat: np.ndarray
    num_rows: int


@final
class StreamLearner:
    """A model with a forgetting policy. It holds settings only; states are values.

    Args:
        model: What the rows look like.
        forgetting: What to keep of the past; ``Auto()`` by default, which needs no setting.
        prior: Instead of the model's default: a distribution per entry of blocks (alone, if the model
            has one entry), in the user's units, or of logarithms where the model takes them. Entries that
            are left out keep their default.
        scale: ``True`` centres and scales continuous columns by the first batch in which they vary;
            ``False`` computes in the user's units; a mapping gives (shift, factor) per column. Those of a
            column with a ``transform`` are of the logarithms.
        start: Where the first batch's sweeps start, like ``prior``; from the data by default.
        num_restarts: From how many starts the first batch is tried, to keep the one with the best
            bound; for models with hidden variables.
        tolerance: The bound has settled when it gains at most this much per observation.
        max_sweeps: The most sweeps per batch.
        watch: Whether steps look for changes, which ``drift`` rests on.
    """

    def __init__(
        self,
        model: Model,
        forgetting: Policy | None = None,
        *,
        prior: Priors | None = None,
        scale: bool | Mapping[str, tuple[float, float]] = True,
        start: Priors | None = None,
        num_restarts: int = 1,
        tolerance: float = 1e-12,
        max_sweeps: int = 1000,
        watch: bool = True,
    ) -> None:
        if not isinstance(model, AbstractModel):
            message = f"StreamLearner: model must be a model, got {model!r}"
            raise TypeError(message)
        forgetting = Auto() if forgetting is None else forgetting
        if not isinstance(forgetting, AbstractForgetting):
            message = (
                f"StreamLearner: forgetting must be a policy such as HPP(), got {forgetting!r}"
            )
            raise TypeError(message)
        if not is_definition(type(forgetting)):
            name = type(forgetting).__name__
            message = (
                f"StreamLearner: {name} is no definition yet; put @sb.definition above the class"
            )
            raise TypeError(message)
        if model.is_coupled and not forgetting.takes_coupled:
            message = (
                f"{forgetting.name} needs a model whose complete conditional is in the family of its "
                f"prior; blocks of {type(model).__name__} are coupled"
            )
            raise ValueError(message)
        if not isinstance(tolerance, int | float | np.number) or not 0.0 <= tolerance < np.inf:
            message = f"StreamLearner: tolerance must be at least 0 and finite, got {tolerance!r}"
            raise ValueError(message)
        if not isinstance(max_sweeps, int) or not 1 <= max_sweeps < 2**63:
            message = (
                f"StreamLearner: max_sweeps must be a whole number of at least 1, got {max_sweeps}"
            )
            raise ValueError(message)
        if not isinstance(num_restarts, int) or num_restarts < 1:
            message = f"StreamLearner: num_restarts must be a whole number of at least 1, got {num_restarts}"
            raise ValueError(message)
        if not isinstance(watch, bool):
            message = f"StreamLearner: watch must be True or False, got {watch!r}"
            raise TypeError(message)
        self.model = model
        self.forgetting = forgetting
        self.num_restarts = num_restarts
        self.tolerance = float(tolerance)
        self.max_sweeps = max_sweeps
        self.watch = watch
        self._given_scale = scale
        self._scale = _initial_scale(model, scale)
        self._prior = _given_blocks(model, prior, "prior")
        self._start = _given_blocks(model, start, "start")
        self._columns = model.columns
        self._buckets: dict[str, Any] = {
            "multiple": forgetting.minibatch_size or 1,
            "hidden": model.hidden_if_missing,
        }
        self._labels = model.labels()
        self._stepper = stepper(model, forgetting)
        self._settings = settings_of(forgetting, self.tolerance, max_sweeps)
        self._scorer = scorer(model)

    def init(self, first_batch: Any, *, seed: int = 0) -> LearnerState:
        """The state before any batch: scale and start from ``first_batch``, which is not yet learned.

        Of a batch in pieces or on a cluster, with many rows, from some of them at equal distances.
        """
        return self._begun(self._some_rows(first_batch), seed)

    def _begun(self, rows: np.ndarray, seed: int) -> LearnerState:
        """The state before any batch, given rows of the first one."""
        key = start_key(seed)
        scale = self._scale.freeze(rows) if rows.shape[1] else self._scale
        with float64_scope():
            prior = self._internal(self._prior, scale, Blocks.of_prior(self.model.prior()))
            memory = self.forgetting.init(prior)
            if self._start:
                start = self._internal(self._start, scale, prior)
            else:
                start = self._best_start(key, rows, prior, scale)
            belief = self.forgetting.belief(self.forgetting.init(start))
            watch = noter(self.model).begin(prior) if self.watch else None
        return LearnerState(
            prior=prior,
            memory=memory,
            belief=belief,
            watch=watch,
            scale=scale,
            num_batches=np.int64(0),
            rows_seen=np.float64(0.0),
            pending=np.float64(0.0),
            last_time=np.float64(np.nan),
            model=self.model,
            forgetting=self.forgetting,
        )

    def step(
        self, state: LearnerState, batch: Any, *, time: float | None = None
    ) -> tuple[LearnerState, StepInfo]:
        """Learn one batch. The state given is left as it is; bad input raises and changes nothing.

        Args:
            state: From ``init`` or an earlier step.
            batch: A mapping of columns, a frame, an array, or a ``StreamBatch``. What ``sb.batches`` returns
                is taken as one batch in pieces, which need not fit into memory together: they are read
                once for each sweep. What ``batch`` of a cluster in ``sb.distributed`` returns stays there.
            time: The batch's time, a number on any clock; a ``StreamBatch`` brings its own.
        """
        try:
            return self._stepped(state, batch, time)
        finally:
            if isinstance(batch, Shards):
                batch.release()

    def _stepped(
        self, state: LearnerState, batch: Any, time: float | None
    ) -> tuple[LearnerState, StepInfo]:
        self._check_state(state)
        if isinstance(batch, Pieces | Shards) and self._is_unsettled(state):
            rows = self._some_rows(batch)
        else:
            rows = self._first_rows(state, batch)
        if time is None and isinstance(batch, StreamBatch | Pieces | Shards):
            time = batch.time
        elapsed, last_time = elapsed_until(state, time)
        if rows.shape[1] == 0:
            waiting = replaced(state, pending=np.float64(elapsed), last_time=last_time)
            return waiting, self._info_of_empty(state)
        state, events = self._adjusted(state, rows)
        held = batch if isinstance(batch, Pieces | Shards) else rows
        learned = self._learned(state, held, elapsed)
        again, told = self._told_apart(state, held, elapsed, learned)
        memory, message, facts, _, num_rows = again
        events += told
        outcome = Outcome(int(facts.outcome))
        if outcome.failed:
            raise StepError(outcome)
        watch, seen = self._watched(state, message)
        after = replaced(
            state,
            memory=memory,
            belief=self.forgetting.belief(memory),
            watch=watch,
            num_batches=state.num_batches + 1,
            rows_seen=state.rows_seen + np.float64(facts.num_observations),
            pending=np.float64(0.0),
            last_time=last_time,
        )
        return after, self._info(facts, num_rows, outcome, seen, events)

    def others_prepared(
        self, state: LearnerState, batch: Any, *, with_scores: bool
    ) -> AbstractContextManager[None]:
        """While the first step of a run compiles its program, those that follow it are loaded or compiled."""
        watch, preparations = state.watch, []
        if watch is not None:
            made = noter(self.model)
            preparations.append(lambda: made.prepare(watch, state.prior, state.scale, None))
        if with_scores and not isinstance(batch, Pieces | Shards):
            preparations.append(lambda: self._prepare_score(state, batch))
        return prepared(*preparations)

    def _prepare_score(self, state: LearnerState, batch: Any) -> None:
        rows = self._pad(read_rows(self.model, self._columns, batch))
        belief = self._belief(state, "forecast")
        self._scorer.score.prepare(belief, *_units(state.scale), rows)

    def _learned(self, state: LearnerState, batch: Any, elapsed: float) -> Learned:
        """What is learned of checked rows, of a batch in pieces or of one on a cluster."""
        with float64_scope():
            if isinstance(batch, Pieces | Shards):
                memory, message, flat, num_rows = self._learn_pieces(state, batch, elapsed)
            else:
                num_rows = batch.shape[1]
                memory, message, flat = self._learn_rows(state, batch, elapsed)
            flat = np.asarray(flat)
            return Learned(memory, message, self._stepper.read_facts(flat), flat, num_rows)

    def _learn_rows(
        self, state: LearnerState, rows: np.ndarray, elapsed: float
    ) -> tuple[Any, Blocks, Any]:
        parts = self._parts(state, rows)
        if len(parts) > 1:
            return learn_parts(self._stepper, self._settings, state, parts, elapsed)
        learned: tuple[Any, Blocks, Any] = self._stepper.learn(
            self._settings,
            state.memory,
            state.belief,
            state.prior,
            *_units(state.scale),
            parts[0],
            state.rows_seen,
            np.float64(elapsed),
        )
        return learned

    def _parts(self, state: LearnerState, rows: np.ndarray) -> list[Batch]:
        """The rows, in parts for as many threads as shorten a pass over what they hide."""
        missing = self._kind(rows).missing
        num_parts = self._num_parts(state, rows, missing)
        return [
            pad(part, self._columns, **{**self._buckets, "missing": missing}, as_given=True)
            for part in np.array_split(rows, num_parts, axis=1)
        ]

    def _num_parts(self, state: LearnerState, rows: np.ndarray, missing: tuple[str, ...]) -> int:
        num_rows, num_cores = rows.shape[1], cores()
        if num_rows <= BLOCK or num_cores == 1 or jax.default_backend() != "cpu":
            return 1
        some = pad(rows[:, :BLOCK], self._columns, **{**self._buckets, "missing": missing})
        if self.forgetting.minibatch_size is not None or not self.model.has_hidden(some):
            return 1
        width = self._stepper.row_width(state.belief, some)
        return int(max(min(num_cores, num_rows * width // _NUMBERS_OF_A_PART), 1))

    def _told_apart(
        self, state: LearnerState, batch: Any, elapsed: float, learned: Learned
    ) -> tuple[Learned, tuple[str, ...]]:
        """A batch that has left values of latent variables alike, learned from a start that tells them apart.

        Sweeps alone cannot: what is alike learns alike. Nor do they start well from next to nothing. What ends
        higher is kept; there is something to say of it if it is the new one.
        """
        facts = learned.facts
        alike = {name: np.asarray(values) > 0 for name, values in facts.alike.items()}
        if Outcome(int(facts.outcome)).failed or not any(map(np.any, alike.values())):
            return learned, ()
        if isinstance(batch, Shards) and batch.passes(self, state.scale).keeps:
            return learned, ()  # workers keep hidden variables of the passes that were made
        rows = _some(self._some_rows(batch) if isinstance(batch, Pieces | Shards) else batch)
        best = learned
        for key in jax.random.split(start_key(0), self.num_restarts):
            with float64_scope():
                blocks = self.forgetting.belief(learned.memory).summary()
                start = self._scorer.start_apart(
                    key, self._pad(rows), state.prior, blocks, alike, *_units(state.scale)
                )
                belief = self.forgetting.belief(self.forgetting.init(start))
            found = self._learned(replaced(state, belief=belief), batch, elapsed)
            if self._is_higher(found.facts, best.facts):
                best = found
        if best is learned:
            return learned, ()
        return best, _told_apart_in_words(self.model, alike, best.facts.alike)

    def _is_higher(self, facts: Facts, others: Facts) -> bool:
        """Whether a batch has ended higher; where no bound says so, whether more values are told apart."""
        if Outcome(int(facts.outcome)).failed:
            return False
        if not self.forgetting.maximises_bound:
            mine, theirs = (
                sum(int((np.asarray(values) == _ALIKE).sum()) for values in each.alike.values())
                for each in (facts, others)
            )
            return mine < theirs
        rows = max(float(facts.num_observations), 1.0)
        return float(facts.bound - others.bound) > self.tolerance * rows

    def score(self, state: LearnerState, batch: Any, *, using: Using = "forecast") -> Score:
        """Mean log-likelihood of rows under the state, in both definitions; NaN if there are none.

        Args:
            state: From ``init`` or a step.
            batch: Like a batch for ``step``.
            using: ``forecast`` to score as ``predict`` predicts, ``belief`` to score what is believed.
        """
        self._check_state(state)
        if isinstance(batch, Pieces):
            return _pooled([self.score(state, piece, using=using) for piece in batch])
        belief = self._belief(state, using)
        if isinstance(batch, Shards):
            num_rows = batch.num_rows(self)
            if not num_rows:
                return Score(float("nan"), float("nan"), 0)
            bound, predictive, method = batch.score(self, state, belief)
            return Score(bound / num_rows, predictive / num_rows, num_rows, method)
        rows = read_rows(self.model, self._columns, batch)
        self._check_distances(state, rows)
        num_rows = rows.shape[1]
        if not num_rows:
            return Score(float("nan"), float("nan"), 0)
        with float64_scope():
            batch = self._pad(rows)
            bound, predictive = self._scorer.score(belief, *_units(state.scale), batch)
        return self._score_of(rows, bound, predictive)

    def _score_of(self, rows: np.ndarray, bound: Any, predictive: Any) -> Score:
        """The score of rows, given sums over them of both log-likelihoods."""
        num_rows, missing = rows.shape[1], lacking_columns(rows, self._columns)
        method = self.model.predictive_method(pad(rows[:, :1], self._columns, missing=missing))
        return Score(float(bound) / num_rows, float(predictive) / num_rows, num_rows, method)

    def log_predictive(
        self, state: LearnerState, batch: Any, *, using: Using = "forecast"
    ) -> np.ndarray:
        """Log predictive density of every row, in the user's units, shape (num_rows,); ``using`` as for ``predict``."""
        self._check_state(state)
        belief = self._belief(state, using)
        rows = read_rows(self.model, self._columns, batch)
        self._check_distances(state, rows)
        with float64_scope():
            values = self._scorer.log_predictive(belief, *_units(state.scale), self._pad(rows))
        return np.asarray(values)[: rows.shape[1]]

    def predict(
        self,
        state: LearnerState,
        rows: Any,
        variable: str | None = None,
        *,
        level: float = 0.9,
        using: Using = "forecast",
    ) -> Prediction | Classification:
        """The distribution of one variable of each row given what is known of the others.

        Args:
            state: From ``init`` or a step.
            rows: Like a batch. The variable's own column is not read and may be left out; other
                columns may have missing cells.
            variable: What to predict, a column or a latent variable; a model with a response or a
                class predicts that by default.
            level: The probability of the intervals.
            using: By default what has predicted best so far, if the policy finds that out, as ``Auto`` does;
                ``belief`` for what is believed after the last batch.
        """
        self._check_state(state)
        refuse_clusters(
            rows, "predict: a batch on a cluster is taken by init, step, score and run only"
        )
        name = self.model.target if variable is None else variable
        if name is not None and not isinstance(name, str):
            message = f"predict: variable must be one name, got {name!r}"
            raise TypeError(message)
        if name is None:
            message = f"predict: name the variable; {type(self.model).__name__} has no response"
            raise ValueError(message)
        check_level("predict", level)
        categories = self.model.categories_of(name)
        held = read_rows(self.model, self._columns, rows, unknown=name)
        self._check_distances(state, held)
        found, method = self._conditional(state, held, name, level, self._belief(state, using))
        if categories:
            return Classification(name, categories, found, method)
        places = [column.name for column in self._columns]
        shift, factor, column = 0.0, 1.0, Column(name)
        if name in places:
            place = places.index(name)
            shift, factor = (part[place] for part in _units(state.scale))
            column = self._columns[place]
        mean, sd, *quantiles = found.T
        lower, upper, *median = (column.decode(shift + factor * each) for each in quantiles)
        none = np.full(len(mean), np.inf)
        return Prediction(
            variable=name,
            mean=none if column.transform else shift + factor * mean,
            sd=none if column.transform else factor * sd,
            lower=lower,
            upper=upper,
            level=level,
            method=method,
            median=median[0] if median else None,
        )

    def predict_proba(
        self,
        state: LearnerState,
        rows: Any,
        variable: str | None = None,
        *,
        using: Using = "forecast",
    ) -> np.ndarray:
        """Probabilities of a variable's values for each row, shape (num_rows, num_categories); as ``predict``."""
        found = self.predict(state, rows, variable, using=using)
        if isinstance(found, Prediction):
            message = f"predict_proba: {found.variable!r} is a number; use predict"
            raise TypeError(message)
        return found.probabilities

    def sample(
        self, state: LearnerState, num_rows: int, *, seed: int = 0, using: Using = "forecast"
    ) -> dict[str, np.ndarray]:
        """Rows from the predictive distribution, each with parameters of its own draw; ``using`` as for ``predict``.

        Columns by name in the user's units, as a batch has them.
        """
        self._check_state(state)
        if not isinstance(num_rows, int) or num_rows < 1:
            message = f"sample: num_rows must be a whole number of at least 1, got {num_rows}"
            raise ValueError(message)
        check_seed(seed, "sample")
        rng = np.random.default_rng(seed % 2**64)
        belief = to_host(self._belief(state, using))
        with float64_scope():
            drawn = self.model.draw(rng, belief.sample(rng, num_rows))
        columns = {}
        for column, shift, factor in zip(self._columns, *_units(state.scale), strict=True):
            columns[column.name] = column.decode(shift + factor * drawn[column.name])
        return columns

    def predict_next(self, state: LearnerState, *, level: float = 0.9) -> PosteriorSummary:
        """What may be expected of the next batch, if it has as many rows as the last one.

        Of networks, for each column of numbers ``value of x``, as ``predict`` says it of a row of which nothing is known (by 10,000
        draws, the same every time). Then parameters as the batch by itself will show them, such as ``mean of x``, the mean of its
        rows: by the forecast that was nearest in the last 64 batches, with an interval by its errors there. Before
        the third batch nothing is known of how batches differ, and intervals have no ends.

        Args:
            state: From a step.
            level: The probability of the intervals.
        """
        self._check_state(state)
        check_level("predict_next", level)
        if state.watch is None:
            message = (
                "predict_next: how far batches lie apart is learned with "
                "StreamLearner(..., watch=True) alone"
            )
            raise ValueError(message)
        tails = tails_of(level)
        can_draw = isinstance(self.model, AbstractNetwork)
        drawn = self.sample(state, _DRAWS) if can_draw else {}
        values = [
            ParameterSummary(
                f"value of {column.name}",
                float(drawn[column.name].mean()),
                float(drawn[column.name].std()),
                *np.quantile(drawn[column.name], tails).tolist(),
            )
            for column in self._columns
            if column.name in drawn and column.kind != CATEGORY
        ]
        recent, number = np.asarray(state.watch.recent), int(state.watch.num_batches)
        own = foretell(self.model, recent, number, level)
        return PosteriorSummary((*values, *own), level)

    def _belief(self, state: LearnerState, using: Using) -> AbstractBelief:
        """By what to predict."""
        if using not in get_args(Using):
            message = f"using must be 'forecast' or 'belief', got {using!r}"
            raise ValueError(message)
        if using == "belief" or not self.forgetting.has_forecast:
            return state.belief
        with float64_scope():
            found: AbstractBelief = self.forgetting.forecast(state.memory, state.belief)
        return found

    def _conditional(
        self,
        state: LearnerState,
        held: np.ndarray,
        name: str,
        level: float,
        belief: AbstractBelief,
    ) -> tuple[np.ndarray, str]:
        """What is predicted of each row, in internal units; rows without gaps by themselves.

        They are often exact where rows with gaps are not.
        """
        names = [column.name for column in self._columns]
        others = [place for place, other in enumerate(names) if other != name]
        gaps = np.isnan(held[others]).any(0)
        groups = [np.flatnonzero(some) for some in (~gaps, gaps)]
        groups = [some for some in groups if len(some)] or groups[:1]
        tails = tails_of(level)
        if any(column.name == name and column.transform for column in self._columns):
            tails = np.append(tails, 0.5)
        parts, methods = [], []
        for some in groups:
            cells = held[:, some]
            missing = lacking_columns(cells, self._columns)
            with float64_scope():
                batch = pad(cells, self._columns, missing=missing, is_unpadded=True)
                found = self._scorer.predict(belief, *_units(state.scale), batch, tails, name=name)
            parts.append(np.asarray(found)[: len(some)])
            methods.append(self.model.predictive_method(batch))
        order = np.argsort(np.concatenate(groups))
        return np.concatenate(parts)[order], max(methods)  # importance, if any

    def _first_rows(self, state: LearnerState, batch: Any) -> np.ndarray:
        """The rows of a batch, or of its first piece that has any; of one on a cluster, whether it has any."""
        if isinstance(batch, Shards):
            return np.zeros((len(self._columns), min(1, batch.num_rows(self, state))))
        if not isinstance(batch, Pieces):
            return read_rows(self.model, self._columns, batch)
        rows = np.zeros((len(self._columns), 0))
        for rows in self._rows_of(batch):
            if rows.shape[1]:
                break
        return rows

    def _some_rows(self, batch: Any) -> np.ndarray:
        """The rows of a batch, or of its pieces; every second of those, every fourth, ... of very many."""
        if isinstance(batch, Shards):
            return batch.some_rows(self, _ROWS_FOR_START)
        if not isinstance(batch, Pieces):
            return read_rows(self.model, self._columns, batch)
        held, stride, seen = np.zeros((len(self._columns), 0)), 1, 0
        for rows in self._rows_of(batch):
            held = np.concatenate([held, rows[:, -seen % stride :: stride]], axis=1)
            seen += rows.shape[1]
            while held.shape[1] > _ROWS_FOR_START:
                held, stride = held[:, ::2], 2 * stride
        return held

    def _rows_of(self, pieces: Pieces) -> Iterator[np.ndarray]:
        for number, piece in enumerate(pieces):
            try:
                rows = read_rows(self.model, self._columns, piece)
            except (ValueError, TypeError) as error:
                error.add_note(f"in piece {number} of the batch")
                raise
            yield rows

    def _learn_pieces(
        self, state: LearnerState, pieces: Pieces | Shards, elapsed: float
    ) -> tuple[Any, Blocks, Any, int]:
        if self.forgetting.minibatch_size is not None:
            message = (
                f"{self.forgetting.name} learns minibatches of a batch one by one: give the pieces as "
                "batches of their own"
            )
            raise ValueError(message)
        if isinstance(pieces, Shards):
            passed: Pass = pieces.passes(self, state.scale)
            memory, message, flat = learn_pieces(
                self._stepper,
                self._settings,
                state,
                passed,
                elapsed,
                accelerate=pieces.accelerate,
                on_sweep=pieces.on_sweep,
            )
            return memory, message, flat, pieces.num_rows(self, state)
        sizes: list[int] = []

        def read() -> Iterator[Batch]:
            sizes.clear()
            for rows in self._rows_of(pieces):
                if rows.shape[1]:
                    sizes.append(rows.shape[1])
                    yield self._pad(rows, as_given=True)

        passed = PiecePasses(self._stepper, state.scale, read)
        memory, message, flat = learn_pieces(self._stepper, self._settings, state, passed, elapsed)
        return memory, message, flat, sum(sizes)

    def _watched(self, state: LearnerState, message: Blocks) -> tuple[Watch | None, Seen | None]:
        """The watch of a state after a batch, and what it saw, where there is one."""
        if state.watch is None:
            return None, None
        return noter(self.model).watch(state.watch, state.prior, state.scale, message)

    def _best_start(self, key: Any, rows: np.ndarray, prior: Blocks, scale: Scale) -> Blocks:
        """The start whose sweeps over the rows reach the highest bound, of as many as asked for.

        Of many rows, some at equal distances serve.
        """
        rows = _some(rows)
        batch, units = self._pad(rows), _units(scale)
        others = jax.random.split(key, self.num_restarts - 1) if self.num_restarts > 1 else ()
        starts: list[Blocks] = [
            to_host(self._scorer.start(each, batch, prior, *units)) for each in (key, *others)
        ]
        if len(starts) == 1 or not rows.shape[1]:
            return starts[0]
        return starts[self._best_of(starts, rows, prior, scale)]

    def _best_of(self, starts: list[Blocks], rows: np.ndarray, prior: Blocks, scale: Scale) -> int:
        """Which start's sweeps over the rows reach the highest bound for a prior; of those that reach one, the first."""
        plain = SVB()
        trial = stepper(self.model, plain)
        settings = settings_of(plain, self.tolerance, self.max_sweeps)
        batch, units, zero = self._pad(rows), _units(scale), np.float64(0.0)
        bounds = []
        for start in starts:
            belief = plain.belief(plain.init(start))
            *_, flat = trial.learn(
                settings, plain.init(prior), belief, prior, *units, batch, zero, zero
            )
            bounds.append(float(trial.read_facts(np.asarray(flat)).bound))
        reached = np.nan_to_num(bounds, nan=-np.inf)
        return int(np.argmax(reached >= reached.max() - _ONE_OPTIMUM * rows.shape[1]))

    def _adjusted(
        self, state: LearnerState, rows: np.ndarray
    ) -> tuple[LearnerState, tuple[str, ...]]:
        """The state with units and starts that only these rows can tell, and what to say of it."""
        events: tuple[str, ...] = ()
        if not state.scale.frozen.all():
            state, events = self._freeze(state, rows)
        if self._may_restart(state, units_are_new=bool(events)):
            state, restarted = self._restart(state, rows)
            events += restarted
        return state, events

    def _is_unsettled(self, state: LearnerState) -> bool:
        """Whether rows may change units or starts."""
        return not state.scale.frozen.all() or self._may_restart(state, units_are_new=False)

    def _may_restart(self, state: LearnerState, *, units_are_new: bool) -> bool:
        """Whether too little was seen to tell the values of latent variables apart."""
        needed = self.model.rows_to_start
        if not needed or self._start:
            return False
        return units_are_new or (
            state.rows_seen < needed and (state.num_batches > 0 or _is_at_prior(state))
        )

    def _restart(
        self, state: LearnerState, rows: np.ndarray
    ) -> tuple[LearnerState, tuple[str, ...]]:
        """Sweeps start from these rows, if that ends higher than where the last ones ended."""
        with float64_scope():
            seen = state.belief.summary()
            fresh = self._best_start(start_key(0), rows, state.prior, state.scale)
            if self._best_of([seen, fresh], rows, seen, state.scale) == 0:
                return state, ()
            belief = self.forgetting.belief(self.forgetting.init(fresh))
        event = "latent variables start anew from this batch: too little was seen before it"
        return replaced(state, belief=belief), (event,) if state.num_batches else ()

    def replace(self, **settings: Any) -> "StreamLearner":
        """The same learner with some settings replaced, such as ``max_sweeps`` or ``forgetting``."""
        given = {"model": self.model, "forgetting": self.forgetting, **self._given()}
        return StreamLearner(**{**given, **settings})

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(StreamLearner, **self._given()), (self.model, self.forgetting)

    def _given(self) -> dict[str, Any]:
        return {
            "prior": self._prior,
            "scale": self._given_scale,
            "start": self._start,
            "num_restarts": self.num_restarts,
            "tolerance": self.tolerance,
            "max_sweeps": self.max_sweeps,
            "watch": self.watch,
        }

    def __repr__(self) -> str:
        return f"StreamLearner({self.model!r}, {self.forgetting!r})"

    def _kind(self, rows: np.ndarray) -> Kind:
        return kind_of(rows, self._columns, **self._buckets, as_given=True)

    def _pad(self, rows: np.ndarray, *, as_given: bool = False) -> Batch:
        return pad(rows, self._columns, **self._buckets, as_given=as_given)

    def _internal(
        self, given: Mapping[str, AbstractFamily], scale: Scale, default: Blocks
    ) -> Blocks:
        """Given distributions in internal units, the default's for the rest."""
        params = {
            name: self.model.from_units(name, family, scale) for name, family in given.items()
        }
        part = Blocks(params=params, counts={name: default.counts[name] for name in given})
        return default.replaced(part)

    def _check_distances(self, state: LearnerState, rows: np.ndarray) -> None:
        check_distances(self._columns, _units(state.scale), rows)

    def _check_state(self, state: LearnerState, *, of_many: bool = False) -> None:
        if not isinstance(state, LearnerState):
            message = f"expected a state from StreamLearner.init, got {type(state).__name__}"
            raise TypeError(message)
        if is_traced(state):
            message = "a step cannot run inside jax.jit or jax.vmap: it compiles itself"
            raise TypeError(message)
        if not of_many:
            state.check_single()
        if (state.model, state.forgetting) != (self.model, self.forgetting):  # identity first
            mine, theirs = _described(self), _described(state)
            if mine == theirs:
                theirs += " of other columns or settings"
            message = f"the state belongs to {theirs}, this learner has {mine}"
            raise ValueError(message)

    def _freeze(
        self, state: LearnerState, rows: np.ndarray
    ) -> tuple[LearnerState, tuple[str, ...]]:
        """Take the units of columns that vary for the first time; their blocks start anew."""
        scale = state.scale.freeze(rows)
        if scale is state.scale:
            return replaced(state, scale=scale.counted(rows)), ()
        fresh = np.flatnonzero(scale.frozen & ~state.scale.frozen)
        touched: dict[str, Any] = {}
        events = []
        for place in fresh:
            name = self._columns[place].name
            for block, mask in self.model.touched_by(name).items():
                touched[block] = touched.get(block, np.zeros_like(mask)) | mask
            of = "of logarithms: " if self._columns[place].transform else ""
            is_new = state.scale.is_constant[place]
            varies = "varies for the first time" if is_new else "has been seen in enough rows"
            events.append(
                f"column {name!r} {varies}: its units are set ({of}centre "
                f"{scale.shift[place]:.6g}, scale {scale.factor[place]:.6g}) and its blocks restart"
            )
        with float64_scope():
            prior = self._internal(self._prior, scale, Blocks.of_prior(self.model.prior()))
            memory = self.forgetting.restart(state.memory, prior, touched)
            belief = self.forgetting.belief(memory)
            watch = state.watch and noter(self.model).restarted(state.watch, prior, touched)
        state = replaced(state, scale=scale, prior=prior, memory=memory, belief=belief, watch=watch)
        return state, tuple(events)

    def _info(
        self,
        facts: Facts,
        num_rows: int,
        outcome: Outcome,
        seen: Seen | None,
        events: tuple[str, ...] = (),
    ) -> StepInfo:
        return StepInfo(
            num_rows=num_rows,
            bound=float(facts.bound) if self.forgetting.maximises_bound else None,
            fall=float(facts.fall) if self.forgetting.maximises_bound else None,
            rho=self._readable(facts.report.rho),
            omega=self._readable(facts.report.omega),
            rho_sd=self._readable(facts.report.rho_sd),
            log_bf=self._readable(facts.report.log_bf),
            seen=seen,
            drifting=self._readable(facts.report.drifting),
            recalled=self._readable(facts.report.recalled),
            memory=self._readable_memory(facts.report.memory),
            retained=by_label(self._labels, facts.retained),
            num_sweeps=int(facts.num_sweeps),
            num_rounds=int(facts.num_rounds),
            outcome=outcome,
            events=events,
        )

    def _info_of_empty(self, state: LearnerState) -> StepInfo:
        return StepInfo(
            num_rows=0,
            bound=None,
            fall=None,
            rho=None,
            omega=None,
            retained=state.retained,
            num_sweeps=0,
            num_rounds=0,
            outcome=Outcome.EMPTY,
        )

    def _readable(self, value: Any) -> float | dict[str, float] | None:
        if value is None:
            return None
        return by_label(self._labels, value) if isinstance(value, dict) else float(value)

    def _readable_memory(
        self, value: Any
    ) -> tuple[float, ...] | dict[str, tuple[float, ...]] | None:
        if not isinstance(value, dict):
            return None if value is None else tuple(value.tolist())
        every = arrays_by_label(self._labels, value)
        return {label: tuple(each.tolist()) for label, each in every.items()}


def check_distances(columns: tuple[Column, ...], units: tuple[Any, Any], rows: np.ndarray) -> None:
    """Raise for values whose squares, in the units of a state, are no numbers any more."""
    shift, factor = units
    away = np.abs(rows - shift[:, None]) / factor[:, None]
    if not np.any(away > _FARTHEST):
        return
    place, row = np.argwhere(away > _FARTHEST)[0]
    message = (
        f"column {columns[place].name!r}, row {row}: {rows[place, row]:g} lies "
        f"{away[place, row]:.0e} units from the values that were learned, too far away to be "
        "compared with them"
    )
    raise ValueError(message)


def _some(rows: np.ndarray) -> np.ndarray:
    """Of many rows, some at equal distances."""
    return rows[:, :: -(-rows.shape[1] // _ROWS_FOR_START) or 1]


def _told_apart_in_words(
    model: Model, alike: Mapping[str, np.ndarray], still: Mapping[str, Any]
) -> tuple[str, ...]:
    """What to say of values of latent variables that were alike and no longer are."""
    events = []
    for name, values in alike.items():
        told = values & (np.asarray(still[name]) < _ALIKE)
        above = model.strata(name)
        kinds = [model.categories_of(other) for other in above]
        groups: dict[str, list[str]] = {}
        for stratum, chosen in enumerate(told):
            if not chosen.any():
                continue
            place = np.unravel_index(stratum, [len(each) for each in kinds]) if kinds else ()
            given = [f"{o}={k[p]}" for o, k, p in zip(above, kinds, place, strict=True)]
            categories = [
                str(c) for c, one in zip(model.categories_of(name), chosen, strict=True) if one
            ]
            which = "all values" if chosen.all() else "values " + ", ".join(categories)
            groups.setdefault(which, []).append(", ".join(given))
        for which, some in groups.items():
            where = " given " + "; ".join(some) if above else ""
            events.append(
                f"{which} of {name}{where} were alike, forgotten or not yet seen: they start anew from "
                "the rows of this batch"
            )
    return tuple(events)


def _pooled(scores: list[Score]) -> Score:
    """The score of all pieces together."""
    scores = [score for score in scores if score.num_rows]
    num_rows = sum(score.num_rows for score in scores)
    if not num_rows:
        return Score(float("nan"), float("nan"), 0)
    bound, predictive = (
        sum(getattr(score, name) * score.num_rows for score in scores) / num_rows
        for name in ("bound", "predictive")
    )
    return Score(bound, predictive, num_rows, max(score.method for score in scores))


def _units(scale: Scale) -> tuple[Any, Any]:
    return scale.shift, scale.factor


def _described(held: StreamLearner | LearnerState) -> str:
    return f"{type(held.model).__name__} with {held.forgetting.name}"


def _is_at_prior(state: LearnerState) -> bool:
    """Whether the batch given to ``init`` had nothing to start from."""
    with float64_scope():
        held = zip(
            jax.tree.leaves(state.belief.summary()), jax.tree.leaves(state.prior), strict=True
        )
        # a bank's average of equal members is that member but for rounding
        return all(np.allclose(mine, theirs, rtol=1e-12, atol=0.0) for mine, theirs in held)


def elapsed_until(state: LearnerState, time: float | None) -> tuple[float, Any]:
    """Time since the last batch with rows, and the new last time."""
    pending = float(state.pending)
    if time is None and state.forgetting.needs_times:
        raise ValueError(needs_time(state.forgetting))
    if time is None:
        return pending, state.last_time
    now, last = check_time(time), float(state.last_time)
    if now < last:
        message = f"time must not go back: this batch has {time}, the last one {last}"
        raise ValueError(message)
    passed = 0.0 if np.isnan(last) else now - last
    return pending + passed, np.float64(now)


def needs_time(policy: Policy) -> str:
    """What to say of a batch without a time that needs one."""
    return (
        f"{policy.name} measures time: every batch needs one, as step(..., time=...) or from "
        "sb.batches(..., time=...)"
    )


def start_key(seed: Any) -> Any:
    """The random key of a start: that of ``jax.random.key``, which compiles a program for it."""
    check_seed(seed, "init")
    halves: Any = np.array(divmod(int(seed) % 2**64, 2**32), np.uint32)
    return jax.random.wrap_key_data(halves, impl="threefry2x32")


def check_seed(seed: Any, place: str) -> None:
    """``TypeError`` or ``ValueError`` unless a seed is a whole number of at most 63 bits."""
    if not isinstance(seed, int | np.integer):
        message = f"{place}: seed must be a whole number, got {seed!r}"
        raise TypeError(message)
    if not -(2**63) <= seed < 2**63:
        message = f"{place}: seed must be a whole number of at most 63 bits"
        raise ValueError(message)


def check_time(time: Any) -> float:
    """A time as a number; ``TypeError`` or ``ValueError`` if it is none."""
    if not isinstance(time, int | float | np.number):
        message = f"time must be a number, such as seconds, got {time!r}"
        raise TypeError(message)
    if not np.isfinite(time):
        message = f"time must be finite, got {time}"
        raise ValueError(message)
    return float(time)


def replaced(state: LearnerState, **changes: Any) -> LearnerState:
    """The state with other fields."""
    fields = {**state.__dict__, **changes}
    return LearnerState(**fields)


def _initial_scale(model: Model, scale: bool | Mapping[str, tuple[float, float]]) -> Scale:
    if isinstance(scale, bool):
        return model.scale_from_data(free=scale)
    initial = model.scale_from_data(free=True)
    shift, factor, frozen = initial.shift.copy(), initial.factor.copy(), initial.frozen.copy()
    places = {column.name: place for place, column in enumerate(model.columns)}
    if not isinstance(scale, Mapping):
        message = (
            f"scale must be True, False or a mapping of columns to (shift, factor), got {scale!r}"
        )
        raise TypeError(message)
    for name, units in scale.items():
        if not isinstance(units, tuple | list) or len(units) != 2:
            message = f"scale of {name!r} must be a pair (shift, factor), got {units!r}"
            raise TypeError(message)
        centre, width = units
        if name not in places or not model.columns[places[name]].is_measured:
            message = f"scale: {name!r} is not a column of the model that has units"
            raise ValueError(message)
        if centre != 0.0 and not initial.centred[places[name]]:
            message = f"scale of {name!r}: a positive column is not shifted, got shift {centre}"
            raise ValueError(message)
        if not (np.isfinite(centre) and 0.0 < width < float("inf")):
            message = f"scale of {name!r}: shift must be finite and factor positive, got {(centre, width)}"
            raise ValueError(message)
        shift[places[name]], factor[places[name]], frozen[places[name]] = centre, width, True
    return Scale(shift, factor, frozen, initial.centred, initial.seen)


def _given_blocks(
    model: Model, given: Priors | None, what: Literal["prior", "start"]
) -> dict[str, AbstractFamily]:
    default = model.prior()
    if given is None:
        return {}
    if isinstance(given, AbstractFamily):
        if len(default) > 1:
            message = f"{what}: name the entries, a mapping with some of {sorted(default)}"
            raise ValueError(message)
        given = dict.fromkeys(default, given)
    if not isinstance(given, Mapping):
        message = (
            f"{what} must be a distribution or a mapping of entries to distributions, got {given!r}"
        )
        raise TypeError(message)
    checked = {}
    for name, family in given.items():
        if name not in default:
            message = f"{what}: no entry {name!r}; the model has {sorted(default)}"
            raise ValueError(message)
        checked[name] = _fit(what, name, family, default[name])
    return checked


def _fit(what: str, name: str, family: AbstractFamily, default: AbstractFamily) -> AbstractFamily:
    """The given distribution over the default's blocks, if it is one."""
    wanted = type(default).__name__
    if type(family) is not type(default):
        message = f"{what} of {name!r} must be a {wanted}, got {type(family).__name__}"
        raise TypeError(message)
    try:
        fitted = family.broadcast_to(default.batch_shape)
        same = all(
            np.shape(mine) == np.shape(theirs)
            for mine, theirs in zip(fitted.naturals(), default.naturals(), strict=True)
        )
    except ValueError:
        same = False
    if not same:
        sizes = [tuple(np.shape(leaf) for leaf in each.naturals()) for each in (family, default)]
        message = (
            f"{what} of {name!r}: this {wanted} has natural parameters of shapes {sizes[0]}, the "
            f"model's blocks have {sizes[1]}"
        )
        raise ValueError(message)
    if not np.all(family.is_proper()):
        message = f"{what} of {name!r} is not a proper {wanted}"
        raise ValueError(message)
    return fitted
