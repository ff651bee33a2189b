"""Pipes that change the order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import Any

from ..._draw import seed as draw_seed
from ...sampler import SequentialSampler
from .._checks import no_size, size
from .._parts import Shuffles
from ..datapipe import IterDataPipe, functional_datapipe

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


class SamplerIterDataPipe(IterDataPipe[Any]):
    """What a sampler makes of a pipe.

    Args:
        datapipe: the examples, with a length.
        sampler: the sampler's class.
        sampler_args: its arguments.
        sampler_kwargs: its arguments by name.
    """

    def __init__(
        self, datapipe: Any, sampler: Any = SequentialSampler, sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(datapipe, Sized):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        self.datapipe = datapipe
        self.sampler_args = () if sampler_args is None else sampler_args
        self.sampler_kwargs = {} if sampler_kwargs is None else sampler_kwargs
        self.sampler_kwargs["data_source"] = datapipe
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        if isinstance(self.sampler, Sized):
            return len(self.sampler)
        raise no_size(self)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffles, IterDataPipe[Any]):
    """Examples in random order, drawn from a buffer.

    Args:
        datapipe: the examples.
        buffer_size: how many examples one is drawn from.
        unbatch_level: how many levels of batches are taken apart before.
    """

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe.unbatch(unbatch_level=unbatch_level) if unbatch_level else datapipe
        self.buffer_size = buffer_size
        self._buffer: list[Any] = []
        self._rng = random.Random()

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer, draw = self._buffer, self._rng.randint
        for x in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(x)
                continue
            i = draw(0, len(buffer) - 1)
            value, buffer[i] = buffer[i], x
            yield value
        while buffer:
            yield buffer.pop(draw(0, len(buffer) - 1))

    def __len__(self) -> int:
        return size(self, self.datapipe)

    def reset(self) -> None:
        """Empty the buffer, and seed the order of the next pass."""
        self._buffer = []
        if self._enabled:
            self._rng.seed(draw_seed(None) if self._seed is None else self._seed)
            self._seed = None
