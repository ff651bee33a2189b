"""Tensors of another dtype, on another device, or in another order of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding

from .._core.arrays import devices, dtypes, placement, shapes, uneven
from .._core.arrays.formats import contiguous_format, memory_format, preserve_format, strides_in
from .._core.arrays.meta import Meta
from .._core.arrays.placement import MANY
from .._core.arrays.transfer import put
from .._core.errors import messages as errors, warn
from .._core.jax import abstract
from .._core.jax.caches import CALLS
from .._core.state import DUAL, FAKE, GRAD, INFERENCE, MODES, next_sequence_nr
from .._engine.entry.bind import composite, ops
from .._engine.graph.history import edge_of, requires_grad_of
from .._engine.graph.node import Node
from .._engine.graph.record import apply, faked
from .._engine.memory.strided import is_direct, placement_of_tensor, read
from .._engine.memory.tensor import Tensor, keep_placed, make, mark_inference, placed_later, placement_of
from .._engine.run.trace import Call
from .._ops import helpers
from .._ops.registry import TorchKernel
from .arguments import device_of, dtype_of, first_device, flag, format_of, unmatched, wrong

# --- what is asked for ----------------------------------------------------------------------------


def _is_dtype(value: Any) -> bool:
    return isinstance(value, dtypes.dtype) or (isinstance(value, type) and value in (bool, int, float, complex))


def _target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, copy and memory format that a call of `to` names; None where it does not."""
    named = dict(kwargs)
    kind = format_of("to", named.pop("memory_format", None))
    first = args[0] if args else None
    if args and isinstance(first, Tensor):
        names = ("tensor", "non_blocking", "copy")
    elif args and first is not None and not isinstance(first, str | int) and _is_dtype(first):
        names = ("dtype", "non_blocking", "copy")
    else:
        names = ("device", "dtype", "non_blocking", "copy")
    found: dict[str, Any] = dict(zip(names, args))
    if len(args) > len(names) or any(
        k in found or k not in ("device", "dtype", "other", "non_blocking", "copy") for k in named
    ):
        raise unmatched("to")
    if names[0] != "device" and "device" in named:
        raise unmatched("to")
    found.update(named)
    tensor, device, dtype = found.get("tensor"), found.get("device"), found.get("dtype")
    ok = all(isinstance(found.get(k, False), bool) for k in ("non_blocking", "copy"))
    ok = ok and (dtype is None or _is_dtype(dtype)) and "other" not in found
    if not ok or not (device is None or isinstance(device, devices.device | str | int)):
        raise unmatched("to")
    if tensor is not None:
        return tensor._m.device, tensor._m.dtype, found.get("copy", False), kind
    dev = None if device is None else devices.resolve(device)
    return dev, None if dtype is None else dtype_of("to", dtype), found.get("copy", False), kind


