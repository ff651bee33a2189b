"""`out=`: compute, then write into what the caller brought."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from ..._core.arrays import outputs
from ..._core.errors import messages as errors, warn
from ..._core.state import DUAL, MODES, WRITE_LOCK
from ..._ops.registry import Layout
from ..graph.history import requires_grad_of
from ..graph.record import no_grad
from ..graph.resize import resize
from ..memory.strided import check_disjoint, check_writable
from ..memory.tensor import Tensor
from ..surface import METHODS
from .return_types import return_type


def without_unsaid(me: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, without those that were left out and are not to be None."""
    binding = getattr(me, "binding", None)  # a composition has none
    left_out = binding.row.numbers.left_out if binding is not None else ()
    return {k: v for k, v in named.items() if v is not None or k not in left_out}


def write_out(me: Any, args: Sequence[Any], names: Sequence[str], out: Any) -> Any:
    """Compute, then write into `out`, resizing it as torch does; no write of another thread comes in between."""
    with WRITE_LOCK:
        return _write_out(me, args, names, out)


def _write_out(me: Any, args: Sequence[Any], names: Sequence[str], out: Any) -> Any:
    targets = out if isinstance(out, tuple | list) else (out,)
    for t in targets:
        if not isinstance(t, Tensor):
            raise TypeError(f"{me.__name__}(): argument 'out' must be Tensor, not {errors.class_name(t)}")
    tensors = [a for a in args if isinstance(a, Tensor)]
    tensors += [x for a in args if isinstance(a, list | tuple) for x in a if isinstance(x, Tensor)]
    name, named = _out_name(me), dict(zip(names, args))
    tracked = MODES.bits & 1 and name not in outputs.UNTRACKED
    if tracked and any(requires_grad_of(t) for t in [*tensors, *targets]):
        raise RuntimeError(errors.untracked_out(me.__name__))
    followed = MODES.bits & DUAL and any(MODES.tangents.tangent_of(t) is not None for t in [*tensors, *targets])
    metas = [a._m if isinstance(a, Tensor) else a for a in args]
    kind = outputs.variant(name, metas, named.get("dtype") is not None)
    if name in outputs.COMPUTED_AS and named.get("dtype") is None:
        named["dtype"] = targets[0]._m.dtype
    result = me(**without_unsaid(me, named))
    if not isinstance(result, tuple) and not isinstance(out, Tensor):
        raise TypeError(f"{me.__name__}(): argument 'out' must be Tensor, not {errors.class_name(out)}")
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(targets):
        if not hasattr(result, "_fields"):  # as many as the arguments say
            raise RuntimeError(
                f"{me.__name__}_out expected an out= argument of size {len(results)}, got size {len(targets)}"
            )
        raise TypeError(f"{me.__name__}(): expected {len(results)} out tensors, got {len(targets)}")
    reads = _reads(me, name, args, tensors)
    for i, (t, r) in enumerate(zip(targets, results)):
        if t._m.device is not r._m.device:
            raise RuntimeError(f"Expected out tensor to have device {r._m.device}, but got {t._m.device} instead")
        refused = outputs.refusal(kind, len(results), r._m.dtype, t._m.dtype, i)
        if reads is not None and (refused is None or not outputs.refuses_first(kind)):
            check_writable(t)
            for read, wholly in reads:
                check_disjoint(t, read, wholly)
        if refused is not None:
            raise refused
        resized = t._m.shape != r._m.shape
        if resized and (name in outputs.PLANNED or _elementwise(me)):
            check_writable(t)
        if name in outputs.APART:
            if not (resized and name in outputs.SIZED_FIRST):
                check_writable(t)
            if t._m.numel or name not in outputs.UNLESS_EMPTY:
                check_disjoint(t, tensors, True)
    bits = MODES.bits
    MODES.bits = bits & ~DUAL
    try:
        with nullcontext() if tracked else no_grad():
            for t, r in zip(targets, results):
                _store(t, r, name in outputs.ROW_MAJOR)
    finally:
        MODES.bits = bits
    if followed:  # torch looks for tangents once the values are written
        raise NotImplementedError(errors.no_forward(f"{me.__name__}_out", "it is an out= function"))
    if name in outputs.SILENT:
        return None
    return (
        out
        if isinstance(out, Tensor)
        else return_type(f"{type(result).__name__}_out", result._fields)(*out)
        if hasattr(result, "_fields")
        else tuple(out)
    )


def _elementwise(me: Any) -> bool:
    b = getattr(me, "binding", None)
    return b is not None and Layout.steps(b.row.layout)


_Reads = tuple[tuple[Sequence[Any], bool], ...]


def _reads(me: Any, name: str, args: Sequence[Any], tensors: Sequence[Tensor]) -> _Reads | None:
    """Which memory is read while ``out=`` is written to, and whether ``out=`` may be just that; None: a copy."""
    if name in outputs.COPIED_FIRST:
        return (args[:1], False), (args[1:], True)
    if name in outputs.INTO_FIRST:
        return ((args[:1], False),)
    if name in outputs.NEVER_SAME:
        return ((tensors, True),)
    if name in outputs.STEPPED or _elementwise(me):
        return ((tensors, False),)
    return None


def _out_name(me: Any) -> str:
    """A function's name with its namespace."""
    found = getattr(me, "out_name", None)
    if found is None:
        b = getattr(me, "binding", None)
        found = f"{b.row.namespace}.{b.public}" if b is not None and b.row.namespace else me.__name__
    return found


def store_out(target: Tensor, result: Tensor, name: str = "") -> None:
    """Write a result of the function of that name into an out= tensor."""
    refused = outputs.refusal(name, 1, result._m.dtype, target._m.dtype)
    if refused is not None:
        raise refused
    _store(target, result, False)


def warn_resized(out: Tensor, shape: tuple[int, ...]) -> None:
    """torch's warning about an ``out=`` tensor that has to change its shape."""
    if out._m.shape != shape and out._m.numel:
        warn.to_user(
            f"An output with one or more elements was resized since it had shape {list(out._m.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out "
            "tensor t by resizing it, inplace, to zero elements with t.resize_(0)."
        )


def _store(target: Tensor, result: Tensor, row_major: bool) -> None:
    if target._m.shape != result._m.shape:
        warn_resized(target, result._m.shape)
        resize(target, result._m.shape, None if row_major else result._m.strides)
    check_writable(target)
    METHODS["copy_"](target, result)
