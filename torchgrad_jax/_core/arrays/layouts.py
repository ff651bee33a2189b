"""Strides of results of image operations, which keep channels last where the input has them last."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from . import shapes
from .formats import RANKS, contiguous_format, memory_format, strides_in, suggested

Shape = tuple[int, ...]


def following(*which: int) -> Callable[[Sequence[Any], Shape], Shape]:
    """A layout: channels last if one of these tensors (by default the first) suggests it, else row-major."""
    at = which or (0,)

    def layout(metas: Sequence[Any], out: Shape) -> Shape:
        kind = next((k for i in at if (k := metas[i].suggests) is not contiguous_format), contiguous_format)
        return _kept(kind, out)

    return layout


def with_statics(layout: Any) -> Any:
    """The layout, marked as one that also takes the operator's static arguments."""
    layout.statics = True
    return layout


def elementwise(layout: Any) -> Any:
    """A copy of the layout that is marked as that of an elementwise operator."""
    made: Any = functools.partial(layout)
    made.elementwise = True
    return made


def with_lines(layout: Any) -> Any:
    """The layout, marked as one that also decides about the stride of a single dimension of one element."""
    layout.lines = True
    return layout


def keeps_lines(layout: Any) -> bool:
    """Return whether a layout also decides about the stride of a single dimension of one element."""
    return getattr(getattr(layout, "func", layout), "lines", False)


@with_lines
def preserved(metas: Sequence[Any], out: Shape) -> Shape:
    """The layout of a copy."""
    return shapes.preserve_strides(out, metas[0].strides)


def following_unless_contiguous(metas: Sequence[Any], out: Shape) -> Shape:
    """A layout: row-major where the first tensor is, whatever its strides suggest."""
    m = metas[0]
    return _kept(contiguous_format if m.contiguous else m.suggests, out)


def _kept(kind: memory_format, out: Shape) -> Shape:
    """Strides in a format; row-major for a further result that has other dimensions (statistics)."""
    return strides_in(kind if len(out) == RANKS.get(kind) else contiguous_format, out)


def joined(given: Sequence[tuple[Shape, Shape]], out: Shape) -> Shape:
    """Strides of tensors, given by shape and strides, joined: channels last if all suggest that."""
    kinds = {suggested(*g) for g in given if g[0] != (0,)}
    return _kept(kinds.pop() if len(kinds) == 1 else contiguous_format, out)


def indexed(keys: Sequence[Any], out: Shape) -> Shape:
    """A layout: that of an elementwise operation on the input, its indexed dimensions taken out, and the indices."""
    source, indices = keys[0], keys[1:]
    at = [d for d, m in enumerate(indices) if m is not None]
    if not at:
        return shapes.contiguous_strides(out)
    common = shapes.broadcast_shapes(*[indices[d].shape for d in at])
    kept = [(n, s) for d, (n, s) in enumerate(zip(source.shape, source.strides)) if d not in at]
    first = at[0] if at[-1] - at[0] + 1 == len(at) else 0
    mine = [*kept[:first], *((n, 0) for n in common), *kept[first:]]
    after = len(kept) - first
    operands = []
    for m in (indices[d] for d in at):
        wide = ((1,) * first, (1,) * after)
        shape = (*wide[0], *m.shape, *wide[1])
        if m.contiguous:
            operands.append((shape, shapes.contiguous_strides(shape)))
        else:
            outer = m.shape[0] * m.strides[0]
            operands.append((shape, (*(outer,) * first, *m.strides, *(m.strides[-1],) * after)))
    shape, strides = [n for n, _ in mine], [s for _, s in mine]
    return shapes.elementwise_strides(out, [(shape, strides), *operands])


indexed.of_keys = True  # it depends on which dimensions have no index
