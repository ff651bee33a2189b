"""Copies of a dataset for workers that are threads, and why it could not be sent to a process.

A lock is copied as a new one, and a file that was opened by its name is opened once more, at the same place. What has
no copy, such as a connection to a database, the copies share: only one of them is used at a time.
"""

from __future__ import annotations

import collections.abc
import contextlib
import io
import pickle
import threading
import types
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import context
from typing import Any

import numpy as np

from ....multiprocessing import _carrying

_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())
_DEPTH = 8
"""How far into a dataset the attribute is looked for that stands in the way."""


class _Copier(_carrying.Pickler):
    """Pickles for the same process: functions, classes and what cannot be pickled are only referred to."""

    def __init__(self, file: Any, apart: Any, storages: Any) -> None:
        super().__init__(file, apart, storages)
        self.referred: list[Any] = []
        self.opened: list[Any] = []
        self._numbers: dict[int, tuple[int, Any]] = {}

    def persistent_id(self, obj: Any) -> int | None:
        """Number what is referred to."""
        if isinstance(obj, type | types.FunctionType | types.ModuleType):
            return self._number(obj, lambda: obj)
        if type(obj) in _PLAIN:
            return None
        try:
            self._reduced(obj)
        except Exception:  # whatever says that it cannot be pickled
            return self._number(obj, lambda: self._another(obj))
        return None

    def _reduced(self, obj: Any) -> None:
        if super().reducer_override(obj) is NotImplemented:
            reduce = self.dispatch_table.get(type(obj))
            obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if reduce is None else reduce(obj)

    def _number(self, obj: Any, stand_in: Callable[[], Any]) -> int:
        if id(obj) not in self._numbers:
            self._numbers[id(obj)] = len(self.referred), obj
            self.referred.append(stand_in())
        return self._numbers[id(obj)][0]

    def _another(self, obj: Any) -> Any:
        """Return what stands in a copy for something that cannot be pickled."""
        if isinstance(obj, _LOCK | _RLOCK):
            return threading.RLock() if isinstance(obj, _RLOCK) else threading.Lock()
        if isinstance(obj, io.IOBase):
            self.opened.append(_opened_again(obj))
            return self.opened[-1] or obj
        handle = hasattr(obj, "close") and not isinstance(obj, types.GeneratorType)  # such as a cursor of a database
        if isinstance(obj, collections.abc.Iterator) and not handle:
            raise TypeError(
                f"a '{type(obj).__name__}' can be neither pickled nor copied, and workers that share one would each "
                "get a part of what it gives: make it in __iter__ or __getitem__, or use num_workers=0"
            )
        return obj


_PLAIN = {type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, np.ndarray}


class _Loader(pickle.Unpickler):
    def __init__(self, file: Any, buffers: list[Any], referred: list[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self._referred = referred

    def persistent_load(self, pid: Any) -> Any:
        return self._referred[pid]


def _opened_again(file: Any) -> Any:
    """The same file at the same place; None where it has no name, or is written to."""
    name, mode = getattr(file, "name", None), getattr(file, "mode", None)
    if not isinstance(name, str) or not isinstance(mode, str) or "w" in mode or file.closed or not file.seekable():
        return None
    more = {"encoding": file.encoding, "errors": file.errors} if isinstance(file, io.TextIOBase) else {}
    again = open(name, mode.replace("x", "r"), **more)  # noqa: SIM115
    with contextlib.suppress(OSError):
        again.seek(file.tell())
    return again


class _NoProcess:
    """Stands for a process that is being started, and takes no descriptors: the copies share queues and sockets."""

    DupFd = None

    def duplicate_for_child(self, fd: int) -> int:
        """Refuse."""
        raise TypeError("a descriptor is not copied")


def copied(obj: Any) -> tuple[Any, list[Any]]:
    """A copy, as far as there can be one, and the files that were opened for it."""
    copiers: list[_Copier] = []

    def copier(*args: Any) -> _Copier:
        copiers.append(_Copier(*args))
        return copiers[0]

    before = context.get_spawning_popen()
    context.set_spawning_popen(_NoProcess())
    try:
        pickled = _carrying.dumps(obj, worth=0, pickler=copier)
    finally:
        context.set_spawning_popen(before)
    apart = [bytearray(x) for x in pickled.apart]
    copy = _carrying.loads(
        replace(pickled, apart=apart),
        lambda body, buffers: _Loader(io.BytesIO(body), buffers, copiers[0].referred).load(),
    )
    return copy, [file for file in copiers[0].opened if file is not None]


# --- what stands in the way -----------------------------------------------------------------------


def obstacle(obj: Any, error: Exception) -> str:
    """Return which part of an object cannot be pickled, and why."""
    path, inner = "", obj
    for _ in range(_DEPTH):
        for name, part in _parts(inner):
            problem = _problem(part)
            if problem is not None:
                path, inner, error = path + name, part, problem
                break
        else:
            break
    return f"{path.removeprefix('.')} ({error})" if path else str(error)


def _problem(obj: Any) -> Exception | None:
    try:
        _carrying.dumps(obj, worth=0)
    except Exception as error:  # whatever pickling it raises
        return error
    return None


def _parts(obj: Any) -> list[tuple[str, Any]]:
    if isinstance(obj, dict):
        return [(f"[{k!r}]", v) for k, v in obj.items()]
    if isinstance(obj, list | tuple | set | frozenset):
        return [(f"[{i}]", v) for i, v in enumerate(obj)]
    if isinstance(obj, types.FunctionType):
        cells = zip(obj.__code__.co_freevars, obj.__closure__ or ())
        names = [(n, obj.__globals__[n]) for n in obj.__code__.co_names if n in obj.__globals__]
        return [(f".{n}", c.cell_contents) for n, c in cells] + [(f".{n}", v) for n, v in names]
    methods = [(n, v) for n, v in vars(type(obj)).items() if isinstance(v, types.FunctionType)]
    return [(f".{n}", v) for n, v in [*getattr(obj, "__dict__", {}).items(), *methods]]
