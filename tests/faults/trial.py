"""Plants one fault after the other and runs the tests that reach its line, until one fails."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, takewhile, zip_longest
from pathlib import Path
from typing import Any

from .listed import PACKAGE, Fault
from .survey import BUILD, command, copy_of_tree, environment, tests_of

RESULTS = BUILD / "results.jsonl"
FIRST, MOST = 30, 120
"""Tests that are tried for one fault: so many at first, those that reach the fewest faults, since most faults are found
by tests of what stands around them; then others, nearest folder first, from as many files as reach it."""
PATIENCE = 150
"""Seconds, after which nobody waits any more: the tests may hang, or they take long."""
_lock = threading.Lock()


def trial(faults: list[Fault], jobs: int) -> None:
    """Try all faults of which no result is known yet."""
    known, reach = results(), tests_of()
    rank = Counter(test for tests in reach.values() for test in tests)
    everywhere = sorted(test for test in rank if test)
    waiting = [f for f in faults if f.name not in known]
    places = [copy_of_tree(BUILD / f"copy-{i}") for i in range(jobs)]
    done = len(faults) - len(waiting)

    def run(fault: Fault) -> None:
        nonlocal done
        with _lock:
            place = places.pop()
        try:
            tests = reach.get(fault.name, [])
            result = try_one(fault, place, in_rounds(everywhere if tests == [""] else tests, rank, fault.path))
        finally:
            with _lock:
                places.append(place)
        with _lock:
            done += 1
            with RESULTS.open("a") as file:
                file.write(json.dumps({"name": fault.name, **result}) + "\n")
            print(f"{done}/{len(faults)} {result['state']:12} {fault.path} {fault.function}: {fault.wrong}", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, waiting))


def results() -> dict[str, dict[str, Any]]:
    """What is known of faults, by their names."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {row["name"]: row for row in map(json.loads, lines)}


def in_rounds(tests: list[str], rank: Mapping[str, int], path: str) -> list[list[str]]:
    """The tests that are tried at first, and those that are tried if these find nothing."""
    first = sorted(tests, key=lambda test: (rank[test], test))[:FIRST]
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in sorted(set(tests) - set(first)):
        by_file[test.partition("::")[0]].append(test)
    by_distance: dict[int, list[list[str]]] = defaultdict(list)
    for file, of_file in by_file.items():
        by_distance[-_folders_shared(file, path)].append(of_file)
    in_turn = [chain.from_iterable(zip_longest(*files)) for _, files in sorted(by_distance.items())]
    later = [test for test in chain.from_iterable(in_turn) if test is not None][: MOST - FIRST]
    return [tests for tests in (first, later) if tests]


def _folders_shared(file: str, path: str) -> int:
    """How near tests are: `tests/engine/run/test_a.py` and `_engine/run/b.py` of the package share two folders."""
    pairs = zip(Path(file).parts[1:-1], Path(path).parts[:-1])
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1].lstrip("_"), pairs))


def try_one(fault: Fault, place: Path, rounds: list[list[str]]) -> dict[str, Any]:
    """Plant a fault, and say what the tests say."""
    path = place / "torchgrad_jax" / fault.path
    source = (PACKAGE / fault.path).read_text()
    planted = fault.planted(source)
    if planted is None:
        return {"state": "gone"}
    if not rounds:
        return {"state": "not reached"}
    _put(path, planted)
    try:
        for tests in rounds:
            if found := _found_by(tests, place):
                return found
    except subprocess.TimeoutExpired:
        return {"state": "no end"}
    finally:
        _put(path, source)
    return {"state": "not found", "tests": sum(map(len, rounds))}


def _put(path: Path, source: str) -> None:
    """Write a source, and throw away what Python has compiled of the one before."""
    path.write_text(source)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def _found_by(tests: list[str], place: Path) -> dict[str, Any] | None:
    """What the first test says that fails, or None."""
    listed = place / "selected.txt"
    listed.write_text("\n".join(tests) + "\n")
    done = subprocess.run(
        command("-x", "-n", "0", f"@{listed}"),
        cwd=place,
        env=environment(place),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    by = failed[0].split(" - ")[0] if failed else (done.stdout + done.stderr)[-200:]
    ran = failed or done.returncode not in (4, 5) or "loading conftest" in done.stderr
    return {"state": "found" if ran else "not run", "by": by}
