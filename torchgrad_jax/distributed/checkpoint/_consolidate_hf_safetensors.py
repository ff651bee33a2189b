"""Files of parts, which several processes have written, as files of whole tensors with an index."""

from __future__ import annotations

import glob
import json
import math
import os
import struct
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

from ..._core.files.atomic import replacing
from .._collectives import barrier
from .._groups import get_rank, get_world_size, is_initialized
from .._objects import gather_object
from ._hf_utils import SUFFIX, _gen_file_name, offsets_of, write_index

__all__ = ["consolidate_safetensors_files", "consolidate_safetensors_files_on_every_rank"]


@dataclass
class _Whole:
    """A tensor of which files have parts.

    Args:
        dtype: its name in the format.
        item: the bytes of an element.
        shape: its sizes, as far as its parts are known.
        parts: the file of each, where its bytes begin there, its offsets and its sizes.
    """

    dtype: str
    item: int
    shape: list[int]
    parts: list[tuple[str, int, list[int], list[int]]] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """The bytes of all of it."""
        return math.prod(self.shape) * self.item


def consolidate_safetensors_files(
    input_dir: str, output_dir: str, fqn_to_index_mapping: dict[str, int], num_threads: int = 1
) -> None:
    """Write the tensors that `HuggingFaceStorageWriter(save_distributed=True)` has written in parts as whole ones.

    Args:
        input_dir: the folder of the parts.
        output_dir: the folder for the files and their index.
        fqn_to_index_mapping: the number of the file for each tensor, from 1 on. Tensors that it lacks are left out.
        num_threads: how many files are written at once.

    Raises:
        ValueError: a file does not say which parts it has, or no file has a tensor of the mapping or all of it.
    """
    files = _files_of(fqn_to_index_mapping, max(fqn_to_index_mapping.values()))
    write_index(output_dir, *_joined(input_dir, output_dir, files, num_threads))


def consolidate_safetensors_files_on_every_rank(
    input_dir: str,
    output_dir: str,
    fqn_to_index_mapping: dict[str, int],
    num_threads: int = 1,
    process_group: Any = None,
) -> None:
    """The same by all processes of a group, each of which writes some of the files.

    Args:
        input_dir: the folder of the parts, which all of them see.
        output_dir: the folder for the files and their index.
        fqn_to_index_mapping: the number of the file for each tensor, from 1 on.
        num_threads: how many files a process writes at once.
        process_group: the processes; all of them if it is None.
    """
    together = is_initialized()
    rank, size = (get_rank(process_group), get_world_size(process_group)) if together else (0, 1)
    mine = {fqn: number for fqn, number in fqn_to_index_mapping.items() if number % size == rank}
    found = _joined(input_dir, output_dir, _files_of(mine, max(fqn_to_index_mapping.values())), num_threads)
    gathered: list[Any] = [found]
    if together:
        gathered = [None] * size
        gather_object(found, gathered if rank == 0 else None, group=process_group, group_dst=0)
    if rank == 0:
        total = sum(nbytes for nbytes, _ in gathered)
        write_index(output_dir, total, {fqn: file for _, files in gathered for fqn, file in files.items()})
    if together:
        barrier(process_group)


def _files_of(numbers: Mapping[str, int], largest: int) -> dict[str, list[str]]:
    """The tensors of each file, by its name."""
    files: dict[str, list[str]] = {}
    for fqn, number in numbers.items():
        files.setdefault(_gen_file_name(number, largest), []).append(fqn)
    return files


def _joined(folder: str, target: str, files: Mapping[str, list[str]], num_threads: int) -> tuple[int, dict[str, str]]:
    """Write some files of whole tensors; return how many bytes of tensors they have, and which has which."""
    found = _wholes(folder)
    names = [fqn for names in files.values() for fqn in names]
    if missing := [fqn for fqn in names if fqn not in found]:
        raise ValueError(f"No file in {folder} has a part of {', '.join(missing[:5])}")
    os.makedirs(target, exist_ok=True)

    def write(name: str) -> None:
        with replacing(os.path.join(target, name)) as file:
            _write(file, {fqn: found[fqn] for fqn in files[name]})

    with ThreadPoolExecutor(max(1, num_threads)) as threads:
        list(threads.map(write, files))
    return sum(found[fqn].nbytes for fqn in names), {fqn: name for name in files for fqn in files[name]}


def _wholes(folder: str) -> dict[str, _Whole]:
    """The tensors of which the files in a folder have parts."""
    found: dict[str, _Whole] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), f"*{SUFFIX}"))):
        header, start = _header(path)
        offsets = offsets_of(header.pop("__metadata__", None))
        if offsets is None:
            raise ValueError(
                f"No DCP custom metadata found in safetensors file. {path} must be saved with DCP to be consolidated."
            )
        for fqn, said in header.items():
            sizes, at, (first, last) = said["shape"], offsets[fqn], said["data_offsets"]
            item = (last - first) // max(1, math.prod(sizes))
            whole = found.setdefault(fqn, _Whole(said["dtype"], item, [0] * len(sizes)))
            whole.item = max(whole.item, item)
            whole.shape = [max(n, o + s) for n, o, s in zip(whole.shape, at, sizes, strict=True)]
            whole.parts.append((path, start + first, at, sizes))
    return found


def _header(path: str) -> tuple[dict[str, Any], int]:
    """What a file says of its tensors, and where their bytes begin."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), 8 + length


def _write(file: IO[bytes], tensors: Mapping[str, _Whole]) -> None:
    """Write a file of whole tensors, of which one at a time is in memory."""
    header, end = {}, 0
    for fqn, whole in tensors.items():
        header[fqn] = {"shape": whole.shape, "dtype": whole.dtype, "data_offsets": [end, end + whole.nbytes]}
        end += whole.nbytes
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for fqn, whole in tensors.items():
        file.write(_elements(fqn, whole).tobytes())


def _elements(fqn: str, whole: _Whole) -> np.ndarray:
    """The elements of a tensor, as its parts have them."""
    element = np.dtype(f"V{max(1, whole.item)}")
    values, known = np.empty(whole.shape, element), np.zeros(whole.shape, bool)
    for path, start, at, sizes in whole.parts:
        box = tuple(slice(o, o + n) for o, n in zip(at, sizes, strict=True))
        values[box] = np.fromfile(path, element, math.prod(sizes), offset=start).reshape(sizes)
        known[box] = True
    if not known.all():
        raise ValueError(f"The parts of {fqn} do not make up all of it")
    return values
