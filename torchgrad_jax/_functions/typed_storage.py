"""Storages with a dtype: torch's older interface to what lies behind a tensor, by which checkpoints name it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._core.arrays import devices, dtypes
from .._core.errors import warn
from .._engine.entry.bind import composite
from .._engine.memory.tensor import Tensor, make
from .._engine.tensor.storages import UntypedStorage, flat, handle, new_storage, place_in, untyped_storage
from . import convert, data

_FORMS = "\n * no arguments\n * (int size)\n * (Sequence data)\n * (*, UntypedStorage wrap_storage)\n"

# The first use in a process sets it, as in torch.
_warned = False
_always_warn = False


def _warn_typed_storage_removal(stacklevel: int = 2) -> None:
    global _warned
    if not _warned or _always_warn:
        warn.to_user(
            "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
            "class. This should only matter to you if you are using storages directly.  To access UntypedStorage "
            "directly, use tensor.untyped_storage() instead of tensor.storage()"
        )
        _warned = True


def _reset_warn_typed_storage_removal() -> None:
    global _warned
    _warned = False


def _get_always_warn_typed_storage_removal() -> bool:
    return _always_warn


def _set_always_warn_typed_storage_removal(always_warn: bool) -> None:
    global _always_warn
    _always_warn = bool(always_warn)


def _storage_of(values: Any, dt: dtypes.dtype, dev: devices.device) -> UntypedStorage:
    """A storage of a number of elements, or of a sequence of them."""
    if isinstance(values, int | np.integer):
        host = np.zeros(int(values), dt.np)
    else:
        host = data.convert(np.asarray(list(values)).reshape(-1), dt)
    return handle(new_storage(host, dt, dev))


def _unrecognized(cls: Any, reason: str, error: Any = RuntimeError) -> Exception:
    return error(f"{cls}.__new__ received an invalid combination of arguments. Expected one of:{_FORMS}{reason}")


class TypedStorage:
    """A storage seen as elements of a dtype; deprecated in favour of `UntypedStorage`.

    Args:
        *args: a number of elements, or a sequence of them.
        wrap_storage: the untyped storage to look at, instead.
        dtype: the dtype; the default one unless given.
        device: where the elements live; the CPU unless given.
    """

    is_sparse = is_hpu = False
    dtype: Any
    _untyped_storage: UntypedStorage

    def __init__(
        self, *args: Any, device: Any = None, dtype: Any = None, wrap_storage: Any = None, _internal: bool = False
    ) -> None:
        if not _internal:
            _warn_typed_storage_removal(3)
        if len(args) > 1:
            raise _unrecognized(type(self), "Too many positional arguments")
        if wrap_storage is not None:
            if args:
                raise _unrecognized(type(self), "No positional arguments should be given when using 'wrap_storage'")
            if dtype is None:
                raise _unrecognized(type(self), "Argument 'dtype' must be given")
            if not isinstance(wrap_storage, UntypedStorage):
                raise _unrecognized(
                    type(self),
                    f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}",
                    TypeError,
                )
            self.dtype, self._untyped_storage = dtype, wrap_storage
            return
        given = args[0] if args else 0
        if isinstance(given, Tensor | UntypedStorage | TypedStorage) or not (
            isinstance(given, int | np.integer) or hasattr(type(given), "__getitem__")
        ):
            reason = f"Argument type not recognized: {type(given)}"
            raise _unrecognized(type(self), reason, TypeError)
        if isinstance(given, str | bytes):
            raise TypeError(f"new(): invalid data type '{type(given).__name__}'")
        self.dtype = dtype or dtypes.get_default_dtype()
        dev = devices.CPU if device is None else devices.resolve(device)
        self._untyped_storage = _storage_of(given, self.dtype, dev)

    # --- what it is ---

    @property
    def device(self) -> devices.device:
        """Where the storage lives."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether the storage is on a GPU."""
        return self._untyped_storage.is_cuda

    @property
    def filename(self) -> str | None:
        """The file behind the storage; there is none."""
        return None

    @property
    def _cdata(self) -> int:
        return self._untyped_storage.data_ptr()

    def untyped(self) -> UntypedStorage:
        """The storage without the dtype."""
        return self._untyped_storage

    def data_ptr(self) -> int:
        """The number that identifies the storage."""
        return self._untyped_storage.data_ptr()

    def nbytes(self) -> int:
        """Bytes of the storage."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.element_size()

    __len__ = size

    def get_device(self) -> int:
        """The index of the storage's device; -1 on the CPU."""
        return self._untyped_storage.get_device()

    def resizable(self) -> bool:
        """Whether `resize_` may be called."""
        return True

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the memory is page-locked."""
        return False

    def is_shared(self) -> bool:
        """Whether `share_memory_` was called."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Mark the storage as shared."""
        self._untyped_storage.share_memory_()
        return self

    def pickle_storage_type(self) -> str:
        """The name that checkpoints have for storages of this dtype."""
        try:
            return NAME_OF[self.dtype]
        except KeyError:
            raise KeyError(f"dtype {self.dtype} is not recognized") from None

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the storage's type, or the storage converted to another type."""
        if dtype is None:
            where = "" if self.device.type == "cpu" else f"{self.device.type}."
            return f"torch.{where}{self.pickle_storage_type()}"
        name = dtype.__name__ if isinstance(dtype, _LegacyMeta) else str(dtype).rpartition(".")[2]
        if name not in STORAGES:
            raise NotImplementedError(f"TypedStorage.type() to {dtype!r} is not supported")
        return self._converted(STORAGES[name])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and (self._cdata, self.dtype) == (other._cdata, other.dtype)

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __repr__(self) -> str:
        rows = "".join(f" {v}\n" for v in self.tolist()) or "\n"
        return f"{rows}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    # --- its elements ---

    def _values(self) -> np.ndarray:
        """The elements, on the host."""
        raw = flat(self._untyped_storage._storage).reshape(-1).view(np.uint8)
        size = self.dtype.itemsize
        return raw[: raw.size // size * size].view(self.dtype.np)

    def _tensor(self) -> Tensor:
        """A tensor with a copy of the elements."""
        st = new_storage(self._values(), self.dtype, self.device)
        return make(st.array, st.meta)

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._tensor().tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        return self.tolist()[place_in(self, index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, int | slice):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        values = self._values().copy()
        values[index if isinstance(index, slice) else place_in(self, index)] = self._element(value)
        self._untyped_storage._put(values.view(np.uint8))

    def _element(self, value: Any) -> Any:
        if isinstance(value, str) or not isinstance(value, bool | int | float | complex | np.generic):
            name = self.dtype.type_name
            raise TypeError(f"can't assign a {type(value).__name__} to a torch.{name}")
        return data.convert(np.asarray(value), self.dtype)

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

    # --- other storages of the same or another dtype ---

    def _over(self, storage: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=storage, dtype=self.dtype, _internal=True)

    def clone(self) -> TypedStorage:
        """A storage of its own with the same elements."""
        return self._over(self._untyped_storage.clone())

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """The storage on a device."""
        return self._over(self._untyped_storage.to(device=device))

    def cpu(self) -> TypedStorage:
        """The storage in host memory."""
        return self.to(device=devices.CPU)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """The storage on a GPU."""
        return self.to(device="cuda" if device is None else device)

    def _converted(self, dt: dtypes.dtype) -> TypedStorage:
        cast = convert.cast(self._tensor(), dt)
        return TypedStorage(wrap_storage=handle(cast._st), dtype=dt, _internal=True)

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return self._over(self._untyped_storage.__deepcopy__(memo))

    def __reduce__(self) -> Any:
        return _rebuild, (self._untyped_storage, self.dtype.name)


def _rebuild(storage: UntypedStorage, dtype: str) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtypes.BY_NAME[dtype], _internal=True)


TypedStorage.__module__ = "torch.storage"

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


class _LegacyMeta(type):
    """Classes of one dtype and device: what they make is a `TypedStorage`, and is an instance of them."""

    dtype: dtypes.dtype
    device_type: str

    def __call__(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        unknown = next((k for k in kwargs if k not in ("device", "wrap_storage")), None)
        if unknown is not None:
            raise _unrecognized(cls, f"Keyword argument '{unknown}' cannot be specified")
        if len(args) > 1:
            raise _unrecognized(cls, "Too many positional arguments")
        given = args[0] if args else 0
        if isinstance(given, Tensor | UntypedStorage | TypedStorage):
            raise _unrecognized(cls, f"Argument type not recognized: {type(given)}", TypeError)
        kwargs.setdefault("device", None if "wrap_storage" in kwargs else cls.device_type)
        return TypedStorage(*args, dtype=cls.dtype, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, TypedStorage):
            return False
        return (instance.dtype, instance.device.type) == (cls.dtype, cls.device_type)


def storage_types(device_type: str = "cpu") -> dict[str, Any]:
    """``FloatStorage`` and its kin for one kind of device."""
    module = "torch" if device_type == "cpu" else f"torch.{device_type}"
    return {
        n: _LegacyMeta(n, (), {"dtype": d, "device_type": device_type, "__module__": module})
        for n, d in STORAGES.items()
    }


# --- conversions, which both kinds of storage have ------------------------------------------------


def _bytes_as(self: UntypedStorage, dt: dtypes.dtype) -> TypedStorage:
    numbers = TypedStorage(wrap_storage=self, dtype=dtypes.uint8, _internal=True)
    return numbers._converted(dt)


def _install_conversions() -> None:
    for name, dt in {
        "double": dtypes.float64,
        "float": dtypes.float32,
        "half": dtypes.float16,
        "long": dtypes.int64,
        "int": dtypes.int32,
        "short": dtypes.int16,
        "char": dtypes.int8,
        "byte": dtypes.uint8,
        "bool": dtypes.bool_,
        "bfloat16": dtypes.bfloat16,
        "complex_double": dtypes.complex128,
        "complex_float": dtypes.complex64,
    }.items():

        def typed(self: TypedStorage, dt: dtypes.dtype = dt) -> TypedStorage:
            return self._converted(dt)

        def untyped(self: UntypedStorage, dt: dtypes.dtype = dt) -> TypedStorage:
            return _bytes_as(self, dt)

        for kind, fn in ((TypedStorage, typed), (UntypedStorage, untyped)):
            fn.__name__, fn.__qualname__ = name, f"{kind.__name__}.{name}"
            fn.__doc__ = f"The elements cast to {dt!r}, in a storage of their own."
            setattr(kind, name, fn)


_install_conversions()


# --- of tensors -----------------------------------------------------------------------------------


@composite(function=False)
def storage(self: Tensor) -> TypedStorage:
    """The storage behind the tensor, seen as elements of the tensor's dtype; deprecated."""
    _warn_typed_storage_removal(3)
    return _typed_storage(self)


@composite(function=False)
def _typed_storage(self: Tensor) -> TypedStorage:
    """The same without a warning."""
    return TypedStorage(wrap_storage=untyped_storage(self), dtype=self._m.dtype, _internal=True)


@composite(function=False)
def storage_type(self: Tensor) -> Any:
    """The class of storages with the tensor's dtype and device."""
    _warn_typed_storage_removal(3)
    kinds = CPU_TYPES if self._m.device.type == "cpu" else storage_types(self._m.device.type)
    return kinds[NAME_OF[self._m.dtype]]


CPU_TYPES = storage_types()
