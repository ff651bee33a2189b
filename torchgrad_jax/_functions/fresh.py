"""New tensors around arrays: from the host, filled with one value, with any strides, or in ``out=``.

Small constants are cached: tensors with the same fill may share one JAX array. That is safe as long as
code donates only arrays that it computed itself.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Sharding

from .._core.arrays import devices, dtypes, placement, shapes, transfer
from .._core.arrays.formats import contiguous_format, preserve_format, strides_in
from .._core.arrays.meta import Meta, meta
from .._core.arrays.placement import MANY
from .._core.arrays.transfer import put
from .._core.errors import messages as errors
from .._core.jax import abstract
from .._core.state import FAKE, GRAD, INFERENCE, MODES
from .._engine.graph.history import check_inplace
from .._engine.graph.inplace import apply_inplace
from .._engine.graph.record import faked
from .._engine.graph.resize import resize
from .._engine.graph.views import requires_grad_of
from .._engine.memory.strided import check_writable, placement_of_tensor, write
from .._engine.memory.tensor import Alias, Tensor, alias_of, keep_placed, make, mark_inference, placed_later
from .._engine.run.trace import Call
from .._ops.registry import Grad
from .arguments import NO_GRAD_DTYPE, check_shape, first_device, format_of, options, wrong

# --- fresh tensors --------------------------------------------------------------------------------


def fresh(array: Any, m: Meta, requires_grad: bool = False) -> Tensor:
    """A new leaf around an array."""
    t = make(array, m)
    if requires_grad:
        if m.dtype.category < dtypes.FLOATING:
            raise RuntimeError(NO_GRAD_DTYPE)
        t._rg = True
    if MODES.bits & INFERENCE:
        mark_inference(t)
    return t


def beside(model: Tensor, t: Tensor, alike: bool = False) -> Tensor:
    """`t` as a tensor of the traced run that `model` belongs to, if it does: one may be written into the other.

    Where they are `alike`, it lies in memory as the model does. A value of a run further inside, such as numbers that
    were drawn for each example of a `vmap` within, stays as it is.
    """
    run = MODES.run
    if run.at_once:
        return t
    if not run.inside(model):
        if run.inside(t):
            return t
        with run.outside():
            return beside(model, t, alike)
    out = make(run.array_of(t), t._m)
    out._rg, out._x = t._rg, t._x
    if alike and run.batch is not None:
        run.batch.lay_out_like(model, out)
    return out


def from_host(host: np.ndarray, dev: devices.device, requires_grad: bool = False, strides: Any = None) -> Tensor:
    """A new leaf with the values of a host array that nobody will write to again."""
    m = meta(host.shape, dtypes.BY_NP[host.dtype], dev, strides)
    return fresh(put(host, dev), m, requires_grad)


def with_strides(
    host: np.ndarray, strides: tuple[int, ...], dev: devices.device, requires_grad: bool = False
) -> Tensor:
    """A new leaf with any strides; elements that share a place are kept once, as a window on the storage."""
    if devices.unreal(dev):
        return from_host(host, dev, requires_grad, strides)
    if not _overlaps(host.shape, strides):
        return from_host(host, dev, requires_grad, strides)
    flat = np.zeros(shapes.storage_extent(host.shape, strides), host.dtype)
    places = np.zeros(host.shape, np.int64)
    for d, step in enumerate(strides):
        places += np.arange(host.shape[d]).reshape([-1 if i == d else 1 for i in range(host.ndim)]) * step
    flat[places] = host
    store = from_host(flat, dev, requires_grad)
    out = alias_of(store, meta(host.shape, store._m.dtype, dev, strides), Alias(0, None, 0, 0))
    out._rg, out._x = requires_grad, store._x
    return out


def _overlaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    reach = 0
    for step, n in sorted((s, n) for s, n in zip(strides, shape) if n > 1):
        if step <= reach:
            return 0 not in shape
        reach += step * (n - 1)
    return False


# --- one value ------------------------------------------------------------------------------------

_CONSTANTS: dict[Any, Any] = {}
_SHARED: set[int] = set()
"""Their identities."""
_CACHED_ARRAYS, _CACHED_BYTES = 512, 1 << 16
_CHANGING = threading.RLock()
"""Held by the thread that adds to these two; the handler of a signal may add while it does."""


def filled(value: Any, shape: tuple[int, ...], dt: dtypes.dtype, dev: devices.device) -> Any:
    """An array of one value: 0, 1, or a 0-dim host array of the dtype."""
    if dev.type == "meta" and not devices.unreal(dev):
        dev = devices.CPU
    key = (value if value.__class__ is int else value.tobytes(), shape, dt, dev)
    found = _CONSTANTS.get(key)
    if found is None:
        check_shape(shape, dt.itemsize)
        if devices.unreal(dev):
            return abstract.AbstractArray(shape, dt.np)
        found = remember(key, transfer.full(shape, value, dt.np, dev))
    return found


def remember(key: Any, found: Any) -> Any:
    """Keep an array, if it is small, to be used again under its key.

    A tensor on a target is a shape outside of the target's programs, and a constant inside.
    """
    if MODES.target is not None:
        return found
    if found.nbytes <= _CACHED_BYTES:
        with _CHANGING:
            if len(_CONSTANTS) >= _CACHED_ARRAYS:
                _SHARED.discard(id(_CONSTANTS.pop(next(iter(_CONSTANTS)))))
            _CONSTANTS[key] = found  # in the place of a zero of the other sign, whose key is equal
            _SHARED.add(id(found))
    return found


def own_array(t: Tensor) -> None:
    """Give a tensor an array that nothing else uses, so that the caller may donate it."""
    st = t._st
    if id(st.array) in _SHARED and not isinstance(st.array, jax.core.Tracer):
        with jax.ensure_compile_time_eval():  # a concrete array, also while JAX is tracing
            st.array = jnp.array(st.array)


def is_constant(array: Any) -> bool:
    """Return whether an array is one that factories give to many tensors, such as a zero."""
    return id(array) in _SHARED


def known(key: Any) -> Any:
    """The array kept under a key, or None."""
    return None if MODES.target is not None else _CONSTANTS.get(key)


def into(
    fn: str, out: Any, shape: tuple[int, ...], dtype: Any, device: Any, requires_grad: bool, values: Any
) -> Tensor:
    """Write ``values(dtype, device)``, an array, into an ``out=`` tensor, resizing it silently."""
    if not isinstance(out, Tensor):
        raise wrong(fn, "out", "Tensor", out)
    m = out._m
    if dtype is not None and dtype is not m.dtype:
        names = [dtypes.scalar_type_name(d) for d in (dtype, m.dtype)]
        raise RuntimeError(f"dtype {names[0]} does not match dtype of out parameter ({names[1]})")
    if device is not None and devices.resolve(device) is not m.device:
        raise RuntimeError(
            f"device type {devices.resolve(device).type} does not match device type of out parameter ({m.device.type})"
        )
    check_shape(shape, m.dtype.itemsize)
    if requires_grad_of(out):
        if fn in ("empty", "randn"):
            raise RuntimeError("cannot resize variables that require grad")
        if MODES.bits & GRAD:
            try:
                check_inplace(out)
            except RuntimeError:
                raise RuntimeError(errors.untracked_out(f"aten::{fn}")) from None
    array = values(m.dtype, m.device)
    resize(out, shape)
    check_writable(out)
    if requires_grad_of(out):  # the write is recorded, and has no gradient
        apply_inplace(_filling(fn), (out, make(array, meta(shape, m.dtype, m.device))))
    else:
        write(out, array)
    if requires_grad or out._fn is None:  # torch sets the flag of what it returns
        out._rg = bool(requires_grad)
    return out


@functools.cache
def _filling(fn: str) -> Call:
    """The call that records a write which replaces all old values."""
    return Call(
        fn, lambda leaves: leaves[1], node_name="NotImplemented", argnames=("self", "values"), grad=Grad.MISSING
    )


def _is_plan(input: Tensor, out: Tensor) -> bool:
    """Return whether the data that a tensor on the meta device stood for are made."""
    return input._m.device.type == "meta" and input._m.shape == out._m.shape


def spread_like(input: Tensor, device: Any, out: Tensor) -> Tensor:
    """A tensor made like `input`, spread over several devices as that is, or as a sharding given as `device` says."""
    if isinstance(device, Sharding):
        there: Any = placement.automatic(device)
    elif MANY and (device is None or _is_plan(input, out)) and MODES.run.at_once:
        there = placement_of_tensor(input)
    else:
        there = None
    if there is None:
        return out
    if out._m.device.type == "meta":
        return placed_later(out._st.array, out._m, there)
    keep_placed(out._st, there)
    return out


def like(
    fn: str, input: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, requires_grad: Any, memory_format: Any
) -> Meta:
    """Meta of a tensor like `input` but for what the other arguments say."""
    if not isinstance(input, Tensor):
        raise wrong(fn, "input", "Tensor", input, 1)
    if MODES.bits & FAKE:
        (input,) = faked(fn, (input,))
    if isinstance(device, Sharding):
        device = first_device(device)
    m = input._m
    dt, dev = options(fn, dtype, layout, device, pin_memory, requires_grad, m.device)
    kind = format_of(fn, memory_format)
    if kind is None or kind is preserve_format:
        strides = m.strides if m.dense else shapes.preserve_strides(m.shape, m.strides)
    else:
        strides = None if kind is contiguous_format else strides_in(kind, m.shape)
    return meta(m.shape, dt or m.dtype, dev, strides)
