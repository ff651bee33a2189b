"""Objects on their way to another process: pickles, beside which large arrays travel by themselves.

What `__main__` defines goes by value (cloudpickle), since the other process does not run the program's script; what
such code makes comes back as instances of the program's own classes. Tensors arrive with their dtype, strides and
`requires_grad`, and those that share a storage go on sharing one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import pickle
import sys
import threading
import types
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.reduction import ForkingPickler
from typing import Any

import cloudpickle.cloudpickle as by_value
import numpy as np

from .._core.arrays import devices, dtypes
from .._core.arrays.meta import Meta, meta
from .._core.arrays.transfer import SMALL, put
from .._core.jax.abstract import AbstractArray
from .._core.jax.private import ArrayImpl
from .._engine.graph.history import grad_fn_of
from .._engine.memory.concrete import concrete
from .._engine.memory.strided import storage_offset
from .._engine.memory.tensor import Storage, Tensor, make
from .._engine.tensor import copying

WORTH_IT = 1 << 14
"""Bytes from which on an array travels by itself."""
_CUT = 1 << 20
"""Bytes of a storage from which on the part that a view does not use stays behind."""

_LASTING = ArrayImpl, np.ndarray
"""Classes of arrays that never change once a storage has given them out."""

Apart = Callable[[pickle.PickleBuffer], Any]


class Packed:
    """Something that was pickled before, and needs these modules where it is opened."""

    modules: set[str]


IN_WORKER: list[bool] = []
"""Not empty in a process that got the program's `__main__` by value."""


def _code(code: types.CodeType) -> Any:
    """As cloudpickle has it, but with the name of the file: tracebacks show it."""
    make, args = by_value._code_reduce(code)
    return make, tuple([code.co_filename if isinstance(a, str) and a == "<dynamic-code>" else a for a in args])


class Pickler(by_value.Pickler):
    """Pickles what cloudpickle and `multiprocessing` can send, and tensors.

    Args:
        file: where to.
        apart: is given each array; what it returns false for is not in the pickle.
        storages: the storages that tensors refer to, which go separately; see `dumps`.
    """

    dispatch_table: Any = ChainMap[Any, Any](
        {types.CodeType: _code},
        getattr(ForkingPickler, "_extra_reducers", {}),  # what `multiprocessing` is told later comes in here, too
        by_value.Pickler.dispatch_table,  # type: ignore[arg-type]
    )

    def __init__(self, file: Any, apart: Apart | None, storages: _Storages) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL, buffer_callback=apart)
        self._storages = storages
        self.modules: set[str] = set()
        """Those that what was pickled refers to."""

    def reducer_override(self, obj: Any) -> Any:
        """How objects of some classes are made again elsewhere."""
        if isinstance(obj, Tensor):
            return self._tensor(obj)
        if isinstance(obj, np.memmap):
            return _memmap(obj)
        if isinstance(obj, io.IOBase) and not isinstance(obj, io.BytesIO | io.StringIO):
            raise TypeError(f"cannot pickle '{type(obj).__name__}' instances: an open file")
        if isinstance(obj, type | types.FunctionType):
            _settle(obj.__module__)
            self.modules.add(obj.__module__)
        elif isinstance(obj, types.ModuleType):
            self.modules.add(obj.__name__)
        elif isinstance(obj, Packed):
            self.modules |= obj.modules
        if IN_WORKER and isinstance(obj, type):
            number = by_value._DYNAMIC_CLASS_TRACKER_BY_CLASS.get(obj)
            if number is not None:
                return _class_of_number, (number, obj.__qualname__)
        reduced: Any = super().reducer_override(obj)
        if reduced is not NotImplemented and reduced[0] is by_value._make_skeleton_class:
            reduced[2][0]["__qualname__"] = obj.__qualname__  # which tracebacks show
        return reduced

    def _tensor(self, t: Tensor) -> Any:
        if grad_fn_of(t) is not None and type(t).__reduce_ex__ is Tensor.__reduce_ex__:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
                "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor "
                "before serializing (e.g., putting it on the queue)."
            )
        reduced = t.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        if reduced[0] is not copying.rebuild:
            return reduced
        kind, _, place, requires_grad, state = reduced[1]
        number = self._storages.number(t)
        return _tensor_here, (number, kind, place, requires_grad, state)


@functools.cache
def _settle(module: str | None) -> None:
    """Decide whether what a module defines goes by reference or by value.

    cloudpickle sends by value what says it is of a module that is not imported: it is imported here. What is of a
    module that the other process would not find, such as one that was read from a file by its path, goes by value.
    """
    if module is None or module == "__main__":
        return
    top = module.partition(".")[0]
    found = sys.modules.get(module)
    if found is None:
        if top in sys.modules:
            with contextlib.suppress(Exception):  # a class may say what it likes
                importlib.import_module(module)
    elif top not in sys.stdlib_module_names and not _is_found(module):
        by_value.register_pickle_by_value(found)


def _is_found(module: str) -> bool:
    parent = sys.modules.get(module.rpartition(".")[0])
    path = getattr(parent, "__path__", None)
    try:
        return any(f.find_spec(module, path) for f in sys.meta_path)
    except Exception:  # a finder that says more than that
        return True


def _class_of_number(number: str, name: str) -> Any:
    found = by_value._DYNAMIC_CLASS_TRACKER_BY_ID.get(number)
    if found is None:
        raise pickle.UnpicklingError(f"the class {name} is gone from the program that it came from")
    return found


