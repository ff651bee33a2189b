"""The processes of one machine: started together, watched, and ended together.

Each is the leader of a session of its own, so that a signal to it also reaches what it has started. A small process of
Python stands by. It reads from the launcher, and when the launcher is gone, however it went, it ends the sessions.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from ..elastic.multiprocessing.errors import ProcessFailure
from ._logs import Place, Shown

_GUARD = """
import os, sys
sessions = set()
for line in sys.stdin:
    number = int(line)
    if number > 0: sessions.add(number)
    else: sessions.discard(-number)
for number in sessions:
    try: os.killpg(number, 9)
    except OSError: pass
"""


class Guard:
    """Ends what this process has started if this process ends first."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def note(self, number: int) -> None:
        """Note a session, or with a negative number that it has ended."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"%d\n" % number)
            self._process.stdin.flush()

    def close(self) -> None:
        """Nothing is left to guard."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


class Child:
    """One process."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], place: Place, guard: Guard, before: str) -> None:
        self.rank, self.local_rank, self.place = int(env["RANK"]), int(env["LOCAL_RANK"]), place
        with contextlib.ExitStack() as files:
            out, err = (
                None if path is None else files.enter_context(open(path, "wb")) for path in (place.out, place.err)
            )
            self._process = subprocess.Popen(command, env=env, stdout=out, stderr=err, start_new_session=True)
        self.pid, self._guard = self._process.pid, guard
        guard.note(self.pid)
        self._shown = [Shown(path, stream, before) for path, stream in place.shown]

    @property
    def exit_code(self) -> int | None:
        """What it returned, or None while it runs."""
        running = self._process.returncode is None
        code = self._process.poll()
        if running and code is not None:
            self._guard.note(-self.pid)
        return code

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it has started."""
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def stop_showing(self) -> None:
        """Show the rest of what it wrote."""
        for shown in self._shown:
            shown.stop()

    def failure(self) -> ProcessFailure:
        """How it failed."""
        code = self.exit_code
        assert code is not None
        return ProcessFailure(self.local_rank, self.pid, code, self.place.error_file)


class Children:
    """The processes of one machine, of one attempt."""

    def __init__(self, guard: Guard) -> None:
        self._guard, self._started = guard, list[Child]()

    def start(self, command: Sequence[str], env: Mapping[str, str], place: Place, before: str) -> None:
        """Start one more."""
        self._started.append(Child(command, env, place, self._guard, before))

    def running(self) -> list[Child]:
        """Those that have not ended."""
        return [c for c in self._started if c.exit_code is None]

    def failures(self) -> dict[int, ProcessFailure]:
        """How those failed that have ended with another code than 0, by rank."""
        return {c.rank: c.failure() for c in self._started if c.exit_code}

    def pause(self, seconds: float) -> None:
        """Wait, but not after a process has failed: others may fail because of it, and are not the cause."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not any(c.exit_code for c in self._started):
            time.sleep(min(0.005, seconds))

    def end(self, number: int, seconds: float) -> None:
        """End all: by a signal, and by SIGKILL those that still run after some time."""
        deadline = time.monotonic() + seconds
        for child in self.running():
            child.signal(number)
        while self.running() and time.monotonic() < deadline:
            time.sleep(0.02)
        while left := self.running():
            for child in left:
                child.signal(signal.SIGKILL)
            time.sleep(0.02)
        for child in self._started:
            child.stop_showing()
