"""Files of the safetensors format, written and read without trusting what they say.

A file is the length of a header, the header, which is JSON and says where each tensor lies, and the
bytes of the tensors. Nothing in it can run. A reader has to check that what the header says is
true: here every byte behind the header belongs to exactly one tensor, as the format demands.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from .._core import devices, dtypes
from .._engine.record import concrete
from .._engine.strided import storage_offset
from .._engine.tensor import Tensor
from .._functions.fresh import from_host
from ._tensors import _values

MAX_HEADER = 100_000_000
"""Bytes that a header may have."""

_MAX_DIMS = 64
_LITTLE = sys.byteorder == "little"

# In the order of the format's own list, which is the order of tensors in a file, last ones first.
_DTYPES: dict[str, tuple[dtypes.dtype | None, int]] = {
    "BOOL": (dtypes.bool_, 8), "F4": (None, 4), "F6_E2M3": (None, 6), "F6_E3M2": (None, 6), "U8": (dtypes.uint8, 8),
    "I8": (dtypes.int8, 8), "F8_E5M2": (dtypes.float8_e5m2, 8), "F8_E4M3": (dtypes.float8_e4m3fn, 8),
    "F8_E8M0": (dtypes.float8_e8m0fnu, 8), "F8_E4M3FNUZ": (dtypes.float8_e4m3fnuz, 8),
    "F8_E5M2FNUZ": (dtypes.float8_e5m2fnuz, 8), "I16": (dtypes.int16, 16), "U16": (dtypes.uint16, 16),
    "F16": (dtypes.float16, 16), "BF16": (dtypes.bfloat16, 16), "I32": (dtypes.int32, 32), "U32": (dtypes.uint32, 32),
    "F32": (dtypes.float32, 32), "C64": (dtypes.complex64, 64), "F64": (dtypes.float64, 64),
    "I64": (dtypes.int64, 64), "U64": (dtypes.uint64, 64),
}  # fmt: skip
_NAMES = {dtype: name for name, (dtype, _) in _DTYPES.items() if dtype is not None}
_RANKS = {name: -i for i, name in enumerate(_DTYPES)}


class SafetensorError(Exception):
    """A file that is damaged, or is no file of this format."""


@dataclass(frozen=True)
class _Entry:
    """Where a tensor lies behind the header, and what it is."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class _Header:
    entries: dict[str, _Entry]
    """In the order in which they lie in the file."""
    metadata: dict[str, str] | None
    length: int
    """Bytes before the first tensor."""


# --- reading a header -----------------------------------------------------------------------------


def _wrong(said: str) -> SafetensorError:
    return SafetensorError(f"Error while deserializing header: {said}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; readers differ in which of two values of one name they take."""
    out = dict(pairs)
    if len(out) != len(pairs):
        raise _wrong("a name occurs twice")
    return out


def _constant(name: str) -> Any:
    raise _wrong(f"invalid JSON in header: {name}")


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as e:
        raise _wrong(f"invalid UTF-8 in header: {e.reason} at byte {e.start}") from None
    try:
        out = json.loads(text, object_pairs_hook=_unique, parse_constant=_constant)
    except RecursionError:
        raise _wrong("invalid JSON in header: nested too deeply") from None
    except ValueError as e:  # malformed, or a number of too many digits
        raise _wrong(f"invalid JSON in header: {str(e)[:200]}") from None
    if type(out) is not dict:
        raise _wrong("invalid JSON in header: expected an object")
    return out


def _metadata(found: Any) -> dict[str, str] | None:
    if found is None:
        return None
    if type(found) is not dict or not all(type(v) is str for v in found.values()):
        raise _wrong("invalid JSON in header: __metadata__ has to be an object of strings")
    return found


def _naturals(found: Any, name: str, what: str) -> list[int]:
    if type(found) is not list or not all(type(n) is int and 0 <= n < 2**64 for n in found):
        raise _wrong(
            f"invalid JSON in header: {what} of tensor `{name[:100]}` has to be a list of sizes"
        )
    return found


def _entry(name: str, found: Any) -> _Entry:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise _wrong("invalid JSON in header: half of a surrogate pair in a name") from None
    if type(found) is not dict or not {"dtype", "shape", "data_offsets"} <= set(found):
        raise _wrong(
            f"invalid JSON in header: tensor `{name[:100]}` has to have dtype, shape and data_offsets"
        )
    dtype = found["dtype"]
    if type(dtype) is not str or dtype not in _DTYPES:
        raise _wrong(
            f"invalid JSON in header: unknown dtype {str(dtype)[:50]!r} of tensor `{name[:100]}`"
        )
    shape = _naturals(found["shape"], name, "shape")
    offsets = _naturals(found["data_offsets"], name, "data_offsets")
    if len(offsets) != 2 or len(shape) > _MAX_DIMS:
        raise _wrong(f"invalid shape, data type, or offset for tensor `{name[:100]}`")
    return _Entry(dtype, tuple(shape), offsets[0], offsets[1])


def _check_size(name: str, entry: _Entry) -> None:
    bits = 1
    for n in (*entry.shape, _DTYPES[entry.dtype][1]):
        bits *= n
        if bits >= 2**64:
            raise _wrong("overflow computing buffer size from shape and/or element type")
    if bits % 8 or bits // 8 != entry.stop - entry.start:
        raise _wrong(f"invalid shape, data type, or offset for tensor `{name[:100]}`")


def _header_of(raw: bytes, length: int, behind: int) -> _Header:
    """What a header says, if it fits the number of bytes behind it."""
    found = _parsed(raw)
    metadata = _metadata(found.pop("__metadata__", None))
    entries = {name: _entry(name, e) for name, e in found.items()}
    entries = dict(sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)))
    at = 0
    for name, entry in entries.items():
        # No holes, no overlaps: what two readers see of the file is the same.
        if entry.start != at or entry.stop < at:
            raise _wrong(f"invalid offset for tensor `{name[:100]}`")
        _check_size(name, entry)
        at = entry.stop
    if at != behind:
        raise _wrong("incomplete metadata, file not fully covered")
    return _Header(entries, metadata, length)


