"""The names that torch's checkpoint format uses for storages and dtypes."""

from __future__ import annotations

import re

from .._core.arrays import dtypes

# What a file of the format before the zip files begins with.
MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001

# Names of devices that a file may use: device objects live as long as the process, so that there must not be many.
DEVICE = re.compile(r"[a-zA-Z_]{1,20}(:(\d|[1-9]\d|1[01]\d|12[0-7]))?", re.ASCII)


class StorageKind:
    """A class of storages, as a checkpoint names it: of one dtype, or of bytes."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: dtypes.dtype | None) -> None:
        self.dtype = dtype


DTYPES: dict[str, dtypes.dtype] = {
    **{d.name: d for d in dtypes.ALL},
    **{n: d for n, d in dtypes.ALIASES.items() if isinstance(d, dtypes.dtype)},
}
