"""Finite differences in float64, through our own forward: judges gradients where they are smooth."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from torchgrad_jax.testing._tolerances import Tolerance

from ..case import BASE, T, tensors
from ..compare import inner_dtypes
from ..execute import Builder, Result, Seen, direction, flat, invoke
from ..jobs import Job, tracked
from ..libs import Lib, ours

STEP = 1e-5
"""Central differences: the error is the third derivative times STEP**2, plus 1e-16 / STEP."""


class Numeric:
    """The slope of <cotangent, f(x)> along one direction per input, where every element moves."""

    kind = "numeric"
    attributes = False
    name = "finite differences"
    tolerance = Tolerance(1e-6, 1e-7)

    def result(self, job: Job) -> Result | None:
        """One slope per input; None where there is no smooth float64 function of the inputs."""
        if job.check != "grad" or job.dtype != BASE or not job.sample.smooth or job.case.family == "random":
            return None
        if job.case.op.endswith("_") or inner_dtypes(job):
            return None
        slopes = [self._slope(job, which) for which in range(len(leaves(job)))]
        return Result(gradients=tuple(Seen("", value=np.asarray(x)) for x in slopes if x is not None))

    def shown(self, job: Job, got: Result) -> Result:
        """The slopes that gradients stand for."""
        return replace(got, gradients=tuple(self._along(job, n, g) for n, g in enumerate(got.gradients)))

    def _along(self, job: Job, which: int, gradient: Seen) -> Seen:
        step = Moved(ours(), job, which, 0.0).way
        value = 0.0 if gradient.value is None else float((gradient.value * step).sum())
        return Seen("", value=np.asarray(value))

    def _slope(self, job: Job, which: int) -> float | None:
        up, down = (_scalar(job, Moved(ours(), job, which, step)) for step in (STEP, -STEP))
        return None if up is None or down is None else (up - down) / (2 * STEP)


def leaves(job: Job) -> list[T]:
    """The inputs that are differentiated."""
    found = tensors((job.sample.args, [v for _, v in job.sample.kwargs]))
    return [x for x in found if tracked(x, job.dtype)]


class Moved(Builder):
    """Builds a call one input of which is moved along a direction."""

    def __init__(self, lib: Lib, job: Job, which: int, step: float) -> None:
        super().__init__(lib, job, track=False)
        self.which, self.step = which, step
        self.met = 0
        self.way = np.zeros(())
        self.arguments = self.call()

    def tensor(self, spec: T) -> Any:
        """As `Builder`, moved."""
        x = super().tensor(spec)
        if not tracked(spec, self.job.dtype):
            return x
        self.met += 1
        if self.met - 1 != self.which:
            return x
        self.way = self.lib.array(direction(self.lib, x, f"{self.job.call}#way{self.which}"))
        return self.lib.from_array(self.lib.array(x) + self.step * self.way)


def _scalar(job: Job, builder: Moved) -> float | None:
    """<cotangent, results> as the gradient job pairs them; None where a result is complex or not finite."""
    lib = builder.lib
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args, kwargs = builder.arguments
        out = invoke(lib, job.case, args, kwargs)
        shown = [v for v in flat(job.case.process(out) if job.case.process else out) if isinstance(v, lib.tensor_type)]
    if any(v.is_complex() for v in shown):
        return None
    total = 0.0
    for n, root in enumerate(v for v in shown if v.is_floating_point()):
        weights = lib.array(direction(lib, root, f"{job.call}#cotangent{n}"))
        total += float((weights * lib.array(root)).sum())
    return total if np.isfinite(total) else None
