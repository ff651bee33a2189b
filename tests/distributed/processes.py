"""Tests that need several processes: a file's programs run together, once in each process and with each package.

together = Together(3)
test_same_as_torch = together.test()

@together
def sums(m, d):
    x = m.ones(2) * d.get_rank()
    d.all_reduce(x)
    return x

Each process runs all programs of the file in the order of their declaration, so that starting the processes is
paid for once. What a test compares is the list of what the ranks returned.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pickle
import random
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import pytest

from tests.programs import complaint as complaint

ROOT = Path(__file__).resolve().parents[2]


LIMIT = 120
"""Seconds after which a process hangs. Nothing is done so late, on a machine with much other work either."""


def free_port() -> int:
    """A port that nobody listens on now; drawn at random, so that two runs of the tests seldom meet."""
    while True:
        port = random.SystemRandom().randrange(20000, 60000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def environment(**more: str) -> dict[str, str]:
    """The environment of a process of a test: this one's, with the package on the path."""
    found = dict(os.environ, PYTHONPATH=str(ROOT), JAX_PLATFORMS="cpu", OMP_NUM_THREADS="1")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        found.pop(name, None)
    return {**found, **more}


def ranks(command: list[str], n: int, **more: str) -> list[subprocess.Popen[str]]:
    """Start `n` processes of one command that find each other by their environment."""
    port = str(free_port())
    return [
        subprocess.Popen(
            command,
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(
                RANK=str(r), WORLD_SIZE=str(n), LOCAL_RANK=str(r), MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **more
            ),
        )
        for r in range(n)
    ]


def finished(processes: list[subprocess.Popen[str]], timeout: float = LIMIT) -> list[str]:
    """What the processes wrote, once all have ended; none outlives a failure."""
    try:
        return [p.communicate(timeout=timeout)[0] for p in processes]
    finally:
        for p in processes:
            p.kill()
            p.wait()


class Together(list[Any]):
    """Programs of one test file, run together in `n` processes, whose environment may have more in it."""

    def __init__(self, n: int, **environment: str) -> None:
        super().__init__()
        self.n, self.environment = n, environment
        self.found: dict[tuple[str, str], list[Any]] = {}

    def __call__(self, fn: Any) -> Any:
        self.append(fn)
        return fn

    def results(self, package: str, module: str) -> list[Any]:
        """What all programs returned in each process; the processes themselves must not fail."""
        if (package, module) not in self.found:
            self.found[package, module] = self._results(package, module)
        return self.found[package, module]

    def _results(self, package: str, module: str) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.distributed.processes", package, module, folder]
            started = ranks(command, self.n, **self.environment)
            said = finished(started)
            if any(p.returncode for p in started):
                pytest.fail("\n".join(said))
            return [pickle.loads((Path(folder) / str(r)).read_bytes()) for r in range(len(started))]

    def test(self) -> Any:
        """One test of all of them, also of those that are declared later: another test might be another process."""

        def test_same_as_torch(same: Any) -> None:
            assert self
            for fn in self:
                for result in self.results("torchgrad_jax", fn.__module__):
                    assert not str(result[fn.__name__]).startswith(RAISED), result[fn.__name__]
                same(self._program(fn))

        return test_same_as_torch

    def _program(self, fn: Any) -> Any:
        @functools.wraps(fn)
        def program(m: Any) -> Any:
            return [unpacked(m, r[fn.__name__]) for r in self.results(m.__name__, fn.__module__)]

        return program


RAISED = "raised in a process:\n"
_TENSOR = "a tensor"
"""Tensors travel between processes as this word, a dtype that NumPy has no name for, and an array."""


def packed(m: Any, value: Any) -> Any:
    """A result as bytes can hold it for either package."""
    if isinstance(value, m.Tensor):
        if value.dtype == m.bfloat16:
            return (_TENSOR, "bfloat16", value.detach().float().numpy())
        return (_TENSOR, None, value.detach().resolve_conj().numpy().copy())
    if isinstance(value, dict):
        return {k: packed(m, v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(packed(m, v) for v in value)
    return value


def unpacked(m: Any, value: Any) -> Any:
    """The inverse of `packed`."""
    if isinstance(value, tuple) and value[:1] == (_TENSOR,):
        tensor = m.from_numpy(value[2].copy())
        return tensor if value[1] is None else tensor.to(m.bfloat16)
    if isinstance(value, dict):
        return {k: unpacked(m, v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(unpacked(m, v) for v in value)
    return value


def _outcome(m: Any, d: Any, fn: Any) -> Any:
    try:
        return packed(m, fn(m, d))
    except Exception:
        return RAISED + traceback.format_exc()


def main(package: str, module: str, folder: str) -> None:
    """What one process does: all programs of a file, with their results in a file of its own."""
    import datetime

    m, tests = importlib.import_module(package), importlib.import_module(module)
    d = importlib.import_module(package + ".distributed")
    importlib.import_module(package + ".distributed.nn")
    d.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
    programs = next(v for v in vars(tests).values() if isinstance(v, list) and hasattr(v, "n"))
    results = {fn.__name__: _outcome(m, d, fn) for fn in programs}
    Path(folder, str(d.get_rank())).write_bytes(pickle.dumps(results))
    if package == "torch":
        # gloo's, if another process leaves the barrier and ends first.
        with contextlib.suppress(RuntimeError):
            d.barrier()
        os._exit(0)  # its threads sometimes abort an ordinary exit, after all answers are written
    d.barrier()
    d.destroy_process_group()


if __name__ == "__main__":
    sys.modules.setdefault("tests.distributed.processes", sys.modules["__main__"])
    main(*sys.argv[1:])
