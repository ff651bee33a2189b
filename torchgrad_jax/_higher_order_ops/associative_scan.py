"""All partial results of an associative function along a dimension, in a logarithmic number of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._bridge.jax_side import control
from .._bridge.vmap import vmap
from .._engine.memory.tensor import Tensor
from ..utils import _pytree as pytree
from .scan import rows_first


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """All partial results of an associative function of slices.

    Args:
        combine_fn: makes one slice of two.
        xs: a tensor, or tensors in lists, tuples and dicts.
        dim: the dimension that is cut into slices.
        reverse: whether to begin with the last slice.
        combine_mode: "pointwise" or "generic"; both are the same here, on all devices.

    Returns:
        What comes of the first slice, of the first two, and so on, stacked along `dim`.

    Example:
        >>> import torchgrad_jax as torch
        >>> from torchgrad_jax._higher_order_ops.associative_scan import associative_scan
        >>> associative_scan(lambda a, b: a * b, torch.arange(1.0, 5.0), 0)
        tensor([ 1.,  2.,  6., 24.])
    """
    leaves = pytree.tree_leaves(xs)
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError("Dim must be an int, but got " + str(type(dim)))
    if not isinstance(reverse, bool):
        raise RuntimeError("Reverse must be a bool, but got " + str(type(reverse)))
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(x, Tensor) for x in leaves):
        raise ValueError("xs leaves must be a Tensor")
    rows, dim = rows_first(xs, leaves, dim, ValueError)
    out = control.associative_scan(vmap(combine_fn), rows, reverse)
    return pytree.tree_map(lambda t: t.movedim(0, dim), out)
