"""Cases are well formed, and their numbers never change."""

from dataclasses import replace

import numpy as np
import pytest

from compat_suite.case import T, case, numbers, s, seed_of, t, uniform
from compat_suite.cases import CASES
from compat_suite.core_ops import CORE_OPS
from compat_suite.execute import Result, Seen
from compat_suite.jobs import all_jobs
from compat_suite.oracles.torch_recorded import HOME, NotRecorded, RecordedTorch, decode, encode, recorded
from torchgrad_jax._engine.entry.binding import public_name
from torchgrad_jax._ops import TABLE


def test_numbers_never_change() -> None:
    np.testing.assert_allclose(
        uniform(12345, 3), [0.6805960300870374, 0.10487419499160455, 0.25143722125675516], rtol=1e-15
    )
    assert seed_of("torch.add([2], [2])#1") == 3167990229 << 20


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced", "expanded", "offset"])
def test_layouts(layout: str) -> None:
    spec = T((2, 3), layout=layout)
    assert (
        numbers(spec, "float64", 1).size
        == {"contiguous": 6, "transposed": 6, "sliced": 12, "expanded": 3, "offset": 9}[layout]
    )


def test_special_values_come_first() -> None:
    assert numbers(t(3, special=(1.0, float("nan"))), "float32", 1)[:2].tolist() == pytest.approx(
        [1.0, float("nan")], nan_ok=True
    )


def test_a_wider_tolerance_states_its_cause() -> None:
    with pytest.raises(ValueError, match="cause"):
        case("torch.add", s(t(2), t(2)), tolerance=10.0)


def test_two_jobs_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="two jobs"):
        all_jobs([case("torch.neg", s(t(2)), s(t(2)))])


LATER = {"matrix_sqrth"}
"""Operators of a later torch, which the oracle lacks; tests of their own compare them with what defines them."""


def test_every_operator_has_a_case() -> None:
    names = {c.op.rpartition(".")[2].rstrip("_") for c in CASES}
    public = [public_name(row).rpartition(".")[2] for row in TABLE.values() if row.function or row.method]
    assert {name for name in public if not name.startswith("_")} - names == LATER
    assert {c.core for c in CASES} >= set(CORE_OPS)


def test_every_job_is_recorded_and_torch_takes_the_calls_of_all_samples() -> None:
    oracle = RecordedTorch()
    refused, dtypes_refused = set(), 0
    for job in filter(recorded, all_jobs(CASES)):
        result = oracle.result(job)
        assert result is not None
        if job.check == "value" and not job.case.op.endswith("_") and result.error:
            refused.add(job.call)
        dtypes_refused += job.check == "refused" and result.error is not None
    assert refused == {"torch.remainder(0.5..2[2,3], 0.5..2[2,3])"}  # integers, of which some are 0
    assert dtypes_refused > 300  # what is not recorded counts as taken


def test_nothing_recorded_is_out_of_use_and_it_stays_small() -> None:
    oracle = RecordedTorch()
    wanted = {job.id for job in all_jobs(CASES)}
    for family in {c.family for c in CASES}:
        assert not set(oracle.family(family)) - wanted
    assert sum(f.stat().st_size for f in HOME.glob("*")) < 2.1e6


def test_recorded_results_survive_the_round_trip() -> None:
    seen = Seen("Tensor", "float32", (2,), (1,), True, "NegBackward0", True, np.array([1.5, np.nan], np.float32))
    result = Result("tuple", (seen, Seen("int", value=np.asarray(3))), (Seen("None"),), ("self",), None)
    again = decode(encode(result))
    np.testing.assert_array_equal(again.parts[0].value, seen.value)
    assert again.parts[0].grad_fn == "NegBackward0"
    assert again.gradients[0].type == "None"
    assert decode(encode(Result(error=("TypeError", "x")))).error == ("TypeError", "x")


def test_a_gradient_job_is_recorded_without_the_results_that_its_value_job_has() -> None:
    plain, other = (Seen("Tensor", "float32", (2,), (1,), value=np.array([x, 2.5], np.float32)) for x in (1.5, 3.5))
    recorded = replace(plain, requires_grad=True, grad_fn="NegBackward0")
    value = encode(Result("tuple", (plain, other)))
    row = encode(Result("tuple", (recorded, plain)), value)
    assert row["results"][0] == {"tensor": "=", "grad_fn": "NegBackward0"}
    again = decode(row, value).parts
    assert [p.grad_fn for p in again] == ["NegBackward0", None]
    for part in again:
        np.testing.assert_array_equal(part.value, plain.value)


def test_an_unrecorded_job_says_so() -> None:
    (job,) = [j for j in all_jobs([case("torch.neg", s(t(7)))]) if j.check == "value"]
    job.case.__dict__["family"] = "pointwise"
    with pytest.raises(NotRecorded, match="record"):
        RecordedTorch().result(job)
