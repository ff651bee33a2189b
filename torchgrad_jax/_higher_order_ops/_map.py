"""A function for each row of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._bridge.jax_side import control
from .._engine.memory.tensor import Tensor
from ..utils import _pytree as pytree


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """Return what a function gives for each row of `xs`, stacked.

    Args:
        f: takes a row of `xs` and then `args`, and returns tensors.
        xs: a tensor, or tensors in lists, tuples and dicts, all with as many rows.
        args: given to each call as they are.

    Returns:
        The results, each with one more dimension in front.

    Example:
        >>> import torchgrad_jax as torch
        >>> from torchgrad_jax._higher_order_ops import map
        >>> map(lambda row, y: row.sum() * y, torch.ones(2, 3), torch.tensor(2.0))
        tensor([6., 6.])
    """
    leaves = pytree.tree_leaves(xs)
    if not leaves or not all(isinstance(t, Tensor) for t in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    leading = [t.shape[:1] for t in leaves]
    if any(len(s) == 0 or s[0] == 0 for s in leading):
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if any(s != leading[0] for s in leading):
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes {[t.shape for t in leaves]}."
        )
    return control.map_(lambda row: f(row, *args), xs)
