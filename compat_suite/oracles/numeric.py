"""Finite differences in float64, through our own forward: judges gradients where they are smooth."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..case import BASE, T, tensors
from ..execute import Builder, Result, Seen, direction, flat, invoke
from ..jobs import Job, tracked
from ..libs import Lib, ours
from ..tolerances import Tolerance

STEP = 1e-5
"""Central differences: the error is the third derivative times STEP**2, plus 1e-16 / STEP."""


class Numeric:
    """Differences of the scalar <cotangent, f(x)> along every element of every input."""

    kind = "numeric"
    attributes = False
    name = "finite differences"
    tolerance = Tolerance(1e-6, 1e-7)

    def result(self, job: Job) -> Result | None:
        """The gradients; None where there is no smooth float64 function of its arguments."""
        if job.check != "grad" or job.dtype != BASE or not job.sample.smooth or job.case.family == "random":
            return None
        name = job.case.op.rpartition(".")[2]
        if name.endswith("_") or any(x.dtype and x.dtype != BASE for x in _leaves(job)):
            return None
        lib = ours()
        found = [self._gradient(lib, job, n) for n in range(len(_leaves(job)))]
        return None if any(g is None for g in found) else Result(gradients=tuple(Seen("", value=g) for g in found))

    def _gradient(self, lib: Lib, job: Job, which: int) -> np.ndarray | None:
        out: np.ndarray | None = None
        index = 0
        while out is None or index < out.size:
            up, down = (Nudged(lib, job, which, index, step) for step in (STEP, -STEP))
            values = [_scalar(lib, job, b) for b in (up, down)]
            if out is None:
                out = np.zeros(up.shape)
                if not out.size:
                    break
            if None in values:
                return None
            out.reshape(-1)[index] = (values[0] - values[1]) / (2 * STEP)  # type: ignore[operator]
            index += 1
        return out


def _leaves(job: Job) -> list[T]:
    found = tensors((job.sample.args, [v for _, v in job.sample.kwargs]))
    return [x for x in found if tracked(x, job.dtype)]


class Nudged(Builder):
    """Builds a call one element of which is moved by a step."""

    def __init__(self, lib: Lib, job: Job, which: int, index: int, step: float) -> None:
        super().__init__(lib, job, track=False)
        self.which, self.index, self.step = which, index, step
        self.met = 0
        self.shape: tuple[int, ...] = ()

    def tensor(self, spec: T) -> Any:
        """As `Builder`, moved."""
        x = super().tensor(spec)
        if not tracked(spec, self.job.dtype):
            return x
        self.met += 1
        if self.met - 1 != self.which:
            return x
        self.shape = tuple(x.shape)
        values = self.lib.array(x)
        if values.size:
            values.reshape(-1)[self.index] += self.step
        return self.lib.from_array(values)


def _scalar(lib: Lib, job: Job, builder: Nudged) -> float | None:
    """<cotangent, results> as the gradient job pairs them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args, kwargs = builder.call()
        out = invoke(lib, job.case, args, kwargs)
        shown = job.case.process(out) if job.case.process else out
    roots = [v for v in flat(shown) if isinstance(v, lib.tensor_type) and v.is_floating_point()]
    if any(isinstance(v, lib.tensor_type) and v.is_complex() for v in flat(shown)):
        return None
    total = 0.0
    for n, root in enumerate(roots):
        weights = lib.array(direction(lib, root, f"{job.call}#cotangent{n}"))
        total += float((weights * lib.array(root)).sum())
    return total

