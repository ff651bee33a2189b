"""Checkpoints in folders, in torch's format: files of parts, one after another, and `.metadata`, which says where.

A checkpoint that takes the place of another one in the same folder gets files of its own. It is there once `.metadata`
has been replaced, which happens at once; then the old files are removed. A process that is killed before leaves the
old checkpoint whole.
"""

from __future__ import annotations

import dataclasses
import enum
import io
import os
import queue
import threading
import types
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..._core.errors import warn
from ..._core.files.atomic import replacing
from ..._core.signals import contextmanager
from ..._engine.memory.tensor import Tensor
from ...futures import Future
from ...serialization import load, save
from . import _chunks, metadata as metadata_classes
from .metadata import Metadata, StorageMeta
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .staging import BlockingAsyncStager
from .storage import StorageReader, StorageWriter, WriteResult

__all__ = ["FileSystem", "FileSystemBase", "FileSystemReader", "FileSystemWriter", "SerializationFormat"]

CURRENT_DCP_VERSION = "1.0.0"
DEFAULT_SUFFIX = ".distcp"
_METADATA = ".metadata"


@dataclass
class _StorageInfo:
    """Where a part lies: in which file, from which byte on, and how many bytes."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Sequence[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if v is not None}


@dataclass
class _StoragePrefix:
    """What the names of a process's files begin with."""

    prefix: str


