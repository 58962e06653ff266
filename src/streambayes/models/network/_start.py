"""Where the hidden variables of the first batch start: clusters and principal components of its rows."""

import jax
import jax.numpy as jnp
from jax import Array

from streambayes._core.batch import Batch
from streambayes.models.network._factor import Moments
from streambayes.models.network._structure import Structure

__all__ = ["started"]

_ROUNDS = 20


def started(key: Array, structure: Structure, batch: Batch, local: Moments) -> Moments:
    """Latent variables set from the columns below them; missing cells stay as they are."""
    shares, means, squares = dict(local.shares), dict(local.means), dict(local.squares)
    found: dict[tuple[str, ...], Array] = {}
    for number, name in enumerate(structure.latents):
        below = _columns_below(structure, name)
        features = _features(structure, batch, below)
        if structure.is_discrete(name):
            size = structure.num_values(name)
            shares[name] = _clusters(jax.random.fold_in(key, number), features, batch.mask, size)
        else:
            rest = found.get(below, features)
            means[name], found[below] = _component(
                jax.random.fold_in(key, number), rest, batch.mask
            )
            squares[name] = jnp.square(means[name]) + 0.1
    return Moments(shares=shares, means=means, squares=squares, vectors={})


def _columns_below(structure: Structure, name: str) -> tuple[str, ...]:
    """Observed descendants."""
    below: list[str] = []
    waiting = [name]
    while waiting:
        for child in structure.children[waiting.pop()]:
            waiting.extend(child.names)
            below.extend(n for n in child.names if not child.latent and n not in below)
    return tuple(below)


def _features(structure: Structure, batch: Batch, names: tuple[str, ...]) -> Array:
    """Columns centred and scaled within the batch, discrete ones as indicators; 0 where missing."""
    rows: list[Array] = []
    for name in names:
        place = batch.columns.index(name)
        there = batch.observed[place]
        values = jnp.where(there, batch.values[place], 0.0)
        if structure.is_discrete(name):
            kinds = range(structure.num_values(name))
            rows.extend((there & (values == kind)).astype(float) for kind in kinds)
            continue
        num_rows = jnp.maximum(there.sum(), 1)
        away = jnp.where(there, values - values.sum() / num_rows, 0.0)
        spread = jnp.sqrt(jnp.square(away).sum() / num_rows)
        rows.append(away / jnp.where(spread > 0, spread, 1.0))
    return jnp.stack(rows)


def _clusters(key: Array, features: Array, mask: Array, num_clusters: int) -> Array:
    """k-means from k-means++ centres: indicators of shape (num_clusters, num_padded)."""
    first, *others = jax.random.split(key, num_clusters)
    centres = jnp.full((num_clusters, features.shape[0]), jnp.inf)
    chosen = jax.random.categorical(first, jnp.where(mask, 0.0, -jnp.inf))
    centres = centres.at[0].set(features[:, chosen])
    for number, step in enumerate(others, start=1):
        nearest = _distances(features, centres[:number]).min(0)
        odds = jnp.where(mask, jnp.log(nearest + 1e-300), -jnp.inf)
        centres = centres.at[number].set(features[:, jax.random.categorical(step, odds)])

    def settle(_: int, centres: Array) -> Array:
        members = _indicators(features, centres, mask)
        sizes = members.sum(-1, keepdims=True)
        return jnp.where(sizes > 0, members @ features.T / jnp.maximum(sizes, 1.0), centres)

    centres = jax.lax.fori_loop(0, _ROUNDS, settle, centres)
    return _indicators(features, centres, mask)


def _indicators(features: Array, centres: Array, mask: Array) -> Array:
    nearest = _distances(features, centres).argmin(0)
    mine = (nearest == jnp.arange(centres.shape[0])[:, None]) & mask
    return mine.astype(float)


def _distances(features: Array, centres: Array) -> Array:
    """Squared distances, shape (num_centres, num_padded)."""
    squares = jnp.square(features[None] - centres[:, :, None])
    return squares.sum(1)


def _component(key: Array, features: Array, mask: Array) -> tuple[Array, Array]:
    """Scores of the first principal component, of variance 1, and what it leaves of the features."""
    num_rows = jnp.maximum(mask.sum(), 1)

    def stretch(_: int, direction: Array) -> Array:
        turned = features @ (features.T @ direction)
        return turned / (jnp.sqrt(jnp.square(turned).sum()) + 1e-300)

    begin = jax.random.normal(key, (features.shape[0],), dtype=float)
    direction = jax.lax.fori_loop(0, _ROUNDS, stretch, begin)
    scores = jnp.where(mask, direction @ features, 0.0)
    spread = jnp.sqrt(jnp.square(scores).sum() / num_rows)
    scores = scores / jnp.where(spread > 0, spread, 1.0)
    return scores, features - (features @ scores / num_rows)[:, None] * scores
