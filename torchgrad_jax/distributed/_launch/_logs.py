"""Where launched processes write: the terminal, files, or both; and where they leave their errors."""

from __future__ import annotations

import os
import re
import shutil
import string
import sys
import tempfile
import threading
from dataclasses import dataclass
from typing import IO, Any

from ._settings import Logs

OUT, ERR = 1, 2


def streams(text: str, processes: int) -> dict[int, int]:
    """Return what `--redirects` and `--tee` mean: `3` for all local ranks, or `0:1,1:2` for some of them."""
    if re.fullmatch("[0-3]", text):
        return dict.fromkeys(range(processes), int(text))
    if not re.fullmatch(r"\d+:[0-3](,\d+:[0-3])*,?", text):
        raise ValueError(f"{text} is neither one of 0, 1, 2 and 3 nor like 0:1,1:2")
    pairs = (p.split(":") for p in text.strip(",").split(","))
    asked = {int(rank): int(stream) for rank, stream in pairs}
    return {rank: asked.get(rank, 0) for rank in range(processes)}


@dataclass(frozen=True)
class Place:
    """Where one process writes: a file, nothing (`os.devnull`), or the terminal (None)."""

    out: str | None
    err: str | None
    error_file: str
    shown: tuple[tuple[str, int], ...]
    """Files that are also shown, with their streams."""


class Folder:
    """The folder of a launch: `attempt_0/1/` has the files of local rank 1."""

    def __init__(self, asked: Logs, run_id: str) -> None:
        self.asked = asked
        self.path: str | None = None
        if asked.folder == os.devnull:
            return
        base = asked.folder or tempfile.mkdtemp(prefix="torchelastic_")
        self._own = None if asked.folder else base
        os.makedirs(base, exist_ok=True)
        self.path = tempfile.mkdtemp(prefix=f"{run_id}_", dir=base)

    def place(self, attempt: int, local_rank: int) -> Place:
        """The files of a process."""
        asked, files = self.asked, {OUT: "stdout.log", ERR: "stderr.log"}
        hidden = asked.shown is not None and local_rank not in asked.shown
        copied = asked.copied[local_rank]
        if self.path is None:
            quiet = os.devnull if hidden else None
            return Place(quiet, quiet, "", ())
        folder = os.path.join(self.path, f"attempt_{attempt}", str(local_rank))
        os.makedirs(folder)
        kept = asked.redirected[local_rank] | copied
        paths = {s: os.path.join(folder, f) for s, f in files.items() if kept & s}
        shown = tuple((paths[s], s) for s in files if copied & s and not hidden)
        else_to = os.devnull if hidden else None
        error_file = os.path.join(folder, "error.json")
        return Place(paths.get(OUT, else_to), paths.get(ERR, else_to), error_file, shown)

    def remove(self) -> None:
        """Remove a folder that nobody asked for."""
        if self.path is None or self._own is None:
            return
        if not any((*self.asked.redirected.values(), *self.asked.copied.values())):
            shutil.rmtree(self._own, ignore_errors=True)


def prefix(asked: Logs, role: str, rank: int, local_rank: int) -> str:
    """Return what stands before each line that is shown of a file."""
    if asked.prefix is None:
        return f"[{role}{local_rank}]:"
    names = {"role_name": role, "rank": rank, "local_rank": local_rank}
    return string.Template(asked.prefix).safe_substitute(names)


class Shown:
    """Shows the lines of a file while a process writes it, in a thread of its own."""

    def __init__(self, path: str, stream: int, before: str) -> None:
        self._path, self._before = path, before
        self._to: IO[str] = sys.stdout if stream == OUT else sys.stderr
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="log")
        self._thread.start()

    def _follow(self) -> None:
        with open(self._path, errors="replace") as file:
            while True:
                last = self._ended.is_set()
                self._show(file)
                if last:
                    break
                self._ended.wait(0.1)
            self._show(file, "\n")

    def _show(self, file: Any, end: str = "") -> None:
        """Show whole lines; at the end also one that has no end."""
        at = file.tell()
        while line := file.readline():
            if not line.endswith("\n"):
                if not end:
                    file.seek(at)
                    return
                line += end
            self._to.write(self._before + line)
            at = file.tell()
        self._to.flush()

    def stop(self) -> None:
        """Show the rest; the process has ended."""
        self._ended.set()
        self._thread.join()
