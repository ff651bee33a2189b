"""From what a sampler gave to a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _BaseDatasetFetcher:
    """Makes a batch of what the sampler gave.

    Args:
        dataset: where examples come from.
        auto_collation: whether the sampler gives lists of indices.
        collate_fn: makes a batch of a list of examples.
        drop_last: leave out a stream's last batch where it is smaller.
    """

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        self.dataset, self.auto_collation = dataset, auto_collation
        self.collate_fn, self.drop_last = collate_fn, drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The batch for an index, or for a list of them."""
        raise NotImplementedError


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Reads a dataset by index."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The batch for an index, or for a list of them."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[possibly_batched_index])
        many = getattr(self.dataset, "__getitems__", None)
        if many:
            return self.collate_fn(many(possibly_batched_index))
        return self.collate_fn([self.dataset[i] for i in possibly_batched_index])


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Takes the next examples of a stream."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The next batch, of as many examples as there are indices."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        batch: list[Any] = []
        for _ in possibly_batched_index:
            try:
                batch.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not batch or (self.drop_last and len(batch) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(batch)
