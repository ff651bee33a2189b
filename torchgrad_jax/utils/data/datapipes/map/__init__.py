"""Pipes of examples by key."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator, Sized
from typing import Any

from ....._core.errors import no_such_name as _no_such_name
from ..._draw import seed as _draw_seed
from .._checks import check_function as _check_function
from .._parts import Batches as _Batches, Shuffles as _Shuffles
from ..datapipe import IterDataPipe, MapDataPipe, functional_datapipe

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]


def default_fn(data: Any) -> Any:
    """The example itself."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[Any]):
    """What a function makes of each example.

    Args:
        datapipe: the examples.
        fn: the function.
    """

    def __init__(self, datapipe: Any, fn: Callable[[Any], Any] = default_fn) -> None:
        _check_function(fn)
        self.datapipe, self.fn = datapipe, fn

    def __len__(self) -> int:
        return len(self.datapipe)

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])


class ShufflerIterDataPipe(_Shuffles, IterDataPipe[Any]):
    """The examples in random order.

    Args:
        datapipe: the examples.
        indices: their keys; 0, 1, ... if left out.
    """

    def __init__(self, datapipe: Any, *, indices: list[Any] | None = None) -> None:
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._rng = random.Random()
        self._shuffled_indices = self.indices

    def __iter__(self) -> Iterator[Any]:
        order = self._shuffled_indices[::-1] if self._enabled else self.indices
        for key in order:
            yield self.datapipe[key]

    def reset(self) -> None:
        """Draw the order of the next pass."""
        if self._enabled and self._seed is None:
            self._seed = _draw_seed(None)
        self._rng.seed(self._seed)
        self._seed = None
        self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __len__(self) -> int:
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)


class _Several(MapDataPipe[Any]):
    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(d, MapDataPipe) for d in datapipes):
            raise TypeError("Expected all inputs to be `MapDataPipe`")
        if not all(isinstance(d, Sized) for d in datapipes):
            raise TypeError("Expected all inputs to be `Sized`")
        self.datapipes = datapipes


@functional_datapipe("concat")
class ConcaterMapDataPipe(_Several):
    """One pipe after the other.

    Args:
        datapipes: the pipes.
    """

    def __getitem__(self, index: Any) -> Any:
        rest = index
        for pipe in self.datapipes:
            if rest < len(pipe):
                return pipe[rest]
            rest -= len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperMapDataPipe(_Several):
    """Tuples of an example of each pipe.

    Args:
        datapipes: the pipes.
    """

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        found = []
        for pipe in self.datapipes:
            try:
                found.append(pipe[index])
            except IndexError as e:
                raise IndexError(
                    f"Index {index} is out of range for one of the input MapDataPipes {pipe}."
                ) from e
        return tuple(found)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))


@functional_datapipe("batch")
class BatcherMapDataPipe(_Batches, MapDataPipe[Any]):
    """Examples whose keys follow each other, in batches.

    Args:
        datapipe: the examples.
        batch_size: how many make a batch.
        drop_last: leave out the last batch where it is smaller.
        wrapper_class: made of the list of each batch.
    """

    def __getitem__(self, index: int) -> Any:
        batch: list[Any] = []
        start = index * self.batch_size
        try:
            batch.extend(self.datapipe[i] for i in range(start, start + self.batch_size))
        except IndexError as e:
            if self.drop_last or not batch:
                raise IndexError(f"Index {index} is out of bound.") from e
        return self.wrapper_class(batch)

    def __len__(self) -> int:
        n = len(self.datapipe)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class SequenceWrapperMapDataPipe(MapDataPipe[Any]):
    """The elements of a sequence or a mapping.

    Args:
        sequence: the sequence.
        deepcopy: whether it is copied.
    """

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:  # elements that cannot be copied
                warnings.warn(
                    "The input sequence can not be deepcopied, "
                    "please be aware of in-place modification would affect source data",
                    stacklevel=2,
                )

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


Batcher, Concater, Mapper = BatcherMapDataPipe, ConcaterMapDataPipe, MapperMapDataPipe
SequenceWrapper, Shuffler, Zipper = (
    SequenceWrapperMapDataPipe,
    ShufflerIterDataPipe,
    ZipperMapDataPipe,
)


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.utils.data.datapipes.map.{name}"))
