"""Tensors in files of the safetensors format, by the package `safetensors`, which checks what a file says of itself.

`safetensors.torch` imports torch; this module needs NumPy only. What it adds to the package: tensors instead of arrays,
the dtypes that NumPy does not have, and a file that is written whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._core.arrays import devices, dtypes
from .._core.errors.messages import extra_missing
from .._core.files.atomic import replacing
from .._core.signals import uninterrupted
from .._engine.memory.concrete import concrete
from .._engine.memory.strided import storage_offset
from .._engine.memory.tensor import Tensor
from .._functions.fresh import from_host

try:
    import safetensors as library
    from safetensors import SafetensorError as SafetensorError
except ImportError as e:
    raise extra_missing("torchgrad_jax.serialization.safetensors", "safetensors") from e

_DTYPES: dict[str, dtypes.dtype] = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "F8_E5M2": dtypes.float8_e5m2,
    "F8_E4M3": dtypes.float8_e4m3fn, "F8_E8M0": dtypes.float8_e8m0fnu, "F8_E4M3FNUZ": dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": dtypes.float8_e5m2fnuz, "I16": dtypes.int16, "U16": dtypes.uint16, "F16": dtypes.float16,
    "BF16": dtypes.bfloat16, "I32": dtypes.int32, "U32": dtypes.uint32, "F32": dtypes.float32,
    "C64": dtypes.complex64, "F64": dtypes.float64, "I64": dtypes.int64, "U64": dtypes.uint64,
}  # fmt: skip
"""By their names in a file."""

_SAVED = frozenset(_DTYPES.values())
_ARRAYS = ("np", "numpy")


# --- reading --------------------------------------------------------------------------------------


def _array(name: str, found: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """The values of one entry of `safetensors.deserialize`."""
    dtype = dtype_of(name, found["dtype"])
    try:
        return _true(np.frombuffer(found["data"], dtype.np).reshape(found["shape"]))
    except ValueError as e:
        raise _no_array(name, e) from None


def dtype_of(name: str, found: str) -> dtypes.dtype:
    """The dtype of a tensor of a file, by its name there.

    Raises:
        SafetensorError: there is no such dtype here.
    """
    dtype = _DTYPES.get(found)
    if dtype is None:
        raise SafetensorError(f"tensor `{name[:100]}` is of dtype {found}, which is not supported")
    return dtype


def _no_array(name: str, error: ValueError) -> SafetensorError:
    """A shape of more dimensions, or of larger ones, than an array may have."""
    return SafetensorError(f"invalid shape of tensor `{name[:100]}`: {error}")


def _true(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Every byte that is not 0 is True."""
    return values.view(np.uint8) != 0 if values.dtype == np.bool_ else values


def _little_endian(raw: bytes) -> dict[str, np.ndarray[Any, Any]]:
    return {name: _array(name, found) for name, found in library.deserialize(raw)}


class _Slice:
    """A tensor of a file of which parts can be read: `f.get_slice(name)[2:4, 0]`."""

    def __init__(self, owner: safe_open, name: str) -> None:
        self._owner, self._name, self._slice = owner, name, owner._opened().get_slice(name)

    def get_shape(self) -> list[int]:
        """Sizes of the whole tensor."""
        return self._slice.get_shape()

    def get_dtype(self) -> str:
        """The dtype by its name in the format."""
        return self._slice.get_dtype()

    def __getitem__(self, index: Any) -> Any:
        key = index if isinstance(index, tuple) else (index,)
        first = key[0] if key else None
        if not isinstance(first, slice) or first.step is not None or self.get_dtype()[:2] == "F8":
            return self._owner.get_tensor(self._name)[index]
        # Only the rows that are asked for are read.
        n = self.get_shape()[0]
        start, stop, _ = first.indices(n)
        rows = self._owner._made(_true(self._slice[start : max(start, stop)]))
        return rows[(slice(None), *key[1:])]


