"""What the file `.metadata` of a checkpoint says: which tensors there are, in which parts, and where these lie."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._core.arrays import formats
from ..._core.arrays.dtypes import dtype as Dtype, get_default_dtype
from ..._core.arrays.shapes import Size
from ..._engine.memory.tensor import Tensor
from ..._engine.tensor.attributes import layout as Layout, strided_layout

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """A part of a tensor: a box.

    Args:
        offsets: its first element.
        sizes: its lengths.
    """

    offsets: Size
    sizes: Size


class _MEM_FORMAT_ENCODING(enum.Enum):
    """Memory formats, as the file has them."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2

    def __reduce_ex__(self, protocol: Any) -> Any:
        """By number with every Python; Python 3.11.0 to 3.11.3 would write `getattr` and a name."""
        return type(self), (self.value,)


_FORMATS = (formats.contiguous_format, formats.channels_last, formats.preserve_format)


@dataclass
class TensorProperties:
    """What a tensor is besides its values. torch has deprecated all of it but the dtype."""

    dtype: Dtype = field(default_factory=get_default_dtype)
    layout: Layout = field(default=strided_layout)
    requires_grad: bool = False
    memory_format: Any = field(default=formats.contiguous_format)
    pin_memory: bool = False

    def __getstate__(self) -> Any:
        number = next(i for i, f in enumerate(_FORMATS) if f is self.memory_format)
        encoded = _MEM_FORMAT_ENCODING(number)
        return self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory

    def __setstate__(self, state: Any) -> None:
        self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory = state
        self.memory_format = _FORMATS[encoded.value]

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> TensorProperties:
        """Those of a tensor."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A tensor.

    Args:
        properties: its dtype.
        size: its shape.
        chunks: the parts that are in files.
    """

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """Something that is no tensor, and is pickled."""


@dataclass
class StorageMeta:
    """Which checkpoint this is."""

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """What is in a checkpoint.

    Args:
        state_dict_metadata: each entry by its name.
        planner_data: for each name the keys that lead to it.
        storage_data: where each part lies.
        storage_meta: which checkpoint this is.
        version: of the format.
    """

    state_dict_metadata: dict[str, Any]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True, init=False)
class MetadataIndex:
    """The name of a part.

    Args:
        fqn: the name of the entry.
        offset: where the part begins, if it is a tensor's.
        index: the number of the part in its tensor's list; it says where to look first, and belongs to no comparison.
    """

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        if offset is not None:
            object.__setattr__(self, "offset", Size(offset))
