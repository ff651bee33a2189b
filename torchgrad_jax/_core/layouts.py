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
