"""What differs between a result and the expected one, and a program that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from torchgrad_jax.testing._tolerances import Tolerance, default, difference

from .case import VIEWS, Attr, D, T, numbers, seed_of, tensors
from .execute import Result, Seen
from .jobs import Job

UNIMPLEMENTED = re.compile("is not implemented|has not been implemented")
NO_COMPLEX = "does not support automatic differentiation for outputs with complex dtype"
LENIENT = ("second", "jvp")
"""Checks in which zeros and None are equal: which of them a formula gives depends on the formula."""


def differences(
    job: Job, got: Result, want: Result, attributes: bool = True, tol: Tolerance | None = None
) -> list[str]:
    """Everything that differs, in the order in which a reader wants to know it.

    Without `attributes` the oracle knows numbers only, and says nothing about the rest; `tol` is
    the oracle's own precision where that is less than the case's.
    """
    if not attributes:
        return list(_numbers(job, got, want, tol))
    if job.check == "error" or want.error or got.error:
        found = _errors(job, got, want)
        return [found] if found else []
    return list(_all(job, got, want))


def _all(job: Job, got: Result, want: Result) -> Iterator[str]:
    if got.kind != want.kind or len(got.parts) != len(want.parts):
        yield f"type: got {got.kind} of {len(got.parts)}, want {want.kind} of {len(want.parts)}"
        return
    for i, (g, w) in enumerate(zip(got.parts, want.parts)):
        what = f"result {i}: " if len(want.parts) > 1 else ""
        yield from (what + text for text in _part(job, g, w))
    title = {"grad": "gradient", "second": "second gradient", "jvp": "tangent"}.get(job.check, "")
    yield from _gradients(job, got.gradients, want.gradients, title)


def _numbers(job: Job, got: Result, want: Result, tol: Tolerance | None) -> Iterator[str]:
    if got.error:
        yield f"exception: got {_say(got.error)}, want none"
        return
    pairs = zip((got.gradients, got.parts)[job.check == "value"], (want.gradients, want.parts)[job.check == "value"])
    for i, (g, w) in enumerate(pairs):
        if g.value is None or w.value is None:
            continue
        if g.value.shape != w.value.shape:
            yield f"{i}: shape: got {g.value.shape}, want {w.value.shape}"
        elif found := difference(g.value, w.value.astype(g.value.dtype), tol or tolerance(job, g)):
            yield f"{i}: value: {found}"


def _gradients(job: Job, got: tuple[Seen, ...], want: tuple[Seen, ...], title: str) -> Iterator[str]:
    missing = Seen("None")
    if len(got) != len(want) and not (job.check in LENIENT and not (got and want)):
        yield f"{title}: got {len(got)}, want {len(want)}"
        return
    for i in range(max(len(got), len(want))):
        g = got[i] if i < len(got) else missing
        w = want[i] if i < len(want) else missing
        if g.type != w.type:
            if not (job.check in LENIENT and _zero(g) and _zero(w)):
                yield f"{title} {i}: got {g.type}, want {w.type}"
            continue
        for text in _part(job, g, w):
            yield f"{title} {i} {text}"


def _zero(x: Seen) -> bool:
    return x.value is None or not np.any(x.value)


def _part(job: Job, got: Seen, want: Seen) -> Iterator[str]:
    for attribute in ("type", "dtype", "shape", "stride", "requires_grad", "grad_fn", "is_view", "text"):
        g, w = getattr(got, attribute), getattr(want, attribute)
        if g != w:
            yield f"{attribute}: got {g!r}, want {w!r}"
            if attribute in ("type", "dtype", "shape"):
                return
    if want.value is not None and got.value is not None:
        found = difference(got.value, want.value, tolerance(job, want))
        if found:
            yield f"value: {found}"


def tolerance(job: Job, want: Seen) -> Tolerance:
    """The case's tolerance, or the default of the dtype."""
    name = want.dtype or (str(want.value.dtype) if want.value is not None else "")
    if default(name).rtol == 0:
        return default(name)
    return max((default(n) for n in (name, *inner_dtypes(job))), key=lambda x: x.rtol).scaled(job.case.tolerance)


