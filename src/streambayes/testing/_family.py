"""check_family: the laws that every exponential family obeys."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.precision import float64_scope, in_float64
from streambayes.families import AbstractFamily

__all__ = ["check_family"]

_SAMPLES = 10_000
_SIGMAS = 6.0  # of a Monte Carlo estimate; one in 10^9 correct families fails
_RTOL = 1e-8


def check_family(family: AbstractFamily, rng: np.random.Generator) -> None:
    """Raise ``AssertionError``, naming the law and the numbers, unless ``family`` obeys every law.

    Run it on members that differ in kind: scalar and batched, near the prior and far from it. The
    statistics of the members should have finite variances, since samples stand for expectations.

    Args:
        family: Proper members of the family to check, of any batch shape.
        rng: What is random in the check follows from it.
    """
    settings = _settings()
    name = type(family).__name__
    _require(bool(np.all(family.is_proper())), f"{name}: is_proper must hold of what is checked")
    other = _another_member(family, rng)
    _check_structure(family, other)
    _check_algebra(family, other)
    _check_transformations(family)
    found = _measured(family, other, rng)
    _check_gradient(name, found)
    _check_definitions(name, found)
    _check_samples(name, found)
    _check_precision(family, other, found.some_samples)
    changed = [setting for setting, value in _settings().items() if value != settings[setting]]
    _require(not changed, f"{name}: JAX settings must stay as they are, but {changed} changed")


class _Measured(NamedTuple):
    """What the laws compare; of two entries the first is the family's own, the second by definition."""

    gradient: tuple[Array, ...]
    expected_stats: Any
    kl: tuple[Array, Array]
    kl_to_itself: Array
    entropy: tuple[Array, Array]
    log_prob: tuple[Array, Array]
    log_prob_of_other: Array
    sufficient_stats: Any
    log_base_measure: tuple[Array, Array]
    size: Array
    size_per_sample: Array
    some_samples: Any


@in_float64
def _measured(family: AbstractFamily, other: AbstractFamily, rng: np.random.Generator) -> _Measured:
    """Everything at once, in a few programs: operation by operation is slow, and so is one large one."""
    samples = family.sample(rng, _SAMPLES)
    stats, entropy = jax.jit(_expectations)(family)
    divergence, log_prob = jax.jit(_divergence), jax.jit(_log_prob)
    kl, kl_defined, size = divergence(family, other)
    kl_to_itself, _, own_size = divergence(family, family)
    size = 1.0 + size + own_size  # the definitions round at this size
    log_prob_defined, drawn, base, energy = jax.jit(_densities)(family, samples)
    return _Measured(
        gradient=jax.jit(jax.grad(_total_log_normalizer))(family).naturals(),
        expected_stats=stats,
        kl=(kl, kl_defined),
        kl_to_itself=kl_to_itself,
        entropy=entropy,
        log_prob=(log_prob(family, samples), log_prob_defined),
        log_prob_of_other=log_prob(other, samples),
        sufficient_stats=drawn,
        log_base_measure=(base, family.expected_log_base_measure()),
        size=size,
        size_per_sample=size + energy,
        some_samples=jax.tree.map(lambda leaf: leaf[:2], samples),
    )


def _log_prob(family: AbstractFamily, samples: Any) -> Array:
    return family.log_prob(samples)


def _total_log_normalizer(family: AbstractFamily) -> Array:
    return family.log_normalizer().sum()


def _expectations(family: AbstractFamily) -> tuple[Any, tuple[Array, Array]]:
    return family.expected_stats(), (family.entropy(), AbstractFamily.entropy(family))


def _divergence(family: AbstractFamily, other: AbstractFamily) -> tuple[Array, Array, Array]:
    size = jnp.abs(other.log_normalizer()) + jnp.abs(other.dot(family.expected_stats()))
    return family.kl(other), AbstractFamily.kl(family, other), size


def _densities(family: AbstractFamily, samples: Any) -> tuple[Array, Any, Array, Array]:
    drawn, base = family.sufficient_stats(samples), family.log_base_measure(samples)
    energy = jnp.abs(family.dot(drawn)) + jnp.abs(base)
    return AbstractFamily.log_prob(family, samples), drawn, base, energy


