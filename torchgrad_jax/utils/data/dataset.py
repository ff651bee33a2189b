"""Datasets: by index, by iteration, and made of other datasets."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ..._core.errors import warn
from ..._engine.memory.tensor import Tensor
from ..._functions.random import Generator, default_generator
from ._draw import permutation

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_T_co = T_co  # as PyTorch calls it


class Dataset(Generic[T_co]):
    """Examples by index. Derived classes define `__getitem__` and, mostly, `__len__`."""

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Examples in the order in which iterating gives them. Derived classes define `__iter__`, which is abstract."""

    def __add__(self, other: Dataset[T_co]) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """The rows of tensors, which go together.

    Raises:
        AssertionError: the tensors have different numbers of rows.
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([t[index] for t in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].shape[0]  # type: ignore[attr-defined]


class StackDataset(Dataset[Any]):
    """The examples of several datasets side by side, as a tuple or under names."""

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both "
                "types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        parts = args or tuple(kwargs.values())
        self._length = len(parts[0])
        if any(len(d) != self._length for d in parts):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        return [self[i] for i in indices]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Datasets one after the other."""

    datasets: list[Dataset[T_co]]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Sequence[Any]) -> list[int]:
        """Where each dataset ends."""
        return list(itertools.accumulate(len(d) for d in sequence))

    @property
    def cummulative_sizes(self) -> list[int]:
        """The older spelling of `cumulative_sizes`."""
        warn.to_user("`cummulative_sizes` attribute is renamed to `cumulative_sizes`", FutureWarning)
        return self.cumulative_sizes

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        nr = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[nr][idx - (self.cumulative_sizes[nr - 1] if nr else 0)]


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield d

    def __iter__(self) -> Iterator[Any]:
        for d in self._checked():
            yield from d

    def __len__(self) -> int:
        return sum(len(d) for d in self._checked())


class Subset(Dataset[T_co]):
    """Some examples of a dataset."""

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Several examples at once, by the dataset's own means where it has them."""
        places = [self.indices[i] for i in indices]
        many: Any = getattr(self.dataset, "__getitems__", None)
        return [self.dataset[i] for i in places] if many is None else many(places)

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = default_generator
) -> list[Subset[Any]]:
    """Parts of a dataset, drawn at random.

    Args:
        dataset: what to split.
        lengths: how many examples go to each part, or which fractions; what is left over by fractions goes to the
            parts in turn, one each.
        generator: where the permutation is drawn from.

    Raises:
        ValueError: the lengths do not add up to the dataset's.
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _of_fractions(lengths, len(dataset))
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    sizes = [int(n) for n in lengths]
    order = permutation(sum(sizes), generator)
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, sizes)]


def _of_fractions(fractions: Sequence[float], total: int) -> list[int]:
    for i, f in enumerate(fractions):
        if not 0 <= f <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    sizes = [math.floor(total * f) for f in fractions]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, n in enumerate(sizes):
        if n == 0:
            warn.to_user(f"Length of split at index {i} is 0. This might result in an empty dataset.")
    return sizes