def inner_dtypes(job: Job) -> list[str]:
    """Dtypes that a call names: a double that went through single precision is no better than that."""
    found = [x.name for x in job.sample.args if isinstance(x, D)] + [
        x.name for _, x in job.sample.kwargs if isinstance(x, D)
    ]
    return found + [x.dtype for x in tensors((job.sample.args, [v for _, v in job.sample.kwargs])) if x.dtype]


def _errors(job: Job, got: Result, want: Result) -> str | None:
    if want.error is not None and NO_COMPLEX in want.error[1]:
        return None
    if job.check in LENIENT and want.error is not None and UNIMPLEMENTED.search(want.error[1]):
        return None  # the oracle has no such derivative; having one is no difference
    if job.check == "out" and want.error is not None and want.error[0] == "TypeError":
        return None  # torch does not take out= here; taking it is no difference
    if want.error is None:
        if job.check == "error":
            return "the oracle raises nothing: this is no error sample"
        return f"exception: got {_say(got.error)}, want none"
    if got.error is None:
        return f"exception: got none, want {_say(want.error)}"
    # torch's LinAlgError is a _LinAlgError.
    if got.error[0].lstrip("_") != want.error[0].lstrip("_"):
        return f"exception: got {_say(got.error)}, want {_say(want.error)}"
    if getattr(job.sample, "text", False) and first_line(got.error[1]) != first_line(want.error[1]):
        return f"exception text: got {first_line(got.error[1])!r}, want {first_line(want.error[1])!r}"
    return None


def first_line(text: str) -> str:
    """A message without what C++ appends to it."""
    return text.partition("\nException raised from")[0].strip()


def _say(error: tuple[str, str] | None) -> str:
    return "none" if error is None else f"{error[0]}({first_line(error[1])[:200]!r})"


# --- a program that shows it ----------------------------------------------------------------------


def snippet(job: Job, package: str = "torchgrad_jax") -> str:
    """Source that makes the call; with another first line it runs on torch."""
    lines = [f"import {package} as torch", ""]
    names: list[str] = []
    count = 0

    def say(x: Any) -> str:
        nonlocal count
        if isinstance(x, T):
            count += 1
            name = f"x{count}"
            names.append(name)
            lines.append(f"{name} = {_literal(job, x, count)}")
            return name
        if isinstance(x, D | Attr):
            return f"torch.{x}"
        if isinstance(x, list | tuple):
            inner = ", ".join(map(say, x))
            return f"[{inner}]" if isinstance(x, list) else f"({inner}{',' if len(x) == 1 else ''})"
        return repr(x)

    args = [say(a) for a in job.sample.args]
    if job.case.prepare is not None:
        lines.append(f"# the first argument goes through {job.case.prepare.__name__}() of cases/{job.case.family}.py")
    kwargs = [f"{k}={say(v)}" for k, v in job.sample.kwargs]
    head, _, name = job.case.op.rpartition(".")
    if head == "Tensor":
        owner = f"{args[0]}.clone()" if name.endswith("_") and not name.startswith("__") else args[0]
        call = f"{owner}.{name}({', '.join([*args[1:], *kwargs])})"
    else:
        call = f"{job.case.op}({', '.join([*args, *kwargs])})"
    return "\n".join([*lines, f"out = {call}", "print(out)"])


def _literal(job: Job, spec: T, count: int) -> str:
    array = numbers(spec, job.dtype, seed_of(f"{job.call}#{count}"))
    values = (
        array.astype(np.float64).tolist()
        if array.dtype.kind == "V" or array.dtype.name == "bfloat16"
        else array.tolist()
    )
    text = f"torch.tensor({values}, dtype=torch.{spec.dtype or job.dtype})".replace("nan", "float('nan')")
    text = text.replace("inf", "float('inf')")
    if 0 in array.shape:
        text += f".reshape({list(array.shape)})"
    view = f".expand{spec.shape}" if spec.layout == "expanded" else VIEWS.get(spec.layout, "")
    text += f"{view}.detach()" if view else ""
    tracked = (
        job.check in ("grad", "second") and spec.grad and (spec.dtype or job.dtype).startswith(("float", "complex"))
    )
    return text + (".requires_grad_()" if tracked else "")
