"""Where the hidden variables of the first batch start: clusters and principal components of its rows."""

import jax
import jax.numpy as jnp
from jax import Array

from streambayes._core.batch import Batch
from streambayes.models.network._factor import Moments
from streambayes.models.network._structure import Structure

__all__ = ["started"]

_ROUNDS = 20
_CANDIDATES = 5
_MAX_STRATA = 16


def started(key: Array, structure: Structure, batch: Batch, local: Moments) -> Moments:
    """Latent variables set from the columns below them; missing cells stay as they are."""
    shares, means, squares = dict(local.shares), dict(local.means), dict(local.squares)
    found: dict[tuple[str, ...], Array] = {}
    for number, name in enumerate(structure.latents):
        below = _columns_below(structure, name)
        features = _features(structure, batch, below)
        if structure.is_discrete(name):
            size = structure.num_values(name)
            own = jax.random.fold_in(key, number)
            shares[name] = jnp.zeros((size, features.shape[1]))
            for stratum, rows in enumerate(_strata(structure, batch, name)):
                shares[name] += _clusters(jax.random.fold_in(own, stratum), features, rows, size)
        else:
            rest = found.get(below, jnp.nan_to_num(features))
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


def _strata(structure: Structure, batch: Batch, name: str) -> list[Array]:
    """Masks of rows that share no parameters below a latent variable, which cluster by themselves.

    They differ in an observed variable that is a parent of all children of the latent one.
    """
    children = structure.children[name]
    common = [
        other
        for other in structure.discrete_parents(children[0])
        if not structure.owner[other].latent and all(other in child.parents for child in children)
    ]
    strata = [batch.mask]
    for other in common:
        place = batch.columns.index(other)
        there = batch.observed[place]
        kinds = range(structure.num_values(other))
        split = [rows & there & (batch.column(other) == kind) for rows in strata for kind in kinds]
        if other in batch.missing:  # rows without it wait for the first sweep, unless all are
            split += [rows & ~there.any() for rows in strata]
        if len(split) > _MAX_STRATA:
            break
        strata = split
    return strata


def _features(structure: Structure, batch: Batch, names: tuple[str, ...]) -> Array:
    """Columns centred and scaled within the batch, discrete ones as indicators; NaN where missing."""
    rows: list[Array] = []
    for name in names:
        place = batch.columns.index(name)
        there = batch.observed[place]
        values = jnp.where(there, batch.column(name), 0.0)
        if structure.is_discrete(name):
            kinds = range(structure.num_values(name))
            rows.extend(jnp.where(there, values == kind, jnp.nan) for kind in kinds)
            continue
        num_rows = jnp.maximum(there.sum(), 1)
        away = jnp.where(there, values - values.sum() / num_rows, 0.0)
        spread = jnp.sqrt(jnp.square(away).sum() / num_rows)
        rows.append(jnp.where(there, away / jnp.where(spread > 0, spread, 1.0), jnp.nan))
    return jnp.stack(rows)


def _clusters(key: Array, features: Array, mask: Array, num_clusters: int) -> Array:
    """k-means from k-means++ centres: indicators of shape (num_clusters, num_padded).

    Of several candidates for a centre, the one that leaves rows nearest to a centre is taken.
    """
    there = ~jnp.isnan(features)
    values = jnp.nan_to_num(features)
    complete = mask & there.all(0)
    seeds = jnp.where(complete.any(), complete, mask)
    first, *others = jax.random.split(key, num_clusters)
    centres = jnp.full((num_clusters, features.shape[0]), jnp.inf)
    chosen = jax.random.categorical(first, jnp.where(seeds, 0.0, -jnp.inf))
    centres = centres.at[0].set(values[:, chosen])
    nearest = _distances(values, there, centres[:1])[0]
    for number, step in enumerate(others, start=1):
        odds = jnp.where(seeds, jnp.log(nearest + 1e-300), -jnp.inf)
        drawn = jax.random.categorical(step, odds, shape=(_CANDIDATES,))
        closer = jnp.minimum(nearest, _distances(values, there, values[:, drawn].T))
        best = jnp.where(mask, closer, 0.0).sum(-1).argmin()
        centres, nearest = centres.at[number].set(values[:, drawn[best]]), closer[best]

    def members_of(centres: Array) -> Array:
        winner = _distances(values, there, centres).argmin(0)
        mine = (winner == jnp.arange(num_clusters)[:, None]) & mask
        return mine.astype(float)

    def settle(_: int, centres: Array) -> Array:
        members = members_of(centres)
        sizes = members @ there.T
        return jnp.where(sizes > 0, members @ values.T / jnp.maximum(sizes, 1.0), centres)

    return members_of(jax.lax.fori_loop(0, _ROUNDS, settle, centres))


def _distances(values: Array, there: Array, centres: Array) -> Array:
    """Mean squared distances over what is there of a row, shape (num_centres, num_padded)."""
    squares = jnp.where(there[None], jnp.square(values[None] - centres[:, :, None]), 0.0)
    return squares.sum(1) / jnp.maximum(there.sum(0), 1)


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
