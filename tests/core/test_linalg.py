"""Cholesky factors of small matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streambayes._core import linalg
from streambayes._core.precision import float64_scope, in_float64


def random_matrices(seed, *shape):
    root = np.random.default_rng(seed).normal(size=(*shape, shape[-1]))
    return root @ np.swapaxes(root, -1, -2) + np.eye(shape[-1])


@pytest.mark.parametrize("size", [1, 2, 8, 9, 12])
def test_factor_and_solutions(size):
    matrix = random_matrices(size, 3, size)
    right = np.random.default_rng(1).normal(size=(3, size, 2))
    factor = in_float64(linalg.cholesky)(matrix)
    np.testing.assert_allclose(factor.lower, np.linalg.cholesky(matrix), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(
        in_float64(linalg.log_det)(factor), np.linalg.slogdet(matrix)[1], rtol=1e-12
    )
    for solve, system in (
        (linalg.solve, matrix),
        (linalg.solve_lower, factor.lower),
        (linalg.solve_lower_transposed, np.swapaxes(factor.lower, -1, -2)),
    ):
        solution = in_float64(solve)(factor, right)
        np.testing.assert_allclose(system @ solution, right, rtol=1e-9, atol=1e-11)
    vector = right[..., 0]
    np.testing.assert_allclose(
        in_float64(linalg.square_norm)(vector, factor),
        np.einsum("bi,bij,bj->b", vector, matrix, vector),
        rtol=1e-12,
    )


@pytest.mark.parametrize("size", [5, 12])
def test_two_large_batches_share_a_program(size):
    count = 10_000 if size == 5 else 500
    first, second = random_matrices(1, count, size), random_matrices(2, count, size)

    @jax.jit
    def both(one, two):
        eye = jnp.eye(size)
        return tuple(linalg.solve(linalg.cholesky(m), eye) for m in (one, two))

    with float64_scope():
        found = [np.asarray(inverse) for inverse in both(first, second)]
    for inverse, matrix in zip(found, (first, second), strict=True):
        assert np.abs(inverse @ matrix - np.eye(size)).max() < 1e-9


@pytest.mark.parametrize("size", [3, 12])
def test_gradient(size):
    matrix = random_matrices(3, size)
    with float64_scope():
        slope = jax.grad(lambda m: linalg.log_det(linalg.cholesky(m)))(jnp.asarray(matrix))
    np.testing.assert_allclose(slope, np.linalg.inv(matrix), rtol=1e-9, atol=1e-12)


def test_a_singular_matrix_has_its_pivot_lifted():
    singular = np.array([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 9.0]])
    factor = in_float64(linalg.cholesky)(singular).lower
    assert np.isfinite(factor).all()
    assert (np.diagonal(factor) > 0).all()
    np.testing.assert_allclose(factor @ factor.T, singular, atol=1e-15)
    assert factor[1, 1] == pytest.approx(np.sqrt(np.finfo(float).eps), rel=1e-6)


def test_zero_has_a_factor():
    factor = in_float64(linalg.cholesky)(np.zeros((2, 2))).lower
    assert (np.diagonal(factor) > 0).all()
    assert np.abs(factor).max() < 1e-150


def test_positive_definiteness_is_judged_without_lifting():
    matrices = np.array([np.eye(2), [[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]], -np.eye(2)])
    found = in_float64(linalg.is_positive_definite)(matrices)
    np.testing.assert_array_equal(found, [True, False, False, False])


def test_only_the_symmetric_part_counts():
    matrix = np.array([[2.0, 0.3], [0.1, 1.0]])
    symmetric = 0.5 * (matrix + matrix.T)
    found = in_float64(linalg.cholesky)(matrix)
    np.testing.assert_allclose(found.lower, np.linalg.cholesky(symmetric), rtol=1e-14)
