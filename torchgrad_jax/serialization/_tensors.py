"""Storages and tensors of a checkpoint, each checked against what the file really holds."""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.arrays import devices, dtypes
from .._core.arrays.meta import meta
from .._core.arrays.shapes import contiguous_strides
from .._core.arrays.transfer import put
from .._core.jax.abstract import AbstractArray
from .._engine.memory.tensor import Storage, Tensor, make
from .._engine.tensor.copying import _set_state, on_storage
from .._engine.tensor.storages import handle
from .._engine.tensor.subclass import retyped
from .._functions.typed_storage import TypedStorage
from ..nn.parameter import Parameter
from ._names import StorageKind

Bytes = Callable[[str, int], bytes]
"""The bytes of the storage with a key, of which there have to be so many."""


class _Held:
    """A storage of the file, loaded when a tensor needs it."""

    def __init__(self, key: str, dtype: dtypes.dtype | None, numel: int, dev: devices.device) -> None:
        self.key, self.dtype, self.numel, self.device = key, dtype, numel, dev
        self.made: Storage | None = None


def _check_same(held: _Held, dtype: dtypes.dtype | None, numel: int) -> None:
    """Refuse a storage that has two dtypes or two sizes; one that is also named as bytes has the dtype that it has."""
    a, b = held.dtype, dtype
    sizes = [n if d is None else n * d.itemsize for d, n in ((a, held.numel), (b, numel))]
    if sizes[0] != sizes[1] or not (a is b or a is None or b is None):
        raise pickle.UnpicklingError("one storage with two dtypes or sizes")
    if a is None and b is not None and held.made is None:
        held.dtype, held.numel = b, numel


def _natural(value: Any, what: str) -> int:
    if type(value) is not int or value < 0 or value >= 2**62:
        raise pickle.UnpicklingError(f"{what} is no number of elements")
    return value


def _naturals(values: Any, what: str) -> tuple[int, ...]:
    if not isinstance(values, tuple | list) or len(values) > 64:
        raise pickle.UnpicklingError(f"{what} is no list of sizes")
    return tuple([_natural(v, what) for v in values])


def _check_numel(shape: tuple[int, ...], dtype: dtypes.dtype) -> None:
    """Refuse sizes whose product is no number of bytes, zeros aside."""
    if math.prod(n for n in shape if n) * dtype.itemsize >= 2**63:
        raise pickle.UnpicklingError("numel: integer multiplication overflow")


def names_for_attributes(obj: Any, state: Any) -> dict[str, Any]:
    """The attributes that a file gives an object, if none of them hides what the object's class has."""
    if type(state) is not dict or not all(type(k) is str for k in state):
        raise pickle.UnpicklingError("attributes have to be a dict of names")
    for name in state:
        if name.startswith("__") or hasattr(_class_of(obj, name), name):
            raise pickle.UnpicklingError(f"an attribute {name[:100]!r} would hide that of {type(obj).__name__}")
    return state


def _class_of(obj: Any, name: str) -> type:
    """The class that has to leave a name free. A class of the user's may well have defaults of its attributes."""
    kind = type(obj)
    if not isinstance(obj, Tensor) or hasattr(getattr(kind, name, None), "__get__"):
        return kind
    return Parameter if isinstance(obj, Parameter) else Tensor


