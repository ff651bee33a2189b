"""The table of operators in benchmarks/: a wrong result is no benchmark, and the sums are those of the rows."""

import numpy as np
import pytest

from benchmarks import executors
from benchmarks.operators.inputs import matrix
from benchmarks.operators.measure import Measured, WrongResult, compare
from benchmarks.operators.report import overview, summaries, worst
from benchmarks.operators.rows import ROWS, Row
from torchgrad_jax._core.host import choice

SIN = Row("sin", (matrix,), lambda t, x: t.sin(x))
EMPTY = Row("empty_like", (matrix,), lambda t, x: t.empty_like(x), unset=True)
ONES = np.ones(3, np.float32)


@pytest.mark.parametrize(
    "row, wrong",
    [
        (SIN, ONES * 1.01),
        (SIN, ONES * np.float32("nan")),
        (SIN, ONES.astype(np.float64)),
        (SIN, ONES[:2]),
        (SIN, np.arange(3)),
        (EMPTY, ONES[:2]),
    ],
)
def test_a_result_that_is_not_torchs_is_refused(row, wrong):
    with pytest.raises(WrongResult, match=f"{row.name}, tiny"):
        compare(row, "tiny", [[ONES], [wrong]])


@pytest.mark.parametrize("row, near", [(SIN, ONES * np.float32(1.00001)), (EMPTY, ONES * 2)])
def test_a_result_that_differs_by_rounding_is_measured(row, near):
    compare(row, "tiny", [[ONES], [near]])


def test_a_result_that_is_missing_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        compare(SIN, "tiny", [[ONES, ONES], [ONES]])


def test_a_summary_has_the_mean_the_shares_and_the_worst_first():
    ratios = {"sin": 1.0, "gather": 16.0, "cat": 4.0}
    (summary,) = summaries([Measured(name, "tiny", "forward", r, r, 1.0) for name, r in ratios.items()])
    assert summary.geometric_mean == pytest.approx(4.0)
    assert (summary.above(2), summary.above(4)) == pytest.approx((2 / 3, 1 / 3))
    assert "| tiny | forward | 3 | 4.00 | 67% | 33% |" in overview([summary])
    assert worst([summary]).splitlines()[2:] == ["| `gather` 16.0 |", "| `cat` 4.0 |", "| `sin` 1.0 |"]


def test_each_operator_has_a_name_of_its_own():
    names = [row.name for row in ROWS]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("name", choice.EXCEPTIONS)
def test_both_executors_give_what_a_step_is_measured_for(name):
    for xla, numpy in zip(*[call() for call in executors.executors(name)], strict=True):
        assert (xla.shape, xla.dtype) == (numpy.shape, numpy.dtype)
        np.testing.assert_allclose(numpy, xla, rtol=1e-3, atol=float(np.abs(xla).max()) * 1e-5)
