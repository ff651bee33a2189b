"""From cases to jobs: one check of one call in one dtype, with an id that never depends on order."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .case import BASE, Case, ErrorSample, Sample, T, inplace_form, tensors

CHECKS = ("value", "out", "grad", "second", "jvp", "error", "refused")
"""In the order in which they run; `CHECK_TITLES` says what they mean."""
CHECK_TITLES = {
    "value": "forward",
    "out": "out=",
    "grad": "gradient",
    "second": "second gradient",
    "jvp": "forward mode",
    "error": "errors",
    "refused": "refused dtypes",
}
REFUSED = ("bool", "int64", "complex128")
"""Dtypes in which many operators raise an error; those that a case names are among its own."""
SECOND = 2
"""For how many samples of a case second gradients are compared, unless a sample says so itself."""


@dataclass(frozen=True)
class Job:
    """One thing to judge."""

    check: str
    case: Case
    sample: Sample | ErrorSample
    dtype: str

    @functools.cached_property
    def call(self) -> str:
        """The call, as text; numbers are seeded by it."""
        name = f"{self.case.prepare.__name__} " if self.case.prepare else ""
        return f"{self.case.op}({name}{self.sample})"

    @functools.cached_property
    def id(self) -> str:
        """Unique among all jobs."""
        dtype = "" if self.dtype == BASE else f" {self.dtype}"
        return f"{self.check} {self.call}{dtype}"


def jobs_of(case: Case) -> Iterator[Job]:
    """Every job of a case and of its in-place form."""
    for form in (case, inplace_form(case)):
        if form is not None:
            yield from _own_jobs(form)
    for sample in case.samples[:1]:
        takes_any = any(x.dtype is None for x in tensors((sample.args, sample.kwargs)))
        for dtype in REFUSED if takes_any and case.family != "points" else ():
            if dtype not in case.dtypes:
                yield Job("refused", case, sample, dtype)


def _own_jobs(case: Case) -> Iterator[Job]:
    seconds = 0
    for n, sample in enumerate(case.samples):
        yield Job("value", case, sample, BASE)
        swept = n == 0 or sample.dtypes
        for dtype in case.dtypes if swept else ():
            yield Job("value", case, sample, dtype)
        if n == 0 and case.op.startswith("torch.") and not case.op.startswith("torch.nn.") and case.values:
            yield Job("out", case, sample, BASE)
        if not sample.grads or case.derivatives < 1 or not differentiable(sample, BASE):
            continue
        others = [d for d in case.dtypes if swept and (d.startswith("complex") or sample.incoming)]
        for dtype in (BASE, *others):
            yield Job("grad", case, sample, dtype)
        wanted = seconds < SECOND if sample.second is None else sample.second
        if wanted:
            seconds += 1
            for dtype in (BASE, *others) if sample.incoming else (BASE,):
                if case.derivatives > 1:
                    yield Job("second", case, sample, dtype)
                if case.jvp:
                    yield Job("jvp", case, sample, dtype)
    for bad in case.errors:
        yield Job("error", case, bad, BASE)


def differentiable(sample: Sample | ErrorSample, dtype: str) -> bool:
    """Whether some tensor of a call can require a gradient."""
    return any(tracked(x, dtype) for x in tensors((sample.args, [v for _, v in sample.kwargs])))


def tracked(spec: T, dtype: str) -> bool:
    """Whether a tensor is differentiated when a call runs in this dtype."""
    return spec.grad and (spec.dtype or dtype).startswith(("float", "complex", "bfloat"))


def all_jobs(cases: Iterable[Case]) -> list[Job]:
    """Every job; two with one id would share a ledger entry, which is refused."""
    out: dict[str, Job] = {}
    for case in cases:
        for job in jobs_of(case):
            if job.id in out:
                raise ValueError(f"two jobs are called {job.id!r}")
            out[job.id] = job
    return list(out.values())
