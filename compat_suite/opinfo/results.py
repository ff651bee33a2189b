"""Compares nested results of two libraries, and the helpers that take such results apart."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from torchgrad_jax.testing._tolerances import Tolerance, default, difference

from ..cases import CASES
from ..libs import Lib, dtype_name

FACTORS: dict[str, float] = {}
"""How much wider than the default a core operator is judged; its case states the cause."""
for _case in CASES:
    FACTORS[_case.core] = max(FACTORS.get(_case.core, 1.0), _case.tolerance)


class Different(AssertionError):
    """Two results do not agree."""


class Comparison:
    """Judges results of one operator."""

    def __init__(self, torch: Lib, mine: Lib, core: str) -> None:
        self.torch, self.mine = torch, mine
        self.factor = FACTORS.get(core, 1.0)

    def tolerance(self, dtype: str) -> Tolerance:
        """The default of the dtype, widened as the operator's case says."""
        return default(dtype).scaled(self.factor)

    def equal(self, got: Any, want: Any, values: bool = True, what: str = "") -> None:
        """Type, dtype, shape and value; raises `Different`."""
        if isinstance(want, list | tuple):
            self.containers(got, want, what)
            for i, (g, w) in enumerate(zip(got, want)):
                self.equal(g, w, values, f"{what}result {i}: ")
        elif isinstance(want, self.torch.tensor_type):
            self.tensors(got, want, values, what)
        else:
            if isinstance(want, self.torch.module.dtype):
                got, want = dtype_name(got), dtype_name(want)
            near = isinstance(want, float | complex) and np.isclose(got, want, equal_nan=True)
            if (type(got), got) != (type(want), want) and not near:
                raise Different(f"{what}got {got!r}, want {want!r}")

    def containers(self, got: Any, want: Any, what: str) -> None:
        """Length, and the field names of named tuples."""
        if not isinstance(got, list | tuple) or len(got) != len(want):
            said = f"got {type(got).__name__}, want {type(want).__name__} of {len(want)}"
            raise Different(f"{what}type: {said}")
        if getattr(type(want), "__module__", "") == "torch.return_types":
            names = [n for n in dir(want) if not n.startswith(("_", "n_")) and n not in ("count", "index")]
            missing = [n for n in names if not hasattr(got, n)]
            if missing:
                raise Different(f"{what}no field {missing}")

    def tensors(self, got: Any, want: Any, values: bool, what: str) -> None:
        """One tensor."""
        if not isinstance(got, self.mine.tensor_type):
            raise Different(f"{what}type: got {type(got).__name__}, want a tensor")
        for attribute, read in (("dtype", dtype_name), ("shape", lambda t: tuple(t.shape))):
            if read(got) != read(want):
                raise Different(f"{what}{attribute}: got {read(got)}, want {read(want)}")
        if values:
            tol = self.tolerance(dtype_name(want))
            found = difference(self.mine.array(got), self.torch.array(want), tol)
            if found:
                raise Different(f"{what}value: {found}")


def attempt(action: Callable[[], Any]) -> Any:
    """A result, or the exception in its place."""
    try:
        return action()
    except Exception as error:
        return error


def tensors(lib: Lib, value: Any) -> list[Any]:
    """All tensors inside nested lists, tuples and dicts, in order."""
    if isinstance(value, lib.tensor_type):
        return [value]
    if isinstance(value, list | tuple):
        return [t for v in value for t in tensors(lib, v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(lib, v)]
    return []


def brief(sample: Any) -> str:
    def show(v: Any) -> str:
        if hasattr(v, "stride") and hasattr(v, "dtype"):
            return f"{dtype_name(v)}{list(v.shape)}"
        if isinstance(v, list | tuple):
            return "(" + ", ".join(map(show, v)) + ")"
        return repr(v)[:40]

    parts = [show(sample.input), *map(show, sample.args), *(f"{k}={show(v)}" for k, v in sample.kwargs.items())]
    return "(" + ", ".join(parts)[:200] + ")"


def where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "torchgrad_jax" in f.filename] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}"
