"""torch._utils: what programs take from there, and what checkpoints name."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from ._core.arrays import devices as _devices, dtypes as _dtypes
from ._core.errors.messages import missing as _missing
from ._core.errors.remote_errors import ExceptionWrapper as ExceptionWrapper
from ._engine.entry.bind import METHODS as _METHODS, NAMESPACES as _NAMESPACES
from ._engine.memory.tensor import Tensor as _Tensor
from ._engine.tensor.storages import UntypedStorage as _UntypedStorage
from ._functions.typed_storage import TypedStorage as _TypedStorage


def _flatten_dense_tensors(tensors: Sequence[_Tensor]) -> _Tensor:
    """The elements of all tensors, one after the other, in one vector."""
    flatten, cat = _METHODS["flatten"], _NAMESPACES[""]["cat"]
    return cat([flatten(t) for t in tensors])


def _unflatten_dense_tensors(flat: _Tensor, tensors: Sequence[_Tensor]) -> tuple[_Tensor, ...]:
    """Views of a vector, shaped like the tensors whose elements it has."""
    out, at = [], 0
    for t in tensors:
        n = t._m.numel
        out.append(_METHODS["view_as"](_METHODS["narrow"](flat, 0, at, n), t))
        at += n
    return tuple(out)


def _reorder_tensors_as(tensors: Iterable[_Tensor], ordered_tensors: Iterable[_Tensor]) -> tuple[_Tensor, ...]:
    """The tensors in the order that the types of others have, keeping the order within a type."""
    by_type: dict[Any, list[_Tensor]] = defaultdict(list)
    for t in tensors:
        by_type[t._m.dtype, t._m.device].append(t)
    queues = {k: iter(v) for k, v in by_type.items()}
    return tuple([next(queues[t._m.dtype, t._m.device]) for t in ordered_tensors])


def _element_size(dtype: _dtypes.dtype) -> int:
    """Bytes of an element."""
    if not isinstance(dtype, _dtypes.dtype):
        raise AssertionError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device that is named in any of the usual ways."""
    if isinstance(device, str):
        device = _devices.device(device)
    if isinstance(device, _devices.device):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if device.type == "cpu":
            return -1
        device = device.index
    if isinstance(device, int):
        return device
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return 0


def _import_dotted_name(name: str) -> Any:
    """The object behind a dotted name."""
    first, *rest = name.split(".")
    found: Any = importlib.import_module(first)
    for part in rest:
        found = getattr(found, part)
    return found


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> _Tensor:
    """A tensor that looks at a storage."""
    if not isinstance(storage, _TypedStorage | _UntypedStorage):
        raise TypeError(f"expected a storage, got {type(storage).__name__}")
    dtype = storage.dtype if isinstance(storage, _TypedStorage) else _dtypes.get_default_dtype()
    empty = _NAMESPACES[""]["empty"]((0,), dtype=dtype, device=storage.device)
    return _METHODS["set_"](empty, storage.untyped(), storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> _Tensor:
    """The same, with what a checkpoint says besides."""
    if metadata:
        raise NotImplementedError("_rebuild_tensor_v2: metadata is not supported; use torch.load")
    out: Any = _rebuild_tensor(storage, storage_offset, size, stride)
    out.requires_grad = requires_grad
    out._backward_hooks = backward_hooks
    return out


def _rebuild_parameter(data: Any, requires_grad: bool, backward_hooks: Any) -> Any:
    """A parameter around a tensor."""
    parameter = importlib.import_module("torchgrad_jax.nn.parameter").Parameter
    out = parameter(data, requires_grad)
    out._backward_hooks = backward_hooks
    return out


def render_call(fn: Any, args: Any, kwargs: Any) -> str:
    """A call as source text, with tensors by their shapes."""
    name = getattr(fn, "__qualname__", repr(fn))
    shown = [repr(a) for a in args] + [f"{k}={v!r}" for k, v in kwargs.items()]
    return f"{name}({', '.join(shown)})"


def _get_available_device_type() -> str | None:
    """The type of the accelerator; None without one."""
    cuda = importlib.import_module(f"{__package__}.cuda")
    return "cuda" if cuda.is_available() else None


def _get_device_module(device_type: str) -> Any:
    """torch.cpu, torch.cuda, ...: the module about a kind of device."""
    if device_type not in ("cpu", "cuda", "mps", "xpu"):
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return importlib.import_module(f"{__package__}.{device_type}")


__getattr__ = _missing(__name__)
