"""torch._C._functorch: what may be asked about a tensor inside of a transform.

Tensors here are not wrapped once per transform, so that nothing wraps or unwraps them either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core.errors.messages import missing as _missing
from .._core.state import MODES
from .._engine.memory.tensor import Tensor
from .._engine.modes.belonging import is_batched


def is_batchedtensor(tensor: Tensor, /) -> bool:
    """Return whether a tensor stands for one example of the batch of a running `vmap`."""
    return is_batched(tensor)


is_functorch_wrapped_tensor = is_batchedtensor


def is_legacy_batchedtensor(tensor: Tensor, /) -> bool:
    """False: the first form of `vmap` is gone."""
    return False


def is_gradtrackingtensor(tensor: Tensor, /) -> bool:
    """False: `func.grad` runs on the ordinary graph."""
    return False


is_functionaltensor = is_dead_tensor_wrapper = is_gradtrackingtensor


def maybe_current_level() -> int | None:
    """Return how many transforms are running, or None."""
    depth = len(MODES.runs)
    return depth + MODES.transforms or None


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"torch._C._functorch.{name}: tensors are not wrapped for transforms in torchgrad_jax; call "
            "torch.func.vmap or torch.func.grad on a function instead"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused: tensors are not wrapped for transforms."
    return refuse


def _add_batch_dim(tensor: Any, in_dim: int, level: int) -> Any:
    """The tensor itself: a container calls this for each of its tensors, over which `vmap` then maps."""
    return tensor


def _remove_batch_dim(tensor: Any, level: Any, batch_size: int, out_dim: int) -> Any:
    """The tensor for all examples: a container calls this for each of its tensors; `vmap` gives them by id."""
    return level[id(tensor)]


_unwrap_batched = _refused("_unwrap_batched")
_vmap_increment_nesting = _refused("_vmap_increment_nesting")
_vmap_decrement_nesting = _refused("_vmap_decrement_nesting")
get_unwrapped = _refused("get_unwrapped")
maybe_get_bdim = _refused("maybe_get_bdim")
maybe_get_level = _refused("maybe_get_level")

__getattr__ = _missing(__name__)