class safe_open:
    """A file of safetensors whose tensors are read when they are asked for.

    Args:
        filename: its path.
        framework: "pt", or "np" for arrays of NumPy.
        device: where tensors go.

    Raises:
        SafetensorError: the file is damaged.

    Example:
        >>> import os, tempfile, torchgrad_jax as torch
        >>> from torchgrad_jax.serialization.safetensors import safe_open, save_file
        >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
        >>> save_file({"w": torch.arange(3)}, path)
        >>> with safe_open(path, "pt") as f:
        ...     f.keys(), f.get_slice("w")[1:]
        (['w'], tensor([1, 2]))
    """

    def __init__(self, filename: Any, framework: str, device: Any = "cpu") -> None:
        if framework not in ("pt", "torch", "pytorch", *_ARRAYS):
            raise SafetensorError(f"framework {framework} is invalid")
        self._arrays = framework in _ARRAYS
        self._device = devices.resolve(device)
        self._path = Path(os.fspath(filename))
        # Reading by calls, and not through memory: a file that becomes shorter raises instead of ending the process.
        self._file: Any = library.safe_open(self._path, "np", backend="pread")

    def __enter__(self) -> safe_open:
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        self._file = None

    def _opened(self) -> Any:
        if self._file is None:
            raise SafetensorError("File is closed")
        return self._file

    def _made(self, values: np.ndarray[Any, Any]) -> Any:
        return values if self._arrays else from_host(values, self._device)

    def keys(self) -> list[str]:
        """Names of the tensors, sorted."""
        return sorted(self._opened().keys())

    def offset_keys(self) -> list[str]:
        """Names of the tensors, as they lie in the file."""
        return list(self._opened().offset_keys())

    def metadata(self) -> dict[str, str] | None:
        """Return what the writer said besides."""
        return self._opened().metadata()

    def get_tensor(self, name: str) -> Any:
        """One tensor."""
        dtype = self._opened().get_slice(name).get_dtype()
        if dtype[:1] == "F" and dtype[:2] in ("F4", "F6", "F8"):  # NumPy has none of them
            return self._made(_little_endian(self._path.read_bytes())[name])
        try:
            return self._made(_true(self._opened().get_tensor(name)))
        except ValueError as e:
            raise _no_array(name, e) from None

    def get_slice(self, name: str) -> Any:
        """One tensor, to be indexed: rows that are not asked for are not read."""
        return _Slice(self, name)


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file that is in memory.

    Raises:
        SafetensorError: it is damaged.
    """
    return {name: from_host(values, devices.CPU) for name, values in _little_endian(data).items()}


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors of a file.

    Args:
        filename: its path.
        device: where they go.

    Raises:
        SafetensorError: the file is damaged.
    """
    with safe_open(filename, "pt", device) as file:
        return {name: file.get_tensor(name) for name in file.offset_keys()}


# --- writing --------------------------------------------------------------------------------------


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Tensors as the bytes of a file.

    Args:
        tensors: by name; contiguous, and none of them in the memory of another.
        metadata: strings to write besides.

    Example:
        >>> import torchgrad_jax as torch
        >>> from torchgrad_jax.serialization.safetensors import load, save
        >>> load(save({"w": torch.arange(3)}))
        {'w': tensor([0, 1, 2])}
    """
    _check(tensors)
    arrays = {name: np.ascontiguousarray(concrete(t)) for name, t in tensors.items()}
    parts = {
        name: library.TensorSpec(
            dtype=a.dtype.name, shape=tensors[name].shape, data_ptr=a.ctypes.data, data_len=a.nbytes
        )
        for name, a in arrays.items()
    }
    return bytes(library.serialize(parts, None if metadata is None else dict(metadata)))


def save_file(tensors: Mapping[str, Tensor], filename: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a file, which is there whole or not at all.

    Args:
        tensors: by name; contiguous, and none of them in the memory of another.
        filename: its path.
        metadata: strings to write besides.
    """
    raw = save(tensors, metadata)
    with replacing(os.fspath(filename)) as file:
        file.write(raw)


def _check(tensors: Any) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, t in tensors.items():
        if not isinstance(t, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(t)}")
        if not isinstance(name, str) or name == "__metadata__":
            raise TypeError(f"{name!r} cannot be the name of a tensor")
        if t._m.dtype not in _SAVED:
            raise KeyError(t._m.dtype)
        if not t.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. Call `.contiguous()` "
                "on it, or save the full tensor that it is a part of and slice that again after loading."
            )
    shared = _shared(tensors)
    if shared:
        raise RuntimeError(
            "Some tensors share memory, this will lead to duplicate memory on disk and potential differences when "
            f"loading them again: {shared}. Save one of them, or a `.clone()` of the others."
        )


def _shared(tensors: dict[str, Any]) -> list[set[str]]:
    """Names of tensors that lie in the same memory, at least in part."""
    found: list[set[str]] = []
    by_storage: dict[int, list[tuple[int, int, str]]] = {}
    for name, t in tensors.items():
        if t._m.numel:
            start = storage_offset(t)
            by_storage.setdefault(id(t._st), []).append((start, start + t._m.numel, name))
    for places in by_storage.values():
        end, group = -1, set[str]()
        for start, stop, name in sorted(places):
            if start >= end:
                group = {name}
                found.append(group)
            else:
                group.add(name)
            end = max(end, stop)
    return [group for group in found if len(group) > 1]
