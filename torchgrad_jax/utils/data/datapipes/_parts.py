"""What pipes by order and pipes by key have in common."""

from __future__ import annotations

import random
from typing import Any

from .datapipe import DataChunk


class Batches:
    """Batches of examples.

    Args:
        datapipe: the examples.
        batch_size: how many make a batch.
        drop_last: leave out the last batch where it is smaller.
        wrapper_class: made of the list of each batch.
    """

    def __init__(
        self,
        datapipe: Any,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Any = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class


class Shuffles:
    """A random order, which can be switched off and seeded."""

    _enabled = True
    _seed: int | None = None
    _rng: random.Random

    def set_shuffle(self, shuffle: bool = True) -> Any:
        """Whether the order is random."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Any:
        """The seed of the next pass."""
        self._seed = seed
        return self
