"""Where hidden variables start, at first or after they were forgotten: clusters and principal components of rows."""

import itertools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax import Array

from streambayes._core.batch import Batch
from streambayes.families import Blocks
from streambayes.models.network._factor import (
    AbstractFactor,
    ByName,
    Moments,
    product_of_shares,
    rows_at,
)
from streambayes.models.network._structure import Structure

__all__ = ["alike", "among_blocks", "started", "strata_of", "told_apart"]

_ROUNDS = 20
_CANDIDATES = 5
_MAX_STRATA = 16
_ALIKE = 1e-6
"""Nats by which two values may differ and count as alike; for each row behind them, and one more."""
_NEXT_TO_NOTHING = 0.1
"""Rows behind a value of which, if fewer are left, nothing is worth starting from."""
_FEWEST = 1.999
"""Rows that alike values must hold together to be told apart: two, but for rounding."""


def started(key: Array, structure: Structure, batch: Batch, local: Moments) -> Moments:
    """Latent variables set from the columns below them; missing cells stay as they are."""
    shares, means, squares = dict(local.shares), dict(local.means.others), dict(local.squares)
    found: dict[tuple[str, ...], Array] = {}
    for number, name in enumerate(structure.latents):
        below = _columns_below(structure, name)
        features = _features(structure, batch, below)
        if structure.is_discrete(name):
            size = structure.num_values(name)
            own = jax.random.fold_in(key, number)
            shares[name] = _clusters_within(own, features, _strata(structure, batch, name), size)
        else:
            rest = found.get(below, jnp.nan_to_num(features))
            means[name], found[below] = _component(
                jax.random.fold_in(key, number), rest, batch.mask
            )
            squares[name] = jnp.square(means[name]) + 0.1
    return Moments(shares=shares, means=ByName.each(means), squares=squares, vectors={})


def strata_of(structure: Structure, name: str) -> tuple[str, ...]:
    """Observed variables that are parents of all children of a latent one.

    For each of their values the latent variable has parameters of its own.
    """
    children = structure.children[name]
    return tuple(
        other
        for other in structure.discrete_parents(children[0])
        if not structure.owner[other].latent and all(other in child.parents for child in children)
    )


def alike(
    structure: Structure,
    factors: Mapping[str, AbstractFactor],
    name: str,
    blocks: Blocks,
    gained: Mapping[str, Array],
    before: Mapping[str, Array],
) -> Array:
    """Values of a latent variable as ``AbstractModel.alike`` has them, of shape (strata, num_values).

    Of several groups of alike values in a stratum, the one with most rows.
    """
    kinds = (*strata_of(structure, name), name)
    gap, behind, held, left = jnp.zeros(()), jnp.zeros(()), jnp.zeros(()), jnp.zeros(())

    def pairs(factor: AbstractFactor, leaf: Array) -> Array:
        rows = _by_kind(structure, factor, kinds, leaf)
        return rows[:, :, None] - rows[:, None]

    for child in structure.children[name]:
        factor = factors[child.entry]
        for entry in factor.prior():
            family = blocks.params[entry]
            for natural, stat in zip(family.naturals(), family.expected_stats(), strict=True):
                # Kullback-Leibler divergences there and back
                gap = gap + (pairs(factor, natural) * pairs(factor, stat)).sum(-1)
        num_names = len(factor.names) if factor.variable.is_grouped else 1
        behind, held, left = (
            jnp.maximum(most, _by_kind(structure, factor, kinds, each[entry]).sum(-1) / num_names)
            for most, each in ((behind, blocks.counts), (held, gained), (left, before))
        )
    fewer = jnp.minimum(behind[:, :, None], behind[:, None])
    near = gap <= _ALIKE * (1.0 + fewer)
    together = jnp.where(near, held[:, None], 0.0).sum(-1)
    together = jnp.where(near.sum(-1) > 1, together, 0.0)
    most = together.argmax(-1)[:, None]
    group = jnp.take_along_axis(near, most[..., None], axis=1)[:, 0]
    are_alike = group & (jnp.take_along_axis(together, most, axis=1) >= _FEWEST)
    gone = left < _NEXT_TO_NOTHING
    told = gone & (gone.sum(-1) > 1)[:, None]
    told &= (jnp.where(gone, held, 0.0).sum(-1) >= _FEWEST)[:, None]
    return jnp.where(are_alike, 2, jnp.where(are_alike.any(-1, keepdims=True), 0, told))


