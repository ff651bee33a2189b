"""Fair timing of several contenders: interleaved rounds, best of all rounds."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence

ROUND = 1e-3
"""About how many seconds a round of `rounds_in_turn` takes, if one call takes less."""
FEWEST = 7
LONG = 0.3


def best_of(contenders: dict[str, Callable[[], object]], rounds: int = 25, inner: int = 5) -> dict[str, float]:
    """Seconds per call of each contender: its best round, rounds interleaved so that noise hits all alike.

    The order is turned around each time: threads that one library keeps spinning slow down the next one.
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


def rounds_in_turn(
    contenders: Sequence[tuple[Callable[[], object], Callable[[], object]]], seconds: float
) -> list[list[float]]:
    """CPU seconds per call of each contender, in each of many short rounds that they take in turn.

    CPU time leaves out what others run on the same core. It adds up threads, so it is for processes that have one core.

    Args:
        contenders: For each one a call, and what waits for all that its calls have begun.
        seconds: How long to measure for. There are `FEWEST` rounds at least, of one call at least.
    """
    inner = [max(1, round(ROUND / _shortest(*each))) for each in contenders]
    found: list[list[float]] = [[] for _ in contenders]
    gc.collect()
    gc.freeze()  # what lives on is not looked at again, so that the collections below take no time
    gc.disable()
    end = time.perf_counter() + seconds
    try:
        while len(found[0]) < FEWEST or time.perf_counter() < end:
            for k in range(len(contenders)):
                found[k].append(_round(*contenders[k], inner[k]))
            gc.collect()
    finally:
        gc.enable()
    return found


def _shortest(call: Callable[[], object], wait: Callable[[], object]) -> float:
    """CPU seconds of the shortest of some calls: ten, or fewer that take long. The first ones compile."""
    end = time.perf_counter() + LONG
    found = [_round(call, wait, 1) for _ in range(3)]
    while len(found) < 10 and time.perf_counter() < end:
        found.append(_round(call, wait, 1))
    return min(found)


def _round(call: Callable[[], object], wait: Callable[[], object], inner: int) -> float:
    """CPU seconds per call; the last result is held, because nobody waits for one that is dropped."""
    result = None
    start = time.process_time()
    for _ in range(inner):
        result = call()
    wait()
    seconds = (time.process_time() - start) / inner
    del result
    return seconds
