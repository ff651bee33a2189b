"""A loop over the rows of tensors that carries values from row to row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._bridge.jax_side import control
from .._engine.memory.tensor import Tensor
from ..utils import _pytree as pytree


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


def rows_first(xs: Any, leaves: Sequence[Tensor], dim: int, error: type[Exception]) -> tuple[Any, int]:
    """Tensors with this dimension in front, and its number."""
    ndim = leaves[0].ndim
    if not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    dim %= ndim
    if any(x.ndim <= dim or x.shape[dim] == 0 for x in leaves):
        raise error("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")
    return (pytree.tree_map(lambda t: t.movedim(dim, 0), xs) if dim else xs), dim


def moved(t: Tensor, dim: int) -> Tensor:
    """A stacked result with its first dimension where the slices were cut."""
    return t.movedim(0, dim) if dim and dim < t.ndim else t
