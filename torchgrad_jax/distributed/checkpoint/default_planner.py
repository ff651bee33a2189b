"""The plans that are made where nobody asks for others: each part is written once, and read where it is needed."""

from __future__ import annotations

import dataclasses
import io
import logging
import math
from typing import Any

from ..._core.arrays.shapes import Size
from ..._engine.memory.tensor import Tensor
from ..._functions.create import empty, empty_like
from ...serialization import load, save
from . import _chunks
from ._flat import flatten_state_dict, set_element
from .metadata import (
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]

logger = logging.getLogger(__name__)


# --- writing --------------------------------------------------------------------------------------


def _writes(fqn: str, value: Any) -> list[WriteItem]:
    """Return what there is to write of an entry."""
    if not isinstance(value, Tensor):
        return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)]
    kind = WriteItemType.SHARD if _chunks.is_split(value) else WriteItemType.TENSOR
    properties, size = TensorProperties.create_from_tensor(value), Size(value.shape)
    return [
        WriteItem(MetadataIndex(fqn, c.offsets), kind, tensor_data=TensorWriteData(c, properties, size))
        for c in _chunks.chunks_of(value)
    ]


def _without_doubles(plans: list[SavePlan], lowest: bool) -> list[SavePlan]:
    """What several processes could write is written by the one that has least to write so far, or by the lowest."""
    owners: dict[MetadataIndex, list[int]] = {}
    sizes: dict[MetadataIndex, int] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            owners.setdefault(item.index, []).append(rank)
            sizes[item.index] = item.tensor_storage_size() or 1
    load, chosen = [0] * len(plans), dict[MetadataIndex, int]()
    for index, ranks in owners.items():
        rank = min(ranks) if lowest else min(ranks, key=lambda r: load[r])
        chosen[index] = rank
        load[rank] += sizes[index]
    return [
        dataclasses.replace(plan, items=[i for i in plan.items if chosen[i.index] == rank])
        for rank, plan in enumerate(plans)
    ]


