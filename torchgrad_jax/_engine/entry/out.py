"""`out=`: compute, then write into what the caller brought."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from ..._core.arrays import dtypes
from ..._core.arrays.kernels import cpp_name
from ..._core.errors import messages as errors, warn
from ..._core.state import DUAL, GRAD, MODES, WRITE_LOCK
from ..._ops.registry import Grad, Out
from ..graph.history import requires_grad_of
from ..graph.record import no_grad
from ..graph.resize import resize
from ..memory.strided import check_disjoint, check_writable
from ..memory.tensor import Tensor
from ..surface import METHODS
from .return_types import return_type


def write_out(form: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """Compute, then write into `out`, resizing it as torch does; no write of another thread comes in between."""
    with WRITE_LOCK:
        return _write_out(form, args, kwargs, out)


def _write_out(form: Any, args: Any, kwargs: Any, out: Any) -> Any:
    said, row = form.said, form.row
    targets = out if isinstance(out, tuple | list) else (out,)
    for t in targets:
        if not isinstance(t, Tensor):
            raise TypeError(f"{said}(): argument 'out' must be Tensor, not {errors.class_name(t)}")
    given = (*args, *kwargs.values())
    tensors = [a for a in given if isinstance(a, Tensor)]
    tensors += [x for a in given if isinstance(a, list | tuple) for x in a if isinstance(x, Tensor)]
    recording = MODES.bits & GRAD and (row is None or row.grad not in (Grad.NO, Grad.IN_PLACE))
    tracked = recording and any(requires_grad_of(t) for t in [*tensors, *targets])
    rule, args, kwargs = form.into(targets[0], args, kwargs)
    followed = MODES.bits & DUAL and any(MODES.tangents.tangent_of(t) is not None for t in [*tensors, *targets])
    # Elsewhere `no_grad` would cut the derivatives that a transform of JAX's follows.
    with no_grad() if tracked else nullcontext():
        result = form.answer(args, kwargs)
    if not isinstance(result, tuple) and not isinstance(out, Tensor):
        raise TypeError(f"{said}(): argument 'out' must be Tensor, not {errors.class_name(out)}")
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(targets):
        error = RuntimeError if rule is Out.PARTS else TypeError
        raise error(f"{said}(): expected {len(results)} out tensors, got {len(targets)}")
    if tracked and any(r._m.dtype.is_floating_point or r._m.dtype.is_complex for r in results):
        raise RuntimeError(errors.untracked_out(said))
    for t, r in zip(targets, results):
        if t._m.device is not r._m.device:
            raise RuntimeError(f"Expected out tensor to have device {r._m.device}, but got {t._m.device} instead")
        check_writable(t)
        check_disjoint(t, tensors, False)
        _check_dtype(t, r, rule)
    bits = MODES.bits
    MODES.bits = bits & ~DUAL
    try:
        with nullcontext() if recording and not tracked else no_grad():
            for t, r in zip(targets, results):
                _store(t, r)
    finally:
        MODES.bits = bits
    if followed:  # torch looks for tangents once the values are written
        raise NotImplementedError(errors.no_forward(f"{said}_out", "it is an out= function"))
    if rule is Out.PARTS:
        return None
    if isinstance(out, Tensor):
        return out
    fields = getattr(result, "_fields", None)
    return tuple(out) if fields is None else return_type(f"{type(result).__name__}_out", fields)(*out)


def _check_dtype(target: Tensor, result: Tensor, rule: Out) -> None:
    """Refuse an out= tensor of a dtype to which torch does not cast the result."""
    want, got = result._m.dtype, target._m.dtype
    if want is got:
        return
    if rule in (Out.EXACT, Out.PARTS):
        names = [cpp_name(np.empty(0, dt.np)) for dt in (want, got)]
        raise RuntimeError(f"Expected out tensor to have dtype {names[0]}, but got {names[1]} instead")
    if not dtypes.can_cast(want, got):
        error = dtypes.not_castable(want, got)
        raise TypeError(str(error)) if rule is Out.JOINED else error


def store_out(target: Tensor, result: Tensor) -> Tensor:
    """Write a result into an out= tensor of its dtype."""
    _check_dtype(target, result, Out.EXACT)
    _store(target, result)
    return target


def warn_resized(out: Tensor, shape: tuple[int, ...]) -> None:
    """torch's warning about an ``out=`` tensor that has to change its shape."""
    if out._m.shape != shape and out._m.numel:
        warn.to_user(
            f"An output with one or more elements was resized since it had shape {list(out._m.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out "
            "tensor t by resizing it, inplace, to zero elements with t.resize_(0)."
        )


def _store(target: Tensor, result: Tensor) -> None:
    if target._m.shape != result._m.shape:
        warn_resized(target, result._m.shape)
        resize(target, result._m.shape, result._m.strides)
    check_writable(target)
    METHODS["copy_"](target, result)
