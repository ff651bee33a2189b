"""From what a sampler gave to a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Fetcher:
    """Makes a batch of what the sampler gave.

    Args:
        dataset: where examples come from.
        iterable: whether it is a stream, of which the next examples are taken.
        batched: whether the sampler gives lists of indices.
        collate_fn: makes a batch of a list of examples.
        drop_last: leave out a stream's last batch where it is smaller.
    """

    def __init__(
        self, dataset: Any, iterable: bool, batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self.dataset, self.collate, self.batched = dataset, collate_fn, batched
        self.drop_last = drop_last
        self.examples = iter(dataset) if iterable else None
        self.ended = False

    def __call__(self, index: Any) -> Any:
        if self.examples is not None:
            return self._next(index)
        if not self.batched:
            return self.collate(self.dataset[index])
        many = getattr(self.dataset, "__getitems__", None)
        return self.collate(many(index) if many else [self.dataset[i] for i in index])

    def _next(self, index: Any) -> Any:
        if self.ended:
            raise StopIteration
        assert self.examples is not None
        if not self.batched:
            return self.collate(next(self.examples))
        batch: list[Any] = []
        for _ in index:
            try:
                batch.append(next(self.examples))
            except StopIteration:
                self.ended = True
                break
        if not batch or (self.drop_last and len(batch) < len(index)):
            raise StopIteration
        return self.collate(batch)