def _described(all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
    """The metadata of what the plans write; each item learns its number among the parts of its tensor."""
    described: dict[str, Any] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            fqn, data = item.index.fqn, item.tensor_data
            if data is None:
                described[fqn] = BytesStorageMetadata()
            else:
                new = TensorStorageMetadata(data.properties, data.size, [])
                parts = described.setdefault(fqn, new).chunks
                index = dataclasses.replace(item.index, offset=item.index.offset, index=len(parts))
                item = dataclasses.replace(item, index=index)
                parts.append(data.chunk)
            items.append(item)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(described)


def _complaints(metadata: Metadata, together: bool) -> list[str]:
    """What is wrong with parts of tensors: one lies outside, two overlap, or, of all processes', some are missing."""
    found = []
    for key, value in metadata.state_dict_metadata.items():
        if isinstance(value, BytesStorageMetadata) or not len(value.size):
            continue
        outside = [c for c in value.chunks if not _chunks.is_inside(c, value.size)]
        found += [f"key:{key} has out of bounds chunk: tensor-size:{value.size} chunk: {c}" for c in outside]
        if pair := _chunks.overlaps(value.chunks):
            found.append(f"key:{key} has overlapping chunks: {pair[1]} {pair[0]}")
        there, whole = sum(math.prod(c.sizes) for c in value.chunks), math.prod(value.size)
        if together and there != whole:
            found.append(f"key:{key} invalid fill tensor-volume: {whole} chunks-volume: {there}")
    return found


class DefaultSavePlanner(SavePlanner):
    """Each process writes its parts; what all have is shared out among them.

    Args:
        flatten_state_dict: whether nested dictionaries become one with names joined by dots.
        flatten_sharded_tensors: as in torch; there are no such tensors here.
        dedup_replicated_tensors: deprecated in torch, where it has no effect either.
        dedup_save_to_lowest_rank: whether the lowest rank writes what several have, instead of sharing it out.
        enable_plan_caching: accepted; plans are made again each time.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict, self.flatten_sharded_tensors = (flatten_state_dict, flatten_sharded_tensors)
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings: dict[str, Any] = {}
        if dedup_replicated_tensors is not None:
            logger.warning(
                "DefaultSavePlanner's `dedup_replicated_tensors` argument is being deprecated, and no longer has any "
                "effect. Please remove this argument from your call."
            )

    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        """Take what is saved."""
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        """All that this process could write."""
        plan = SavePlan([item for fqn, value in self.state_dict.items() for item in _writes(fqn, value)])
        if self.flatten_state_dict:
            plan = dataclasses.replace(plan, planner_data=self.mappings)
        self.plan = plan
        return plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Return what each process writes.

        Raises:
            ValueError: the parts of a tensor overlap, or do not make up all of it.
        """
        plans = _without_doubles(all_plans, self.dedup_save_to_lowest_rank)
        plans, metadata = _described(plans)
        if self.flatten_state_dict:
            metadata.planner_data = {k: v for p in reversed(plans) for k, v in p.planner_data.items()}
        if wrong := _complaints(metadata, len(plans) > 1):
            raise ValueError(f"Failed to validate global plan: {'; '.join(wrong)[:500]}")
        self.global_plan, self.metadata = plans, metadata
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Take the decision."""
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The values of an item."""
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """An entry, or the part of a tensor."""
        if index.fqn not in self.state_dict:
            raise ValueError(f"Could not find FQN: '{index.fqn}'")
        value = self.state_dict[index.fqn]
        return _chunks.part_at(value, index) if isinstance(value, Tensor) else value

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """Return what is no tensor, pickled."""
        if write_item.type == WriteItemType.BYTE_IO:
            file = io.BytesIO()
            save(object, file)
            return file
        return object


# --- reading --------------------------------------------------------------------------------------


def _local_load_plan(state_dict: dict[str, Any], metadata: Metadata, strict: bool) -> LoadPlan:
    """Return what this process needs for a flat dictionary.

    Raises:
        RuntimeError: an entry is not in the checkpoint.
        ValueError: a tensor has another shape there, or is none.
    """
    items: list[ReadItem] = []
    for fqn, value in state_dict.items():
        if fqn in metadata.state_dict_metadata:
            items += _reads(fqn, metadata.state_dict_metadata[fqn], value)
        elif strict:
            raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")
    return LoadPlan(items)


def _reads(fqn: str, saved: Any, value: Any) -> list[ReadItem]:
    if isinstance(saved, BytesStorageMetadata):
        nowhere, index = Size((0,)), MetadataIndex(fqn)
        return [ReadItem(LoadItemType.BYTE_IO, index, nowhere, index, nowhere, nowhere)]
    if not isinstance(value, Tensor):
        raise ValueError(
            f"Invalid checkpoint metadata for {fqn}, expected BytesStorageMetadata but found {type(saved)}"
        )
    if saved.size != value.size():
        raise ValueError(f"Size mismatch between saved {saved.size} and current: {value.size()} for {fqn}")
    return list(_chunks.reads(fqn, saved.chunks, _chunks.chunks_of(value)))


class DefaultLoadPlanner(LoadPlanner):
    """Each process reads its parts, into the tensors that are there.

    Args:
        flatten_state_dict: whether nested dictionaries become one with names joined by dots.
        flatten_sharded_tensors: as in torch; there are no such tensors here.
        allow_partial_load: whether entries may be missing in the checkpoint; they stay as they are.
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ) -> None:
        self.flatten_state_dict, self.flatten_sharded_tensors = (flatten_state_dict, flatten_sharded_tensors)
        self.allow_partial_load = allow_partial_load
        self.original_state_dict: dict[str, Any] = {}
        self.mappings: dict[str, Any] = {}
        self._items: dict[str, list[ReadItem]] = {}
        self._rooms: dict[str, _chunks.Room] = {}

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Take what is loaded into; tensors on the meta device are replaced by tensors on the CPU."""
        _with_memory(state_dict)
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """Return what this process needs."""
        assert self.metadata is not None
        there = self.metadata.state_dict_metadata
        if self.flatten_state_dict and there.keys() - self.state_dict.keys():
            flat, mappings = flatten_state_dict(self.original_state_dict, old=True)
            if flat.keys() & (there.keys() - self.state_dict.keys()):
                self.state_dict, self.mappings = flat, mappings
        return _local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return global_plan

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Take the plan."""
        self._items = {}
        for item in central_plan.items:
            self._items.setdefault(item.dest_index.fqn, []).append(item)
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put something that is no tensor where it belongs."""
        found, fqn = load(value, weights_only=False), read_item.dest_index.fqn
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[fqn], found)
        else:
            self.state_dict[fqn] = found

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Room for the elements of an item."""
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """Room for a part of a tensor."""
        fqn = index.fqn
        if fqn not in self.state_dict:
            raise ValueError(f"Could not find FQN: '{fqn}'")
        if fqn not in self._rooms:
            self._rooms[fqn] = _chunks.Room(self.state_dict[fqn], self._items.get(fqn, []))
        return self._rooms[fqn].part(index.offset)

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """The box of a part that an item fills."""
        return _chunks.narrowed(tensor, read_item.dest_offsets, read_item.lengths)

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """The tensor gets its values when all its elements are there."""
        room = self._rooms.get(read_item.dest_index.fqn)
        if room is not None:
            room.waiting -= 1
            if not room.waiting:
                self._rooms.pop(read_item.dest_index.fqn).assign()

    def _finish_reading(self) -> None:
        """Give all tensors their values, also where a subclass has another `commit_tensor`."""
        for fqn in list(self._rooms):
            self._rooms.pop(fqn).assign()


def _with_memory(state: Any) -> Any:
    """Replace tensors on the meta device, in dictionaries and lists, by tensors on the CPU."""
    if isinstance(state, Tensor):
        return empty_like(state, device="cpu") if state.is_meta else state
    if isinstance(state, dict | list):
        for key in range(len(state)) if isinstance(state, list) else list(state):
            state[key] = _with_memory(state[key])
    elif isinstance(state, tuple) and type(state) is tuple:
        return tuple(map(_with_memory, state))
    return state


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Loads everything that is in a checkpoint into an empty dictionary."""

    def __init__(self) -> None:
        super().__init__()

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Make the dictionary, with tensors of the shapes in the checkpoint."""
        assert not state_dict
        assert metadata is not None
        paths = metadata.planner_data or {}
        for key, saved in metadata.state_dict_metadata.items():
            set_element(state_dict, paths.get(key, (key,)), _room_for(saved))
        super().set_up_planner(state_dict, metadata, is_coordinator)


def _room_for(saved: Any) -> Any:
    if isinstance(saved, BytesStorageMetadata):
        return saved
    return empty(tuple(saved.size), dtype=saved.properties.dtype)
