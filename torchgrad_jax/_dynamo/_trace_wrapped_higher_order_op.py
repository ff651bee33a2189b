"""The one name of this private module that packages import: how tensors index tensors inside of `vmap`."""

from __future__ import annotations

from types import TracebackType


class TransformGetItemToIndex:
    """A context that changes nothing: here `x[i]` takes a tensor of the batch for `i` inside of `vmap` as it is."""

    def __enter__(self) -> TransformGetItemToIndex:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        return None
