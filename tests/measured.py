"""Which tests run: what each takes was measured, and a run takes as many of them as fit into its time.

    pytest --seconds=700               # tests of 700 seconds of CPU time, on the machine that has measured them
    pytest --measure=build/seconds     # notes in this folder what each test takes
    python -m tests.measured build/seconds    # writes tests/seconds.txt from these notes

A test that takes less than a threshold runs always. One that takes ten times the threshold runs on one day in ten, and
the day of the commit says on which. The threshold is such that the tests of a day take the time that was asked for. A
test that nobody has measured yet counts as a short one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("seconds.txt")
_ROOT = FILE.parents[1]
_LEAST, _FEW = 0.02, 0.2
"""Tests that take less than the first need no line, nor do cases that take but the second longer than their like."""
_USUAL = 0.01
"""What a test without a line takes."""
_GOLDEN = 0.6180339887498949
"""Multiples of it are spread evenly over the numbers from 0 to 1, so that a test's turn comes in even distances."""


class Seconds:
    """What the tests take: `of("tests/test_a.py::test_b[case]")` is the CPU time in seconds."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._known: dict[str, float] = {}
        file = ""
        for line in lines:
            if not line.startswith("\t"):
                file = line
                continue
            seconds, name = line[1:].split("\t", 1)
            self._known[f"{file}::{name}"] = float(seconds)

    @classmethod
    def stored(cls) -> Seconds:
        """Those of `seconds.txt`."""
        return cls(FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else ())

    def of(self, test: str) -> float:
        """The time of a test: its own, or the one that the cases of its function have in common."""
        found = self._known.get(test)
        return self._known.get(_function(test), _USUAL) if found is None else found


def _function(test: str) -> str:
    return test.partition("[")[0]


def chosen(tests: Sequence[str], seconds: Seconds, budget: float, day: int) -> list[bool]:
    """Of each test, whether it runs on a day on which there is so much time.

    Args:
        tests: their names.
        seconds: what they take.
        budget: the time for all of them together, in seconds.
        day: the number of the day.
    """
    takes = [seconds.of(test) for test in tests]
    threshold = _threshold(takes, budget)
    return [t <= threshold or _turn(test, day) * t < threshold for test, t in zip(tests, takes)]


def _threshold(takes: Sequence[float], budget: float) -> float:
    """The time up to which a test always runs: if each longer one counts as much as this, all fit into the budget."""
    rest = budget
    for i, t in enumerate(rising := sorted(takes)):
        if t * (len(rising) - i) > rest:
            return rest / (len(rising) - i)
        rest -= t
    return max(takes, default=0.0)


def _turn(test: str, day: int) -> float:
    """A number from 0 to 1 for each test and day; over the days each test gets all of them evenly."""
    return (zlib.crc32(test.encode()) / 2**32 + day * _GOLDEN) % 1


def today() -> int:
    """The number of the day of the commit; 0 where git does not know it."""
    git = shutil.which("git")
    if git is None:
        return 0
    command = [git, "-C", str(_ROOT), "log", "-1", "--format=%ct"]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return int(text or 0) // 86_400


# --- measuring ----------------------------------------------------------------------------------------


class Measuring:
    """A plugin of pytest that notes the CPU time of each test, that of processes that it starts included."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"{os.getpid()}.txt"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note what a test takes, with what it sets up."""
        before = sum(os.times()[:4])
        result = yield
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{sum(os.times()[:4]) - before:.3f}\t{item.nodeid}\n")
        return result


def table(notes: Mapping[str, float], kept: Mapping[str, float] | None = None) -> str:
    """The text of `seconds.txt`: the time of each function's cases, and of the cases that take much longer.

    Args:
        notes: what tests took.
        kept: what the table says of other functions and cases.
    """
    functions: defaultdict[str, list[float]] = defaultdict(list)
    for test, seconds in notes.items():
        functions[_function(test)].append(seconds)
    usual = {name: sorted(found)[len(found) // 2] for name, found in functions.items()}
    lines = dict(kept or {})
    lines |= {name: t for name, t in usual.items() if t >= _LEAST}
    lines |= {test: t for test, t in notes.items() if t >= 2 * usual[_function(test)] + _FEW}
    files: defaultdict[str, list[str]] = defaultdict(list)
    for test, seconds in sorted(lines.items()):
        file, _, name = test.partition("::")
        files[file].append(f"\t{seconds:.2g}\t{name}\n")
    return "".join(f"{file}\n{''.join(names)}" for file, names in sorted(files.items()))


def main(folder: str) -> int:
    """Write what was noted in a folder; tests that did not run there keep the time that they had."""
    notes: dict[str, float] = {}
    for file in Path(folder).glob("*.txt"):
        for line in file.read_text(encoding="utf-8").splitlines():
            seconds, test = line.split("\t", 1)
            notes[test] = float(seconds)
    met = notes.keys() | {_function(test) for test in notes}
    others = {t: s for t, s in Seconds.stored()._known.items() if t not in met}
    FILE.write_text(table(notes, others), encoding="utf-8")
    sys.stdout.write(f"{len(notes)} tests take {sum(notes.values()):.0f} s of CPU time\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