def _by_kind(
    structure: Structure, factor: AbstractFactor, kinds: tuple[str, ...], leaf: Array
) -> Array:
    """Arrays of a factor's blocks by stratum and value: (strata, num_values, whatever else)."""
    places = [factor.parents.index(kind) for kind in kinds]
    moved = jnp.moveaxis(leaf, places, range(len(places)))
    size = structure.num_values(kinds[-1])
    num_strata = 1
    for kind in kinds[:-1]:
        num_strata *= structure.num_values(kind)
    return moved.reshape(num_strata, size, -1)


def among_blocks(
    structure: Structure, factor: AbstractFactor, name: str, chosen: Array, shape: tuple[int, ...]
) -> Array:
    """Values of a latent variable by stratum, (strata, num_values), as blocks of a factor below it."""
    kinds = (*strata_of(structure, name), name)
    wide = chosen.reshape([structure.num_values(kind) for kind in kinds])
    present = [parent for parent in factor.parents if parent in kinds]
    turned = wide.transpose([kinds.index(parent) for parent in present])
    sizes = [structure.num_values(p) if p in kinds else 1 for p in factor.parents]
    sizes += [1] * (len(shape) - len(sizes))
    return jnp.broadcast_to(turned.reshape(sizes), shape)


def told_apart(
    key: Array, structure: Structure, batch: Batch, moments: Moments, chosen: Mapping[str, Array]
) -> dict[str, Array]:
    """Shares by which each of the chosen values has a cluster of the rows that they hold together.

    Args:
        key: A random key.
        structure: The network.
        batch: Rows.
        moments: Of all variables of the rows.
        chosen: Whether a value is one of them, by latent variable and stratum.
    """
    shares = {}
    for number, (name, by_stratum) in enumerate(chosen.items()):
        features = _features(structure, batch, _columns_below(structure, name))
        strata = product_of_shares(strata_of(structure, name), moments)
        inside = batch.mask[None] if strata is None else (strata > 0.5) & batch.mask
        size = structure.num_values(name)

        def split(
            share: Array,
            given: tuple[Array, Array, Array],
            features: Array = features,
            size: int = size,
        ) -> tuple[Array, None]:
            key, rows, apart = given

            def clustered(share: Array) -> Array:
                held = jnp.where(rows, jnp.where(apart[:, None], share, 0.0).sum(0), 0.0)
                found = _clusters(key, features, held, size, apart.sum())
                mine = found[jnp.maximum(jnp.cumsum(apart) - 1, 0)]
                return jnp.where(apart[:, None] & rows, mine, share)

            return jax.lax.cond(apart.any(), clustered, lambda share: share, share), None

        keys = jax.random.split(jax.random.fold_in(key, number), len(by_stratum))
        shares[name], _ = jax.lax.scan(split, moments.shares[name], (keys, inside, by_stratum))
    return shares


def _columns_below(structure: Structure, name: str) -> tuple[str, ...]:
    """Observed descendants."""
    below: list[str] = []
    waiting = [name]
    while waiting:
        for child in structure.children[waiting.pop()]:
            waiting.extend(child.names)
            below.extend(n for n in child.names if not child.latent and n not in below)
    return tuple(below)


def _strata(structure: Structure, batch: Batch, name: str) -> Array:
    """Masks, (strata, num_padded), of rows that share no parameters below a latent variable, which cluster by themselves."""
    strata = [batch.mask]
    for other in strata_of(structure, name):
        place = batch.columns.index(other)
        there = batch.observed[place]
        kinds = range(structure.num_values(other))
        split = [rows & there & (batch.column(other) == kind) for rows in strata for kind in kinds]
        if other in batch.missing:  # rows without it wait for the first sweep, unless all are
            split += [rows & ~there.any() for rows in strata]
        if len(split) > _MAX_STRATA:
            break
        strata = split
    return jnp.stack(strata)


