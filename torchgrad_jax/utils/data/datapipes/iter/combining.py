"""Pipes of several pipes."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

from .._checks import no_size
from ..datapipe import IterDataPipe, functional_datapipe

__all__ = ["ConcaterIterDataPipe", "MultiplexerIterDataPipe", "ZipperIterDataPipe"]


class _Several(IterDataPipe[Any]):
    datapipes: tuple[Any, ...]

    def _sizes(self) -> list[int]:
        if not all(isinstance(d, Sized) for d in self.datapipes):
            raise no_size(self)
        return [len(d) for d in self.datapipes]


@functional_datapipe("concat")
class ConcaterIterDataPipe(_Several):
    """One pipe after the other.

    Args:
        datapipes: the pipes.
    """

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(d, IterDataPipe) for d in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(self._sizes())


@functional_datapipe("mux")
class MultiplexerIterDataPipe(_Several):
    """An example of each pipe in turn, until one of them ends.

    Args:
        datapipes: the pipes.
    """

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for row in zip(*self.datapipes, strict=False):
            yield from row

    def __len__(self) -> int:
        return min(self._sizes()) * len(self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(_Several):
    """Tuples of an example of each pipe, until one of them ends.

    Args:
        datapipes: the pipes.
    """

    def __init__(self, *datapipes: Any) -> None:
        if not all(isinstance(d, IterDataPipe) for d in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(self._sizes())
