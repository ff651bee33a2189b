"""torch.save: torch's zip format, which torch reads."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import struct
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._core.arrays import devices, dtypes, formats
from .._core.arrays.shapes import Size
from .._core.files.atomic import replacing
from .._core.signals import uninterrupted
from .._engine.graph.history import requires_grad_of
from .._engine.graph.hooks import warn_if_has_hooks
from .._engine.memory.concrete import fetched
from .._engine.memory.strided import storage_offset, to_flat
from .._engine.memory.tensor import Storage, Tensor
from .._engine.tensor.attributes import layout
from .._engine.tensor.storages import UntypedStorage
from .._functions.typed_storage import NAME_OF, TypedStorage
from ..nn.parameter import Parameter
from ._names import LEGACY_PROTOCOL, MAGIC
from ._options import skips_data

ALIGNMENT = 64
_PACKAGE = "torchgrad_jax"
_KEEP: set[str] = {"_core", "_engine", "_functions", "_ops", "_bridge"}


class _Global:
    """A global of torch's, by name."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> Any:
        raise AssertionError("only ever written")


_REBUILD = _Global("torch._utils", "_rebuild_tensor_v2")
_REBUILD_TYPED = _Global("torch._utils", "_rebuild_tensor_v3")
_REBUILD_META = _Global("torch._utils", "_rebuild_meta_tensor_no_storage")
_REBUILD_KIND = _Global("torch._tensor", "_rebuild_from_type_v2")
_PARAMETER = _Global("torch._utils", "_rebuild_parameter")
_PARAMETER_STATE = _Global("torch._utils", "_rebuild_parameter_with_state")


class _StorageRef:
    """A storage in the pickle; its bytes are a file of their own.

    Its dtype is that of the tensors that are saved; all may be views of another dtype than the storage was made with.
    """

    __slots__ = ("dtype", "key", "storage")

    def __init__(self, storage: Storage, dtype: dtypes.dtype, key: str) -> None:
        self.storage, self.dtype, self.key = storage, dtype, key

    def numel(self) -> int:
        """The number of elements of its dtype."""
        m = self.storage.meta
        return m.extent * m.dtype.itemsize // self.dtype.itemsize