def _features(structure: Structure, batch: Batch, names: tuple[str, ...]) -> Array:
    """Columns centred and scaled within the batch, discrete ones as indicators; NaN where missing."""
    parts: list[Array] = []
    for is_discrete, run in itertools.groupby(names, structure.is_discrete):
        chosen = tuple(run)
        places = [batch.columns.index(name) for name in chosen]
        there = rows_at(batch.observed, places)
        values = jnp.where(there, rows_at(batch.values, places).astype(float), 0.0)
        if is_discrete:
            for name, own, known in zip(chosen, values, there, strict=True):
                kinds = jnp.arange(structure.num_values(name))[:, None]
                parts.append(jnp.where(known, own == kinds, jnp.nan))
            continue
        num_rows = jnp.maximum(there.sum(1, keepdims=True), 1)
        away = jnp.where(there, values - values.sum(1, keepdims=True) / num_rows, 0.0)
        spread = jnp.sqrt(jnp.square(away).sum(1, keepdims=True) / num_rows)
        parts.append(jnp.where(there, away / jnp.where(spread > 0, spread, 1.0), jnp.nan))
    return jnp.concatenate(parts)


def _clusters_within(key: Array, features: Array, strata: Array, size: int) -> Array:
    """Clusters of the rows of each stratum, a mask: weights of rows by cluster, shape (size, num_padded)."""

    def more(stratum: Array, total: Array) -> Array:
        own = jax.random.fold_in(key, stratum)
        return total + _clusters(own, features, strata[stratum].astype(float), size)

    found: Array = jax.lax.fori_loop(0, len(strata), more, jnp.zeros((size, features.shape[1])))
    return found


def _clusters(
    key: Array, features: Array, weights: Array, num_clusters: int, num_wanted: Array | None = None
) -> Array:
    """k-means from k-means++ centres: weights of rows by cluster, shape (num_clusters, num_padded).

    Of several candidates for a centre, the one that leaves rows nearest to a centre is taken. Clusters from
    ``num_wanted`` on stay empty.
    """
    there = ~jnp.isnan(features)
    values = jnp.nan_to_num(features)
    mask, log_weights = weights > 0, jnp.log(weights)
    complete = mask & there.all(0)
    seeds = jnp.where(complete.any(), complete, mask)
    keys = jax.random.split(key, num_clusters)
    centres = jnp.full((num_clusters, features.shape[0]), jnp.inf)
    chosen = jax.random.categorical(keys[0], jnp.where(seeds, log_weights, -jnp.inf))
    centres = centres.at[0].set(values[:, chosen])
    nearest = _distances(values, there, centres[:1])[0]

    def more(number: Array, old: tuple[Array, Array]) -> tuple[Array, Array]:
        centres, nearest = old
        odds = jnp.where(seeds, jnp.log(nearest + 1e-300) + log_weights, -jnp.inf)
        drawn = jax.random.categorical(keys[number], odds, shape=(_CANDIDATES,))
        closer = jnp.minimum(nearest, _distances(values, there, values[:, drawn].T))
        best = jnp.where(mask, weights * closer, 0.0).sum(-1).argmin()
        return centres.at[number].set(values[:, drawn[best]]), closer[best]

    num_found = num_clusters if num_wanted is None else jnp.maximum(num_wanted, 1)
    centres, _ = jax.lax.fori_loop(1, num_found, more, (centres, nearest))

    def members_of(centres: Array) -> Array:
        winner = _distances(values, there, centres).argmin(0)
        return jnp.where(winner == jnp.arange(num_clusters)[:, None], weights, 0.0)

    def settle(_: int, centres: Array) -> Array:
        members = members_of(centres)
        sizes = members @ there.T
        return jnp.where(sizes > 0, members @ values.T / jnp.where(sizes > 0, sizes, 1.0), centres)

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
