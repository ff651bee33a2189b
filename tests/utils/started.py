"""Functions that started processes import by name."""

from __future__ import annotations

from pathlib import Path


def write_or_fail(i: int, folder: str) -> None:
    if i == 1:
        raise ValueError("as it has to")
    Path(folder, str(i)).write_text("written")