def _check_structure(family: AbstractFamily, other: AbstractFamily) -> None:
    """Equality, hash, and the way through JAX's flatten and unflatten."""
    name = type(family).__name__
    leaves, structure = jax.tree.flatten(family)
    rebuilt = jax.tree.unflatten(structure, leaves)
    _require(rebuilt == family, f"{name}: unflatten of flatten must give {family}, got {rebuilt}")
    _require(hash(rebuilt) == hash(family), f"{name}: equal members must have equal hashes")
    _require(family != other, f"{name}: members of different parameters must differ: {family}")
    _require(family != object(), f"{name}: a member must differ from any other object")
    placeholders = [object() for _ in leaves]
    try:
        hollow = jax.tree.unflatten(structure, placeholders)
    except Exception as error:
        message = f"{name}: unflatten must take placeholders without a check, but raised {error!r}"
        raise AssertionError(message) from error
    _require(
        jax.tree.leaves(hollow) == placeholders,
        f"{name}: flatten must give back the very leaves that unflatten was given",
    )


def _check_algebra(family: AbstractFamily, other: AbstractFamily) -> None:
    """Sums, multiples, interpolations and choices of natural parameters."""
    name = type(family).__name__
    ones, zeros = np.ones(family.batch_shape), np.zeros(family.batch_shape)
    pairs = {
        "scaled(2) and the sum with itself": (family.scaled(2.0), family + family),
        "scaled by a 1 per member and the member": (family.scaled(ones), family),
        "a + b - b and a": (family + other - other, family),
        "lerp(b, 1) and a": (family.lerp(other, ones), family),
        "lerp(b, 0) and b": (family.lerp(other, zeros), other),
        "lerp(b, 1/4) and a / 4 + 3 b / 4": (
            family.lerp(other, 0.25),
            family.scaled(0.25) + other.scaled(0.75),
        ),
        "select(true, b) and a": (family.select(ones > 0, other), family),
        "select(false, b) and b": (family.select(zeros > 0, other), other),
    }
    for law, (left, right) in pairs.items():
        for field, mine, theirs in zip(
            family.natural, left.naturals(), right.naturals(), strict=True
        ):
            _require_close(f"{name}: {law} must have the same {field}", mine, theirs)
    for weight in (0.0, 0.1, 0.5, 0.9, 1.0):
        between = family.lerp(other, weight)
        _require(
            bool(np.all(between.is_proper())),
            f"{name}: lerp of proper members must be proper, but is not at weight {weight}: {between}",
        )


def _check_transformations(family: AbstractFamily) -> None:
    """Broadcasting, ``jit`` and ``vmap`` change nothing."""
    name = type(family).__name__
    wide = family.broadcast_to((2, *family.batch_shape))
    _require(
        wide.batch_shape == (2, *family.batch_shape),
        f"{name}: broadcast_to must give batch shape {(2, *family.batch_shape)}, got {wide.batch_shape}",
    )
    value = family.log_normalizer()
    _require(
        np.shape(value) == family.batch_shape,
        f"{name}: log_normalizer must have shape {family.batch_shape}, got {np.shape(value)}",
    )
    expected = np.broadcast_to(value, wide.batch_shape)
    with float64_scope():
        compiled = jax.jit(_log_normalizer)(family)
        mapped = jax.jit(jax.vmap(_log_normalizer))(wide)
    scale = np.abs(value).max(initial=1.0)  # of a normalized one, 0 is left of terms about 1
    _require_close(
        f"{name}: log_normalizer under jit must agree with eager", compiled, value, scale
    )
    _require_close(f"{name}: log_normalizer of broadcast_to under vmap", mapped, expected, scale)


def _check_gradient(name: str, found: _Measured) -> None:
    r"""$E[t] = \nabla A(\eta)$."""
    stats = found.expected_stats
    for field, slope, stat in zip(stats._fields, found.gradient, stats, strict=True):
        _require_close(
            f"{name}: expected_stats must be the gradient of log_normalizer ({field})", stat, slope
        )


def _check_definitions(name: str, found: _Measured) -> None:
    """``kl``, ``entropy`` and ``log_prob`` agree with the definitions in ``AbstractFamily``."""
    itself, apart = found.kl_to_itself, found.kl[0]
    _require(
        bool(np.all(np.abs(itself) <= 1e-14 * found.size)),
        f"{name}: kl of a member to itself must be 0, got {itself}",
    )
    _require(bool(np.all(apart > 0)), f"{name}: kl to another member must be positive, got {apart}")
    _require_close(f"{name}: kl must agree with its definition", *found.kl, found.size)
    _require_close(f"{name}: entropy must agree with its definition", *found.entropy, found.size)
    law = f"{name}: log_prob must agree with its definition"
    _require_close(law, *found.log_prob, found.size_per_sample)


