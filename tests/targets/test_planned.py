"""Steps beside JAX by hand, by the exact figures of the compilers: no figure may get worse."""

import pytest

from benchmarks import planned

RECORDED = planned.recorded()
QUICK = [row for row in RECORDED if "ResNet" not in row]  # convolutions take a TPU's compiler minutes


@pytest.mark.usefixtures("tpu", "gpu")
@pytest.mark.parametrize("row", QUICK)
def test_no_figure_gets_worse(row):
    ((name, ours, by_hand),) = planned.measured([row.split()[0]], row)
    assert name == row
    assert planned.worse(planned.ratios(ours, by_hand), RECORDED[row]) == []


def test_what_is_worse_is_told():
    then = {"flops": 1.0, "bytes": 1.0, "temporary": 0.8, "donated": 1.0, "kernels": 1.0}
    assert planned.worse(then, then) == []
    assert planned.worse({**then, "bytes": 0.5, "donated": 1.5}, then) == []
    assert planned.worse({**then, "bytes": 1.2}, then) == ["bytes: 1.2, and it was 1.0"]
    assert planned.worse({**then, "donated": 0.5}, then) == ["donated: 0.5, and it was 1.0"]


def test_a_ratio_of_nothing_to_nothing_is_one():
    found = planned.ratios(planned.Figures(2, 3, 0, 5, 6), planned.Figures(1, 2, 0, 5, 6))
    assert found == {"flops": 2.0, "bytes": 1.5, "temporary": 1.0, "donated": 1.0, "kernels": 1.0}


def test_the_table_has_a_row_for_each_step():
    assert planned.table({"h100 MLP float32": dict.fromkeys(planned.Figures._fields, 1.0)}).splitlines()[2:] == [
        "| h100 MLP float32 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |"
    ]