def _read_header(file: BinaryIO) -> _Header:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    first = file.read(8)
    if len(first) < 8:
        raise _wrong("header too small")
    n = int.from_bytes(first, "little")
    if n > MAX_HEADER:
        raise _wrong("header too large")
    if n > size - 8:
        raise _wrong("invalid header length")
    return _header_of(_read(file, 8, n), 8 + n, size - 8 - n)


def _read(file: BinaryIO, at: int, n: int) -> bytes:
    file.seek(at)
    raw = file.read(n)
    if len(raw) != n:
        raise _wrong("the file became shorter while it was read")
    return raw


# --- reading tensors ------------------------------------------------------------------------------


def _tensor(name: str, dtype: str, shape: tuple[int, ...], raw: bytes, dev: Any) -> Tensor:
    known = _DTYPES[dtype][0]
    if known is None:
        raise SafetensorError(f"tensor `{name[:100]}` is of dtype {dtype}, which is not supported")
    try:
        values = _values(raw, known, swap=not _LITTLE).reshape(shape)
    except ValueError:  # no elements, and more in one dimension than an array may count
        raise _wrong(f"invalid shape, data type, or offset for tensor `{name[:100]}`") from None
    return from_host(values, dev)


class _Slice:
    """A tensor of a file of which parts can be read: `f.get_slice(name)[2:4, 0]`."""

    def __init__(self, owner: safe_open, name: str) -> None:
        self._owner, self._name, self._entry = owner, name, owner._entry(name)

    def get_shape(self) -> list[int]:
        """Sizes of the whole tensor."""
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        """The dtype by its name in the format."""
        return self._entry.dtype

    def __getitem__(self, index: Any) -> Tensor:
        key = index if isinstance(index, tuple) else (index,)
        shape = self._entry.shape
        if not (shape and key and isinstance(key[0], slice)):
            whole: Any = self._owner.get_tensor(self._name)
            return whole[index]
        # Only the rows that are asked for are read.
        start, stop, step = key[0].indices(shape[0])
        if step <= 0:
            raise SafetensorError(f"slices with a step of {step} are not supported")
        rows: Any = self._owner._rows(self._name, start, max(start, stop))
        return rows[(slice(None, None, step), *key[1:])]


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
        if framework not in ("pt", "torch", "pytorch", "np", "numpy"):
            raise SafetensorError(f"framework {framework} is invalid")
        self._arrays = framework in ("np", "numpy")
        self._device = devices.resolve(device)
        # Closed by `__exit__`.
        self._file: BinaryIO | None = open(os.fspath(filename), "rb")  # noqa: SIM115
        try:
            self._header = _read_header(self._file)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _open(self) -> BinaryIO:
        if self._file is None:
            raise SafetensorError("File is closed")
        return self._file

    def _entry(self, name: str) -> _Entry:
        self._open()
        if name not in self._header.entries:
            raise SafetensorError(f"File does not contain tensor {name}")
        return self._header.entries[name]

    def keys(self) -> list[str]:
        """Names of the tensors, sorted."""
        self._open()
        return sorted(self._header.entries)

    def offset_keys(self) -> list[str]:
        """Names of the tensors, as they lie in the file."""
        self._open()
        return list(self._header.entries)

    def metadata(self) -> dict[str, str] | None:
        """What the writer said besides."""
        self._open()
        return self._header.metadata

    def get_tensor(self, name: str) -> Any:
        """One tensor."""
        entry = self._entry(name)
        raw = _read(self._open(), self._header.length + entry.start, entry.stop - entry.start)
        return self._made(name, entry, entry.shape, raw)

    def get_slice(self, name: str) -> Any:
        """One tensor, to be indexed: rows that are not asked for are not read."""
        return _Slice(self, name)

    def _rows(self, name: str, start: int, stop: int) -> Any:
        entry = self._entry(name)
        n, *rest = entry.shape
        size = (entry.stop - entry.start) // n if n else 0
        raw = _read(
            self._open(), self._header.length + entry.start + start * size, (stop - start) * size
        )
        return self._made(name, entry, (stop - start, *rest), raw)

    def _made(self, name: str, entry: _Entry, shape: tuple[int, ...], raw: bytes) -> Any:
        out = _tensor(name, entry.dtype, shape, raw, devices.CPU if self._arrays else self._device)
        return concrete(out) if self._arrays else out


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file that is in memory.

    Raises:
        SafetensorError: it is damaged.
    """
    file = io.BytesIO(data)
    return _all(file, devices.CPU)


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors of a file.

    Args:
        filename: its path.
        device: where they go.

    Raises:
        SafetensorError: the file is damaged.
    """
    dev = devices.resolve(device)
    with open(os.fspath(filename), "rb") as file:
        return _all(file, dev)


