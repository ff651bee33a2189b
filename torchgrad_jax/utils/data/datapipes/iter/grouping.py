"""Pipes that put examples together, and take them apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from .._checks import check_function, size
from .._parts import Batches
from ..datapipe import DataChunk, IterDataPipe, functional_datapipe

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(Batches, IterDataPipe[Any]):
    """Examples that follow each other, in batches.

    Args:
        datapipe: the examples.
        batch_size: how many make a batch.
        drop_last: leave out the last batch where it is smaller.
        wrapper_class: made of the list of each batch.
    """

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for x in self.datapipe:
            batch.append(x)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        n = size(self, self.datapipe)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """The examples of batches.

    Args:
        datapipe: the batches.
        unbatch_level: how many levels of lists are taken apart; -1 for all.
    """

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        for element in self.datapipe:
            yield from self._dive(element, self.unbatch_level)

    def _dive(self, element: Any, level: int) -> Iterator[Any]:
        if level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        if level == 0 or (level == -1 and not isinstance(element, list)):
            yield element
        elif isinstance(element, list):
            for item in element:
                yield from self._dive(item, max(level - 1, -1))
        else:
            raise IndexError(
                f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe"
            )


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[Any]):
    """Examples with the same key, in batches.

    Args:
        datapipe: the examples.
        group_key_fn: the key of an example.
        keep_key: whether a batch comes with its key.
        buffer_size: how many examples wait; the largest group leaves when there are more.
        group_size: how many make a batch.
        guaranteed_group_size: how many at least, where a group leaves early.
        drop_remaining: leave out groups that are smaller when they have to leave.
    """

    def __init__(
        self, datapipe: Any, group_key_fn: Callable[[Any], Any], *, keep_key: bool = False, buffer_size: int = 10000,
        group_size: int | None = None, guaranteed_group_size: int | None = None, drop_remaining: bool = False,
    ) -> None:  # fmt: skip
        check_function(group_key_fn)
        if group_size is not None and buffer_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        least = group_size if buffer_size is not None else None
        if guaranteed_group_size is not None:
            if group_size is None or not 0 < guaranteed_group_size <= group_size:
                raise AssertionError(
                    "guaranteed_group_size must be > 0 and <= group_size and group_size must be set"
                )
            least = guaranteed_group_size
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size = buffer_size, group_size
        self.guaranteed_group_size, self.drop_remaining = least, drop_remaining
        self.wrapper_class = DataChunk

    def __iter__(self) -> Iterator[Any]:
        groups: defaultdict[Any, list[Any]] = defaultdict(list)
        waiting = 0
        for x in self.datapipe:
            key = self.group_key_fn(x)
            groups[key].append(x)
            waiting += 1
            if self.group_size is not None and len(groups[key]) == self.group_size:
                waiting -= self.group_size
                yield self._batch(key, groups.pop(key))
            if waiting == self.max_buffer_size:
                largest = max(groups, key=lambda k: len(groups[k]))
                group = groups.pop(largest)
                waiting -= len(group)
                if self._large_enough(group):
                    yield self._batch(key, group)  # torch names it after the example that came last
        for key, group in groups.items():
            yield self._batch(key, group)

    def _batch(self, key: Any, group: list[Any]) -> Any:
        batch = self.wrapper_class(group)
        return (key, batch) if self.keep_key else batch

    def _large_enough(self, group: list[Any]) -> bool:
        enough = self.guaranteed_group_size is None or len(group) >= self.guaranteed_group_size
        if not enough and not self.drop_remaining:
            raise RuntimeError("Failed to group items", str(group))
        return enough
