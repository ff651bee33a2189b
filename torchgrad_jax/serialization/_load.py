"""torch.load: torch's zip format, and the one before it."""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable
from typing import Any

from .._core import devices, dtypes
from .._engine.storages import handle
from .._engine.tensor import Storage
from ._names import LEGACY_PROTOCOL, MAGIC, STORAGES
from ._tensors import Tensors
from ._unpickler import SafeUnpickler, TrustingUnpickler


class Options:
    """How a file is to be read."""

    def __init__(
        self, map_location: Any, weights_only: bool, allowed: dict[str, Any], rest: dict[str, Any]
    ) -> None:
        self.place = _placer(map_location)
        self.weights_only, self.allowed, self.rest = weights_only, allowed, rest

    def unpickle(self, file: Any, tensors: Tensors) -> Any:
        if not self.weights_only:
            tensors.trusted = True
            found = TrustingUnpickler(file, tensors, **{"encoding": "utf-8", **self.rest}).load()
            tensors.hand_out()
            return found
        try:
            found = SafeUnpickler(file, tensors, self.allowed).load()
            tensors.hand_out()
            return found
        except Exception as e:  # damaged pickles raise anything
            raise pickle.UnpicklingError(
                "Weights only load failed. With `weights_only=True`, the default, a file may hold tensors, numbers, "
                "strings and containers, and nothing that runs code. If you trust where the file is from, "
                "`weights_only=False` reads everything.\n"
                f"\tWeightsUnpickler error: {str(e) or type(e).__name__}"
            ) from (e if not isinstance(e, pickle.UnpicklingError) else None)


def _placer(map_location: Any) -> Callable[[str], devices.device]:
    """Where storages go, given where they were."""
    if map_location is None:
        return _there
    if isinstance(map_location, str | devices.device):
        dev = checked(devices.resolve(map_location))
        return lambda location: dev
    if isinstance(map_location, dict):
        return lambda location: _there(str(map_location.get(location, location)))
    if not callable(map_location):
        raise TypeError(
            f"map_location should be a function, a device, a name or a dict, not {type(map_location)}"
        )

    def called(location: str) -> devices.device:
        from .._core.meta import meta
        from .._core.transfer import put

        dev = devices.resolve("cpu")
        import numpy as np

        host = handle(Storage(put(np.zeros(0, np.uint8), dev), meta((0,), dtypes.uint8, dev)))
        answer = map_location(host, location)
        return _there(location) if answer is None else answer.device

    return called


def _there(location: str) -> devices.device:
    return checked(devices.resolve(location))


def checked(dev: devices.device) -> devices.device:
    if dev.type == "meta":
        return dev
    try:
        devices.to_jax(dev)
    except RuntimeError:
        if dev.type != "cuda":
            raise
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
            "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your "
            "storages to the CPU."
        ) from None
    return dev


def load_from(f: Any, options: Options) -> Any:
    """The object in a file, given by name or open."""
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            return _load(file, options)
    if not callable(getattr(f, "read", None)):
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute 'seek'. You can only torch.load from a file that is "
            "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    return _load(f, options)


def _load(file: Any, options: Options) -> Any:
    start = file.tell()
    head = file.read(4)
    file.seek(start)
    if not head:
        raise EOFError("Ran out of input")
    if head == b"PK\x03\x04":
        if start:
            file = io.BytesIO(file.read())
        return _load_zip(file, options)
    return _load_legacy(file, options)


# --- zip ------------------------------------------------------------------------------------------


def _load_zip(file: Any, options: Options) -> Any:
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, struct.error, OverflowError) as e:
        raise RuntimeError(f"PytorchStreamReader failed reading zip archive: {e}") from None
    with archive:
        tops = {n[: -len("data.pkl")] for n in archive.namelist() if n.endswith("/data.pkl")}
        tops = {t for t in tops if t.count("/") == 1}
        if len(tops) != 1:
            raise RuntimeError("PytorchStreamReader failed locating file data.pkl: file not found")
        top = tops.pop()
        if f"{top}constants.pkl" in archive.namelist():
            raise RuntimeError(
                "torch.load: this is a TorchScript archive, which torchgrad_jax does not read; save the state_dict() "
                "with torch instead"
            )
        order = (
            _member(archive, f"{top}byteorder", 16)
            if f"{top}byteorder" in archive.namelist()
            else b"little"
        )
        if order not in (b"little", b"big"):
            raise ValueError("Unknown endianness type: " + repr(order))

        def read(key: str, size: int) -> bytes:
            return _member(archive, f"{top}data/{key}", size, exact=True)

        pickled = _member(archive, f"{top}data.pkl", 1 << 32)
        tensors = Tensors(read, options.place, swap=order.decode() != sys.byteorder)
        return options.unpickle(io.BytesIO(pickled), tensors)


