"""Sequences of different lengths in one tensor: packed, or padded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..._core.arrays import dtypes
from ..._core.errors import messages as errors
from ..._engine.memory.concrete import concrete
from ..._engine.memory.tensor import Tensor
from ..._functions.recurrent import collect, host_sizes, spread
from ..._functions.traced_spans import comes_later
from .._top import torch

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence_(NamedTuple):
    """The parts of a `PackedSequence`."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """The steps of several sequences, all first ones, then all second ones, and so on.

    Made by `pack_padded_sequence` and `pack_sequence`.

    Args:
        data: the steps.
        batch_sizes: how many sequences there are still at each time.
        sorted_indices: how the sequences were sorted by length.
        unsorted_indices: how to undo that.
    """

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:  # the two came as a pair, as in old versions
            if not (isinstance(data, list | tuple) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn."
                " https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The sequence with its data on another device or of another dtype; itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "dtype")}
        places = [
            None if t is None else t.to(data.device, **kwargs) for t in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, *places)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The sequence on a GPU."""
        data = self.data.cuda(*args, **kwargs)
        return self if data is self.data else self.to(data.device)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The sequence on the CPU."""
        return self.to("cpu")

    def pin_memory(self) -> PackedSequence:
        """The sequence with its tensors in pinned memory, as `Tensor.pin_memory` has it."""
        pinned = (None if t is None else t.pin_memory() for t in (self.data, *self[2:]))
        data, *places = pinned
        return type(self)(data, self.batch_sizes, *places)

    def double(self) -> PackedSequence:
        """The sequence in float64."""
        return self.to(dtype=dtypes.float64)

    def float(self) -> PackedSequence:
        """The sequence in float32."""
        return self.to(dtype=dtypes.float32)

    def half(self) -> PackedSequence:
        """The sequence in float16."""
        return self.to(dtype=dtypes.float16)

    def long(self) -> PackedSequence:
        """The sequence in int64."""
        return self.to(dtype=dtypes.int64)

    def int(self) -> PackedSequence:
        """The sequence in int32."""
        return self.to(dtype=dtypes.int32)

    def short(self) -> PackedSequence:
        """The sequence in int16."""
        return self.to(dtype=dtypes.int16)

    def char(self) -> PackedSequence:
        """The sequence in int8."""
        return self.to(dtype=dtypes.int8)

    def byte(self) -> PackedSequence:
        """The sequence in uint8."""
        return self.to(dtype=dtypes.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Return whether the data is in pinned memory."""
        return self.data.is_pinned()


def _packed(data: Any, batch_sizes: Any, sorted_indices: Any, unsorted_indices: Any) -> Any:
    return PackedSequence(data, batch_sizes, sorted_indices, unsorted_indices)


def invert_permutation(permutation: Any) -> Any:
    """The permutation that undoes another; None for None.

    Args:
        permutation: the places that things came from.
    """
    if permutation is None:
        return None
    out = torch.empty_like(permutation)
    out.scatter_(0, permutation, torch.arange(0, permutation.numel(), device=permutation.device))
    return out


