"""However a program ends, its workers and the process that they are forked from end with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .endings import WAYS

ROOT = Path(__file__).resolve().parents[3]


def left(*ways: str, times: int) -> dict[str, list[str]]:
    """By way, the processes that programs left."""
    command = [sys.executable, "-m", "tests.utils.loading.endings", str(times), *ways]
    # The ones that are interrupted interrupt their process group.
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split(": ") for line in done.stdout.splitlines()]
    assert len(lines) == times * len(ways)
    return {way: pids for way, *pids in lines}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_nothing_is_left_of_a_program() -> None:
    ways = ("killed while workers are busy", "interrupted", "a worker raises", "the server is killed")
    assert left(*ways, times=1) == {way: [] for way in ways}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_nothing_is_left_of_a_hundred_programs() -> None:
    before = set(os.listdir("/dev/shm"))
    assert left(*WAYS, times=13) == {way: [] for way in WAYS}
    assert not {name for name in set(os.listdir("/dev/shm")) - before if "torchgrad" in name or "tg_" in name}