def _check_samples(name: str, found: _Measured) -> None:
    """Averages over samples agree with expectations."""
    stats = found.expected_stats
    for field, draws, stat in zip(stats._fields, found.sufficient_stats, stats, strict=True):
        _require_mean(f"{name}: mean of {field} over samples", draws, stat)
    log_prob = found.log_prob[0]
    _require_mean(f"{name}: entropy over samples", -log_prob, found.entropy[0])
    _require_mean(f"{name}: kl over samples", log_prob - found.log_prob_of_other, found.kl[0])
    _require_mean(f"{name}: mean of log_base_measure over samples", *found.log_base_measure)


def _check_precision(family: AbstractFamily, other: AbstractFamily, samples: Any) -> None:
    """What a caller is handed are NumPy arrays of float64, inside a float32 program too."""
    name = type(family).__name__
    results = {
        "log_normalizer": family.log_normalizer(),
        "expected_stats": family.expected_stats(),
        "entropy": family.entropy(),
        "kl": family.kl(other),
        "sufficient_stats": family.sufficient_stats(samples),
        "lerp": family.lerp(other, 0.5),
        "naturals": family.naturals(),
    }
    for method, result in results.items():
        for leaf in jax.tree.leaves(result):
            fits = isinstance(leaf, np.ndarray | np.generic) and leaf.dtype == np.float64
            found = f"{type(leaf).__name__} of {getattr(leaf, 'dtype', None)}"
            _require(fits, f"{name}: {method} must return NumPy float64, got {found}")


@in_float64
def _another_member(family: AbstractFamily, rng: np.random.Generator) -> AbstractFamily:
    """A proper member near this one, by random changes of all natural parameters."""
    for size in (0.3, 0.1, 0.03, 0.01, 0.003):
        fields = {
            field: _changed(value, event, size, rng)
            for (field, event), value in zip(family.natural.items(), family.naturals(), strict=True)
        }
        other: AbstractFamily = dataclasses.replace(family, **fields)  # type: ignore[type-var]
        if np.all(other.is_proper()):
            return other
    message = f"{type(family).__name__}: no proper member found near {family}"
    raise AssertionError(message)


def _changed(value: Any, event: int, size: float, rng: np.random.Generator) -> np.ndarray:
    value = np.asarray(value)
    batch = value.shape[: value.ndim - event]
    factor = 1.0 + size * rng.uniform(-1.0, 1.0, batch)
    scaled: np.ndarray = factor.reshape(batch + (1,) * event) * value
    if event > 1:  # a matrix keeps its symmetry
        return scaled
    level = np.where(value == 0, 1.0, np.abs(value))
    scaled += size * level * rng.uniform(-1.0, 1.0, value.shape)
    return scaled


def _log_normalizer(family: AbstractFamily) -> Array:
    return family.log_normalizer()


def _settings() -> dict[str, Any]:
    return dict(jax.config.values)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _require_close(law: str, found: Any, wanted: Any, scale: Any = None) -> None:
    """Within 1e-8 of the scale, by default the largest magnitude wanted."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    finite = np.isfinite(wanted)
    if scale is None:
        scale = np.abs(wanted[finite]).max(initial=1e-6)  # 0 by cancellation is so to rounding
    _require(found.shape == wanted.shape, f"{law}: shape {found.shape} where {wanted.shape} is due")
    error = np.abs(np.where(finite, found, 0.0) - np.where(finite, wanted, 0.0))
    same = np.where(finite, error <= _RTOL * scale, found == wanted)
    _require(bool(same.all()), f"{law}: {found} where {wanted} is due, off by {error.max()}")


def _require_mean(law: str, draws: Any, expected: Any) -> None:
    """The mean over the first axis within six standard errors."""
    draws, expected = np.asarray(draws), np.asarray(expected)
    mean = draws.mean(0)
    error = draws.std(0) / np.sqrt(len(draws))
    allowed = _SIGMAS * error + _RTOL * (1.0 + np.abs(expected))
    _require(
        bool(np.all(np.abs(mean - expected) <= allowed)),
        f"{law}: {mean} ± {error} (one standard error) where {expected} is expected",
    )
