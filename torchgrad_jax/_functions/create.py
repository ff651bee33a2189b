"""Tensors from data, and tensors filled with one value.

`tensor` copies what it is given. `from_numpy`, `as_tensor` and `frombuffer` share the memory of a NumPy array or
a buffer (`exchange.py`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Sharding

from .._core.arrays import devices, dtypes, shapes, transfer
from .._core.arrays.formats import preserve_format, strides_in
from .._core.arrays.meta import meta
from .._core.arrays.placement import MANY
from .._core.arrays.python_numbers import Number
from .._core.errors import warn
from .._core.state import MODES
from .._engine.entry.bind import METHODS, composite
from .._engine.graph.record import no_grad
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor, wrap_array
from . import data as data_
from .arguments import check_shape, factory, first_device, format_of, number, options, register, shape_from, shape_of
from .fresh import beside, filled, fresh, from_host, into, known, like, remember, spread_like, with_strides

# --- one value ------------------------------------------------------------------------------------


def _constant(fn: str, value: int) -> Any:
    def make_filled(
        *size: Any,
        out: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = False,
        requires_grad: Any = False,
        **named: Any,
    ) -> Tensor:
        shape = shape_from(fn, size, named)
        dt, dev = options(fn, dtype, layout, device, pin_memory, requires_grad)
        if fn == "zeros" and any(n < 0 for n in shape):
            raise RuntimeError("zeros: Dimension size must be non-negative.")
        if out is not None:
            return into(fn, out, shape, dt, device, requires_grad, lambda d, v: filled(value, shape, d, v))
        dt = dt or dtypes.get_default_dtype()
        return fresh(filled(value, shape, dt, dev), meta(shape, dt, dev), requires_grad)

    make_filled.__doc__ = f"A tensor filled with {'zeros' if not value else 'ones'}."
    return register(fn, make_filled)


zeros = _constant("zeros", 0)
ones = _constant("ones", 1)


@factory
def empty(
    *size: Any,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
    memory_format: Any = None,
    **named: Any,
) -> Tensor:
    """A tensor whose values nobody should rely on (they are zeros)."""
    shape = shape_from("empty", size, named)
    dt, dev = options("empty", dtype, layout, device, pin_memory, requires_grad)
    strides = None
    if format_of("empty", memory_format) is not None:
        if memory_format is preserve_format:
            raise RuntimeError("unsupported memory format Preserve")
        strides = strides_in(memory_format, shape)
    if out is not None:
        return into("empty", out, shape, dt, device, requires_grad, lambda d, v: filled(0, shape, d, v))
    dt = dt or dtypes.get_default_dtype()
    return fresh(filled(0, shape, dt, dev), meta(shape, dt, dev, strides), requires_grad)


@factory
def full(
    size: Any,
    fill_value: Any,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """A tensor filled with one value, whose type decides the dtype."""
    shape = shape_of("full", size)
    value = number("full", "fill_value", fill_value, 2)
    dt, dev = options("full", dtype, layout, device, pin_memory, requires_grad)
    if out is not None:
        return into(
            "full", out, shape, dt, device, requires_grad, lambda d, v: filled(data_.number_as(value, d), shape, d, v)
        )
    dt = dt or dtypes.of_python(value.__class__)
    if (read := _of_number(value, shape, dt, dev, requires_grad)) is not None:
        return read
    key = ("full", value.__class__, value, shape, dt, dev)
    found = known(key) if value else None  # as keys 0.0 and -0.0 would be equal
    if dev.type == "meta":
        found = filled(data_.number_as(value, dt), shape, dt, dev)
    if found is None:
        check_shape(shape, dt.itemsize)
        found = remember(key, transfer.full(shape, data_.number_as(value, dt), dt.np, dev))
    return fresh(found, meta(shape, dt, dev), requires_grad)


@factory
def scalar_tensor(
    s: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """A 0-dim tensor of the default dtype, whatever the number's type."""
    value = number("scalar_tensor", "s", s, 1)
    dt, dev = options("scalar_tensor", dtype, layout, device, pin_memory, requires_grad)
    if (read := _of_number(value, (), dt or dtypes.get_default_dtype(), dev, requires_grad)) is not None:
        return read
    return from_host(data_.number_as(value, dt or dtypes.get_default_dtype()), dev, requires_grad)


# --- strides of one's own -------------------------------------------------------------------------


def _check_strided(shape: tuple[int, ...], stride: tuple[int, ...], itemsize: int = 1) -> None:
    if len(shape) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(stride)})"
        )
    if any(n < 0 for n in shape):
        check_shape(shape)
    if any(s < 0 for s in stride):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(stride)}")
    shapes.check_bytes(shape, stride, shapes.storage_extent(shape, stride), itemsize)


def _empty_strided(
    fn: str, size: Any, stride: Any, dt: dtypes.dtype, dev: devices.device, requires_grad: bool
) -> Tensor:
    shape, steps = shape_of(fn, size), shape_of(fn, stride, 2, "stride")
    _check_strided(shape, steps, dt.itemsize)
    zeros = np.zeros((), dt.np)
    host = np.broadcast_to(zeros, shape) if devices.unreal(dev) else np.zeros(shape, dt.np)
    return with_strides(host, steps, dev, requires_grad)


