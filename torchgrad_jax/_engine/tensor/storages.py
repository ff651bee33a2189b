"""Storages as users see them: their bytes, apart from any tensor's idea of them.

The bytes are XLA's, so reading copies them to the host and writing puts a new array into the
storage. Every tensor on it sees that, and no version counter does, as in torch.
"""

from __future__ import annotations

import copy
import mmap
import os
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from jax.core import Tracer

from ..._core.arrays import devices, dtypes
from ..._core.arrays.meta import meta
from ..._core.arrays.transfer import put
from ..._core.state import MODES
from ..memory import strided
from ..memory.concrete import concrete
from ..memory.owned import OwnedStorage
from ..memory.shared import check_resizable, is_shared as is_shared_with_numpy, tensor_on, view_of
from ..memory.tensor import Alias, FreedStorage, Storage, Tensor, free, give_memory, storage_size, tensor_over
from ..modes.belonging import is_batched

# One handle per storage for as long as somebody holds it, so that `is` tells storages apart.
_HANDLES: weakref.WeakValueDictionary[int, UntypedStorage] = weakref.WeakValueDictionary()
_SHARED: weakref.WeakSet[Storage] = weakref.WeakSet()
_OF_FILES: weakref.WeakKeyDictionary[Storage, str] = weakref.WeakKeyDictionary()
"""The storages that `UntypedStorage.from_file` made, and the paths."""


def handle(st: Storage, tensor: Tensor | None = None) -> UntypedStorage:
    """The user's object for a storage; `tensor` is one that is on it."""
    known = _HANDLES.get(id(st))
    if known is None:
        known = _HANDLES[id(st)] = object.__new__(UntypedStorage)
        known._storage = st
    if tensor is not None:
        known._tensor = weakref.ref(tensor)
    return known


def flat(st: Storage) -> np.ndarray:
    """The elements of a storage in the order of memory, on the host."""
    return np.ascontiguousarray(np.asarray(strided.to_flat(concrete(tensor_over(st)), st.meta)))


def readable(st: Storage) -> int:
    """The address of a storage, where its elements can be read until they change; nobody can write there."""
    if st.__class__ is FreedStorage:
        return 0
    address = st.data_ptr()
    memory = st.pointer
    if (
        st.meta.device.type == "cpu"
        and not is_shared_with_numpy(st)
        and memory.stamp != st.stamp
        and not isinstance(st.array, Tracer)
    ):
        raw = flat(st).reshape(-1).view(np.uint8)
        memory.buffer[: raw.size] = raw
        memory.stamp = st.stamp
    return address


def overwrite(st: Storage, values: np.ndarray) -> None:
    """Put other elements, in the order of memory, into a storage."""
    array = strided.from_flat(np.asarray(values, st.meta.dtype.np), st.meta)
    strided.write(tensor_over(st), put(np.ascontiguousarray(array), st.meta.device), bump=False)


def new_storage(values: np.ndarray, dt: dtypes.dtype, dev: devices.device) -> Storage:
    """A storage of its own with these elements."""
    return Storage(put(values, dev), meta(values.shape, dt, dev))


def place_in(storage: Any, index: Any) -> int:
    """An index into a storage counted from its start, with torch's complaint where there is no such element."""
    n = len(storage)
    if not -n <= index < n:
        raise IndexError(f"index {index} out of range for storage of size {n}")
    return index % n


def _range_of(storage: Any, index: slice) -> range:
    """Return which bytes of a storage a slice means."""
    start, stop, step = index.indices(len(storage))
    if step != 1:
        raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
    return range(start, max(start, stop))


def mapped(filename: Any, shared: bool | None, nbytes: int) -> np.ndarray:
    """The bytes at the beginning of a file as memory, which the file has too if it is shared."""
    path, way = os.fspath(filename), "read-write" if shared else "read-only"
    try:
        with open(os.open(path, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o600), "rb") as file:
            held = os.fstat(file.fileno()).st_size
            if held < nbytes and not shared:
                raise RuntimeError(f"file <{path}> size <{held}> is smaller than the required mapping size <{nbytes}>")
            if held < nbytes:
                os.ftruncate(file.fileno(), nbytes)
            if nbytes == 0:
                return np.empty(0, np.uint8)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            return np.frombuffer(mmap.mmap(file.fileno(), nbytes, access=access), np.uint8)
    except OSError as error:
        raise RuntimeError(f"unable to open file <{path}> in {way} mode: {error.strerror} ({error.errno})") from None


