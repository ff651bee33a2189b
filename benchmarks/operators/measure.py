"""One row of the table beside torch: the same results first, then the times of both in turn."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..timing import rounds_in_turn
from .inputs import SIZES
from .rows import Row

Step = Callable[[], object]
FORWARD, BACKWARD = "forward", "forward + backward"
TOLERANCE = 1e-3
"""The largest difference from torch's result, as a share of its largest element, that is no wrong answer."""


@dataclass(frozen=True)
class Measured:
    """What one operator took, forward or with its backward pass, on one size."""

    name: str
    size: str
    direction: str
    ratio: float
    """The time of torchgrad_jax divided by torch's."""
    microseconds: float
    """CPU time of a call in the best of many rounds, as in the next field."""
    torch_microseconds: float


class WrongResult(Exception):
    """An operator whose result is not torch's: its time says nothing."""


def measure(row: Row, size: str, modules: Sequence[Any], seconds: float) -> list[Measured]:
    """Both directions of an operator, or the one that it has.

    Args:
        row: The operator.
        size: A key of `SIZES`.
        modules: torch, and torchgrad_jax.
        seconds: How long to measure each direction for.

    Raises:
        WrongResult: A result or a gradient is not torch's.
    """
    calls = [Called(row, size, t) for t in modules]
    compare(row, size, [c.values() for c in calls])
    found = [_timed(row, size, FORWARD, [c.forward for c in calls], modules, seconds)]
    if calls[0].differentiable:
        compare(row, size, [c.gradients() for c in calls])
        found.append(_timed(row, size, BACKWARD, [c.backward for c in calls], modules, seconds))
    return found


def _timed(row: Row, size: str, direction: str, steps: list[Step], modules: Sequence[Any], seconds: float) -> Measured:
    waits = [t.cpu.synchronize for t in modules]
    torch, ours = (min(rounds) for rounds in rounds_in_turn(list(zip(steps, waits)), seconds))
    return Measured(row.name, size, direction, ours / torch, ours * 1e6, torch * 1e6)


class Called:
    """An operator with its inputs as tensors of one module: torch, or torchgrad_jax."""

    def __init__(self, row: Row, size: str, t: Any) -> None:
        rs = np.random.RandomState(zlib.crc32(row.name.encode()))
        drawn = [draw(rs, SIZES[size]) for draw in row.inputs]
        self.tensors = [t.tensor(a) for a in drawn]
        self.leaves = [x for x in self.tensors[: row.leaves] if x.dtype is t.float32]
        for x in self.leaves:
            x.requires_grad_()
        self.seed = partial(t.manual_seed, 0)
        self.forward: Step = partial(row.call, t, *self.tensors)
        outs = results(self.forward())
        self.differentiable = [k for k, out in enumerate(outs) if getattr(out, "requires_grad", False)]
        g = [t.tensor(rs.standard_normal(tuple(outs[k].shape))).to(outs[k].dtype) for k in self.differentiable]
        self.backward = self._backward(t, g, single=len(outs) == 1)

    def _backward(self, t: Any, g: list[Any], single: bool) -> Step:
        """The operator and its backward pass, with as little around them as there can be."""
        leaves, forward, places = self.leaves, self.forward, self.differentiable

        def step_of_one() -> None:
            for x in leaves:
                x.grad = None
            forward().backward(*g)

        def step_of_several() -> None:
            for x in leaves:
                x.grad = None
            outs = forward()
            t.autograd.backward([outs[k] for k in places], g)

        return step_of_one if single else step_of_several

    def values(self) -> list[np.ndarray]:
        """The results; random ones are those of a seed."""
        self.seed()
        return arrays(self.forward())

    def gradients(self) -> list[np.ndarray]:
        """The gradients of all leaves."""
        self.seed()
        self.backward()
        return arrays([x.grad for x in self.leaves])


def results(out: Any) -> list[Any]:
    """The results of a call, which may be one or several."""
    return list(out) if isinstance(out, (tuple, list)) else [out]


def arrays(out: Any) -> list[np.ndarray]:
    """The results of a call as arrays."""
    return [np.asarray(x.detach() if hasattr(x, "detach") else x) for x in results(out)]


def compare(row: Row, size: str, found: Sequence[Sequence[np.ndarray]]) -> None:
    """Complain of a result that is not torch's."""
    for torch, ours in zip(*found, strict=True):
        if (torch.shape, torch.dtype) != (ours.shape, ours.dtype):
            raise WrongResult(
                f"{row.name}, {size}: {ours.shape} {ours.dtype} where torch has {torch.shape} {torch.dtype}"
            )
        if not row.unset and not _near(torch, ours):
            raise WrongResult(f"{row.name}, {size}: {ours} where torch has {torch}")


def _near(want: np.ndarray, got: np.ndarray) -> bool:
    if want.dtype.kind not in "fc":
        return np.array_equal(want, got)
    finite = want[np.isfinite(want)]
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    return np.allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE * largest, equal_nan=True)
