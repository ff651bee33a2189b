"""Datasets for worker processes, which import them by name."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np

import torchgrad_jax as torch
from torchgrad_jax.utils.data import Dataset, get_worker_info

STARTED = []


def started(worker: int) -> None:
    """For `worker_init_fn`."""
    STARTED.append(worker)


class Elsewhere(Dataset[Any]):
    """Tells where each example was made, and what was drawn there."""

    def __getitem__(self, i: int) -> Any:
        info = get_worker_info()
        assert info is not None
        assert info.dataset is self
        return {
            "i": i,
            "pid": os.getpid(),
            "worker": info.id,
            "started": [info.id] == STARTED,
            "torch": torch.rand(1).item(),
            "python": random.random(),
            "numpy": np.random.rand(),  # noqa: NPY002
            "large": torch.full((3000,), float(i)),
        }

    def __len__(self) -> int:
        return 8


class Failing(Dataset[Any]):
    """Fails in one way after the other."""

    def __getitem__(self, i: int) -> Any:
        if i == 1:
            raise LookupError("one")
        if i == 2:
            raise RuntimeError("two")
        if i == 3:
            os._exit(1)
        return i

    def __len__(self) -> int:
        return 5
