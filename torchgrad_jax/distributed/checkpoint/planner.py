"""Plans of what each process writes or reads, and the interfaces of what makes them."""

from __future__ import annotations

import abc
import enum
import io
import math
from dataclasses import dataclass
from typing import Any

from ..._core.arrays.shapes import Size
from ..._engine.memory.tensor import Tensor
from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties

__all__ = [
    "BytesIOWriteData",
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]


class WriteItemType(enum.Enum):
    """What is written: a whole tensor, a part of one, or pickled bytes."""

    TENSOR = enum.auto()
    SHARD = enum.auto()
    BYTE_IO = enum.auto()


class LoadItemType(enum.Enum):
    """What is read: elements of a tensor, or pickled bytes."""

    TENSOR = enum.auto()
    BYTE_IO = enum.auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """How many bytes are written."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """Which part of a tensor is written.

    Args:
        chunk: the part.
        properties: of the tensor.
        size: the shape of the whole tensor.
    """

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size


@dataclass(frozen=True)
class WriteItem:
    """One thing that a process writes."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """The bytes of the whole tensor; None for what is no tensor."""
        if self.tensor_data is None:
            return None
        return math.prod(self.tensor_data.size) * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """A box of elements that goes from a part in the checkpoint to a part of what is loaded."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass(frozen=True)
class SavePlan:
    """What one process writes."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What one process reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Decides what each process writes. The methods are called in their order here."""

    @abc.abstractmethod
    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        """Begin, in every process."""

    @abc.abstractmethod
    def create_local_plan(self) -> SavePlan:
        """Return what this process could write."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Return what each process shall write, and the metadata; the coordinator decides it."""

    @abc.abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Take the decision, in every process."""

    @abc.abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The values of an item."""


class LoadPlanner:
    """Decides what each process reads. The methods are called in their order here."""

    @abc.abstractmethod
    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Begin, in every process."""

    @abc.abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """Return what this process needs."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Return what each process shall read; the coordinator decides it."""

    @abc.abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Take the decision, in every process."""

    @abc.abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Take pickled bytes."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Room for the bytes of an item.

        Raises:
            NotImplementedError: always; bytes are given to `load_bytes`.
        """
        raise NotImplementedError("LoadPlanner.resolve_bytes is not implemented")

    @abc.abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Room for the elements of an item: a tensor to copy into."""

    @abc.abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """The elements of an item have been copied."""
