"""Who is asking: the worker that a dataset runs in."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any


@dataclass
class WorkerInfo:
    """One worker among several, its seed and its dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class _Running(threading.local):
    info: WorkerInfo | None = None


RUNNING = _Running()


def get_worker_info() -> WorkerInfo | None:
    """The worker that the caller runs in; None in the main thread."""
    return RUNNING.info
