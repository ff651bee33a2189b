"""Storages with a dtype: what `tensor.storage()` gives, and the names that checkpoints have for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._core.errors import warn
from .._core.errors.absent import refusal
from .._engine.entry.bind import METHODS, NAMESPACES, composite
from .._engine.memory.tensor import Tensor, make
from .._engine.tensor.storages import UntypedStorage, flat, new_storage, place_in, untyped_storage
from . import data

STORAGES: dict[str, dtypes.dtype] = {
    "DoubleStorage": dtypes.float64,
    "FloatStorage": dtypes.float32,
    "HalfStorage": dtypes.float16,
    "LongStorage": dtypes.int64,
    "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool_,
    "BFloat16Storage": dtypes.bfloat16,
    "ComplexDoubleStorage": dtypes.complex128,
    "ComplexFloatStorage": dtypes.complex64,
}
NAME_OF = {d: n for n, d in STORAGES.items()}

_OF_BYTES = {
    "device", "is_cuda", "is_sparse", "is_hpu", "filename", "_cdata", "data_ptr", "nbytes", "get_device", "resizable",
    "is_pinned", "is_shared",
}  # fmt: skip
"""What the bytes of a storage know."""


class TypedStorage:
    """A storage seen as elements of a dtype; deprecated in favour of `UntypedStorage`.

    Args:
        wrap_storage: the storage to look at.
        dtype: the dtype.
    """

    dtype: Any
    _untyped_storage: UntypedStorage

    def __init__(self, *, wrap_storage: UntypedStorage, dtype: Any, _internal: bool = False) -> None:
        if not _internal:
            _warn_of_removal()
        self.dtype, self._untyped_storage = dtype, wrap_storage

    def __getattr__(self, name: str) -> Any:
        if name in _OF_BYTES:
            return getattr(self._untyped_storage, name)
        raise AttributeError(f"'TypedStorage' object has no attribute '{name}'")

    def untyped(self) -> UntypedStorage:
        """The storage without the dtype."""
        return self._untyped_storage

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.element_size()

    __len__ = size

    def type(self) -> str:
        """The name of the storage's type."""
        where = "" if self.device.type == "cpu" else f"{self.device.type}."
        return f"torch.{where}{self.pickle_storage_type()}"

    def pickle_storage_type(self) -> str:
        """The name that checkpoints have for storages of this dtype."""
        if self.dtype not in NAME_OF:
            raise KeyError(f"dtype {self.dtype} is not recognized")
        return NAME_OF[self.dtype]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and (self._cdata, self.dtype) == (other._cdata, other.dtype)

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __repr__(self) -> str:
        rows = "".join(f" {v}\n" for v in self.tolist()) or "\n"
        return f"{rows}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    # --- its elements ---

    def _values(self) -> np.ndarray:
        raw = flat(self._untyped_storage._storage).reshape(-1).view(np.uint8)
        return raw[: len(self) * self.element_size()].view(self.dtype.np)

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        st = new_storage(self._values(), self.dtype, self.device)
        return make(st.array, st.meta).tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self.tolist()[place_in(self, index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(value, bool | int | float | complex | np.generic):
            raise TypeError(f"can't assign a {type(value).__name__} to a torch.{self.dtype.type_name}")
        values = self._values().copy()
        values[index if isinstance(index, slice) else place_in(self, index)] = data.convert(
            np.asarray(value), self.dtype
        )
        self._untyped_storage._put(values.view(np.uint8))

    def fill_(self, value: Any) -> TypedStorage:
        """Overwrite every element."""
        self[:] = value
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Take the bytes of another storage of the same size."""
        self._untyped_storage.copy_(source.untyped())
        return self

    def resize_(self, size: int) -> None:
        """Change the number of elements."""
        self._untyped_storage.resize_(size * self.element_size())

    def share_memory_(self) -> TypedStorage:
        """Mark the storage as shared."""
        self._untyped_storage.share_memory_()
        return self

    # --- other storages of the same dtype ---

    def _over(self, storage: UntypedStorage) -> TypedStorage:
        return _rebuild(storage, self.dtype.name)

    def clone(self) -> TypedStorage:
        """A storage of its own with the same elements."""
        return self._over(self._untyped_storage.clone())

    __copy__ = clone

    def cpu(self) -> TypedStorage:
        """The storage in host memory."""
        return self._over(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """The storage on a GPU."""
        return self._over(self._untyped_storage.cuda(device))

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return self._over(self._untyped_storage.__deepcopy__(memo))

    def __reduce__(self) -> Any:
        return _rebuild, (self._untyped_storage, self.dtype.name)


def _rebuild(storage: UntypedStorage, dtype: str) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtypes.BY_NAME[dtype], _internal=True)


TypedStorage.__module__ = "torch.storage"


_warned = False


def _warn_of_removal() -> None:
    """Once in a process, as in torch, which does not ask `set_warn_always` here."""
    global _warned
    if not _warned:
        _warned = True
        warn.to_user(
            "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
            "class. This should only matter to you if you are using storages directly.  To access UntypedStorage "
            "directly, use tensor.untyped_storage() instead of tensor.storage()"
        )


@composite(function=False)
def storage(self: Tensor) -> TypedStorage:
    """The storage behind the tensor, seen as elements of the tensor's dtype; deprecated."""
    _warn_of_removal()
    return _typed_storage(self)


@composite(function=False)
def _typed_storage(self: Tensor) -> TypedStorage:
    """The same without a warning."""
    return TypedStorage(wrap_storage=untyped_storage(self), dtype=self._m.dtype, _internal=True)


_WHY = "use tensors, tensor.storage() or torch.UntypedStorage; torch has deprecated classes of storages"
for _name in ("Storage", *STORAGES):
    NAMESPACES[""].setdefault(_name, refusal(f"torch.{_name}", _WHY, NotImplementedError))
METHODS.setdefault("storage_type", refusal("Tensor.storage_type", _WHY, NotImplementedError))
