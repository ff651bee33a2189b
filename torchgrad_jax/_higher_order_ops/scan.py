"""A loop over the rows of tensors that carries values from row to row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._bridge.jax_side import control
from .._engine.memory.tensor import Tensor
from ..utils import _pytree as pytree
from ._rows import moved, rows_first


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """Carry values along a dimension of tensors.

    Args:
        combine_fn: takes what is carried and one slice of `xs`, and returns what is carried on and a result.
        init: what is carried at first: a tensor, or tensors in lists, tuples and dicts.
        xs: a tensor, or tensors in lists, tuples and dicts.
        dim: the dimension that is cut into slices.
        reverse: whether to begin with the last slice.

    Returns:
        What is carried last, and the results of all steps, stacked along `dim`.

    Example:
        >>> import torchgrad_jax as torch
        >>> from torchgrad_jax._higher_order_ops.scan import scan
        >>> scan(lambda c, x: (c + x, c * x), torch.zeros(()), torch.arange(4.0))
        (tensor(6.), tensor([0., 0., 2., 9.]))
    """
    leaves = pytree.tree_leaves(xs)
    if not leaves:
        return init, []
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError("Dim must be an int, but got " + str(type(dim)))
    if not isinstance(reverse, bool):
        raise RuntimeError("Reverse must be a bool, but got " + str(type(reverse)))
    carried = pytree.tree_leaves(init)
    if not carried:
        raise RuntimeError("scan() operator requires init leaves.")
    for what, found in (("init", carried), ("xs", leaves)):
        for x in found:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"All {what} leaves must be a Tensor but got {x}")
    rows, dim = rows_first(xs, leaves, dim, RuntimeError)
    carry, out = control.scan(combine_fn, init, rows, reverse=reverse)
    return carry, pytree.tree_map(lambda t: moved(t, dim), out)
