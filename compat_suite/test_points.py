"""Zeros, infinities, NaN, poles and ties: values and derivatives beside PyTorch, and compiled as eager."""

from __future__ import annotations

from typing import Any

import pytest

from compat_suite.case import Case, tensors
from compat_suite.cases import CASES
from compat_suite.execute import Builder, invoke
from compat_suite.jobs import Job, jobs_of, tracked
from compat_suite.judge import Oracle
from compat_suite.libs import ours
from compat_suite.suite import expect_agreement
from tests.differential import agree

ROWS = [case for case in CASES if case.family == "points"]


def _each(rows: list[Case]) -> Any:
    names = [f"{case.op.removeprefix('torch.')}({case.samples[0]})" for case in rows]
    return pytest.mark.parametrize("case", rows, ids=names)


@_each(ROWS)
def test_as_torch(case: Case, torch_oracle: Oracle) -> None:
    expect_agreement([*jobs_of(case)], torch_oracle)


def _derivatives(case: Case, dtype: str) -> tuple[Any, list[Any]]:
    """A function of the call's tensors that gives the result, gradients, their gradients and tangents."""
    tg, job = ours().module, Job("value", case, case.samples[0], dtype)
    args, kwargs = Builder(ours(), job, track=False).call()
    moving = [k for k, spec in enumerate(job.sample.args) if any(tracked(t, dtype) for t in tensors(spec))]

    def call(*xs: Any) -> Any:
        given = dict(zip(moving, xs))
        return invoke(ours(), case, [given.get(k, a) for k, a in enumerate(args)], kwargs)

    def found(*xs: Any) -> list[Any]:
        leaves = [x.clone().requires_grad_() for x in xs]
        y = call(*leaves)
        if not y.requires_grad:
            return [y]
        first = tg.autograd.grad(y, leaves, tg.ones_like(y), create_graph=True, allow_unused=True)
        again = [g for g in first if g is not None and g.requires_grad]
        second = [tg.autograd.grad(g, leaves, tg.ones_like(g), retain_graph=True, allow_unused=True) for g in again]
        seen = [y, *first, *(h for hs in second for h in hs)]
        tangent = tg.func.jvp(call, xs, tuple(tg.ones_like(x) for x in xs))[1]
        return [*(None if t is None else t.detach() + 0 for t in seen), tangent]

    return found, [args[k] for k in moving]


@_each([case for case in ROWS if case.jvp and case.samples[0].grads])
def test_compiled_as_eager(case: Case) -> None:
    for dtype in ("float64", "float32"):
        found, xs = _derivatives(case, dtype)
        agree(ours().module.compile(found)(*xs), found(*xs), factor=case.tolerance)
