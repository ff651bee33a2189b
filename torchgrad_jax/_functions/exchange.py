"""Tensors from other libraries' arrays and buffers, and back: NumPy, DLPack, Python buffers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core.arrays import devices, dtypes
from .._core.arrays.meta import meta
from .._core.errors import warn
from .._core.state import GRAD, INFERENCE, MODES
from .._engine.entry.bind import METHODS, composite, ops
from .._engine.graph.history import requires_grad_of
from .._engine.memory.shared import tensor_on
from .._engine.memory.tensor import Tensor, mark_inference, wrap_array
from .._engine.tensor.attributes import detach
from .._engine.tensor.storages import UntypedStorage, mapped
from . import data as data_
from .arguments import NO_GRAD_DTYPE, device_of, dtype_of, factory, flag, integer, options, type_name, wrong
from .create import empty, from_data, from_host, with_strides


def from_numpy_array(array: np.ndarray) -> Tensor:
    """A tensor on the memory of a NumPy array; a copy of it while JAX traces."""
    dt = data_.numpy_dtype(array)
    strides = data_.numpy_strides(array)
    found = tensor_on(array, meta(array.shape, dt, devices.CPU, strides))
    if found is not None:
        if MODES.bits & INFERENCE:
            mark_inference(found)
        return found
    copy = with_strides(np.array(array, order="C", copy=True), strides, devices.resolve("cpu"))
    MODES.run.uses.made_of_array(copy, array)
    return copy


def _warn_of_reading(given: str, meaning: str, what: str) -> None:
    """Warn as torch does. Memory that may only be read is shared until the tensor is written to."""
    warn.once(
        f"The given {given} is not writable, and PyTorch does not support non-writable tensors. This means {meaning}. "
        f"You may want to copy the {what} to protect its data or make it writable before converting it to a tensor. "
        "This type of warning will be suppressed for the rest of this program."
    )


@factory
def from_numpy(ndarray: Any) -> Tensor:
    """A CPU tensor on the memory of a NumPy array.

    Example:
        >>> import numpy as np
        >>> import torchgrad_jax as torch
        >>> n = np.zeros(3)
        >>> t = torch.from_numpy(n)
        >>> n += 1
        >>> t
        tensor([1., 1., 1.], dtype=torch.float64)

    Differs from torch: a write to a tensor of a read-only array leaves the array as it is.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type_name(ndarray)})")
    return of_user_array(ndarray)


def of_user_array(array: np.ndarray) -> Tensor:
    """A tensor on the memory of an array of the user, with a warning if that memory can't be written to."""
    _warn_of_read_only(array)
    return from_numpy_array(array)


def _warn_of_read_only(array: np.ndarray) -> None:
    if not array.flags.writeable:
        _warn_of_reading("NumPy array", "writing to this tensor will result in undefined behavior", "array")