class UntypedStorage:
    """The bytes behind tensors.

    Args:
        *args: a number of bytes, which are zero then, or a sequence of their values.
        device: where they live; the CPU unless given.
    """

    is_sparse = is_sparse_csr = is_hpu = False
    _storage: Storage
    _tensor: Any = None

    def __new__(cls, *args: Any, device: Any = None) -> UntypedStorage:
        dev = devices.CPU if device is None else devices.resolve(device)
        if len(args) > 1:
            raise TypeError(f"UntypedStorage() takes a size or a sequence of bytes, got {len(args)} arguments")
        first = args[0] if args else 0
        if isinstance(first, int | np.integer):
            values = np.zeros(int(first), np.uint8)
        elif isinstance(first, str) or not hasattr(type(first), "__iter__"):
            raise TypeError(f"UntypedStorage() takes a size or a sequence of bytes, not {type(first).__name__}")
        else:
            values = np.array([int(v) % 256 for v in first], np.uint8)
        return handle(new_storage(values, dtypes.uint8, dev))

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The bytes at the beginning of a file.

        Args:
            filename: a path.
            shared: whether what is written to the storage gets into the file.
            nbytes: how many; the file must have them, unless it is shared: then it is made longer.
        """
        values = mapped(filename, shared, nbytes)
        on_memory = tensor_on(values, meta(values.shape, dtypes.uint8, devices.CPU))
        st = new_storage(values, dtypes.uint8, devices.CPU) if on_memory is None else on_memory._st
        _OF_FILES[st] = os.fspath(filename)
        return handle(st)

    # --- what it is ---

    def data_ptr(self) -> int:
        """The address of a copy of its bytes, made when this is called; the same as long as the storage lives."""
        return readable(self._storage)

    _cdata = property(data_ptr)

    def nbytes(self) -> int:
        """Bytes of the storage."""
        return 0 if self._storage.__class__ is FreedStorage else storage_size(self._storage.meta)

    def size(self) -> int:
        """Bytes of the storage."""
        return self.nbytes()

    __len__ = nbytes

    def element_size(self) -> int:
        """Bytes of an element, which is a byte."""
        return 1

    @property
    def device(self) -> devices.device:
        """Where the storage lives."""
        return self._storage.meta.device._seen

    @property
    def is_cuda(self) -> bool:
        """Whether the storage is on a GPU."""
        return self.device.type == "cuda"

    def get_device(self) -> int:
        """The index of the storage's device; -1 on the CPU."""
        dev = self.device
        return -1 if dev.type == "cpu" else dev.index or 0

    @property
    def filename(self) -> str | None:
        """The path that `from_file` got."""
        return _OF_FILES.get(self._storage)

    def resizable(self) -> bool:
        """Return whether `resize_` may be called: not while NumPy has the memory."""
        st = self._storage
        return not (is_shared_with_numpy(st) and not st.pointer.is_alone())

    def is_pinned(self, device: Any = None) -> bool:
        """Return whether the memory is page-locked."""
        return False

    def is_shared(self) -> bool:
        """Return whether `share_memory_` was called; memory on a GPU always counts as shared."""
        return self._storage in _SHARED or self.is_cuda

    def share_memory_(self) -> UntypedStorage:
        """Mark the storage as shared. Another process still gets a copy."""
        _SHARED.add(self._storage)
        return self

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the storage's type."""
        if dtype is not None:
            raise NotImplementedError("UntypedStorage.type() with a type is not supported")
        return "torch.storage.UntypedStorage"

    def untyped(self) -> UntypedStorage:
        """The storage itself."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other._storage is self._storage

    def __hash__(self) -> int:
        return id(self._storage)

    def __repr__(self) -> str:
        of = f"[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"
        if self._storage.meta.device.type == "meta":
            return f"...\n{of}"
        rows = "\n ".join(str(v) for v in self)
        return (f" {rows}\n" if len(self) else "\n") + of

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    # --- its bytes ---

    def _bytes(self) -> np.ndarray:
        if self._storage.__class__ is FreedStorage:
            return np.zeros(0, np.uint8)
        return flat(self._storage).reshape(-1).view(np.uint8)

    def _put(self, raw: np.ndarray) -> None:
        if self._storage.__class__ is FreedStorage:
            return  # it has no bytes
        dt = self._storage.meta.dtype
        overwrite(self._storage, raw.astype(np.bool_) if dt is dtypes.bool_ else raw.view(dt.np))

    def tolist(self) -> list[int]:
        """The bytes as numbers."""
        return self._bytes().tolist()

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        return self._part(index) if isinstance(index, slice) else int(self._bytes()[place_in(self, index)])

    def _part(self, index: slice) -> UntypedStorage:
        """A storage of some of the bytes, in the same memory: it is shared, as with an array of NumPy."""
        st, place = self._storage, _range_of(self, index)
        if not place:
            return handle(new_storage(np.zeros(0, np.uint8), dtypes.uint8, st.meta.device))
        if view_of(tensor_over(st)) is None:
            raise NotImplementedError(
                f"a slice of a storage on {st.meta.device}, which would share its memory, is not supported; slice a "
                "tensor instead"
            )
        memory = st.pointer.buffer[place.start : place.stop]
        part = tensor_on(memory, meta(memory.shape, dtypes.uint8, st.meta.device))
        assert part is not None
        return handle(part._st)

    def __setitem__(self, index: Any, value: int) -> None:
        if not isinstance(value, int):
            raise RuntimeError(f"can only set storage content with a int types, but got {type(value).__name__} instead")
        raw = self._bytes().copy()
        place = _range_of(self, index) if isinstance(index, slice) else place_in(self, index)
        raw[slice(place.start, place.stop) if isinstance(place, range) else place] = value % 256
        self._put(raw)

    def fill_(self, value: int) -> UntypedStorage:
        """Overwrite every byte."""
        self._put(np.full(len(self), int(value) % 256, np.uint8))
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> UntypedStorage:
        """Take the bytes of another storage of the same size."""
        raw = source.untyped()._bytes()
        if raw.size != len(self):
            raise RuntimeError(f"size does not match, self was {len(self)} bytes but src was {raw.size} bytes")
        self._put(raw.copy())
        return self

    def clone(self) -> UntypedStorage:
        """A storage of its own with the same bytes."""
        st = self._storage
        return handle(Storage(st.array, st.meta))

    def new(self) -> UntypedStorage:
        """An empty storage on the same device."""
        return UntypedStorage(device=self.device)

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """The storage on a device; itself where it is there already."""
        dev, st = devices.resolve(device), self._storage
        if dev is st.meta.device:
            return self
        return handle(new_storage(flat(st), st.meta.dtype, dev))

    def cpu(self) -> UntypedStorage:
        """The storage in host memory."""
        return self.to(device=devices.CPU)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """The storage on a GPU."""
        return self.to(device="cuda" if device is None else device)

    def byteswap(self, dtype: dtypes.dtype) -> None:
        """Reverse the bytes of each element of a dtype."""
        size = dtype.itemsize // (2 if dtype.is_complex else 1)
        self._put(self._bytes().reshape(-1, size)[:, ::-1].reshape(-1).copy())

    # --- its size ---

    def resize_(self, size: int) -> UntypedStorage:
        """Change the number of bytes; new ones are zero.

        Tensors on the storage keep their shapes. `resize_(0)` lets its memory go, until it is resized to what it had.
        To any other size a storage is resized only if at most one tensor is on it, which finds room there.
        """
        st = self._storage
        if size == self.nbytes():
            return self
        check_resizable(st)
        freed = st.__class__ is FreedStorage
        if size == 0 and st.__class__ in (Storage, OwnedStorage):
            free(st)
            return self
        if freed:
            give_memory(st, put(np.zeros(st.meta.shape, st.meta.dtype.np), st.meta.device))
        try:
            if size != self.nbytes():
                self._resize_for_one(int(size))
        except NotImplementedError:
            if freed:
                free(st)
            raise
        return self

    def _resize_for_one(self, size: int) -> None:
        """Change the number of bytes of a storage that one tensor is on, or none."""
        st = self._storage
        dt = st.meta.dtype
        n, rest = divmod(size, dt.itemsize)
        if rest:
            raise NotImplementedError(
                f"resize_() of a storage of {dt!r} to {size} bytes, which is no number of elements, is not supported"
            )
        t = None if self._tensor is None else self._tensor()
        t = t if t is not None and t._st is st else None
        need = 0 if t is None else strided.storage_offset(t) + t._m.extent
        known = 0 if t is None else 1 + (t._vc is st)
        if sys.getrefcount(st) - 4 > known or 0 < n < need:
            raise NotImplementedError(
                "resize_() of a storage that several tensors share, or to a part of what its tensor needs, is not "
                "supported but to 0 and back; clone() the tensor first"
            )
        old = flat(st)
        values = np.zeros(n, dt.np)
        values[: min(n, old.size)] = old[:n]
        if t is not None and t._al is None:
            t._al = Alias(0, None, 0, 0)
        st.array, st.meta = put(values, st.meta.device), meta((n,), dt, st.meta.device)
        st.stamp += 1

    # --- copies ---

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        # Tensors that are copied in the same go look for their storage under the same key.
        found = memo.get(id(self._storage))
        if found is None:
            found = memo[id(self._storage)] = self.clone()._storage
        return handle(found)

    def __reduce__(self) -> Any:
        m = self._storage.meta
        return _rebuild, (copy.copy(flat(self._storage)), m.dtype.name, str(m.device))


def _rebuild(values: np.ndarray, dtype: str, device: str) -> UntypedStorage:
    return handle(new_storage(values, dtypes.BY_NAME[dtype], devices.resolve(device)))


UntypedStorage.__module__ = "torch.storage"


def is_shared(self: Tensor) -> bool:
    """Return whether `share_memory_` was called for the tensor's storage."""
    return handle(self._st).is_shared()


def share_memory_(self: Tensor) -> Tensor:
    """Mark the tensor's storage as shared. Another process still gets a copy."""
    handle(self._st).share_memory_()
    return self


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The storage behind the tensor."""
    if is_batched(self):
        raise NotImplementedError("Cannot access storage of BatchedTensorImpl")
    MODES.run.uses.look_around(self)
    return handle(self._st, self)
