"""What a process has of a tensor over several, as an ordinary tensor.

In PyTorch a DTensor is around the tensor that its process has, so that what is written to one is in the other. Here the
array of the whole is what there is, and a part reads it, and writes to it.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ..._core.arrays.meta import meta
from ..._core.errors.messages import AsWritten
from ..._engine.memory.strided import read
from ..._engine.memory.tensor import Storage, Tensor, make
from ..._functions.exchange import as_tensor
from ...autograd.grad_mode import no_grad
from ._specs import own_block

_ARRAY: Any = Storage.array


def part_of(whole: Tensor) -> Tensor:
    """This process's part of a tensor that takes no gradient: what is written to one of them is in the other."""
    block = block_of(read(whole))
    out = make(block, meta(block.shape, whole.dtype, whole.device))
    out._st.placement = whole, whole._st.stamp
    out._st.__class__ = PartStorage
    return out


def block_of(array: jax.Array) -> Any:
    """The block of an array that this process's devices have."""
    low, high = own_block(array.sharding, array.shape)
    out = np.empty([h - n for n, h in zip(low, high, strict=True)], array.dtype)
    for part in array.addressable_shards:
        spans = [s.indices(n)[:2] for s, n in zip(part.index, array.shape, strict=True)]
        out[tuple(slice(a - n, b - n) for (a, b), n in zip(spans, low, strict=True))] = part.data
    return out


def _now(st: Any) -> Any:
    """The block as the whole has it now."""
    whole, seen = st.placement
    if whole._st.stamp != seen and not isinstance(whole._st.array, Tracer):
        _ARRAY.__set__(st, block_of(read(whole)))
        st.placement = whole, whole._st.stamp
    return _ARRAY.__get__(st)


def _write(st: Any, value: Any) -> None:
    """Write a block to the whole."""
    if value is _ARRAY.__get__(st):
        return
    if isinstance(value, Tracer):
        raise AsWritten(
            "it writes to a result of DTensor.to_local() over several processes, and a program has no part that is one "
            "process's own",
            lasting=True,
        )
    whole, _ = st.placement
    before = read(whole)
    array = jax.make_array_from_process_local_data(before.sharding, np.asarray(value), before.shape)
    with no_grad():
        whole.copy_(as_tensor(array))
    _ARRAY.__set__(st, value)
    st.placement = whole, whole._st.stamp


class PartStorage(Storage):
    """A storage that holds this process's part of a tensor, which is in its `placement`."""

    __slots__ = ()
    array: Any = property(_now, _write)
