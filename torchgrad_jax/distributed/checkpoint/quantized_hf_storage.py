"""Published checkpoints of blocks with one scale each, read as plain tensors.

`model.w.weight` in 8 bits has its scales in `model.w.weight_scale_inv`, one for each square of 128 by 128 elements;
`model.w_blocks`, two elements of 4 bits in a byte, has the exponents of its groups in `model.w_scales`.
"""

from __future__ import annotations

import os
from typing import Any

from ..._core.arrays import dtypes
from ..._core.arrays.dtypes import dtype as Dtype
from ..._core.arrays.shapes import Size
from ..._engine.memory.tensor import Tensor
from ..._functions.create import tensor
from ..._functions.sequences import arange
from ._hf_utils import _metadata_fn, read_index
from .filesystem import _fill
from .hf_storage import HuggingFaceStorageReader
from .metadata import Metadata, MetadataIndex, TensorStorageMetadata
from .planner import LoadPlanner, ReadItem

__all__ = ["QuantizedHuggingFaceStorageReader"]

_HALVES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_OF_FOUR_BITS = (*_HALVES, *(-x for x in _HALVES))
_OF_BYTES = [(_OF_FOUR_BITS[b & 15], _OF_FOUR_BITS[b >> 4]) for b in range(256)]
_KINDS = ((".weight_scale_inv", ".weight"), ("_scales", "_blocks"))
"""The ends of the names of scales, and of what they scale."""


class QuantizedHuggingFaceStorageReader(HuggingFaceStorageReader):
    """Reads files of safetensors; tensors of blocks become tensors of one floating-point dtype.

    Args:
        path: the folder, with its index.
        thread_count: accepted; files are read one after another.
        target_dtype: the dtype of what is read from blocks.
        block_size: the side of the squares that have one scale.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        thread_count: int = 1,
        target_dtype: Dtype = dtypes.float32,
        block_size: int = 128,
    ) -> None:
        super().__init__(path, thread_count)
        self.target_dtype, self.block_size = target_dtype, block_size
        self._weight_map: dict[str, str] = {}
        self._weight_scale_mapping: dict[str, str] = {}

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the headers say, with the shapes that the tensors of 4 bits will have.

        Raises:
            FileNotFoundError: there is no index.
        """
        files = read_index(self.path)
        if files is None:
            raise FileNotFoundError(f"{self.path} has no {_metadata_fn}, which says where the scales are")
        self._weight_map = files
        for scale in files:
            for end, of in _KINDS:
                if scale.endswith(end) and (name := scale.removesuffix(end) + of) in files:
                    self._weight_scale_mapping[name] = scale
        metadata = super().read_metadata(*args, **kwargs)
        for name in self._weight_scale_mapping:
            entry = metadata.state_dict_metadata[name]
            if name.endswith("_blocks") and isinstance(entry, TensorStorageMetadata):
                *rows, groups, size = entry.size
                (chunk,) = entry.chunks
                place = metadata.storage_data.pop(MetadataIndex(name, chunk.offsets))
                entry.size = chunk.sizes = Size([*rows, groups * size * 2])
                chunk.offsets = Size([0] * len(entry.size))
                metadata.storage_data[MetadataIndex(name, chunk.offsets)] = place
        return metadata

    def _process_read_request(self, f: Any, req: ReadItem, planner: LoadPlanner) -> None:
        """Read one box of a tensor, and scale it if it has scales."""
        name = req.storage_index.fqn
        if name not in self._weight_scale_mapping:
            super()._process_read_request(f, req, planner)
            return
        box = tuple(slice(o, o + n) for o, n in zip(req.storage_offsets, req.lengths, strict=True))
        read = self._of_groups if name.endswith("_blocks") else self._of_squares
        _fill(planner, req, read(f.get_slice(name), self._scales_of(name), box).to(self.target_dtype), read=True)

    def _scales_of(self, name: str) -> Tensor:
        from ...serialization.safetensors import safe_open

        scale = self._weight_scale_mapping[name]
        with safe_open(self.fs.concat_path(self.path, self._weight_map[scale]), "pt") as file:
            return file.get_tensor(scale)

    def _of_squares(self, weight: Any, scales: Tensor, box: tuple[slice, ...]) -> Tensor:
        rows, columns = (arange(s.start, s.stop) // self.block_size for s in box)
        return weight[box].to(dtypes.float32) * scales[rows][:, columns]

    def _of_groups(self, blocks: Any, scales: Tensor, box: tuple[slice, ...]) -> Tensor:
        """Elements of 4 bits times 2 to the power of the exponent of their group."""
        *rows, last = box
        pairs = tensor(_OF_BYTES, dtype=self.target_dtype)[blocks[tuple(rows)].to(dtypes.int64)]
        exponents = scales[tuple(rows)].to(dtypes.int32) - 127
        return pairs.flatten(-2).ldexp(exponents.unsqueeze(-1)).flatten(-2)[..., last]
