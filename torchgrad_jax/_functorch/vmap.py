"""`vmap` under an older name, and what packages take from beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._C._functorch import (
    _add_batch_dim as _add_batch_dim,
    _refused,
    _remove_batch_dim as _remove_batch_dim,
    _unwrap_batched as _unwrap_batched,
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


_create_batched_inputs = _refused("_create_batched_inputs")
_process_batched_inputs = _refused("_process_batched_inputs")

__getattr__ = _missing(__name__)
