"""Programs that end in the middle of loading, each a fork of this one before anything runs: none may leave a process.

`python -m tests.utils.loading.endings N WAY ...` lets programs end in these ways, N times each, and writes the ids of
the processes that they left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import torchgrad_jax as tg
from torchgrad_jax.multiprocessing import _forks
from torchgrad_jax.utils.data import DataLoader, Dataset

PATIENCE = 20.0


class Images(Dataset[Any]):
    def __init__(self, way: str) -> None:
        self.way = way

    def __getitem__(self, i: int) -> Any:
        if i >= 4 and self.way == "a worker raises":
            raise LookupError("four")
        if i >= 4 and self.way == "killed while workers are busy":
            time.sleep(1000)
        if i >= 4 and self.way == "a worker is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return tg.ones(64, 64) * i

    def __len__(self) -> int:
        return 1000


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _interrupt_all() -> None:
    """As the terminal does at Ctrl-C."""
    os.killpg(os.getpgid(0), signal.SIGINT)


WAYS: dict[str, Callable[[], Any]] = {
    "killed": _kill,
    "killed while workers are busy": _kill,
    "interrupted": _interrupt_all,
    "exits": lambda: sys.exit(3),
    "ends at once": lambda: os._exit(3),
    "a worker raises": lambda: None,
    "a worker is killed": lambda: None,
    "the server is killed": lambda: os.kill(_forks.SERVER.pid, signal.SIGKILL),
}


def program(way: str, pids: int) -> None:
    """What one of the programs does."""
    os.setpgid(0, 0)
    loader = iter(DataLoader(Images(way), 2, num_workers=2, persistent_workers=way == "exits"))
    next(loader)
    os.write(pids, " ".join(str(p) for p in [_forks.SERVER.pid, *(w.pid for w in loader._workers)]).encode())
    WAYS[way]()
    for _ in loader:
        pass


def left_by(way: str) -> Callable[[], list[int]]:
    """Begin a program; what is returned waits for its end and tells what it left."""
    read, write = os.pipe()
    program_pid = os.fork()
    if not program_pid:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            program(way, write)
        finally:
            # What the interpreter does at the end of a program.
            import atexit

            atexit._run_exitfuncs()
            os._exit(0)
    os.close(write)

    def wait() -> list[int]:
        pids = [int(x) for x in os.read(read, 1000).split()]
        os.close(read)
        os.waitpid(program_pid, 0)
        assert len(pids) == 3, f"the program that was to end so did not begin: {way}"
        until = time.monotonic() + PATIENCE
        while (left := [pid for pid in pids if runs(pid)]) and time.monotonic() < until:
            time.sleep(0.01)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left

    return wait


def runs(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    for _ in range(int(sys.argv[1])):
        waits = {way: left_by(way) for way in sys.argv[2:]}
        for way, wait in waits.items():
            sys.stdout.write(": ".join([way, *map(str, wait())]) + "\n")