@factory
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """`empty` with given strides."""
    dt, dev = options("empty_strided", dtype, layout, device, pin_memory, requires_grad)
    return _empty_strided("empty_strided", size, stride, dt or dtypes.get_default_dtype(), dev, requires_grad)


@factory
def empty_permuted(
    size: Any,
    physical_layout: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """`empty` whose dimensions lie in memory in the given order."""
    shape, order = (shape_of("empty_permuted", size), shape_of("empty_permuted", physical_layout, 2, "physical_layout"))
    dt, dev = options("empty_permuted", dtype, layout, device, pin_memory, requires_grad)
    n = len(shape)
    if len(order) != n:
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {n} is not equal to len(physical_layout) = {len(order)}"
        )
    strides = [0] * n
    dense = shapes.contiguous_strides([shape[d] if 0 <= d < n else 1 for d in order])
    for i, d in enumerate(order):
        if not 0 <= d < n:
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {n - 1}, but got {d} at index {i}).  NB: "
                "negative dims not currently supported; file an issue if you want it."
            )
        if d in order[:i]:
            raise RuntimeError("Duplicate dim not allowed")
        strides[d] = dense[i]
    return _empty_strided("empty_permuted", shape, tuple(strides), dt or dtypes.get_default_dtype(), dev, requires_grad)


# --- like another tensor --------------------------------------------------------------------------


def _keeps_order(memory_format: Any) -> bool:
    """Return whether a tensor that is made like another one has that one's order in memory."""
    return memory_format is None or memory_format is preserve_format


def _like(fn: str, value: int, doc: str) -> Any:
    def filled_like(
        input: Any,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = False,
        requires_grad: Any = False,
        memory_format: Any = None,
    ) -> Tensor:
        m = like(fn, input, dtype, layout, device, pin_memory, requires_grad, memory_format)
        out = fresh(filled(value, m.shape, m.dtype, m.device), m, requires_grad)
        if not MODES.run.at_once:
            return beside(input, out, _keeps_order(memory_format))
        return spread_like(input, device, out) if MANY or device is not None else out

    filled_like.__name__ = filled_like.__qualname__ = fn
    filled_like.__doc__ = doc
    return composite(filled_like, method=False)


zeros_like = _like("zeros_like", 0, "Zeros with another tensor's shape, dtype, device and order in memory.")
ones_like = _like("ones_like", 1, "Ones with another tensor's shape, dtype, device and order in memory.")
empty_like = _like("empty_like", 0, "`empty` with another tensor's shape, dtype, device and order in memory.")


@composite(method=False)
def full_like(
    input: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
    memory_format: Any = None,
) -> Tensor:
    """One value with another tensor's shape, dtype, device and order in memory."""
    m = like("full_like", input, dtype, layout, device, pin_memory, requires_grad, memory_format)
    value = data_.number_as(number("full_like", "fill_value", fill_value, 2), m.dtype)
    out = fresh(filled(value, m.shape, m.dtype, m.device), m, requires_grad)
    out = beside(input, out, _keeps_order(memory_format))
    return spread_like(input, device, out)


# --- methods that take dtype and device from a tensor ---------------------------------------------


def _chosen(fn: str, self: Tensor, dtype: Any, layout: Any, device: Any, pin_memory: Any, requires_grad: Any) -> Any:
    if isinstance(device, Sharding):
        device = first_device(device)
    dt, dev = options(fn, dtype, layout, device, pin_memory, requires_grad)
    return dt or self._m.dtype, self._m.device if device is None else dev


def _new(fn: str, value: int) -> Any:
    def new_filled(
        self: Tensor,
        *size: Any,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = False,
        requires_grad: Any = False,
        **named: Any,
    ) -> Tensor:
        shape = shape_from(fn, size, named)
        dt, dev = _chosen(fn, self, dtype, layout, device, pin_memory, requires_grad)
        out = fresh(filled(value, shape, dt, dev), meta(shape, dt, dev), requires_grad)
        out = beside(self, out)
        return out if device is None else spread_like(self, device, out)

    new_filled.__name__ = new_filled.__qualname__ = fn
    new_filled.__doc__ = f"`{fn[4:]}` with this tensor's dtype and device."
    return composite(new_filled, function=False)


new_zeros, new_ones, new_empty = _new("new_zeros", 0), _new("new_ones", 1), _new("new_empty", 0)


