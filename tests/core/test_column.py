"""Cells of any class: a number, a missing cell, or a sentence with column and row."""

from decimal import Decimal

import numpy as np
import pytest

from streambayes._core.column import BINARY, CATEGORY, CONTINUOUS, Column, shown


class Unreadable:
    def __float__(self):
        raise OverflowError


@pytest.mark.parametrize("nan", [Decimal("NaN"), Decimal("sNaN"), None, np.float32("nan")])
def test_whatever_says_that_it_is_no_number_is_missing(nan):
    for column, cells in (
        (Column("x", CONTINUOUS), [Decimal("1.5"), nan, 2]),
        (Column("x", BINARY), [1, nan, Decimal(0)]),
        (Column("x", CATEGORY, ("a", "b")), ["b", nan, "a"]),
    ):
        found = column.encode(cells)
        np.testing.assert_array_equal(np.isnan(found), [False, True, False])
        assert not column.strange_cells(cells).any()
        assert not column.unseen_cells(cells).any()


@pytest.mark.parametrize("cell", ["1", b"1", [1], 1j, Unreadable(), Decimal("1e400"), 10**400])
def test_what_is_no_number_is_named_with_its_row(cell):
    cells = np.array([1.0, None, 2.0], object)
    cells[1] = cell
    with pytest.raises(ValueError, match=r"column 'x', row 1: expected a finite number, got"):
        Column("x").encode(cells)


def test_a_long_cell_is_cut_where_it_is_echoed():
    assert shown("a" * 30) == repr("a" * 30)
    assert shown(10**400) == f"1{59 * '0'}..."
    assert shown(10**5000) == "a very long int"
    for cell in (10**400, 10**5000, "a" * 500):
        with pytest.raises(ValueError, match="column 'x', row 0: expected") as caught:
            Column("x").encode(np.array([cell], object))
        assert len(str(caught.value)) < 150
