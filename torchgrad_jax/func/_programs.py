"""What torch.func offers for looking at and rewriting programs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._bridge.vmap import batch_outside
from .._core.errors.absent import refusal
from .._core.state import MODES
from .._engine.memory.tensor import Tensor


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function of the same values and effects as `func`.

    Arrays are never changed in place here, so every program is one without mutations and views below the
    surface; writes to the arguments are seen by the caller, as with torch.

    Args:
        func: takes and returns tensors.
        remove: "mutations" or "mutations_and_views"; both come to the same.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.func.functionalize(lambda x: x.clone().add_(1))(torch.ones(2))
        tensor([2., 2.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced "
            "with their out-of-place equivalents.\n"
            "     remove='mutations_and_views': In addition to the above, all aliasing operators {view} will be "
            "replaced with their non-aliasing counterparts, {view}_copy.\n"
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The plain tensor behind one that a transform handed to its function, to print it.

    Inside of `vmap` that is the batch of all examples, as far as the function has come.

    Args:
        tensor: what to look behind.
        recurse: through all transforms, or one.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"debug_unwrap(): expected a Tensor, got {type(tensor).__name__}")
    run = MODES.run
    if run.batch is not None and run.inside(tensor):
        (rows,) = batch_outside(run, [tensor])
        if not recurse:
            return rows
        with run.outside():
            return debug_unwrap(rows)
    return tensor.detach() if MODES.transforms and tensor.requires_grad else tensor


rearrange = refusal("torch.func.rearrange", "einops.rearrange takes the same patterns", NotImplementedError)
