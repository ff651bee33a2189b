"""``python -m benchmarks.loaders``: what loaders with worker processes take, beside torch's on the same machine.

Each package runs in a process of its own, in turns; a figure is the least of its rounds.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

IMAGE = (3, 224, 224)


@dataclass(frozen=True)
class Case:
    """Something to load.

    Attributes:
        name: what the table calls it.
        batches: how many are taken.
        limit: times of torch's time that it may take; None where nothing is promised.
        loader: the loader, for a package and a number of batches.
        rounds: how often it is measured.
        until_first: whether only the time until the first batch counts.
    """

    name: str
    batches: int
    limit: float | None
    loader: Callable[[Any, int], Any]
    rounds: int = 2
    until_first: bool = False


def _busy(m: Any, n: int) -> Any:
    class Busy(m.utils.data.Dataset):
        def __getitem__(self, i: int) -> Any:
            end = time.perf_counter() + 0.005
            while time.perf_counter() < end:
                pass
            return m.ones(3, 32, 32), i

        def __len__(self) -> int:
            return 8 * n

    return m.utils.data.DataLoader(Busy(), 8, num_workers=2)


def _stream(m: Any, n: int, new: bool) -> Any:
    class Batches(m.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            batch = m.ones(64, *IMAGE)
            for i in range(n // 2):
                yield batch + i if new else batch

    return m.utils.data.DataLoader(Batches(), None, num_workers=2)


def _collated(m: Any, n: int) -> Any:
    class Images(m.utils.data.Dataset):
        def __init__(self) -> None:
            self.image = m.ones(*IMAGE)

        def __getitem__(self, i: int) -> Any:
            return self.image

        def __len__(self) -> int:
            return 64 * n

    return m.utils.data.DataLoader(Images(), 64, num_workers=2)


def _four(m: Any, n: int) -> Any:
    return m.utils.data.DataLoader(m.arange(64.0), num_workers=4)


CASES = (
    Case("5 ms of Python for each item, 2 workers, 100 batches of 8", 100, 1.15, _busy, 6),
    Case("1,000 batches of 64x3x224x224, each newly made", 1000, 1.2, lambda m, n: _stream(m, n, True), 1),
    Case("1,000 batches of 64x3x224x224, the same one", 1000, 1.2, lambda m, n: _stream(m, n, False)),
    Case("200 batches of 64x3x224x224, collated from images", 200, 1.2, _collated, 3),
    Case("from iter() to the first batch of 4 workers, after the first loader", 64, None, _four, 5, True),
)


def _seconds(m: Any, case: Case) -> float:
    list(case.loader(m, 4))  # the first loader of a program starts the process that workers are forked from
    loader = case.loader(m, case.batches)
    start = time.perf_counter()
    for batch in loader:
        if case.until_first:
            return time.perf_counter() - start
        del batch
    return time.perf_counter() - start


def _measured(package: str, number: int) -> float:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.loaders", package, str(number)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> int:
    """Print the table; exit 1 where a limit is missed."""
    if len(sys.argv) > 1:
        m = importlib.import_module(sys.argv[1])
        importlib.import_module(f"{sys.argv[1]}.utils.data")
        print(_seconds(m, CASES[int(sys.argv[2])]))
        return 0
    missed = False
    print("| loader | torch, s | torchgrad_jax, s | x torch | at most |\n| --- | --- | --- | --- | --- |")
    for number, case in enumerate(CASES):
        rounds = [[_measured(p, number) for p in ("torch", "torchgrad_jax")] for _ in range(case.rounds)]
        torchs, ours = (min(times) for times in zip(*rounds))
        missed |= case.limit is not None and ours > case.limit * torchs
        limit = "" if case.limit is None else f"{case.limit:.2f}"
        print(f"| {case.name} | {torchs:.2f} | {ours:.2f} | {ours / torchs:.2f} | {limit} |", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
