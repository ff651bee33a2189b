"""How checkpoints are written and read: what torch lets programs choose, as far as there is a choice here."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any, NoReturn

_chosen = mmap.MAP_PRIVATE


def get_default_mmap_options() -> int:
    """What `set_default_mmap_options` chose; `mmap.MAP_PRIVATE` at first."""
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

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        global _chosen
        _chosen = self.prev


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
