"""The sampler of one process among several; a single process may use it with explicit numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..._functions.random import Generator
from ...distributed import get_rank, get_world_size
from . import _draw
from .sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index of an order that all processes agree on.

    Raises:
        ValueError: the rank is not below `num_replicas`, or one of them is left out and there is no process group.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        num_replicas = get_world_size() if num_replicas is None else num_replicas
        rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0
        n = len(dataset)
        short = drop_last and n % num_replicas
        self.num_samples = math.ceil(((n - num_replicas) if short else n) / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        order = list(range(n))
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = _draw.permutation(n, generator)
        if not self.drop_last and order:
            order = (order * math.ceil(self.total_size / n))[: self.total_size]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Change the order, in all processes alike."""
        self.epoch = epoch
