"""Plants one fault after the other and runs the tests that reach its line, until one fails."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from .listed import PACKAGE, Fault
from .survey import BUILD, command, copy_of_tree, environment, tests_of

RESULTS = BUILD / "results.jsonl"
MOST = 300
"""Tests that are tried for one fault, from as many files as reach it."""
PATIENCE = 300
"""Seconds, after which nobody waits any more: the tests may hang, or they take long."""
_lock = threading.Lock()


def trial(faults: list[Fault], jobs: int) -> None:
    """Try all faults of which no result is known yet."""
    known, reach = results(), tests_of()
    everywhere = selected(sorted({test for tests in reach.values() for test in tests if test}))
    waiting = [f for f in faults if f.name not in known]
    places = [copy_of_tree(BUILD / f"copy-{i}") for i in range(jobs)]
    done = len(faults) - len(waiting)

    def run(fault: Fault) -> None:
        nonlocal done
        with _lock:
            place = places.pop()
        try:
            tests = reach.get(fault.name, [])
            result = try_one(fault, place, everywhere if tests == [""] else selected(tests))
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


def selected(tests: list[str]) -> list[str]:
    """At most `MOST` of the tests, taken in turn from each file."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_file[test.partition("::")[0]].append(test)
    in_turn = chain.from_iterable(zip_longest(*by_file.values()))
    return [test for test in in_turn if test is not None][:MOST]


def try_one(fault: Fault, place: Path, tests: list[str]) -> dict[str, Any]:
    """Plant a fault, and say what the tests say."""
    path = place / "torchgrad_jax" / fault.path
    source = (PACKAGE / fault.path).read_text()
    planted = fault.planted(source)
    if planted is None:
        return {"state": "gone"}
    if not tests:
        return {"state": "not reached"}
    listed = place / "selected.txt"
    listed.write_text("\n".join(test for test in tests if test) + "\n")
    path.write_text(planted)
    try:
        done = subprocess.run(
            command("-x", "-n", "0", f"@{listed}"),
            cwd=place,
            env=environment(place),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"state": "no end"}
    finally:
        path.write_text(source)
    if done.returncode == 0:
        return {"state": "not found", "tests": len(tests)}
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    by = failed[0].split(" - ")[0] if failed else (done.stdout + done.stderr)[-200:]
    ran = failed or done.returncode not in (4, 5) or "loading conftest" in done.stderr
    return {"state": "found" if ran else "not run", "by": by}
