"""What a long run has judged so far, in a file from which the next call goes on."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_EVERY = 5.0
"""Seconds between two writes."""


def code_of(*modules: str) -> str:
    """A digest of the sources, ledgers and recorded answers of some packages, and the version of JAX.

    Verdicts about other code say nothing about this code.
    """
    import jax

    found = hashlib.sha256(jax.__version__.encode())
    for name in modules:
        for file in _sources(name):
            found.update(file.name.encode())
            found.update(file.read_bytes())
    return found.hexdigest()


def _sources(module: str) -> list[Path]:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return []
    file = Path(spec.origin)
    if file.name != "__init__.py":
        return [file]
    kinds = (".py", ".toml", ".json", ".npz")
    return sorted(f for f in file.parent.rglob("*") if f.suffix in kinds)


class SavedState:
    """Rows by id, and counts; without a file it is kept in memory alone.

    Args:
        file: where they are kept.
        about: the run, in words; rows of another run are refused.
        code: a digest of what was judged (`code_of`); rows about other code are dropped.
    """

    def __init__(self, file: str | None, about: str, code: str = "") -> None:
        self.path = None if file is None else Path(file)
        self.about = about
        self.code = code
        self.rows: dict[str, Any] = {}
        self.counts: dict[str, int] = {}
        self._written = time.time()
        if self.path is not None and self.path.exists():
            self._load(self.path)

    def _load(self, path: Path) -> None:
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            about, rows, counts = data["about"], dict(data["rows"]), dict(data["counts"])
        except (ValueError, KeyError, TypeError) as error:
            sys.exit(f"{path} is not the state of a run ({error}); remove it, or name another file")
        if about != self.about:
            sys.exit(f"{path} is of another run:\n  there: {about}\n  now:   {self.about}")
        if data.get("code", "") != self.code:
            print(f"{path} is about other code: the run begins again")
            return
        self.rows, self.counts = rows, counts

    def keep(self, counts: Mapping[str, int] = {}, now: bool = False) -> None:
        """Write the file if it was not written for some seconds; whole, or not at all."""
        self.counts = dict(counts)
        if self.path is None or not (now or time.time() - self._written > _EVERY):
            return
        self._written = time.time()
        data = {"about": self.about, "code": self.code, "counts": self.counts, "rows": self.rows}
        beside = self.path.with_suffix(".part")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(data) + "\n", encoding="utf-8")
        os.replace(beside, self.path)
