"""Names and headers of the files that Hugging Face's libraries read: `model-00001-of-00003.safetensors` and an index.

A file of parts has the offsets of its parts in its metadata, under "DCP_SHARDING_INFO".
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._core.arrays.dtypes import dtype as Dtype
from ..._core.arrays.shapes import Size
from ..._core.files.atomic import replacing

_metadata_fn = "model.safetensors.index.json"
SUFFIX = ".safetensors"
SHARDED_DIR_NAME = "sharded"
CUSTOM_METADATA_KEY = DCP_SHARDING_INFO_KEY = "DCP_SHARDING_INFO"
SAVED_OFFSETS_KEY = "saved_offsets"
DCP_VERSION_KEY = "DCP_VERSION"
HF_DCP_VERSION = 1.0
FORMAT_KEY, FORMAT_VALUE = "format", "pt"


@dataclass
class _HFStorageInfo:
    """Where a tensor, or a part of it, lies, and what it is."""

    relative_path: str
    shape: Size
    dtype: Dtype


def _gen_file_name(index: int, largest_index: int, shard_index: int | None = None) -> str:
    """The name of a file: the `index`th of the model, and what part of it."""
    name = f"model-{index:05d}-of-{largest_index:05d}{SUFFIX}"
    return name if shard_index is None else f"shard-{shard_index:05d}-{name}"


def parts_metadata(offsets: Mapping[str, Any]) -> dict[str, str]:
    """What a file says besides its tensors, as strings.

    Args:
        offsets: where each of its tensors begins in the whole one, by name.
    """
    found = {name: {SAVED_OFFSETS_KEY: list(at)} for name, at in offsets.items()}
    return {CUSTOM_METADATA_KEY: json.dumps(found), DCP_VERSION_KEY: str(HF_DCP_VERSION), FORMAT_KEY: FORMAT_VALUE}


def offsets_of(metadata: Mapping[str, str] | None) -> dict[str, list[int]] | None:
    """Where each tensor of a file begins in the whole one; None for a file that says nothing of it."""
    text = (metadata or {}).get(CUSTOM_METADATA_KEY)
    return {name: said[SAVED_OFFSETS_KEY] for name, said in json.loads(text).items()} if text else None


def write_index(folder: str | os.PathLike[str], total_size: int, weight_map: Mapping[str, str]) -> None:
    """Write the index of a folder: how many bytes there are, and which file has which tensor."""
    with replacing(os.path.join(folder, _metadata_fn), "w") as file:
        json.dump({"metadata": {"total_size": total_size}, "weight_map": dict(weight_map)}, file, indent=2)


def read_index(folder: str | os.PathLike[str]) -> dict[str, str] | None:
    """Which file has which tensor; None if the folder has no index."""
    try:
        with open(os.path.join(folder, _metadata_fn), encoding="utf-8") as file:
            return json.load(file)["weight_map"]
    except FileNotFoundError:
        return None