def _all(file: BinaryIO, dev: Any) -> dict[str, Tensor]:
    header = _read_header(file)
    return {
        name: _tensor(
            name, e.dtype, e.shape, _read(file, header.length + e.start, e.stop - e.start), dev
        )
        for name, e in header.entries.items()
    }


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
    return b"".join(_pieces(tensors, metadata))


def save_file(
    tensors: Mapping[str, Tensor], filename: Any, metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors to a file, which is there whole or not at all.

    Args:
        tensors: by name; contiguous, and none of them in the memory of another.
        filename: its path.
        metadata: strings to write besides.
    """
    path = os.fspath(filename)
    pieces = _pieces(tensors, metadata)
    beside = f"{path}.{secrets.token_hex(4)}.tmp"
    try:
        with open(beside, "xb") as file:
            file.writelines(pieces)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(beside)
        raise


def _pieces(tensors: Any, metadata: Any) -> Iterator[bytes]:
    """The bytes of a file, a header and then one tensor after the other."""
    _check(tensors)
    dtype = {name: _NAMES[t._m.dtype] for name, t in tensors.items()}
    order = sorted(tensors, key=lambda name: (_RANKS[dtype[name]], name))
    header: dict[str, Any] = {}
    if metadata is not None:
        if not all(isinstance(x, str) for item in metadata.items() for x in item):
            raise TypeError("metadata has to be a dict of strings")
        header["__metadata__"] = dict(metadata)
    at = 0
    for name in order:
        m = tensors[name]._m
        stop = at + m.numel * m.dtype.itemsize
        header[name] = {"dtype": dtype[name], "shape": list(m.shape), "data_offsets": [at, stop]}
        at = stop
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that tensors are aligned
    if len(text) > MAX_HEADER:
        raise SafetensorError("Error while serializing: header too large")
    arrays = (_bytes(tensors[name]) for name in order)
    return (piece for part in ((len(text).to_bytes(8, "little"), text), arrays) for piece in part)


def _bytes(t: Any) -> bytes:
    values = concrete(t)
    return (values if _LITTLE else values.byteswap()).tobytes()


def _check(tensors: Any) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, t in tensors.items():
        if not isinstance(t, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(t)}")  # fmt: skip
        if not isinstance(name, str) or name == "__metadata__":
            raise TypeError(f"{name!r} cannot be the name of a tensor")
        if t._m.dtype not in _NAMES:
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