def _check_lengths(lengths: np.ndarray, batch: int, time: int) -> None:
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={batch})"
        )
    if lengths[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if (np.diff(lengths) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    if lengths[0] > time:
        raise RuntimeError(
            f"Expected sequence length to be at most {time}, the length of the input, but got {lengths[0]}"
        )


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack sequences that were padded to the same length.

    Args:
        input: the padded sequences, (time, batch, ...).
        lengths: the length of each.
        batch_first: whether the input is (batch, time, ...).
        enforce_sorted: whether they must come sorted by length, the longest first.

    Returns:
        The packed sequences.
    """
    if not isinstance(lengths, Tensor):
        lengths = torch.tensor([int(n) for n in lengths], dtype=dtypes.int64, device="cpu")
    else:
        lengths = lengths.to(dtypes.int64)
    if comes_later(lengths):
        raise errors.AsWritten("pack_padded_sequence packs as many rows as tensors say", lasting=True)
    known = np.asarray(concrete(lengths).tolist(), np.int64)
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = torch.sort(lengths, descending=True)
        known = np.sort(known)[::-1]
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    if lengths.device.type != "cpu":
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device} Long tensor"
        )
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    x: Any = input.transpose(0, 1) if batch_first else input
    _check_lengths(known, x.shape[1], x.shape[0])
    sizes = (np.arange(known[0])[:, None] < known).sum(1)
    batch_sizes = torch.tensor(sizes.tolist(), dtype=dtypes.int64, device="cpu")
    data = collect(x, sizes, "PackPaddedSequenceBackward0")
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Pad packed sequences to the same length.

    Args:
        sequence: the packed sequences.
        batch_first: whether the result is (batch, time, ...).
        padding_value: what stands after the end of a sequence.
        total_length: the length to pad to, by default that of the longest.

    Returns:
        The padded sequences and their lengths.
    """
    sizes = host_sizes(sequence.batch_sizes)
    longest = len(sizes)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    out = spread(sequence.data, sizes)
    inside = np.arange(int(sizes[0])) < sizes[:, None]
    mask = torch.tensor(inside.tolist(), device=out.device).view(*inside.shape, *(1,) * (out.dim() - 2))
    out = torch.where(mask, out, torch.full((), padding_value, dtype=out.dtype, device=out.device))
    if longest > len(sizes):
        more = (longest - len(sizes), *out.shape[1:])
        fill = torch.full(more, padding_value, dtype=out.dtype, device=out.device)
        out = torch.cat([out, fill])
    out = out.transpose(0, 1) if batch_first else out
    lengths = torch.tensor(inside.sum(0).tolist(), dtype=dtypes.int64, device="cpu")
    places = sequence.unsorted_indices
    if places is None:
        return out, lengths
    return out.index_select(0 if batch_first else 1, places), lengths[places.cpu()]


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Stack sequences of different lengths, padded to the longest.

    Args:
        sequences: tensors that differ in the size of their first dimension only.
        batch_first: whether the result is (batch, time, ...).
        padding_value: what is put beside the shorter ones.
        padding_side: "right" or "left".

    Example:
        >>> import torchgrad_jax as torch
        >>> pad_sequence([torch.ones(2), torch.ones(1)], batch_first=True).tolist()
        [[1.0, 1.0], [1.0, 0.0]]
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    held: list[Any] = list(sequences)
    if not held:
        raise RuntimeError("received an empty list of sequences")
    for i, t in enumerate(held):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {errors.class_name(t)}")
    longest = max(t.size(0) for t in held)
    first = held[0]
    if any(t.dtype is not first.dtype or t.shape[1:] != first.shape[1:] for t in held):
        return _written(held, longest, batch_first, padding_value, padding_side == "left")
    rows = []
    for t in held:
        lacking = longest - t.size(0)
        if lacking:
            fill = t.new_full((lacking, *t.shape[1:]), padding_value)
            t = torch.cat([fill, t] if padding_side == "left" else [t, fill])
        rows.append(t)
    return torch.stack(rows, 0 if batch_first else 1)


def _written(sequences: list[Any], longest: int, batch_first: bool, padding_value: float, left: bool) -> Tensor:
    """What differs from the first sequence in its dtype or in how it broadcasts is converted as a write does."""
    first = sequences[0]
    shape = (len(sequences), longest) if batch_first else (longest, len(sequences))
    out = first.new_full((*shape, *first.shape[1:]), padding_value)
    for i, t in enumerate(sequences):
        n = t.size(0)
        out.select(0 if batch_first else 1, i).narrow(0, longest - n if left else 0, n).copy_(t)
    return out


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences that were padded, as a list.

    Args:
        padded_sequences: the padded sequences, (time, batch, ...).
        lengths: the length of each.
        batch_first: whether they are (batch, time, ...).
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    places = torch.arange(padded_sequences.shape[1], device=padded_sequences.device)
    return [row[places[: int(n)]] for row, n in zip(padded_sequences, lengths)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of different lengths.

    Args:
        sequences: tensors that differ in the size of their first dimension only.
        enforce_sorted: whether they must come sorted by length, the longest first.
    """
    lengths = torch.as_tensor([t.size(0) for t in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed, as a list.

    Args:
        packed_sequences: the packed sequences.
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
