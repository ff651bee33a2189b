"""What a long run has judged so far, in a file from which the next call goes on."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_EVERY = 5.0
"""Seconds between two writes."""


class SavedState:
    """Rows by id, and counts; without a file it is kept in memory alone."""

    def __init__(self, file: str | None, about: str) -> None:
        self.path = None if file is None else Path(file)
        self.about = about
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
        self.rows, self.counts = rows, counts

    def keep(self, counts: Mapping[str, int] = {}, now: bool = False) -> None:
        """Write the file if it was not written for some seconds; whole, or not at all."""
        self.counts = dict(counts)
        if self.path is None or not (now or time.time() - self._written > _EVERY):
            return
        self._written = time.time()
        data = {"about": self.about, "counts": self.counts, "rows": self.rows}
        beside = self.path.with_suffix(".part")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(data) + "\n", encoding="utf-8")
        os.replace(beside, self.path)
