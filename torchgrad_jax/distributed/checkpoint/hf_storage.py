"""Checkpoints as files of safetensors, which Hugging Face's libraries read.

One process writes `model-00001-of-00002.safetensors` and so on, and `model.safetensors.index.json`, which says where
each tensor is. Of several processes each writes its parts, `shard-00001-model-00001-of-00002.safetensors`; they are
joined at the end, or by `consolidate_safetensors_files` later.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from ..._core.arrays.formats import contiguous_format
from ..._core.arrays.shapes import Size
from ..._core.files.atomic import replacing
from ..._engine.memory.tensor import Tensor
from ..._functions.create import empty
from ...futures import Future
from . import _chunks
from ._consolidate_hf_safetensors import consolidate_safetensors_files
from ._hf_utils import (
    SHARDED_DIR_NAME,
    SUFFIX,
    _gen_file_name,
    _HFStorageInfo,
    _metadata_fn,
    offsets_of,
    parts_metadata,
    read_index,
    write_index,
)
from .filesystem import FileSystemReader, FileSystemWriter, _fill, _StorageInfo
from .metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .storage import WriteResult

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes the tensors of a checkpoint as files of safetensors.

    Args:
        path: the folder.
        fqn_to_index_mapping: the number of the file for each tensor, from 1 on; one file has all of them if it is None.
        thread_count: how many threads write.
        save_distributed: whether each process writes the parts that it has; otherwise one process has all of them.
        enable_consolidation: whether the parts, which lie in the folder `sharded` then, are joined at the end.
        thread_count_consolidation: how many files are joined at once.

    Differs from torch: what cannot be in such files raises, and is not written into a file that nobody can read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fqn_to_index_mapping: dict[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        super().__init__(path, thread_count=thread_count)
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed, self.enable_consolidation = save_distributed, enable_consolidation
        self.consolidated_output_path: str | None = None
        if enable_consolidation:
            self.consolidated_output_path = str(self.path)
            self.path = self.fs.concat_path(self.path, SHARDED_DIR_NAME)
        self.thread_count_consolidation = thread_count_consolidation

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A new checkpoint begins, perhaps in another folder."""
        super().reset(checkpoint_id)
        if checkpoint_id and self.enable_consolidation:
            self.consolidated_output_path = str(self.path)
            self.path = self.fs.concat_path(self.path, SHARDED_DIR_NAME)

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Say which part of the model each process writes.

        Raises:
            ValueError: an entry is no tensor or has no number of a file, or several processes would write one file.
        """
        for plan in plans:
            self._check(plan)
        writing = [plan for plan in plans if plan.items]
        if len(writing) > 1 and not self.save_distributed:
            raise ValueError(
                f"HuggingFaceStorageWriter: {len(writing)} processes have something to write. Use "
                "save_distributed=True, and enable_consolidation=True to have whole tensors in the end"
            )
        return [
            dataclasses.replace(plan, storage_data=(number, len(plans))) for number, plan in enumerate(plans, start=1)
        ]

    def _check(self, plan: SavePlan) -> None:
        for item in plan.items:
            fqn = item.index.fqn
            if item.type == WriteItemType.BYTE_IO:
                raise ValueError(
                    f"HuggingFaceStorageWriter: a file of safetensors has tensors alone, and {fqn} is none"
                )
            if self.fqn_to_index_mapping is not None and fqn not in self.fqn_to_index_mapping:
                raise ValueError(f"HuggingFaceStorageWriter: fqn_to_index_mapping says no file for {fqn}")

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write what this process has.

        A file has one part of a tensor. Where a process has several, because it has several devices, each but the first
        goes to a file of its own, as if there were more processes.
        """
        number, processes = plan.storage_data
        files: dict[tuple[int, int], list[WriteItem]] = {}
        seen: dict[str, int] = {}
        for item in plan.items:
            fqn = item.index.fqn
            nth = seen[fqn] = seen.get(fqn, -1) + 1
            shard = number + processes * nth if self.save_distributed else 0
            files.setdefault((self._numbers.get(fqn, 1), shard), []).append(item)
        largest = max(self._numbers.values(), default=1)
        named = [(_gen_file_name(n, largest, shard or None), items) for (n, shard), items in files.items()]
        return self._in_threads(named, planner)

    @property
    def _numbers(self) -> dict[str, int]:
        return self.fqn_to_index_mapping or {}

    def _write_file(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        from ...serialization.safetensors import save

        parts: dict[str, list[tuple[WriteItem, Tensor]]] = {}
        for item in items:
            part: Any = planner.resolve_data(item)
            parts.setdefault(item.index.fqn, []).append((item, part.detach().cpu()))
        tensors = {fqn: _joined(found) for fqn, found in parts.items()}
        offsets = {fqn: min(tuple(_chunk(item).offsets) for item, _ in found) for fqn, found in parts.items()}
        # Tied weights are in one memory, which the format does not know; each name gets its own.
        copies = {fqn: t.clone(memory_format=contiguous_format) for fqn, t in tensors.items()}
        raw = save(copies, metadata=parts_metadata(offsets))
        with replacing(self.fs.concat_path(self.path, name)) as file:
            file.write(raw)
        return [
            WriteResult(item.index, part.nbytes, _StorageInfo(name, 0, part.nbytes))
            for found in parts.values()
            for item, part in found
        ]

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the index, of the joined parts if they are to be joined."""
        written = [r for found in results for r in found]
        files = {r.index.fqn: r.storage_data.relative_path for r in written}
        if not self.save_distributed:
            write_index(self.path, sum(r.size_in_bytes for r in written), files)
            return
        self._remove_others({r.storage_data.relative_path for r in written})
        if self.consolidated_output_path is not None:
            numbers = self.fqn_to_index_mapping or dict.fromkeys(metadata.state_dict_metadata, 1)
            consolidate_safetensors_files(
                str(self.path), self.consolidated_output_path, numbers, self.thread_count_consolidation
            )

    def _remove_others(self, kept: set[str]) -> None:
        """Remove the parts of an older checkpoint of more processes, which would be read as parts of this one."""
        for path in map(Path, self.fs.ls(self.path)):
            if path.name.startswith("shard-") and path.name.endswith(SUFFIX) and path.name not in kept:
                self.fs.rm_file(path)

    def _metadata_path(self, rank: int | None = None) -> Path:
        return self.fs.concat_path(self.path, _metadata_fn)

    @property
    def metadata_path(self) -> str:
        """The name of the index."""
        return _metadata_fn


def _chunk(item: WriteItem) -> ChunkStorageMetadata:
    assert item.tensor_data is not None
    return item.tensor_data.chunk


def _joined(found: list[tuple[WriteItem, Tensor]]) -> Tensor:
    """The tensor that some parts make up: those of a process that has all of it."""
    (item, part), *others = found
    if not others:
        return part
    assert item.tensor_data is not None
    whole = empty(item.tensor_data.size, dtype=part.dtype)
    for one, values in found:
        chunk = _chunk(one)
        _chunks.narrowed(whole, chunk.offsets, chunk.sizes).copy_(values)
    return whole


class HuggingFaceStorageReader(FileSystemReader):
    """Reads tensors from files of safetensors, those of `HuggingFaceStorageWriter` and of others.

    Where the folder has an index, only the files that it names are read.

    Args:
        path: the folder.
        thread_count: accepted; files are read one after another.
    """

    def __init__(self, path: str | os.PathLike[str], thread_count: int = 1) -> None:
        super().__init__(path)
        self.thread_count = thread_count
        self.storage_data: dict[Any, Any] = {}

    def _files(self) -> list[Path]:
        index = read_index(self.path)
        if index is not None:
            return [self.fs.concat_path(self.path, name) for name in sorted(set(index.values()))]
        return sorted(path for path in map(Path, self.fs.ls(self.path)) if path.name.endswith(SUFFIX))

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the headers of the files say.

        Raises:
            ValueError: parts of a tensor overlap, as those of two checkpoints in one folder do.
        """
        found: dict[str, TensorStorageMetadata] = {}
        places: dict[Any, _HFStorageInfo] = {}
        for path in self._files():
            for fqn, dtype, shape, offset in _described(path):
                entry = found.setdefault(
                    fqn, TensorStorageMetadata(TensorProperties(dtype), Size([0] * len(shape)), [])
                )
                entry.chunks.append(ChunkStorageMetadata(Size(offset), Size(shape)))
                entry.size = Size(max(n, o + s) for n, o, s in zip(entry.size, offset, shape, strict=True))
                places[MetadataIndex(fqn, Size(offset))] = _HFStorageInfo(str(path), Size(shape), dtype)
        for fqn, entry in found.items():
            if _chunks.overlaps(entry.chunks) is not None or (len(entry.chunks) > 1 and not entry.size):
                raise ValueError(f"{self.path} has parts of {fqn} that overlap, as those of two checkpoints do")
        metadata = Metadata(dict(found), storage_data=places)
        metadata.storage_meta = StorageMeta(load_id=self.load_id)
        return metadata

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read what this process needs, file by file; rows that nobody needs are not read."""
        from ...serialization.safetensors import safe_open

        for path, items in self._by_file(plan).items():
            with safe_open(path, "pt") as file:
                for item in items:
                    self._process_read_request(file, item, planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _process_read_request(self, f: Any, req: ReadItem, planner: LoadPlanner) -> None:
        """Read one box of a tensor."""
        box = tuple(slice(o, o + n) for o, n in zip(req.storage_offsets, req.lengths, strict=True))
        name = req.storage_index.fqn
        _fill(planner, req, f.get_slice(name)[box] if box else f.get_tensor(name), read=True)


def _described(path: Path) -> list[tuple[str, Any, list[int], list[int]]]:
    """The name of each tensor of a file, its dtype and shape, and where it begins in the whole one."""
    from ...serialization.safetensors import dtype_of, safe_open

    with safe_open(path, "pt") as file:
        offsets, found = offsets_of(file.metadata()), []
        for fqn in file.offset_keys():
            part = file.get_slice(fqn)
            shape = part.get_shape()
            at = offsets[fqn] if offsets else [0] * len(shape)
            found.append((fqn, dtype_of(fqn, part.get_dtype()), shape, at))
    return found