def _memmap(array: np.memmap) -> Any:
    """A file that is mapped is mapped there, too: its bytes are not sent."""
    whole: Any = array
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    mode = getattr(array, "mode", None)
    if array.filename is None or whole.offset is None or mode is None:
        return array.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    start = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    shape, strides = array.shape, array.strides
    inside = 0 <= start <= whole.nbytes and all(s >= 0 for s in strides)
    if not inside:
        return array.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    mode = "r+" if mode == "w+" else mode
    return _mapped_file, (str(array.filename), mode, whole.offset + start, array.dtype, shape, strides)


def _mapped_file(filename: str, mode: Any, offset: int, dtype: Any, shape: Any, strides: Any) -> Any:
    extent = dtype.itemsize + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else 0
    if not extent:
        return np.empty(shape, dtype)
    whole = np.memmap(filename, np.uint8, mode, offset, (extent,))
    out = np.ndarray(shape, dtype, whole, 0, strides).view(np.memmap)
    out.__dict__.update(whole.__dict__)
    return out


# --- tensors --------------------------------------------------------------------------------------


class _Storages:
    """The storages of the tensors of one pickle, and which of their elements the tensors use."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._found: list[tuple[Storage, list[int]]] = []
        self.lasting: dict[int, Any] = {}
        """By address, memory of JAX's that is sent as it is: nobody writes to it."""

    def number(self, t: Tensor) -> int:
        """The number of a tensor's storage."""
        st, m = t._st, t._m
        number = self._numbers.setdefault(id(st), len(self._found))
        if number == len(self._found):
            self._found.append((st, [st.meta.extent, 0]))
        used = self._found[number][1]
        if m.dtype is not st.meta.dtype:
            used[:] = 0, st.meta.extent
        elif m.numel:
            first = storage_offset(t)
            used[:] = min(used[0], first), max(used[1], first + m.extent)
        return number

    def used_parts(self) -> list[Any]:
        """Return what `_storage_here` needs for each."""
        return [self._used_part(st, *used) for st, used in self._found]

    def _used_part(self, st: Storage, first: int, end: int) -> Any:
        m = st.meta
        where = None if m.device == devices.default_device() else str(m.device)
        if m.device.type == "meta":
            return m.dtype.name, m.shape, m.strides, where, 0, None
        whole = make(st.array, m)
        whole._st = whole._vc = st
        values = np.ascontiguousarray(concrete(whole))
        if values.size > SMALL and st.array.__class__ in _LASTING:
            self.lasting[values.ctypes.data] = st.array
        used = max(end - first, 0)
        if m.contiguous and m.numel * m.dtype.itemsize >= _CUT and 2 * used < m.numel:
            values = values.reshape(-1)[first : first + used]
            return m.dtype.name, (used,), (1,), where, first, values.view(np.uint8)
        return m.dtype.name, m.shape, m.strides, where, 0, values.reshape(-1).view(np.uint8)


def _storage_here(dtype: str, shape: Any, strides: Any, where: str | None, first: int, data: Any) -> Any:
    dev = devices.default_device() if where is None else devices.resolve(where)
    dt = dtypes.BY_NAME[dtype]
    m: Meta = meta(tuple(shape), dt, dev, tuple(strides))
    if data is None:
        return Storage(AbstractArray(m.shape, dt.np), m), 0
    return Storage(put(data.view(dt.np).reshape(m.shape), dev), m), first


class _Arriving(threading.local):
    storages: list[Any] | None = None


_ARRIVING = _Arriving()


def _tensor_here(number: int, kind: Any, place: Any, requires_grad: bool, state: Any) -> Any:
    assert _ARRIVING.storages is not None
    st, first = _ARRIVING.storages[number]
    if first:
        dtype, shape, strides, offset, bits = place
        place = dtype, shape, strides, offset - first, bits
    return copying.rebuild(kind, copying._Holder(st), place, requires_grad, state)


# --- whole objects --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pickled:
    """An object as bytes.

    Attributes:
        body: its pickle.
        head: the pickle of the storages that its tensors are on; empty if it has no tensors.
        apart: arrays that are in neither: those of the body, then those of the head.
        of_body: how many of them are the body's.
        lasting: by address, whose memory an array is that nobody writes to.
        modules: those that it refers to.
    """

    body: Any
    head: Any
    apart: list[Any]
    of_body: int
    lasting: Mapping[int, Any] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)


def dumps(obj: Any, worth: int = WORTH_IT, pickler: Any = Pickler) -> Pickled:
    """An object as bytes; arrays of at least `worth` bytes are not copied."""
    apart: list[Any] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # neither in C's nor in Fortran's order
            return True
        if raw.nbytes >= worth:
            apart.append(raw)
        return raw.nbytes < worth

    file, storages = io.BytesIO(), _Storages()
    made = pickler(file, keep, storages)
    made.dump(obj)
    of_body, carried = len(apart), storages.used_parts()
    head = pickle.dumps(carried, pickle.HIGHEST_PROTOCOL, buffer_callback=keep) if carried else b""
    return Pickled(file.getbuffer(), head, apart, of_body, storages.lasting, made.modules)


def loads(pickled: Pickled, load: Callable[..., Any] = pickle.loads) -> Any:
    """The object that `dumps` was given."""
    before, apart = _ARRIVING.storages, pickled.apart
    try:
        if len(pickled.head):
            head = pickle.loads(pickled.head, buffers=apart[pickled.of_body :])
            _ARRIVING.storages = [_storage_here(*each) for each in head]
        return load(pickled.body, buffers=apart[: pickled.of_body])
    finally:
        _ARRIVING.storages = before