class _Pickler(pickle._Pickler):  # the one in Python: it lets globals be renamed
    dispatch: dict[Any, Any] = dict(pickle._Pickler.dispatch)

    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        self.storages: dict[int, _StorageRef] = {}

    def _write_global(self, module: str, name: str) -> None:
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())

    def save_torch_global(self, obj: _Global) -> None:
        self._write_global(obj.module, obj.name)
        self.memoize(obj)

    def save_dtype(self, obj: dtypes.dtype) -> None:
        self._write_global("torch", obj.name)
        self.memoize(obj)

    def save_global(self, obj: Any, name: Any = None) -> None:
        """Classes and functions of this package go by the names that torch has for them."""
        module = getattr(obj, "__module__", None) or ""
        name = name or getattr(obj, "__qualname__", None) or obj.__name__
        if module == "torch" and getattr(sys.modules[_PACKAGE], name, None) is obj:
            self._write_global("torch", name)
        elif module == _PACKAGE or module.startswith(_PACKAGE + "."):
            self._write_global(_public(module, name, obj), name)
        else:
            super().save_global(obj, name)
            return
        self.memoize(obj)

    def save_type(self, obj: Any) -> None:
        if obj in (type(None), type(NotImplemented), type(...)):
            super().save_type(obj)
        else:
            self.save_global(obj)

    dispatch.update(
        {_Global: save_torch_global, dtypes.dtype: save_dtype, type: save_type, type(lambda: None): save_global}
    )

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, UntypedStorage | TypedStorage):
            return self._storage_id(obj)
        if not isinstance(obj, _StorageRef):
            return None
        numel = obj.numel()
        name, count = NAME_OF.get(obj.dtype), numel
        if name is None:
            kind, count = _Global("torch.storage", "UntypedStorage"), numel * obj.dtype.itemsize
        else:
            kind = _Global("torch", name)
        return "storage", kind, obj.key, _location(obj.storage.meta.device), count

    def _storage_id(self, storage: UntypedStorage | TypedStorage) -> Any:
        """A storage that the user holds: one without a dtype is bytes."""
        st, count, dtype = storage.untyped()._storage, storage.size(), dtypes.uint8
        if isinstance(storage, TypedStorage):
            kind, dtype = _Global("torch", storage.pickle_storage_type()), storage.dtype
        else:
            kind = _Global("torch.storage", "UntypedStorage")
        ref = self.ref(st, dtype)
        return "storage", kind, ref.key, _location(st.meta.device), count

    def ref(self, st: Storage, dtype: dtypes.dtype) -> _StorageRef:
        found = self.storages.get(id(st))
        if found is None:
            if isinstance(st.array, jax.core.Tracer):
                raise RuntimeError("torch.save: a tensor that is being traced has no values to save")
            found = self.storages[id(st)] = _StorageRef(st, dtype, str(len(self.storages)))
        if dtype is not found.dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        return found

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Parameter) and type(obj).__reduce_ex__ is Parameter.__reduce_ex__:
            return self._parameter(obj)
        if isinstance(obj, Tensor) and type(obj).__reduce_ex__ is Tensor.__reduce_ex__:
            return self._tensor(obj)
        if isinstance(obj, devices.device):
            parts = (obj.type,) if obj.index is None else (obj.type, obj.index)
            return _Global("torch", "device"), parts
        if isinstance(obj, Size):
            return _Global("torch", "Size"), (tuple(obj),)
        if isinstance(obj, formats.memory_format | layout):
            return _Global("torch.serialization", "_get_layout"), (str(obj),)
        return NotImplemented

    def _parameter(self, p: Any) -> Any:
        kind, state = type(p), dict(p.__dict__)
        if kind is not Parameter and type(p.data) is Tensor:
            state = state or {}
            return _REBUILD_KIND, (_PARAMETER, kind, (p.data, p.requires_grad, OrderedDict()), state)
        if state:
            return _PARAMETER_STATE, (p.data, p.requires_grad, OrderedDict(), state)
        return _PARAMETER, (p.data, p.requires_grad, OrderedDict())

    def _tensor(self, t: Any) -> Any:
        warn_if_has_hooks(t)
        func, args = self._plain(t)
        if type(t) is Tensor and not t.__dict__:
            return func, args
        return _REBUILD_KIND, (func, type(t), args, dict(t.__dict__))

    def _plain(self, t: Any) -> tuple[_Global, tuple[Any, ...]]:
        m, al, needs = t._m, t._al, requires_grad_of(t)
        if m.device.type == "meta":
            return _REBUILD_META, (m.dtype, tuple(m.shape), tuple(m.strides), needs)
        place = (storage_offset(t), tuple(m.shape), tuple(m.strides), needs, OrderedDict())
        ref = self.ref(t._st, m.dtype)
        bits = {n: True for n in ("conj", "neg") if al is not None and getattr(al, n)}
        if m.dtype not in NAME_OF:
            return _REBUILD_TYPED, (ref, *place, m.dtype)
        return _REBUILD, (ref, *place, *([bits] if bits else []))


class _LegacyPickler(_Pickler):
    """The same, whose storages are named as they were before the zip format."""

    def persistent_id(self, obj: Any) -> Any:
        found = super().persistent_id(obj)
        if found is not None and found[1].name == "UntypedStorage":
            raise NotImplementedError(
                "torch.save: dtypes and storages without a class of their own need the zip format"
            )
        return None if found is None else (*found, None)


def _public(module: str, name: str, obj: Any) -> str:
    """The module under which torch has something of this package."""
    inner = module[len(_PACKAGE) + 1 :]
    if inner.partition(".")[0] in _KEEP:  # reachable at the top, as Tensor is, or not at all
        top = sys.modules[_PACKAGE]
        if getattr(top, name, None) is obj:
            return "torch"
        return module
    return f"torch.{inner}".rstrip(".")


