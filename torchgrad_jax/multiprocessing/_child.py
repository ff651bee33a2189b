"""What a process does that was forked from the server."""

from __future__ import annotations

import pickle
import signal
import traceback
from multiprocessing import process

from .._core.arrays.devices import BEFORE_OPENING
from . import _carrying, _memory, _surroundings


class Inherited:
    """A descriptor that a child inherits, by its number among those."""

    def __init__(self, number: int) -> None:
        self._number = number

    def detach(self) -> int:
        """The descriptor, in the child."""
        return _INHERITED[self._number]


_INHERITED: list[int] = []


def begin(job: int, inherited: list[int]) -> int:
    """Run the process that the program has started; its exit code.

    Args:
        job: a descriptor of the memory that says what to do.
        inherited: the descriptors that come with it.
    """
    _INHERITED[:] = inherited
    _carrying.IN_WORKER.append(True)
    BEFORE_OPENING.clear()  # it is none of the processes that a launcher has started
    process.current_process()._inheriting = True  # type: ignore[attr-defined]
    try:
        path, alias, rest = pickle.loads(_memory.private(job))
        _surroundings.allow_imports(path, alias)
        surroundings, parcel = pickle.loads(rest)
        _surroundings.put_on(surroundings)
        process_obj = parcel.open()
    except Exception:  # of the program's classes: nobody else can tell
        traceback.print_exc()
        return 1
    finally:
        del process.current_process()._inheriting  # type: ignore[attr-defined]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return process_obj._bootstrap(None)