@composite(function=False)
def new_full(
    self: Tensor,
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """`full` with this tensor's dtype and device."""
    shape = shape_of("new_full", size)
    dt, dev = _chosen("new_full", self, dtype, layout, device, pin_memory, requires_grad)
    value = data_.number_as(number("new_full", "fill_value", fill_value, 2), dt)
    out = beside(self, fresh(filled(value, shape, dt, dev), meta(shape, dt, dev), requires_grad))
    return out if device is None else spread_like(self, device, out)


@composite(function=False)
def new_empty_strided(
    self: Tensor,
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """`empty_strided` with this tensor's dtype and device."""
    dt, dev = _chosen("new_empty_strided", self, dtype, layout, device, pin_memory, requires_grad)
    out = beside(self, _empty_strided("new_empty_strided", size, stride, dt, dev, requires_grad))
    return out if device is None else spread_like(self, device, out)


@composite(function=False)
def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """`tensor` with this tensor's dtype and device."""
    dt, dev = _chosen("new_tensor", self, dtype, layout, device, pin_memory, requires_grad)
    out = from_data(data, dt, dev, requires_grad, "tensor.new_tensor(sourceTensor)")
    return out if device is None else spread_like(self, device, out)


# --- data -----------------------------------------------------------------------------------------

_COPY_CONSTRUCT = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than {call}."
)


def _of_number(value: Any, shape: tuple[int, ...], dt: Any, dev: devices.device, requires_grad: bool) -> Tensor | None:
    """A tensor filled with a number that a program being traced reads, if the number is one and the dtype is wide."""
    if type(value) is not Number or devices.unreal(dev):
        return None
    kinds = {float: (dtypes.float32, dtypes.float64), int: (dtypes.float64, dtypes.int64)}
    if dt not in kinds.get(value.__class__, ()):
        return None
    size: Any = value
    if dt is dtypes.float32 and not -_LARGEST_FLOAT < size < _LARGEST_FLOAT:
        return None
    check_shape(shape, dt.itemsize)
    array = value.array()
    if not isinstance(array, jax.core.Tracer):  # of a call that is over
        return None
    return fresh(jnp.broadcast_to(array.astype(dt.np), shape), meta(shape, dt, dev), requires_grad)


_LARGEST_FLOAT = 3e38
_PYTHON = frozenset({list, tuple, float, int, bool, complex})


def from_data(
    data: Any,
    dt: dtypes.dtype | None,
    dev: devices.device | None,
    requires_grad: bool,
    call: str = "torch.tensor(sourceTensor)",
) -> Tensor:
    """A copy of any data as a fresh leaf; `dev` None keeps a tensor where it is."""
    if data.__class__ in _PYTHON:
        to = dt or dtypes.of_python(data.__class__) if type(data) is Number else None
        read = _of_number(data, (), to, dev or devices.default_device(), requires_grad)
        if read is not None:
            return read
        host, _ = data_.array_of(data, dt)
        return from_host(host, devices.default_device() if dev is None else dev, requires_grad)
    if isinstance(data, Tensor):
        warn.to_user(_COPY_CONSTRUCT.format(call=call))
        return _copied(data, dt, dev, requires_grad)
    if isinstance(data, jax.Array):
        return _copied(wrap_array(data), dt, dev, requires_grad)
    dev = devices.default_device() if dev is None else dev
    if isinstance(data, np.ndarray):
        return _from_numpy_copy(data, dt, dev, requires_grad)
    if isinstance(data, np.generic) and not isinstance(data, np.str_ | np.bytes_):
        found = data_.numpy_dtype(data)
        if found is dtypes.uint64 and int(data) >= 2**63:
            raise TypeError("an integer is required")
        return from_host(data_.convert(np.asarray(data), dt or found), dev, requires_grad)
    host, _ = data_.array_of(data, dt)
    return from_host(host, dev, requires_grad)


def _copied(t: Tensor, dt: dtypes.dtype | None, dev: devices.device | None, requires_grad: bool) -> Tensor:
    m = t._m
    if (dt is None or dt is m.dtype) and (dev is None or dev is m.device):
        # Arrays are immutable, so a new storage around the same array is a copy.
        return fresh(
            read(t), meta(m.shape, m.dtype, m.device, shapes.preserve_strides(m.shape, m.strides)), requires_grad
        )
    with no_grad():
        moved = METHODS["to"](t, device=dev, dtype=dt or m.dtype)
    return fresh(moved._st.array, moved._m, requires_grad)


def _from_numpy_copy(array: np.ndarray, dt: dtypes.dtype | None, dev: devices.device, requires_grad: bool) -> Tensor:
    found = data_.numpy_dtype(array)
    strides = shapes.preserve_strides(array.shape, data_.numpy_strides(array))
    if array.dtype.kind == "c" and dt is not None and not dt.is_complex:
        warn.once("Casting complex values to real discards the imaginary part")
    host = data_.convert(np.ascontiguousarray(array).reshape(array.shape), dt or found)
    return from_host(host, dev, requires_grad, strides)


@factory
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False
) -> Tensor:
    """A fresh leaf with a copy of the given values.

    Args:
        data: a number, nested sequences of numbers, or an array.
        dtype: inferred from the data where None.
        device: the default device where None; a tensor's own device for a tensor.
        requires_grad: whether operations on it are recorded.
        pin_memory: not available.

    Example:
        >>> tensor([[1.0, 2.0], [3.0, 4.0]])
        tensor([[1., 2.],
                [3., 4.]])
    """
    dt, dev = options("tensor", dtype, None, device, pin_memory, requires_grad)
    return from_data(data, dt, dev if device is not None or MODES.device_stack else None, requires_grad)
