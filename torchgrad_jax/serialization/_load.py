"""torch.load: torch's zip format, and the one before it."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

from .._core.arrays import devices, dtypes
from .._core.files.archive import Archive
from .._engine.memory.tensor import Storage
from .._engine.tensor.storages import handle
from ._names import DEVICE, LEGACY_PROTOCOL, MAGIC
from ._options import skips_data
from ._pickles import Machine
from ._survey import Survey
from ._tensors import Tensors
from ._unpickler import SafeUnpickler, TrustingUnpickler


class Options:
    """How a file is to be read."""

    def __init__(self, map_location: Any, weights_only: bool, allowed: dict[str, Any], rest: dict[str, Any]) -> None:
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
            said = str(e) if isinstance(e, pickle.UnpicklingError | RuntimeError) else ""
            raise pickle.UnpicklingError(
                "Weights only load failed. With `weights_only=True`, the default, a file may hold tensors, numbers, "
                "strings and containers, and nothing that runs code. If you trust where the file is from, "
                "`weights_only=False` reads everything.\n"
                f"\tWeightsUnpickler error: {said[:1000] or type(e).__name__}"
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
        raise TypeError(f"map_location should be a function, a device, a name or a dict, not {type(map_location)}")

    def called(location: str) -> devices.device:
        from .._core.arrays.meta import meta
        from .._core.arrays.transfer import put

        dev = devices.resolve("cpu")
        import numpy as np

        host = handle(Storage(put(np.zeros(0, np.uint8), dev), meta((0,), dtypes.uint8, dev)))
        answer = map_location(host, location)
        return _there(location) if answer is None else answer.device

    return called


def _there(location: str) -> devices.device:
    if not DEVICE.fullmatch(location):
        raise RuntimeError("a storage's location is no name of a device")
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


def pickle_of(f: Any) -> io.BytesIO:
    """The pickle of a checkpoint in the zip format, given by name or open."""
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            return pickle_of(file)
    start = f.tell()
    head = f.read(4)
    f.seek(start)
    if head != ZIP:
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    checkpoint = Checkpoint(f)
    if checkpoint.scripted:
        raise ValueError("Expected input to be a checkpoint returned by torch.save but got a torchscript checkpoint")
    return checkpoint.pickle()


def _load(file: Any, options: Options) -> Any:
    start = file.tell()
    head = file.read(4)
    file.seek(start)
    if not head:
        raise EOFError("Ran out of input")
    if head == ZIP:
        return _load_zip(file, options)
    return _load_legacy(file, options)


# --- zip ------------------------------------------------------------------------------------------

ZIP = b"PK\x03\x04"
_PICKLE = 1 << 32


class Checkpoint:
    """The zip archive of a checkpoint: its pickle and its storages."""

    def __init__(self, file: Any) -> None:
        self._archive = Archive(file, "PytorchStreamReader")
        names = self._archive.names()
        tops = [n[: -len("data.pkl")] for n in names if n.endswith("/data.pkl")]
        tops = [t for t in tops if t.count("/") == 1]
        if len(tops) != 1:
            said = "file not found" if not tops else "there are several"
            raise RuntimeError(f"PytorchStreamReader failed locating file data.pkl: {said}")
        self._top = tops[0]
        self.scripted = f"{self._top}constants.pkl" in names
        self._has_order = f"{self._top}byteorder" in names

    def pickle(self) -> io.BytesIO:
        """The pickle."""
        return io.BytesIO(self._archive.read(f"{self._top}data.pkl", _PICKLE))

    def storage(self, key: str, size: int) -> bytes:
        """The bytes of a storage."""
        return bytes(size) if skips_data() else self._archive.read(f"{self._top}data/{key}", size, exact=True)

    def byte_order(self) -> str:
        """`"little"` or `"big"`."""
        order = self._archive.read(f"{self._top}byteorder", 16) if self._has_order else b"little"
        if order not in (b"little", b"big"):
            raise ValueError("Unknown endianness type: " + repr(order))
        return order.decode()


def _load_zip(file: Any, options: Options) -> Any:
    checkpoint = Checkpoint(file)
    if checkpoint.scripted:
        raise RuntimeError(
            "torch.load: this is a TorchScript archive, which torchgrad_jax does not read; save the state_dict() "
            "with torch instead"
        )
    swap = checkpoint.byte_order() != sys.byteorder
    return options.unpickle(checkpoint.pickle(), Tensors(checkpoint.storage, options.place, swap))


# --- the format before ----------------------------------------------------------------------------


def _numbers(file: Any) -> Any:
    """A pickle without any object in it."""
    return Machine(file).load()


def _load_legacy(file: Any, options: Options) -> Any:
    try:
        if _numbers(file) != MAGIC:
            raise RuntimeError("Invalid magic number; corrupt file?")
        if _numbers(file) != LEGACY_PROTOCOL:
            raise RuntimeError("Invalid protocol version")
        _numbers(file)  # sizes of C's types, where the file was written
        place = file.tell()
        survey = Survey(file, bounded=options.weights_only)
        survey.load()
        raw = _storages(file, survey.item_sizes)
    except (RuntimeError, EOFError):
        raise
    except Exception as e:  # damaged pickles raise anything
        said = str(e) if isinstance(e, pickle.UnpicklingError) else type(e).__name__
        raise pickle.UnpicklingError(f"torch.load: this is no file that torch.save writes: {said}") from None
    end = file.tell()

    def read(key: str, size: int) -> bytes:
        data = raw.pop(key, b"")
        if len(data) != size:
            raise RuntimeError(f"the storage {key[:40]} has {len(data)} bytes, not {size}")
        return data

    file.seek(place)
    out = options.unpickle(file, Tensors(read, options.place, swap=sys.byteorder == "big"))
    file.seek(end)
    return out


def _storages(file: Any, item_sizes: dict[str, int]) -> dict[str, bytes]:
    """The bytes of the storages that follow the pickle, by key."""
    keys = _numbers(file)
    if type(keys) is not list or not all(type(k) is str and k in item_sizes for k in keys):
        raise RuntimeError("a list of storages was expected")
    at = file.tell()
    left = file.seek(0, io.SEEK_END) - at
    file.seek(at)
    raw: dict[str, bytes] = {}
    for key in keys:
        numel = int.from_bytes(file.read(8), "little", signed=True)
        size = numel * item_sizes[key]
        left -= 8 + size
        if numel < 0 or left < 0 or key in raw:
            raise RuntimeError("the file ends before its storages, or has one of them twice")
        raw[key] = file.read(size)
    return raw
