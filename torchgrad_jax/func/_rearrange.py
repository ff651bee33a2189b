"""rearrange: reshapes and permutations written as ``"batch (h w) -> batch h w"``."""

from __future__ import annotations

import keyword
import math
from collections.abc import Sequence

from .._core.errors import warn
from .._engine.entry.bind import ops
from .._engine.memory.tensor import Tensor

Axes = list[list[str]]
"""Axes of one side: each is a group of names; () and 1 are the empty group."""
_DOTS = "…"
_BARE = ["..."]
"""The group that stands for an ellipsis outside of parentheses."""


class DimensionBindError(Exception):
    """The sizes of an axis and of the tensor do not fit."""


def rearrange(tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int) -> Tensor:
    """Reorder, split and join dimensions as a pattern says.

    Args:
        tensor: a tensor, or several of one shape, which are stacked along a first dimension.
        pattern: names of the dimensions before and after ``->``. Parentheses hold the parts of one
            dimension, ``...`` stands for any number of dimensions, ``1`` for one of size 1.
        axes_lengths: sizes of parts that cannot be told from the tensor.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.func.rearrange(torch.arange(6), "(a b) -> b a", b=2)
        tensor([[0, 2, 4],
                [1, 3, 5]])
    """
    if not isinstance(tensor, Tensor):
        tensor = ops.stack(tensor)
    left, right = _parsed(pattern)
    _check(left, right, axes_lengths, pattern)
    names = [n for group in left for n in group]
    dims = tensor._m.ndim
    if _BARE in left:
        free = dims - (len(left) - 1)
        if free < 0:
            raise ValueError(
                f"Number of dimensions in pattern ({len(left) - 1}) must be less than or equal to the number of "
                f"dimensions in the tensor ({dims})"
            )
        dots = [f"{_DOTS}{i}" for i in range(free)]
        at = left.index(_BARE)
        left = [*left[:at], *[[d] for d in dots], *left[at + 1 :]]
        right = [g for group in right for g in ([[d] for d in dots] if group == _BARE else [_spelled(group, dots)])]
    elif len(left) != dims:
        raise ValueError(
            f"Number of dimensions in pattern ({len(left)}) must be equal to the number of dimensions in the tensor "
            f"({dims})"
        )
    sizes = _sizes(left, tensor._m.shape, axes_lengths, names)
    flat = [n for group in left for n in group]
    split = tensor.reshape([sizes[n] for n in flat])
    wanted = [n for group in right for n in group]
    moved = ops.permute(split, [flat.index(n) for n in wanted])
    return moved.reshape([math.prod(sizes[n] for n in group) for group in right])


def _spelled(group: list[str], dots: list[str]) -> list[str]:
    return [d for n in group for d in (dots if n == _DOTS else [n])]


# --- the pattern ----------------------------------------------------------------------------------


def _parsed(pattern: str) -> tuple[Axes, Axes]:
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = (_side(s) for s in sides)
    if any(_DOTS in g for g in left):
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    return left, right


def _side(text: str) -> Axes:
    if "." in text:
        if "..." not in text:
            raise ValueError("Expression may contain dots only inside ellipsis (...)")
        if text.count("...") != 1 or text.count(".") != 3:
            raise ValueError("Expression may contain dots only inside ellipsis (...); only one ellipsis for tensor ")
        text = text.replace("...", _DOTS)
    axes: Axes = []
    group: list[str] | None = None
    word = ""
    seen: set[str] = set()

    def finish() -> None:
        nonlocal word
        name, word = word, ""
        if not name:
            return
        if name in seen:
            raise ValueError(f"Indexing expression contains duplicate dimension '{name}'")
        found = [] if name == "1" else [_named(name)]
        seen.update(found)
        if group is None:
            axes.append(_BARE if found == [_DOTS] else found)
        else:
            group.extend(found)

    for char in text:
        if char in "() ":
            finish()
        if char == "(":
            if group is not None:
                raise ValueError("Axis composition is one-level (brackets inside brackets not allowed)")
            group = []
        elif char == ")":
            if group is None:
                raise ValueError("Brackets are not balanced")
            axes.append(group)
            group = None
        elif char.isalnum() or char in ("_", _DOTS):
            word += char
        elif char != " ":
            raise ValueError(f"Unknown character '{char}'")
    finish()
    if group is not None:
        raise ValueError(f"Imbalanced parentheses in expression: '{text}'")
    return axes


def _named(name: str) -> str:
    if name == _DOTS:
        return name
    if name.isdecimal():
        raise ValueError("rearrange only supports unnamed axes of size 1")
    if not name.isidentifier():
        raise ValueError(f"Invalid axis identifier: {name}\nnot a valid python identifier")
    if name[0] == "_" or name[-1] == "_":
        raise ValueError(f"Invalid axis identifier: {name}\naxis name should should not start or end with underscore")
    if keyword.iskeyword(name):
        warn.to_user(f"It is discouraged to use axes names that are keywords: {name}", RuntimeWarning)
    return name


def _check(left: Axes, right: Axes, given: dict[str, int], pattern: str) -> None:
    before, after = ({_DOTS if g == _BARE else n for g in side for n in g} for side in (left, right))
    if _DOTS in after and _DOTS not in before:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if before != after:
        raise ValueError(f"Identifiers only on one side of rearrange expression (should be on both): {before ^ after}")
    unknown = set(given) - before
    if unknown:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")


# --- sizes ----------------------------------------------------------------------------------------


def _sizes(left: Axes, shape: Sequence[int], given: dict[str, int], names: Sequence[str]) -> dict[str, int]:
    """The size of every named part."""
    number = {n: f"d{i}" for i, n in enumerate(names)}
    sizes: dict[str, int] = {}
    for group, n in zip(left, shape):
        if not group and n != 1:
            raise ValueError(f"an axis of the pattern has size 1, but the tensor has {n} there")
        known = {a: given[a] for a in group if given.get(a, -1) != -1}
        open_ = [a for a in group if a not in known]
        if len(open_) > 1:
            raise DimensionBindError(
                f"cannot infer the sizes of two dimensions at once {number[open_[0]]} and {number[open_[1]]}"
            )
        product = math.prod(known.values())
        if open_:
            if n % product:
                shown = tuple(known.get(a, "?") for a in group)
                raise DimensionBindError(
                    f"inferred dimension does not evenly fit into larger dimension: {n} vs {shown}"
                )
            known[open_[0]] = n // product
        elif group and product != n:
            pack = ", ".join(number[a] for a in group) + ("," if len(group) == 1 else "")
            raise DimensionBindError(
                f"Dimension sizes to do not match ({n} != {product}) when matching dimension pack ({pack})"
            )
        sizes.update({a: int(v) for a, v in known.items()})
    return sizes


__all__ = ["DimensionBindError", "rearrange"]