def _location(dev: devices.device) -> str:
    return "cpu" if dev.type == "cpu" else f"{dev.type}:{dev.index or 0}"


def _bytes_of(st: Storage) -> Any:
    if skips_data():
        return bytes(st.meta.extent * st.meta.dtype.itemsize)
    flat = np.ascontiguousarray(fetched(to_flat(st.array, st.meta)))
    if sys.byteorder == "big":
        flat = flat.byteswap()
    return flat.view(np.uint8).data if flat.size else b""


class _Archive:
    """A zip file whose members are stored as they are, at aligned places, as torch's are."""

    def __init__(self, file: Any, top: str) -> None:
        self.zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self.top = top
        self.digest = hashlib.sha1(usedforsecurity=False)

    def add(self, name: str, data: Any) -> None:
        info = zipfile.ZipInfo(f"{self.top}/{name}", date_time=(1980, 1, 1, 0, 0, 0))
        start = self.zip.start_dir + 30 + len(info.filename.encode())
        padding = -(start + 4) % ALIGNMENT
        info.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
        self.digest.update(data)
        self.zip.writestr(info, data)

    def __enter__(self) -> _Archive:
        return self

    @uninterrupted
    def __exit__(self, *raised: object) -> None:
        try:
            self.zip.close()
        except Exception:
            # Of a file that failed before; without the call it is made when the archive is freed.
            if raised[0] is None:
                raise


def save_to(obj: Any, f: Any, protocol: int, zipped: bool = True) -> None:
    """Write an object with its tensors: to a path as a file that is there whole or not at all."""
    if not isinstance(f, str | os.PathLike):
        if not callable(getattr(f, "write", None)):
            raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
        _written(obj, protocol, zipped, "archive")(f)
        return
    path = os.fspath(f)
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    write = _written(obj, protocol, zipped, Path(path).stem or "archive")
    with replacing(path) as file:
        write(file)


def _written(obj: Any, protocol: int, zipped: bool, top: str) -> Callable[[Any], None]:
    """Return what writes an object to a file. The object is pickled first: one that cannot be leaves no file open."""
    buffer = io.BytesIO()
    pickler = (_Pickler if zipped else _LegacyPickler)(buffer, protocol)
    pickler.dump(obj)
    refs = list(pickler.storages.values())
    if zipped:
        return lambda file: _write(file, top, buffer.getvalue(), refs)
    return lambda file: _write_legacy(file, buffer.getvalue(), refs, protocol)


def _write_legacy(file: Any, pickled: Any, refs: list[_StorageRef], protocol: int) -> None:
    """The format before the zip files: pickles one after the other, then the storages."""
    sizes = {"short": 2, "int": 4, "long": 4}
    system = {"protocol_version": LEGACY_PROTOCOL, "little_endian": True, "type_sizes": sizes}
    for fact in (MAGIC, LEGACY_PROTOCOL, system):
        pickle.dump(fact, file, protocol=protocol)
    file.write(pickled)
    refs = sorted(refs, key=lambda ref: ref.key)
    pickle.dump([ref.key for ref in refs], file, protocol=protocol)
    for ref in refs:
        file.write(struct.pack("<q", ref.numel()))
        file.write(_bytes_of(ref.storage))


def _write(file: Any, top: str, pickled: Any, refs: list[_StorageRef]) -> None:
    with _Archive(file, top) as archive:
        archive.add("data.pkl", pickled)
        archive.add(".format_version", b"1")
        archive.add(".storage_alignment", str(ALIGNMENT).encode())
        archive.add("byteorder", b"little")
        for ref in refs:
            archive.add(f"data/{ref.key}", _bytes_of(ref.storage))
        archive.add("version", b"3\n")
        number = int.from_bytes(archive.digest.digest(), "big") % 10**40
        archive.add(".data/serialization_id", f"{number:040d}".encode())