@composite(function=False)
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor with another dtype, device or memory format; itself where nothing changes.

    Call it as ``to(dtype)``, ``to(device, dtype)`` or ``to(other_tensor)``.
    """
    if len(args) == 1 and not kwargs and args[0].__class__ is dtypes.dtype:
        return cast(self, args[0])
    if isinstance(args[0] if args else kwargs.get("device"), Sharding):
        return _spread(self, *args, **kwargs)
    dev, dt, copy, kind = _target(args, kwargs)
    return move(self, dev, dt, copy, kind)


def _spread(t: Tensor, device: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
    """A tensor spread over devices by a sharding, and cast to another dtype if one is given."""
    if dtype is not None or kwargs:
        t = to(t, dtype or t._m.dtype, **kwargs)
    there = placement.automatic(device)
    placement.check_dims(t._m.shape, there)
    dev = first_device(there)
    if t._m.device.type == "meta":
        return placed_later(t._st.array, _without_gaps(t._m), there)
    if MODES.run.at_once:
        if placement_of_tensor(t) == there:
            return t
        if not (MODES.bits & GRAD and requires_grad_of(t)):
            out = make(read(t), _without_gaps(t._m).like(device=dev))
            keep_placed(out._st, there)
            return out
    if dev is not t._m.device:
        t = transfer(t, dev)
    out = apply(_spreading(there), (t,))
    if not MODES.run.at_once and not MANY:
        MANY.append(True)
    if is_direct(out) and (placement_of(out._st) is None or uneven.padding_of(out._m.shape, there) is not None):
        keep_placed(out._st, there)
    return out


def _without_gaps(m: Meta) -> Meta:
    return m if m.dense else m.like(shape=m.shape)


@CALLS.memo()
def _spreading(there: Sharding) -> Call:
    return Call(
        "_to_sharding",
        lambda leaves: placement.place(leaves[0], uneven.even(there, leaves[0].shape)),
        node_name="ToShardingBackward0",
        argnames=("self",),
    )


# --- doing it -------------------------------------------------------------------------------------


def cast(t: Tensor, dt: dtypes.dtype) -> Tensor:
    """The tensor in another dtype."""
    m = t._m
    if m.dtype is dt:
        return t
    if m.dtype.is_complex and not dt.is_complex and dt.category != dtypes.BOOL:
        warn.once("Casting complex values to real discards the imaginary part")
    return ops._to_copy(t, dt)


def move(t: Tensor, dev: Any = None, dt: Any = None, copy: bool = False, kind: memory_format | None = None) -> Tensor:
    """The tensor with what is asked for, copied only when something changes or `copy` says so."""
    if MODES.bits & FAKE:
        (t,) = faked("_to_copy", (t,))
    m = t._m
    dt, dev = dt or m.dtype, dev or m.device
    if isinstance(m.device, devices.FakeDevice) and not isinstance(dev, devices.FakeDevice):
        dev = devices.fake(dev, m.device.number, m.device.mixes)  # a fake tensor stays fake
    ordered = kind is None or kind is preserve_format or kind is m.suggests
    if m.dtype is dt and m.device is dev and not copy and ordered:
        return t
    if m.dtype.is_complex and not dt.is_complex and dt.category != dtypes.BOOL:
        warn.once("Casting complex values to real discards the imaginary part")
    if dev is not m.device:
        return transfer(move(t, None, dt, False, kind), dev)
    if kind is None or kind is preserve_format:
        return ops._to_copy(t, dt)
    if kind is contiguous_format:
        return ops._to_copy_contiguous(t, dt)
    return apply(_formatted(dt, kind, "ToCopyBackward0"), (t,))


@CALLS.memo()
def _formatted(dt: dtypes.dtype | None, kind: memory_format, node: str) -> Call:
    """A copy whose elements lie in the order of a memory format."""

    def run(leaves: Any) -> Any:
        return leaves[0] if dt is None else helpers.convert(leaves[0], dt.np)

    return Call(
        "_to_copy",
        run,
        node_name=node,
        argnames=("self",),
        layout=lambda metas, shape: strides_in(kind, shape),
        kernel=TorchKernel(copies=True),
        any_size=True,
    )


def clone_in(t: Tensor, kind: memory_format) -> Tensor:
    """A copy in a memory format other than contiguous and preserve."""
    strides_in(kind, t._m.shape)
    return apply(_formatted(None, kind, "CloneBackward0"), (t,))


class ToCopyBackward0(Node):
    """A copy to another device: the gradient is copied back."""

    __slots__ = ("source", "target")
    source: Meta
    target: Meta

    def __init__(self, t: Tensor, target: Meta) -> None:
        self.gp = self.extras = None
        self.edges = (edge_of(t),)
        self.saved = self.vers = ()
        self.seq = next_sequence_nr()
        self.source, self.target = t._m, target

    @property
    def n_outputs(self) -> int:
        return 1

    def out_meta(self, nr: int) -> Meta:
        return self.target

    def backward_tensors(self, grads: list[Any]) -> tuple[Any, ...]:
        """The incoming gradient on the device that the tensor came from."""
        return (None if grads[0] is None else transfer(grads[0], self.source.device),)

    def _release(self) -> None:
        """Nothing is saved."""


def transfer(t: Tensor, dev: devices.device) -> Tensor:
    """The tensor on another device."""
    if MODES.bits & DUAL:
        from .._engine.tensor.dual import tangent_of

        if tangent_of(t) is not None:
            raise NotImplementedError("forward-mode differentiation through a copy to another device is not supported")
    m = t._m.like(device=dev, strides=shapes.preserve_strides(t._m.shape, t._m.strides))
    fakes = [d for d in (dev, t._m.device) if isinstance(d, devices.FakeDevice)]
    if len(fakes) == 1 and not (fakes[0].mixes and fakes[0] is dev):
        raise AssertionError(errors.MIXED_FAKE.format("_to_copy"))
    if t._m.device.type == "meta" and not fakes and MODES.target is None:
        raise NotImplementedError(abstract.NO_DATA)
    array = read(t)
    if devices.unreal(dev):
        moved = abstract.AbstractArray(m.shape, m.dtype.np)
    elif isinstance(array, jax.core.Tracer):  # a traced program runs on one device
        moved = array
    elif t._m.device.type == "cpu":
        moved = put(np.asarray(array), dev)
    else:
        moved = jax.device_put(array, devices.to_jax(dev))
    out = make(moved, m)
    if MODES.bits & GRAD and requires_grad_of(t):
        out._fn, out._rg = ToCopyBackward0(t, m), True
    if MODES.bits & INFERENCE:
        mark_inference(out)
    return out


# --- short names ----------------------------------------------------------------------------------


def _short(name: str, dt: dtypes.dtype) -> Callable[..., Tensor]:
    def converted(self: Tensor, *, memory_format: Any = None) -> Tensor:
        kind = format_of(name, memory_format)
        return cast(self, dt) if kind is None else move(self, None, dt, False, kind)

    converted.__name__ = converted.__qualname__ = name
    converted.__doc__ = f"The tensor as {dt!r}."
    return composite(converted, function=False)


for _name, _dt in {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool_,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}.items():
    _short(_name, _dt)


@composite(function=False)
def chalf(self: Tensor, *, memory_format: Any = None) -> Tensor:
    """Not available: JAX has no complex numbers of half precision."""
    raise NotImplementedError("chalf(): complex32 is not supported, JAX has no such dtype")


@composite(function=False)
def cpu(self: Tensor, *, memory_format: Any = None) -> Tensor:
    """The tensor in host memory."""
    return move(self, devices.CPU, None, False, format_of("cpu", memory_format))


@composite(function=False)
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, *, memory_format: Any = None) -> Tensor:
    """The tensor on a GPU."""
    dev = devices.resolve("cuda") if device is None else device_of("cuda", device)
    if dev.type != "cuda":
        raise RuntimeError("Invalid device, must be cuda device")
    flag("cuda", "non_blocking", non_blocking)
    return move(self, dev, None, False, format_of("cuda", memory_format))


@composite(function=False)
def type_as(self: Tensor, other: Any) -> Tensor:
    """The tensor in another tensor's dtype and on its device."""
    if not isinstance(other, Tensor):
        raise wrong("type_as", "other", "Tensor", other, 1)
    return move(self, other._m.device, other._m.dtype)