class SerializationFormat(enum.Enum):
    """How tensors are written."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


class FileSystemBase:
    """What a folder has to offer; `FileSystem` is the one of this machine."""

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[IO[bytes]]:
        """An open file."""
        with open(path, mode) as file:
            yield file

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> Path:
        """A file in a folder."""
        return Path(path) / suffix

    def init_path(self, path: str | os.PathLike[str]) -> Path:
        """A folder by its name."""
        return Path(path)

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Give a file another name."""
        os.replace(path, new_path)

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Make a folder, and those above it."""
        Path(path).mkdir(parents=True, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether a name is that of a folder which is there or can be made."""
        if isinstance(checkpoint_id, Path):
            return True
        if "://" in str(checkpoint_id):
            return False
        above = Path(checkpoint_id).parents
        return any(p.exists() and os.access(p, os.W_OK) for p in above)

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Return whether there is such a file."""
        return Path(path).exists()

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        """Remove a file."""
        Path(path).unlink()

    def ls(self, path: str | os.PathLike[str]) -> list[str]:
        """The files of a folder."""
        return [str(p) for p in Path(path).iterdir()]


class FileSystem(FileSystemBase):
    """The folders of this machine."""


# --- writing --------------------------------------------------------------------------------------


def _shared_out(items: list[WriteItem], files: int) -> list[list[WriteItem]]:
    """Items for several files of about the same size."""
    bins: list[list[WriteItem]] = [[] for _ in range(files)]
    sizes = [0] * files
    for item in sorted(items, key=lambda i: -(i.tensor_storage_size() or 0)):
        smallest = sizes.index(min(sizes))
        bins[smallest].append(item)
        sizes[smallest] += item.tensor_storage_size() or 1
    return bins


def _bytes_of(value: Any) -> Any:
    """Return what a file has of an item: what `torch.save` makes of a tensor, or the pickle that it is already."""
    if isinstance(value, io.BytesIO):
        return value.getvalue()
    file = io.BytesIO()
    plain = value.detach().cpu()
    save(plain if plain.untyped_storage().nbytes() == plain.nbytes else plain.clone(), file)
    return file.getvalue()


class FileSystemWriter(BlockingAsyncStager, StorageWriter):
    """Writes checkpoints into a folder.

    Args:
        path: the folder.
        single_file_per_rank: whether a process writes one file for each thread, or one for each part.
        sync_files: whether to wait until the disk has the files.
        thread_count: how many threads write.
        per_thread_copy_ahead: accepted; parts are copied from devices one by one.
        cache_staged_state_dict: accepted; copies for `async_save` are made again each time.
        overwrite: whether a checkpoint that is there may be replaced.
        serialization_format: only `SerializationFormat.TORCH_SAVE`.

    Raises:
        NotImplementedError: another format, or extensions.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Any = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:
        super().__init__(cache_staged_state_dict=cache_staged_state_dict)
        if _extensions or serialization_format is not SerializationFormat.TORCH_SAVE:
            raise NotImplementedError(
                "torch.distributed.checkpoint.FileSystemWriter with extensions, or as safetensors"
            )
        self.fs = FileSystem()
        self.path = self.fs.init_path(path)
        self.single_file_per_rank, self.sync_files = single_file_per_rank, sync_files
        self.thread_count, self.per_thread_copy_ahead = max(1, thread_count), per_thread_copy_ahead
        self.overwrite, self.serialization_format = overwrite, serialization_format
        self.save_id = str(uuid.uuid4())
        self.rank: int | None = None
        self.use_collectives = True

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A new checkpoint begins, perhaps in another folder."""
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Begin, in every process."""
        self.rank, self.use_collectives = kwargs.get("rank"), kwargs.get("use_collectives", True)

    @property
    def _alone(self) -> bool:
        """Whether each process writes metadata of its own."""
        return not self.use_collectives and self.rank is not None

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Make the folder.

        Raises:
            RuntimeError: there is a checkpoint in it that must not be replaced.
        """
        self.fs.mkdir(self.path)
        if self.fs.exists(self._metadata_path(None if self.use_collectives else 0)):
            if not self.overwrite:
                raise RuntimeError(f"Checkpoint already exists and {self.overwrite=}.")
            warn.to_user(
                f"Detected an existing checkpoint in {self.path}, overwriting since {self.overwrite=}."
                " Past version 2.5 of PyTorch, `overwrite` will default to False. Set this variable to True to"
                " maintain this functionality or False to raise when an existing checkpoint is found."
            )
        if self._alone:
            plan = dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{self.rank}_"))
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Say what the names of each process's files begin with."""
        return [
            dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{i}_")) if plan.storage_data is None else plan
            for i, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the parts of this process."""
        bins = (
            _shared_out(plan.items, self.thread_count) if self.single_file_per_rank else [[item] for item in plan.items]
        )
        return self._in_threads(list(zip(self._new_names(plan.storage_data.prefix), bins)), planner)

    def _in_threads(self, files: list[tuple[str, list[WriteItem]]], planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write files of which the names and the parts are known."""
        waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for file in files:
            waiting.put(file)
        results: list[WriteResult] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                while not errors:
                    name, items = waiting.get_nowait()
                    results.extend(self._write_file(name, items, planner))
            except queue.Empty:
                pass
            except BaseException as e:
                errors.append(e)

        threads = [threading.Thread(target=work) for _ in range(1, self.thread_count)]
        for t in threads:
            t.start()
        work()
        for t in threads:
            t.join()
        if errors:
            raise errors[0]
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def _new_names(self, prefix: str) -> Iterator[str]:
        """Names of files that are not there: those that are may belong to the checkpoint that will be replaced."""
        number = 0
        while True:
            name = f"{prefix}{number}{DEFAULT_SUFFIX}"
            if not self.fs.exists(self.fs.concat_path(self.path, name)):
                yield name
            number += 1

    def _write_file(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        found = []
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "wb") as file:
            for item in sorted(items, key=lambda i: i.type != WriteItemType.BYTE_IO):
                data, start = _bytes_of(planner.resolve_data(item)), file.tell()
                file.write(data)
                found.append(WriteResult(item.index, len(data), _StorageInfo(name, start, len(data))))
            file.flush()
            if self.sync_files:
                os.fsync(file.fileno())
        return found

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the metadata, and remove the files of what it replaces."""
        metadata.version = CURRENT_DCP_VERSION
        metadata.storage_data = {r.index: r.storage_data for found in results for r in found}
        metadata.storage_meta = self.storage_meta()
        with replacing(self._metadata_path(self.rank if self._alone else None)) as file:
            file.write(pickled(metadata))
        kept = {info.relative_path for info in metadata.storage_data.values()}
        mine = f"__{self.rank}_" if self._alone else "__"
        for path in map(Path, self.fs.ls(self.path)):
            if path.suffix == DEFAULT_SUFFIX and path.name.startswith(mine) and path.name not in kept:
                self.fs.rm_file(path)

    def storage_meta(self) -> StorageMeta | None:
        """Return which checkpoint this is."""
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self.save_id)

    def _metadata_path(self, rank: int | None = None) -> Path:
        name = _METADATA if rank is None else f"__{rank}{_METADATA}"
        return self.fs.concat_path(self.path, name)

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether a name is that of a folder which is there or can be made."""
        return FileSystem.validate_checkpoint_id(checkpoint_id)


# --- reading --------------------------------------------------------------------------------------


class FileSystemReader(StorageReader):
    """Reads checkpoints from a folder.

    Args:
        path: the folder.
    """

    def __init__(self, path: str | os.PathLike[str], _extension_registry: Any = None) -> None:
        if _extension_registry is not None:
            raise NotImplementedError("torch.distributed.checkpoint.FileSystemReader with extensions")
        self.fs = FileSystem()
        self.path = self.fs.init_path(path)
        self.storage_data: dict[Any, _StorageInfo] = {}
        self.load_id = str(uuid.uuid4())

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Another checkpoint is read, perhaps from another folder."""
        self.storage_data = {}
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return what `.metadata` says, or the file of the process `rank`."""
        rank = kwargs.get("rank")
        name = _METADATA if rank is None else f"__{rank}{_METADATA}"
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "rb") as file:
            metadata = unpickled(file)
        storage_meta = getattr(metadata, "storage_meta", None) or StorageMeta()
        storage_meta.load_id = self.load_id
        metadata.storage_meta = storage_meta
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Begin, in every process."""
        assert metadata.storage_data is not None
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return plans

    def _by_file(self, plan: LoadPlan) -> dict[str, list[ReadItem]]:
        """By file, what a plan reads of it."""
        files: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            files.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        return files

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read the parts that this process needs, file by file and in the order in which they lie there."""
        for name, items in self._by_file(plan).items():
            with self.fs.create_stream(self.fs.concat_path(self.path, name), "rb") as file:
                self._read_file(file, items, planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _read_file(self, file: IO[bytes], items: list[ReadItem], planner: LoadPlanner) -> None:
        at, part = -1, None
        for item in sorted(items, key=lambda i: self.storage_data[i.storage_index].offset):
            info = self.storage_data[item.storage_index]
            if info.transform_descriptors:
                raise NotImplementedError(f"{info.relative_path}: written by extensions, {info.transform_descriptors}")
            if at != info.offset:  # several boxes of one part are read once
                file.seek(info.offset)
                at, raw, part = info.offset, io.BytesIO(file.read(info.length)), None
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, raw)
                continue
            part = load(raw, map_location="cpu", weights_only=True) if part is None else part
            _fill(planner, item, part)

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether a name is that of a folder."""
        return FileSystem.validate_checkpoint_id(checkpoint_id)


def _fill(planner: LoadPlanner, item: ReadItem, part: Tensor, read: bool = False) -> None:
    """Copy the elements of an item to where the planner wants them.

    Args:
        planner: knows where.
        item: the elements.
        part: what has them.
        read: whether it has no others.
    """
    found = part if read else _chunks.narrowed(part, item.storage_offsets, item.lengths)
    target = planner.resolve_tensor(item).detach()
    if target.size() != found.size():
        raise AssertionError(f"req {item.storage_index} mismatch sizes {target.size()} vs {found.size()}")
    target.copy_(found)
    planner.commit_tensor(item, target)


# --- the metadata ---------------------------------------------------------------------------------


def pickled(metadata: Metadata) -> bytes:
    """Metadata as torch reads them: what this package defines is named as in torch."""
    from ...serialization._save import _Pickler

    file = io.BytesIO()
    _Pickler(file, 4).dump(metadata)
    return file.getvalue()


def _member(kind: Any, name: Any) -> Any:
    """A member of an enumeration, which Python 3.11.0 to 3.11.3 pickles as `getattr` of a class and a name."""
    if not (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        raise TypeError(f"{kind!r} is no enumeration")
    return kind[name]


_ALLOWED = {
    **{
        f"torch.distributed.checkpoint.metadata.{n}": getattr(metadata_classes, n)
        for n in (*metadata_classes.__all__, "_MEM_FORMAT_ENCODING")
    },
    "torch.distributed.checkpoint.filesystem._StorageInfo": _StorageInfo,
    "builtins.getattr": _member,
    "pathlib.PosixPath": Path,
    "pathlib._local.PosixPath": Path,
}
"""What `.metadata` may name besides data."""


def unpickled(file: IO[bytes]) -> Metadata:
    """Metadata that torch or this package has written. Nothing that the file says runs code of its own."""
    from ...serialization import _safe
    from ...serialization._unpickler import SafeUnpickler

    no_tensors: Any = types.SimpleNamespace(REBUILD={})
    return SafeUnpickler(file, no_tensors, {**_ALLOWED, **_safe}).load()
