"""Files of nvprof, which are SQLite databases: their ranges and the kernels that were started in these."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._core.signals import contextmanager
from .profiler_util import FunctionEvent, demangled

_STRINGS = "select _id_, value from StringTable"
_MARKERS = """
select a.id, a.name, a.timestamp, b.timestamp
from CUPTI_ACTIVITY_KIND_MARKER a join CUPTI_ACTIVITY_KIND_MARKER b on a.id = b.id
where a.name <> 0 and b.name = 0
"""
# Each call of the driver inside of a range, with the kernel that it started.
_KERNELS = """
select a.id, r._id_, r.cbid, k.name, k.end - k.start
from CUPTI_ACTIVITY_KIND_MARKER a join CUPTI_ACTIVITY_KIND_MARKER b on a.id = b.id
join CUPTI_ACTIVITY_KIND_RUNTIME r on r.start > a.timestamp and r.end < b.timestamp
join CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL k on k.correlationId = r.correlationId
"""
_LAUNCH = 211
"""The `cbid` of cudaLaunchKernel."""


class EnforceUnique:
    """Raises when it sees a key for the second time."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Note a key, given in parts."""
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """The database, for reading alone. Errors of SQLite name the file."""
    import sqlite3  # few programs read such files, and some Pythons are built without it

    try:
        with contextlib.closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as database:
            yield database
    except sqlite3.Error as error:
        raise type(error)(f"{path} cannot be read as a file of nvprof: {error}") from None


def parse_nvprof_trace(path: str | os.PathLike[str]) -> list[FunctionEvent]:
    """Read the ranges of a file of nvprof by time, each with the kernels that were started in it.

    Args:
        path: the SQLite file that ``nvprof -o`` wrote.

    Raises:
        sqlite3.Error: the file is not there, or nvprof did not write it.
        RuntimeError: a range or a call stands there twice.
        AssertionError: a kernel was started by something other than cudaLaunchKernel.
        KeyError: a range has no name.
    """
    path = os.fspath(path)
    with _opened(path) as database:
        names = dict(database.execute(_STRINGS))
        found: dict[int, FunctionEvent] = {}
        once = EnforceUnique()
        for key, name, start, end in database.execute(_MARKERS):
            once.see(key)
            if not isinstance(names.get(name), str):
                raise KeyError(f"{path}: range {key} has the name {name}, which is no text of its StringTable")
            found[key] = FunctionEvent(key, demangled(names[name]), 0, start, end, node_id=0)
        once = EnforceUnique()
        for key, call, started_by, name, duration in database.execute(_KERNELS):
            once.see(key, call)
            if started_by != _LAUNCH:
                raise AssertionError(f"Expected cbid to be {_LAUNCH}, but got {started_by}")
            found[key].append_kernel(name, 0, duration)
    return sorted(found.values(), key=lambda e: e.time_range.start)