class Tensors:
    """What persistent identifiers and calls of torch's rebuilding functions give."""

    REBUILD = {
        "_rebuild_tensor": "plain",
        "_rebuild_tensor_v2": "v2",
        "_rebuild_tensor_v3": "v3",
        "_rebuild_meta_tensor_no_storage": "on_meta",
        "_rebuild_parameter": "parameter",
        "_rebuild_parameter_with_state": "parameter_with_state",
        "_rebuild_from_type_v2": "of_kind",
    }

    def __init__(self, read: Bytes, place: Callable[[str], devices.device], swap: bool = False) -> None:
        self.read, self.place, self.swap = read, place, swap
        self.held: dict[str, _Held] = {}
        self.kinds: tuple[type, ...] = (Tensor, Parameter)
        self.trusted = False
        self.filled = 0  # storages whose numbers were found in the file

    def storage(self, pid: Any) -> _Held:
        """The storage that a persistent identifier names."""
        if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage":
            raise pickle.UnpicklingError("a persistent identifier that is no storage")
        _, kind, key, location, numel = pid[:5]
        if len(pid) == 6 and pid[5] is not None:
            raise pickle.UnpicklingError("views of storages, as very old files have, are not supported")
        if type(key) is not str or type(location) is not str or not isinstance(kind, StorageKind):
            raise pickle.UnpicklingError("a persistent identifier of unknown form")
        n = _natural(numel, "a storage")
        found = self.held.get(key)
        if found is None:
            found = self.held[key] = _Held(key, kind.dtype, n, self.place(location))
            return found
        _check_same(found, kind.dtype, n)
        return found

    def _made(self, held: Any, dtype: dtypes.dtype | None, shape: tuple[int, ...], fits: bool) -> tuple[Storage, bool]:
        """The storage in memory, in the shape of a tensor that is all of it, and whether it is new."""
        if not isinstance(held, _Held):
            raise pickle.UnpicklingError("a tensor without a storage")
        dt = dtype or held.dtype
        if dt is None or held.dtype not in (None, dt):
            raise pickle.UnpicklingError("a tensor of another dtype than its storage")
        if held.made is not None:
            if held.made.meta.dtype is not dt:
                raise pickle.UnpicklingError("tensors of different dtypes in one storage are not supported")
            return held.made, False
        size = 1 if held.dtype is None else dt.itemsize
        values = _values(self.read(held.key, held.numel * size), dt, self.swap)
        if fits and math.prod(shape) == values.size:
            values = values.reshape(shape)
        held.made = Storage(put(values, held.device), meta(values.shape, dt, held.device))
        self.filled += held.numel > 0
        return held.made, True

    def hand_out(self) -> None:
        """Turn storages that the loaded object itself holds, not just its tensors, into what users know."""
        for held in self.held.values():
            if sys.getrefcount(held) > 3:  # the dict, this loop and the call
                self._hand_out(held)

    def _hand_out(self, held: Any) -> None:
        st = held.made
        if st is None:
            st, _ = self._made(held, held.dtype or dtypes.uint8, (), False)
        dtype = held.dtype or dtypes.uint8
        held.__dict__.clear()
        held.__class__, held.dtype, held._untyped_storage = TypedStorage, dtype, handle(st)

    def _tensor(self, held: Any, offset: Any, size: Any, stride: Any, dtype: Any = None, bits: Any = None) -> Tensor:
        shape, strides = _naturals(size, "a size"), _naturals(stride, "a stride")
        offset = _natural(offset, "an offset")
        if len(shape) != len(strides):
            raise pickle.UnpicklingError("sizes and strides of different lengths")
        if dtype is not None and not isinstance(dtype, dtypes.dtype):
            raise pickle.UnpicklingError("a tensor whose dtype is none")
        whole = offset == 0 and strides == contiguous_strides(shape)
        if isinstance(held, _Held):
            _check_numel(shape, dtype or held.dtype or dtypes.uint8)
        st, new = self._made(held, dtype, shape, whole)
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else -1
        if last >= st.meta.extent:
            raise pickle.UnpicklingError(
                f"a tensor of size {list(shape)[:8]} reaches beyond its storage of {st.meta.extent} elements"
            )
        conj, neg = (bool(isinstance(bits, dict) and bits.get(n)) for n in ("conj", "neg"))
        if (conj or neg) and st.meta.dtype.category != dtypes.complex64.category and conj:
            raise pickle.UnpicklingError("a conjugate of real numbers")
        m = meta(shape, st.meta.dtype, st.meta.device, None if whole else strides)
        direct = m is st.meta and offset == 0 and not conj and not neg
        out = on_storage(st, m, offset, direct=direct, own=new, conj=conj, neg=neg)
        out._vc.version = 1
        return out

    def plain(self, storage: Any, offset: Any, size: Any, stride: Any) -> Tensor:
        return self._tensor(storage, offset, size, stride)

    def v2(
        self, storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, metadata: Any = None
    ) -> Tensor:
        out = self._tensor(storage, offset, size, stride, None, metadata)
        return self._flagged(out, requires_grad)

    def v3(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: Any,
        hooks: Any,
        dtype: Any,
        metadata: Any = None,
    ) -> Tensor:
        out = self._tensor(storage, offset, size, stride, dtype, metadata)
        return self._flagged(out, requires_grad)

    def _flagged(self, t: Any, requires_grad: Any) -> Any:
        if requires_grad is True:
            t.requires_grad = True
        return t

    def on_meta(self, dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
        shape, strides = _naturals(size, "a size"), _naturals(stride, "a stride")
        if len(shape) != len(strides):
            raise pickle.UnpicklingError("sizes and strides of different lengths")
        if not isinstance(dtype, dtypes.dtype):
            raise pickle.UnpicklingError("a tensor whose dtype is none")
        _check_numel(shape, dtype)
        m = meta(shape, dtype, devices.device("meta"), strides)
        return self._flagged(make(AbstractArray(shape, dtype.np), m), requires_grad)

    def parameter(self, data: Any, requires_grad: Any, hooks: Any) -> Any:
        if not isinstance(data, Tensor):
            raise pickle.UnpicklingError("a parameter that is no tensor")
        return Parameter(data, requires_grad is True)

    def parameter_with_state(self, data: Any, requires_grad: Any, hooks: Any, state: Any) -> Any:
        return self._with_state(self.parameter(data, requires_grad, hooks), state)

    def of_kind(self, func: Any, kind: Any, args: Any, state: Any) -> Any:
        call: Any = func if self.trusted else getattr(func, "call", None)
        own = {getattr(self, n).__func__ for n in self.REBUILD.values() if n != "of_kind"}
        if getattr(call, "__func__", None) not in own or not isinstance(args, tuple):
            raise pickle.UnpicklingError("a tensor that no known function makes")
        out = call(*args)
        if not (isinstance(kind, type) and issubclass(kind, Tensor)):
            raise pickle.UnpicklingError("a tensor of a class that is none of tensors")
        if type(out) is not kind:
            out = retyped(out, kind)
            if self.trusted and kind.__setstate__ is not Tensor.__setstate__:
                out.__setstate__(state)
                return out
        return self._with_state(out, state)

    def _with_state(self, t: Any, state: Any) -> Any:
        if state is None:
            return t
        if self.trusted:
            _set_state(t, state)
            return t
        t.__dict__.update(names_for_attributes(t, state))
        return t


def _values(raw: bytes, dt: dtypes.dtype, swap: bool) -> np.ndarray:
    if len(raw) % dt.itemsize:
        raise pickle.UnpicklingError("a storage that is no whole number of elements")
    if dt is dtypes.bool_:
        return np.frombuffer(raw, np.uint8) != 0
    values = np.frombuffer(raw, dt.np)
    return values.byteswap() if swap else values
