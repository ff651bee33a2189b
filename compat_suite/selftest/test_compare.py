"""The comparison finds what it has to find."""

from dataclasses import replace

import numpy as np
import pytest

from compat_suite.case import case, s, t
from compat_suite.compare import differences, snippet
from compat_suite.execute import Result, Seen, run
from compat_suite.jobs import Job, jobs_of
from compat_suite.judge import judge
from compat_suite.ledger import Ledger
from compat_suite.libs import ours
from compat_suite.oracles.jax_ref import JaxReference
from compat_suite.oracles.numeric import Numeric
from torchgrad_jax.testing._tolerances import TOLERANCES, Tolerance, difference

ROW = case("torch.mul", s(t(2, 3), t(3)), jax="jax.numpy.multiply")
JOBS = {job.check: job for job in jobs_of(ROW)}


class Wrong:
    """An oracle that sees our own result, changed."""

    kind, name, attributes = "torch", "a wrong oracle", True

    def __init__(self, result: Result) -> None:
        self.wrong = result

    def result(self, job: Job) -> Result:
        return self.wrong


def changed(check: str, **values: object) -> Result:
    right = run(ours(), JOBS[check])
    return replace(right, parts=tuple(replace(p, **values) for p in right.parts))


CHANGES = {
    "type": {"type": "int"},
    "dtype": {"dtype": "float32"},
    "shape": {"shape": (3, 2)},
    "stride": {"stride": (1, 2)},
    "requires_grad": {"requires_grad": False},
    "grad_fn": {"grad_fn": "MulBackward1"},
    "is_view": {"is_view": True},
}


@pytest.mark.parametrize("attribute", CHANGES)
def test_a_wrong_attribute_fails(attribute: str) -> None:
    verdict = judge(JOBS["grad"], Wrong(changed("grad", **CHANGES[attribute])), Ledger())
    assert verdict.status == "failed"
    assert f"{attribute}: got" in verdict.texts[0]


def test_what_is_right_passes() -> None:
    assert judge(JOBS["grad"], Wrong(changed("grad")), Ledger()).status == "passed"


def test_a_wrong_value_fails() -> None:
    right = run(ours(), JOBS["value"]).parts[0].value
    assert right is not None
    wrong = right.copy()
    wrong[1, 2] *= 1 + 1e-8
    verdict = judge(JOBS["value"], Wrong(changed("value", value=wrong)), Ledger())
    assert verdict.status == "failed"
    assert "first at (1, 2)" in verdict.texts[0]


def test_a_wrong_gradient_fails() -> None:
    right = run(ours(), JOBS["grad"])
    other = tuple(replace(g, value=g.value * 1.001) for g in right.gradients if g.value is not None)
    assert judge(JOBS["grad"], Wrong(replace(right, gradients=other)), Ledger()).status == "failed"


def test_none_is_not_zeros_in_first_gradients_only() -> None:
    zeros = Seen("Tensor", "float64", (2,), value=np.zeros(2))
    for check, found in (("grad", 1), ("second", 0), ("jvp", 0)):
        job = JOBS[check]
        got = differences(job, Result(gradients=(Seen("None"),)), Result(gradients=(zeros,)))
        assert len(got) == found, check


def test_an_exception_is_a_difference() -> None:
    raised = Result(error=("RuntimeError", "no"))
    right = run(ours(), JOBS["value"])
    assert differences(JOBS["value"], raised, right)
    assert differences(JOBS["value"], right, raised)
    assert differences(JOBS["value"], raised, Result(error=("TypeError", "no")))
    assert not differences(JOBS["value"], raised, Result(error=("RuntimeError", "other words")))


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_the_tolerance_has_an_edge(dtype: str) -> None:
    tol = TOLERANCES[dtype]
    want = np.array([8.0])
    inside = want * (1 + tol.rtol * 0.9)
    outside = want * (1 + (tol.rtol + tol.atol) * 1.5)
    assert difference(inside, want, tol) is None
    assert difference(outside, want, tol) is not None


def test_nan_and_infinity_have_to_match() -> None:
    tol = Tolerance(1.0, 1.0)
    inf, nan = float("inf"), float("nan")
    for got, want, same in (
        (nan, nan, True),
        (nan, 1.0, False),
        (1.0, nan, False),
        (inf, inf, True),
        (inf, -inf, False),
        (1e300, inf, False),
    ):
        assert (difference(np.array([got]), np.array([want]), tol) is None) == same, (got, want)


def test_integers_compare_exactly() -> None:
    assert difference(np.array([2**60 + 1]), np.array([2**60]), Tolerance(1.0, 1.0)) is not None


def test_jax_and_finite_differences_have_an_opinion_and_it_counts() -> None:
    assert judge(JOBS["value"], JaxReference(), Ledger()).status == "passed"
    assert judge(JOBS["grad"], Numeric(), Ledger()).status == "passed"
    other = case("torch.add", *ROW.samples, jax="jax.numpy.multiply")
    wrong = Job("value", other, other.samples[0], "float64")
    assert judge(wrong, JaxReference(), Ledger()).status == "failed"


def test_finite_differences_reject_a_wrong_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    right = run(ours(), JOBS["grad"])
    wrong = replace(
        right, gradients=tuple(replace(g, value=g.value + 1e-3) for g in right.gradients if g.value is not None)
    )
    monkeypatch.setattr("compat_suite.judge.run", lambda lib, job: wrong)
    assert judge(JOBS["grad"], Numeric(), Ledger()).status == "failed"


def test_a_report_has_a_program_that_runs() -> None:
    verdict = judge(JOBS["grad"], Wrong(changed("grad", dtype="float32")), Ledger())
    assert "float32" in verdict.report()
    space: dict[str, object] = {"print": lambda *args: None}
    exec(snippet(JOBS["grad"]), space)
    shown = run(ours(), JOBS["grad"]).parts[0].value
    np.testing.assert_array_equal(ours().array(space["out"]), shown)
