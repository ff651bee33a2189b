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


STORAGES: dict[str, dtypes.dtype] = {
    "FloatStorage": dtypes.float32,
    "DoubleStorage": dtypes.float64,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "ShortStorage": dtypes.int16,
    "IntStorage": dtypes.int32,
    "LongStorage": dtypes.int64,
    "BoolStorage": dtypes.bool_,
    "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
}
STORAGE_OF: dict[dtypes.dtype, str] = {d: name for name, d in STORAGES.items()}
DTYPES: dict[str, dtypes.dtype] = {
    **{d.name: d for d in dtypes.ALL},
    **{n: d for n, d in dtypes.ALIASES.items() if isinstance(d, dtypes.dtype)},
}