def tensor_type_name(dt: dtypes.dtype, dev: devices.device) -> str:
    """``torch.FloatTensor``, ``torch.cuda.LongTensor``, ..."""
    where = "" if dev.type == "cpu" else f"{dev.type}."
    return f"torch.{where}{dt.type_name}"


def parse_type_name(name: str) -> tuple[dtypes.dtype, devices.device]:
    """The dtype and device behind ``"torch.FloatTensor"`` and the like."""
    prefix, _, last = name.rpartition(".")
    found = next((d for d in dtypes.ALL if d.type_name == last), None)
    if last == "Tensor" and prefix == "torch":
        found = dtypes.get_default_dtype()
    if found is None or prefix not in ("torch", "torch.cuda"):
        raise ValueError(f"invalid type: '{name}'")
    return found, devices.CPU if prefix == "torch" else devices.resolve("cuda")


@composite(name="type", function=False)
def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """The name of the tensor's type, or the tensor cast to a type."""
    if dtype is None:
        return tensor_type_name(self._m.dtype, self._m.device)
    if isinstance(dtype, dtypes.dtype):
        return move(self, None, dtype_of("type", dtype))
    if isinstance(dtype, str):
        dt, dev = parse_type_name(dtype)
    elif dtype is Tensor:  # the default type, which is also called `Tensor`
        dt, dev = parse_type_name("torch.Tensor")
    elif hasattr(dtype, "tensor_type"):
        dt, dev = dtype.tensor_type()
    elif isinstance(dtype, type):
        raise ValueError(f"invalid type: '{dtype.__name__}'")
    else:
        raise TypeError("dtype must be a type, str, or dtype object")
    return move(self, dev, dt)


def parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Device, dtype and memory format that arguments of `Module.to` name; None where they do not."""
    dev, dt, _, kind = _target(args, kwargs)
    return dev, dt, kind
