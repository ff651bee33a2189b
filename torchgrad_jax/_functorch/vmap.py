"""`vmap` under an older name, and what packages take from beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._C._functorch import (
    _add_batch_dim as _add_batch_dim,
    _refused,
    _remove_batch_dim as _remove_batch_dim,
    _unwrap_batched as _unwrap_batched,
    is_batchedtensor as is_batchedtensor,
)
from .._core.errors.messages import missing as _missing
from .._engine.memory.tensor import Tensor as Tensor
from ..func import vmap as vmap
from ..utils._pytree import (
    _broadcast_to_and_flatten as _broadcast_to_and_flatten,
    tree_flatten as tree_flatten,
    tree_unflatten as tree_unflatten,
)

__all__ = ["vmap"]


def _get_name(func: Callable[..., Any]) -> str:
    """What messages call a function."""
    return getattr(func, "__name__", None) or repr(func)


def _maybe_remove_batch_dim(name: str, output: Any, vmap_level: Any, batch_size: int, out_dim: int | None) -> Any:
    """The output for all examples: a container calls this for each of its tensors; `vmap` gives the outputs by id."""
    return vmap_level[id(output)]


def _num_outputs(batched_outputs: Any) -> int:
    """Return how many outputs a function has: a tuple has several."""
    return len(batched_outputs) if isinstance(batched_outputs, tuple) else 1


def _as_tuple(value: Any, num_elements: int, error_message_lambda: Callable[[], str]) -> tuple[Any, ...]:
    """Give a tuple of so many elements as it is, and anything else as often."""
    if not isinstance(value, tuple):
        return (value,) * num_elements
    if len(value) != num_elements:
        raise ValueError(error_message_lambda())
    return value


def get_chunk_sizes(total_elems: int, chunk_size: int) -> list[int]:
    """The sizes of the chunks that `vmap` maps over one after the other; the last may be smaller."""
    return [min(chunk_size, total_elems - i) for i in range(0, total_elems, chunk_size)]


def _check_randomness_arg(randomness: str) -> None:
    """Raise unless the argument is one of those that `vmap` takes."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


in_dims_t = int | tuple[Any, ...]
out_dims_t = int | tuple[int, ...]

_create_batched_inputs = _refused("_create_batched_inputs")
_process_batched_inputs = _refused("_process_batched_inputs")
_flat_vmap, _chunked_vmap, vmap_impl = map(_refused, ("_flat_vmap", "_chunked_vmap", "vmap_impl"))
restore_vmap, wrap_batched, unwrap_batched = map(_refused, ("restore_vmap", "wrap_batched", "unwrap_batched"))
vmap_increment_nesting = _refused("vmap_increment_nesting")

__getattr__ = _missing(__name__)
