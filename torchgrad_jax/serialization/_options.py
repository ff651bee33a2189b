"""How checkpoints are written and read: what torch lets programs choose, as far as there is a choice here."""

from __future__ import annotations

import contextlib
import enum
import mmap
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from .. import cuda
from .._core.arrays import devices
from ._load import checked

_chosen: dict[str, Any] = {"crc32": True, "endianness": None, "mmap": mmap.MAP_PRIVATE}


class LoadEndianness(enum.Enum):
    """The byte order of storages in checkpoints that do not say it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


def get_default_load_endianness() -> LoadEndianness | None:
    """What `set_default_load_endianness` chose; None is this machine's byte order."""
    return _chosen["endianness"]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Choose the byte order of checkpoints that do not say theirs: this machine's, by whatever name.

    Raises:
        NotImplementedError: the other byte order.
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    other = LoadEndianness.BIG if sys.byteorder == "little" else LoadEndianness.LITTLE
    if endianness is other:
        raise NotImplementedError(
            f"set_default_load_endianness({endianness}): checkpoints that do not say their byte order are read in "
            "this machine's"
        )
    _chosen["endianness"] = endianness


def get_crc32_options() -> bool:
    """What `set_crc32_options` chose; True at first."""
    return _chosen["crc32"]


def set_crc32_options(compute_crc32: bool) -> None:
    """Accepted: files have right checksums in any case, which every reader takes."""
    _chosen["crc32"] = compute_crc32


def get_default_mmap_options() -> int:
    """What `set_default_mmap_options` chose; `mmap.MAP_PRIVATE` at first."""
    return _chosen["mmap"]


class set_default_mmap_options:
    """Accepted: no file stays mapped, since storages are read when their tensors are made. Also a context.

    Args:
        flags: `mmap.MAP_PRIVATE` or `mmap.MAP_SHARED`.
    """

    def __init__(self, flags: int) -> None:
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                f"mmap.MAP_SHARED, but got {flags}"
            )
        self.prev = _chosen["mmap"]
        _chosen["mmap"] = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        _chosen["mmap"] = self.prev


class skip_data:
    """Refused: checkpoints are written with their data.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        raise NotImplementedError("torch.serialization.skip_data: checkpoints without their data are not written")


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> NoReturn:
    """Refused: storages are on devices that JAX knows.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "torch.serialization.register_package: storages are saved from and restored to JAX's devices alone; "
        "`map_location` of torch.load says where"
    )


def location_tag(storage: Any) -> str:
    """Where a storage is, as checkpoints say it."""
    return str(storage.device)


def default_restore_location(storage: Any, location: str) -> Any:
    """A storage on the device that a checkpoint names.

    Raises:
        RuntimeError: there is no such device.
    """
    kind = location.partition(":")[0]
    if kind == "cuda":
        return storage.cuda(validate_cuda_device(location))
    if kind != "cpu":
        name = type(storage).__name__
        raise RuntimeError(f"don't know how to restore data location of torch.storage.{name} (tagged with {location})")
    return storage


def validate_cuda_device(location: Any) -> int:
    """The index of the GPU that a checkpoint names.

    Raises:
        RuntimeError: there is no such GPU.
    """
    checked(devices.device(location))
    index = devices.device(location).index or 0
    count = cuda.device_count()
    if index >= count:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is {count}. "
            "Please use torch.load with map_location to map your storages to an existing device."
        )
    return index


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True
) -> bool:
    """Whether a module's version is at least this one."""
    try:
        parts = module.__version__.split(".")
        own = tuple(kind(part) for kind, part in zip(map(type, req_version_tuple), parts))
    except Exception as e:
        said = f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared"
        said += f" with tuple {req_version_tuple!s}"
        if error_if_malformed:
            raise RuntimeError(said) from e
        return True
    return own >= req_version_tuple


@contextlib.contextmanager
def mkdtemp() -> Iterator[str]:
    """A folder that is there for as long as the `with` block."""
    with tempfile.TemporaryDirectory() as path:
        yield os.fspath(path)
