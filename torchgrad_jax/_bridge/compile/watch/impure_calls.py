"""C functions that act outside of the program, or give something else in each call: files, the time, queues."""

from __future__ import annotations

import _queue
import datetime
import io
import types
from typing import Any

_TIME = "now utcnow today gmtime localtime ctime strftime times"
_SYSTEM = "urandom uuid1 uuid4 token_bytes token_hex token_urlsafe randbits randbelow system popen Popen run"
_FILES = """open input write writelines read readline readlines truncate flush write_text write_bytes read_text
read_bytes dump save savez remove unlink rename replace mkdir makedirs rmdir rmtree touch"""
_QUEUES = "recv send sendall put get put_nowait get_nowait"
IMPURE_NAMES = frozenset(" ".join((_TIME, _SYSTEM, _FILES, _QUEUES)).split())
"""Names of what may act. Only where a function has one of them are its calls of C functions looked at."""
CLOCKS = ("time",)
IMPURE_MODULES = frozenset(
    ["_io", "io", "posix", "nt", "_socket", "_posixsubprocess", "select", "_sqlite3", "mmap", "fcntl", *CLOCKS]
)
"""Modules of C functions that act."""
_ASKS = """fspath getpid getppid getuid getcwd stat lstat fstat listdir scandir cpu_count sched_getaffinity
readable writable seekable fileno isatty tell get_terminal_size strftime sleep"""
_HARMLESS = frozenset(_ASKS.split())


def describe_impure_call(function: Any) -> str | None:
    """What a C function does, in words, if it acts."""
    name, owner = function.__name__, getattr(function, "__self__", None)
    if name in _HARMLESS:
        return None
    if isinstance(owner, io.IOBase):
        return f"{name}() of a file was called"
    if isinstance(owner, _queue.SimpleQueue):
        return f"{name}() of a queue was called"
    acts = isinstance(owner, types.ModuleType) and owner.__name__ in IMPURE_MODULES
    if acts or is_clock(function):
        return f"{getattr(owner, '__name__', '')}.{name}() was called"
    return f"{name}() was called" if function is input or function is open else None


def is_clock(function: Any) -> bool:
    """Whether a C function tells the time, and does nothing else."""
    name, owner = function.__name__, getattr(function, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, datetime.date):
        return name in ("now", "utcnow", "today")
    return isinstance(owner, types.ModuleType) and owner.__name__ in CLOCKS
