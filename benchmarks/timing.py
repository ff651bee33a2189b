"""Fair timing of several contenders: interleaved rounds, best of all rounds."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def best_of(contenders: dict[str, Callable[[], object]], rounds: int = 25, inner: int = 5) -> dict[str, float]:
    """Seconds per call of each contender: its best round, rounds interleaved so that noise hits all alike.

    The order is turned around each time: threads that one library keeps spinning slow down whoever comes next.
    """
    for fn in contenders.values():
        for _ in range(5):  # compile, and let structures be recognised
            fn()
    best = dict.fromkeys(contenders, float("inf"))
    gc.disable()
    try:
        for k in range(rounds):
            for name in list(contenders)[:: -1 if k % 2 else 1]:
                fn = contenders[name]
                start = time.perf_counter()
                for _ in range(inner):
                    fn()
                best[name] = min(best[name], (time.perf_counter() - start) / inner)
            gc.collect()
    finally:
        gc.enable()
    return best