def _member(archive: zipfile.ZipFile, name: str, limit: int, exact: bool = False) -> bytes:
    """A member's bytes; its size is looked at before anything is read."""
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise RuntimeError(
            f"PytorchStreamReader failed locating file {name}: file not found"
        ) from None
    if info.file_size > limit or (exact and info.file_size < limit):
        raise RuntimeError(f"{name} holds {info.file_size} bytes where {limit} were expected")
    if info.flag_bits & 1:
        raise RuntimeError(f"{name} is encrypted")
    try:
        with archive.open(info) as member:
            data = member.read(limit)
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        ValueError,
        EOFError,
        OSError,
        struct.error,
    ) as e:
        raise RuntimeError(f"PytorchStreamReader failed reading file {name}: {e}") from None
    except Exception as e:  # zlib.error and its kin, of compressed members
        raise RuntimeError(f"PytorchStreamReader failed reading file {name}: {e}") from None
    if len(data) != info.file_size:
        raise RuntimeError(f"{name} is shorter than it says")
    return data


# --- the format before ----------------------------------------------------------------------------


class _Anything:
    """Takes whatever a pickle does to an object."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __setstate__(self, state: Any) -> None: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def append(self, value: Any) -> None: ...
    def extend(self, values: Any) -> None: ...
    def add(self, value: Any) -> None: ...
    def __call__(self, *args: Any) -> Any:
        return self


class _Skimmer(pickle._Unpickler):
    """Reads past a pickle, and notes the storages in it: their bytes come after it in the file."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, encoding="utf-8")
        self.sizes: dict[str, int] = {}

    def find_class(self, module: str, name: str) -> Any:
        return STORAGES.get(name, _Anything) if module.startswith("torch") else _Anything

    def persistent_load(self, pid: Any) -> Any:
        if isinstance(pid, tuple) and len(pid) > 2 and isinstance(pid[1], dtypes.dtype):
            self.sizes[str(pid[2])] = pid[1].itemsize
        return _Anything()


def _numbers(file: Any) -> Any:
    """A pickle without any object in it."""
    return SafeUnpickler(file, Tensors(_nothing, _there), {}).load()


def _nothing(key: str, size: int) -> bytes:
    raise pickle.UnpicklingError("no storages here")


def _load_legacy(file: Any, options: Options) -> Any:
    try:
        if _numbers(file) != MAGIC:
            raise RuntimeError("Invalid magic number; corrupt file?")
        if _numbers(file) != LEGACY_PROTOCOL:
            raise RuntimeError("Invalid protocol version")
        _numbers(file)  # sizes of C's types, where the file was written
        place = file.tell()
        skimmer = _Skimmer(file)
        skimmer.load()
        keys = _numbers(file)
        raw: dict[str, bytes] = {}
        if type(keys) is not list or not all(type(k) is str and k in skimmer.sizes for k in keys):
            raise RuntimeError("a list of storages was expected")
        for key in keys:
            (numel,) = struct.unpack("<q", file.read(8))
            raw[key] = file.read(max(numel, 0) * skimmer.sizes[key])
    except (RuntimeError, EOFError):
        raise
    except Exception as e:  # damaged pickles raise anything
        raise pickle.UnpicklingError(
            f"torch.load: this is no file that torch.save writes: {e}"
        ) from None
    end = file.tell()

    def read(key: str, size: int) -> bytes:
        data = raw.get(key, b"")
        if len(data) != size:
            raise RuntimeError(f"the storage {key[:40]} has {len(data)} bytes, not {size}")
        return data

    file.seek(place)
    out = options.unpickle(file, Tensors(read, options.place, swap=sys.byteorder == "big"))
    file.seek(end)
    return out