@composite(name="__array_wrap__", function=False)
def array_wrap(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """NumPy's protocol for results of its functions on a tensor: they are tensors again."""
    if array.dtype == np.bool_:  # torch's convention is older than its bool dtype
        array = array.astype(np.uint8)
    return from_numpy_array(np.asarray(array))


def _of_jax(array: jax.Array) -> Tensor:
    """A tensor around an array of JAX's.

    In a function that JAX differentiates, the array has a derivative as a tensor with a gradient has one: there
    `torch.as_tensor(jnp.sin(t))` goes on with the gradient of `t`.
    """
    t, run = wrap_array(array), MODES.run
    differentiated = run.jax_derives and run.batch is None and MODES.bits & GRAD and run.owns(array)
    if not differentiated or t._m.dtype.category < dtypes.FLOATING:
        return t
    t._rg = True
    return ops.clone(t)  # a leaf with a gradient could not be written to


@factory
def as_tensor(data: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor; a tensor that already fits is returned as it is, with its history."""
    dt = None if dtype is None else dtype_of("as_tensor", dtype)
    dev = device_of("as_tensor", device) if device is not None or MODES.device_stack else None
    if isinstance(data, Tensor):
        return METHODS["to"](data, device=dev, dtype=dt) if dt or dev else data
    if isinstance(data, jax.Array):
        t = _of_jax(data)
        return METHODS["to"](t, device=dev, dtype=dt) if dt or dev else t
    if isinstance(data, np.ndarray):
        t = of_user_array(data)
        return METHODS["to"](t, device=dev or devices.default_device(), dtype=dt or t._m.dtype)
    return from_data(data, dt, dev, False)


@factory
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: Any = False) -> Tensor:
    """A 1-dim tensor on the memory of a buffer.

    Differs from torch: a write to a tensor of a read-only buffer leaves the buffer as it is.
    """
    dt = dtype_of("frombuffer", dtype)
    count, offset = integer("frombuffer", "count", count), integer("frombuffer", "offset", offset)
    flag("frombuffer", "requires_grad", requires_grad)
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    size, item = view.nbytes, dt.itemsize
    if view.readonly:
        _warn_of_reading(
            "buffer", "you can write to the underlying (supposedly non-writable) buffer using the tensor", "buffer"
        )
    if size == 0 or count == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1"
        )
    if count < 0 and (size - offset) % item:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of element "
            f"size ({item})"
        )
    if count > 0 and offset + count * item > size:
        raise ValueError(
            f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({size} bytes)"
        )
    n = count if count > 0 else (size - offset) // item
    host = np.frombuffer(view, np.uint8, n * item, offset).view(dt.np)
    t = tensor_on(host, meta((n,), dt, devices.CPU))
    if t is None:
        copy = from_host(np.array(host), devices.CPU, requires_grad)
        MODES.run.uses.made_of_array(copy, host)
        return copy
    if requires_grad and dt.category < dtypes.FLOATING:
        raise RuntimeError(NO_GRAD_DTYPE)
    t._rg = bool(requires_grad)
    if MODES.bits & INFERENCE:
        mark_inference(t)
    return t


@factory
def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """A 1-dim CPU tensor on the memory of a file.

    Args:
        filename: a path.
        shared: whether what is written to the tensor gets into the file, which is made longer where it is too short.
        size: how many elements.
        dtype: their dtype; the default one if None.
        layout: only strided.
        device: only the CPU.
        pin_memory: only False.
        requires_grad: whether the tensor is a leaf that records.

    Differs from torch: a file that is made longer keeps its first byte.
    """
    if shared is not None:
        flag("from_file", "shared", shared)
    if flag("from_file", "pin_memory", pin_memory):
        raise RuntimeError("tensors constructed from a file cannot be pinned")
    dt, dev = options("from_file", dtype, layout, device, False, requires_grad)
    dt, n = dt or dtypes.get_default_dtype(), integer("from_file", "size", size or 0)
    if dev.type != "cpu":
        raise NotImplementedError(f"from_file() maps files into the memory of the CPU, not of {dev}")
    if n < 0:
        raise RuntimeError(
            f"unable to mmap {n * dt.itemsize} bytes from file <{filename}>: Cannot allocate memory (12)"
        )
    if requires_grad and dt.category < dtypes.FLOATING:
        raise RuntimeError(NO_GRAD_DTYPE)
    t = from_numpy_array(mapped(filename, shared, n * dt.itemsize).view(dt.np))
    t._rg = requires_grad
    return t


# --- asarray --------------------------------------------------------------------------------------

_REQUIRES_GRAD_KEPT = (
    "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass "
    "requires_grad=False explicitly to get the old behavior and silence this warning."
)


@factory
def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: Any = None, requires_grad: Any = None) -> Tensor:
    """`obj` as a tensor, on its memory where that fits and `copy` is not True."""
    dt = None if dtype is None else dtype_of("asarray", dtype)
    dev = None if device is None else device_of("asarray", device)
    if copy is not None:
        flag("asarray", "copy", copy)
    if requires_grad is not None:
        flag("asarray", "requires_grad", requires_grad)
    found = _as_tensor_like(obj, dt)
    if found is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return from_data(obj, dt, dev or devices.default_device(), bool(requires_grad))
    if copy is False:
        if isinstance(obj, np.generic):
            raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ")
        _check_alias(found, dt, dev)
    out = _moved(found, dt, dev, bool(copy))
    if isinstance(obj, np.ndarray) and out is found:
        _warn_of_read_only(obj)
    if not isinstance(obj, Tensor):
        return out.requires_grad_(True) if requires_grad else out
    return _with_flag(obj, out, requires_grad)


def _as_tensor_like(obj: Any, dt: dtypes.dtype | None) -> Tensor | None:
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, jax.Array):
        return _of_jax(obj)
    if isinstance(obj, np.ndarray):
        return from_numpy_array(obj)
    if isinstance(obj, np.generic) and not isinstance(obj, np.str_ | np.bytes_):
        return from_numpy_array(np.asarray(obj))
    if hasattr(obj, "__dlpack__"):
        return from_dlpack(obj)
    if isinstance(obj, UntypedStorage):
        return empty(0, dtype=dt or dtypes.get_default_dtype()).set_(obj)
    if _is_buffer(obj):
        return frombuffer(obj, dtype=dt or dtypes.get_default_dtype())
    return None


def _is_buffer(obj: Any) -> bool:
    if isinstance(obj, bool | int | float | complex | list | tuple | str):
        return False
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def _check_alias(found: Tensor, dt: dtypes.dtype | None, dev: devices.device | None) -> None:
    m = found._m
    if dev is not None and dev is not m.device:
        raise ValueError(f"can't alias tensor from device '{m.device}' to '{dev}'.")
    if dt is not None and dt is not m.dtype:
        names = [dtypes.scalar_type_name(d) for d in (m.dtype, dt)]
        raise ValueError(f"can't alias tensor with dtype '{names[0]}' into dtype '{names[1]}'.")


def _moved(t: Tensor, dt: dtypes.dtype | None, dev: devices.device | None, copy: bool) -> Tensor:
    if (dt is not None and dt is not t._m.dtype) or (dev is not None and dev is not t._m.device):
        return METHODS["to"](t, device=dev, dtype=dt or t._m.dtype)
    return ops.clone(t) if copy else t


def _with_flag(obj: Tensor, out: Tensor, requires_grad: bool | None) -> Tensor:
    """A tensor made from a tensor, with `requires_grad`: False detaches it, True switches it on if possible."""
    if requires_grad is None:
        if requires_grad_of(obj):
            warn.once(_REQUIRES_GRAD_KEPT)
        return out
    if requires_grad_of(out) and not requires_grad:
        return detach(out)
    if requires_grad and not requires_grad_of(out):
        return out.requires_grad_(True)
    return out


# --- DLPack ---------------------------------------------------------------------------------------


_CONSUMED = (
    "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you "
    "might have already constructed a tensor from it once."
)


class _Capsule:
    """A bare DLPack capsule of host memory, dressed as the objects that consumers expect today."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class _Writable:
    """Memory of an array that NumPy takes for constant, because an old kind of capsule cannot say that it is not."""

    def __init__(self, array: np.ndarray) -> None:
        about = array.__array_interface__
        self.array = array
        self.__array_interface__ = {**about, "data": (about["data"][0], False)}


@factory
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: Any = None) -> Tensor:
    """A tensor from an object with `__dlpack__`, or from a capsule.

    A tensor of this package shares its storage with the result, NumPy arrays and others in the host's memory share
    that; JAX arrays are taken by reference; what is on another device is copied, because its owner may write to it.
    """
    if isinstance(ext_tensor, Tensor):
        if requires_grad_of(ext_tensor):
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        out = detach(ext_tensor)
    elif isinstance(ext_tensor, jax.Array):
        out = _of_jax(ext_tensor)
    else:
        out = _foreign(ext_tensor)
    dev = None if device is None else device_of("from_dlpack", device)
    return METHODS["to"](out, device=dev, dtype=out._m.dtype, copy=bool(copy)) if copy or dev else out


def _foreign(ext: Any) -> Tensor:
    if type(ext).__name__ == "PyCapsule":
        ext = _Capsule(ext)
    if not hasattr(ext, "__dlpack__"):
        raise RuntimeError(_CONSUMED)
    if isinstance(ext, np.ndarray):
        return from_numpy_array(ext)
    if ext.__dlpack_device__()[0] == 1:
        try:
            array = np.from_dlpack(ext)
        except (BufferError, RuntimeError):  # a dtype that NumPy lacks, such as bfloat16
            pass
        except ValueError as error:
            raise RuntimeError(_CONSUMED) from error
        else:
            known = array.flags.writeable or not isinstance(ext, _Capsule)
            return from_numpy_array(array if known else np.asarray(_Writable(array)))
    return wrap_array(jnp.array(jax.dlpack.from_dlpack(ext), copy=True))


@factory
def to_dlpack(tensor: Any) -> Any:
    """A DLPack capsule of a tensor's memory."""
    if not isinstance(tensor, Tensor):
        raise wrong("to_dlpack", "tensor", "Tensor", tensor, 1)
    return tensor.__dlpack__()
