"""How checkpoints are written and read: what torch lets programs choose, as far as there is a choice here."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from .._core.signals import uninterrupted

_chosen = mmap.MAP_PRIVATE


def get_default_mmap_options() -> int:
    """Return what `set_default_mmap_options` chose; `mmap.MAP_PRIVATE` at first."""
    return _chosen


class set_default_mmap_options:
    """Accepted: no file stays mapped, since storages are read when their tensors are made. Also a context.

    Args:
        flags: `mmap.MAP_PRIVATE` or `mmap.MAP_SHARED`.
    """

    def __init__(self, flags: int) -> None:
        global _chosen
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                f"mmap.MAP_SHARED, but got {flags}"
            )
        self.prev, _chosen = _chosen, flags

    @uninterrupted
    def __enter__(self) -> None:
        """Nothing: constructing it did."""

    @uninterrupted
    def __exit__(self, *raised: object) -> None:
        global _chosen
        _chosen = self.prev


class skip_data:
    """A context in which `torch.save` writes zeros in the place of values, and `torch.load` reads no values.

    Args:
        materialize_fake_tensors: accepted; fake tensors have no values to write.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before = skips_data()
        _of_thread.skips = True

    @uninterrupted
    def __exit__(self, *raised: object) -> None:
        _of_thread.skips = self._before


_of_thread = threading.local()


def skips_data() -> bool:
    """Return whether this thread is inside of `skip_data`."""
    return getattr(_of_thread, "skips", False)


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


class PyTorchFileReader:
    """Refused: torch.load reads checkpoints, and no reader of their parts is public here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "torch.PyTorchFileReader is not supported: torch.load reads checkpoints (with mmap=True storages when "
            "their tensors are made)"
        )
