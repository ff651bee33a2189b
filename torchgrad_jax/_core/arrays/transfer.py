"""Host arrays become JAX arrays: the one place that decides where they go and who owns the bytes.

Arrays for JAX's first device are left uncommitted, all others are committed to theirs. JAX compiles
a kernel again for every combination of committed and uncommitted arguments, so that one rule for all
arrays that this package makes saves compiling each kernel several times.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..jax import abstract, x64
from ..jax.caches import remember
from ..jax.private import batched_device_put as put_on_devices
from ..jax.running_transforms import current_trace
from . import devices
from .meta import Meta
from .out_of_memory import guarded, host_array, no_host_memory

Put = Callable[[np.ndarray], Any]
batched_device_put = x64.with_x64(put_on_devices)


def put(host: np.ndarray, dev: devices.device) -> Any:
    """A host array on a device. On the CPU a small one stays what it is.

    The bytes may be shared: the caller must never write to `host` again. Data that somebody else
    may write to is copied first (``np.array(data)``), not behind this function.
    """
    if dev.type == "meta" and not devices.unreal(dev):
        return host
    return _putter(dev, host.shape, host.dtype)(host)


def place(values: Callable[[Meta], np.ndarray], m: Meta) -> Any:
    """Return what `values` gives for `m`, on its device.

    For the meta device `values` is not called for its elements, so it draws no numbers, but it raises its errors.
    """
    if not devices.unreal(m.device):
        try:
            found = values(m)
        except MemoryError as error:
            raise no_host_memory(m.shape, m.dtype.np) from error
        return put(found, m.device) if isinstance(found, np.ndarray | np.generic) else found
    values(m.like(shape=(0,)))
    return abstract.AbstractArray(m.shape, m.dtype.np)


def for_jax(array: Any) -> Any:
    """The array of a storage as an array of JAX, for code of the user: with 64 bits only where JAX has them."""
    return as_jax_array(x64.narrowed(array))


def as_jax_array(array: Any) -> Any:
    """The array of a storage as an array of JAX, of the same dtype."""
    if array.__class__ is not np.ndarray:
        return array
    return (_to_default(array.shape, array.dtype) if _is_plain() else jnp.asarray)(array)


SMALL = 1 << 14
"""Elements; so many stay arrays of NumPy until XLA asks for them."""


def filled(m: Meta, value: float) -> Any:
    """An array for `m` with one value everywhere; a small one on the CPU without a kernel, unless JAX is tracing."""
    if m.numel <= SMALL and m.device.type == "cpu" and current_trace().__class__ is _evaluation():
        return put(np.full(m.shape, value, m.dtype.np), m.device)
    return jnp.full(m.shape, value, m.dtype.np)


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """New memory for an array; XLA takes it as it is, where that of NumPy may have to be copied."""
    size = math.prod(shape) * dtype.itemsize
    try:
        if size < SMALL:
            return np.empty(shape, dtype)
        memory = np.empty(size + _LINE, np.uint8)
    except MemoryError as error:
        raise no_host_memory(shape, dtype) from error
    begin = -memory.ctypes.data % _LINE
    return memory[begin : begin + size].view(dtype).reshape(shape)


_LINE = 64
"""Bytes that an address is to be a multiple of."""

_MADE_THERE = 1 << 20
"""Elements; so many of one value are made on an accelerator instead of being sent there."""


def full(shape: tuple[int, ...], value: Any, dtype: np.dtype, dev: devices.device) -> Any:
    """An array of one value on a device."""
    if dev.type == "cpu" or math.prod(shape) < _MADE_THERE:
        return put(host_array(shape, value, dtype), dev)
    target = devices.to_jax(dev)
    there = None if target is jax.local_devices()[0] else target  # see the top of this file
    with jax.ensure_compile_time_eval():
        return guarded(lambda: jnp.full(shape, value, dtype, device=there), dev)()


@functools.cache
def _evaluation() -> type:
    """The class of JAX's trace when nothing is traced, as in a new thread."""
    found: list[type] = []
    thread = threading.Thread(target=lambda: found.append(current_trace().__class__))
    thread.start()
    thread.join()
    return found[0]


def _is_plain() -> bool:
    """Return whether nothing is traced, or set, that changes what JAX makes of an array and where it puts it.

    There is no trace at all while `jax.jvp` of JAX 0.11 takes the results of a function out of their tree.
    """
    trace = current_trace()
    return (
        (trace is None or trace.__class__ is _evaluation())
        and (x64.IS_GUEST or jax.config.jax_enable_x64)
        and jax.config.jax_default_device is None
        and jax.sharding.get_abstract_mesh().empty
    )


@remember()
def _to_default(shape: tuple[int, ...], dtype: np.dtype) -> Put:
    return _direct(jax.local_devices()[0], shape, dtype) or jnp.asarray


@remember()
def _putter(dev: devices.device, shape: tuple[int, ...], dtype: np.dtype) -> Put:
    if dev.type == "meta":
        return lambda host: abstract.AbstractArray(shape, dtype)
    target = devices.to_jax(dev)
    if target is not jax.local_devices()[0]:
        return _direct(target, shape, dtype, committed=True) or (lambda host: _put(host, target))
    if target.platform == "cpu" and math.prod(shape) <= SMALL and stays(dtype):
        return lambda host: host
    return _to_default(shape, dtype)


def _put(host: np.ndarray, target: Any) -> Any:
    with jax.ensure_compile_time_eval():  # the array is a constant of what is traced
        return jax.device_put(host, target)


def _direct(target: Any, shape: tuple[int, ...], dtype: np.dtype, committed: bool = False) -> Put | None:
    """What `jnp.asarray` does in the end, without the Python on the way; None where that takes other arguments."""
    aval = jax.core.ShapedArray(shape, dtype)
    sharding = jax.sharding.SingleDeviceSharding(target)
    try:
        if not _works(target, sharding):
            return None
    except TypeError:
        return None
    places = [target]
    return lambda host: batched_device_put(aval, sharding, [host], places, committed)


def stays(dtype: np.dtype) -> bool:
    """Return whether small arrays of a dtype are computed with in NumPy."""
    return dtype.kind in "biuc" or (dtype.kind == "f" and dtype.itemsize >= 4)


@functools.cache
def _works(target: Any, sharding: Any) -> bool:
    sample = np.arange(3, dtype=np.int32)
    out = batched_device_put(jax.core.ShapedArray((3,), np.int32), sharding, [sample], [target], False)
    return isinstance(out, jax.Array) and not out.committed and np.asarray(out).tolist() == [0, 1, 2]
