"""What reads or writes a checkpoint with a given name."""

from __future__ import annotations

import os
from typing import Any

from .filesystem import FileSystemReader, FileSystemWriter
from .storage import StorageReader, StorageWriter

_NEITHER = "`checkpoint_id` must be specified if storage_reader/storage_writer is None."
_NO_KIND = (
    "Cannot detect which StorageReader or StorageWriter to use. Please specify the storage_reader/storage_writer."
)


def _given(storage: Any, kind: Any, checkpoint_id: str | os.PathLike[str] | None) -> Any:
    if storage is not None:
        storage.reset(checkpoint_id)
        return storage
    if not checkpoint_id:
        raise RuntimeError(_NEITHER)
    if not kind.validate_checkpoint_id(checkpoint_id):
        raise RuntimeError(_NO_KIND)
    return kind(checkpoint_id)


def writer_for(storage: StorageWriter | None, checkpoint_id: str | os.PathLike[str] | None) -> StorageWriter:
    """The writer that is given, or one for a folder."""
    return _given(storage, FileSystemWriter, checkpoint_id)


def reader_for(storage: StorageReader | None, checkpoint_id: str | os.PathLike[str] | None) -> StorageReader:
    """The reader that is given, or one for a folder."""
    return _given(storage, FileSystemReader, checkpoint_id)
