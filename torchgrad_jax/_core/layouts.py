"""Strides of results of image operations, which keep channels last where the input has them last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import shapes
from .formats import channels_last, channels_last_3d, is_contiguous_in, strides_in

Shape = tuple[int, ...]

_LAST = {4: channels_last, 5: channels_last_3d}


def following(count: int = 1) -> Callable[[Sequence[Any], Shape], Shape]:
    """A layout: channels last if one of the first `count` tensors has them last, else row-major."""

    def layout(metas: Sequence[Any], out: Shape) -> Shape:
        kind = _LAST.get(len(out))
        if kind is not None:
            for m in metas[:count]:
                if not m.contiguous and is_contiguous_in(kind, m.shape, m.strides):
                    return strides_in(kind, out)
        return shapes.contiguous_strides(out)

    return layout


def joined(metas: Sequence[Any], out: Shape) -> Shape:
    """A layout: channels last if all tensors have them last, else row-major."""
    kind = _LAST.get(len(out))
    given = [m for m in metas if m.shape != (0,)]
    last = [not m.contiguous and is_contiguous_in(kind, m.shape, m.strides) for m in given if kind]
    if kind is not None and last and all(last):
        return strides_in(kind, out)
    return shapes.contiguous_strides(out)


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


indexed.of_keys = True  # which dimensions have no index counts
