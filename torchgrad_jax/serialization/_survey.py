"""Which classes and functions a checkpoint asks for, found without making anything."""

from __future__ import annotations

import _compat_pickle
import os
import pickletools
import zipfile
from typing import Any

from ._unpickler import PLAIN, special

_STRINGS = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE")


def names_in(program: bytes) -> list[str]:
    """The full names of the globals of a pickle, each once, in order."""
    found: dict[str, None] = {}
    texts: list[str] = []
    memo: dict[Any, str] = {}
    for op, arg, _ in pickletools.genops(program):
        if op.name in _STRINGS:
            texts.append(str(arg))
        elif op.name in ("MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT") and texts:
            memo[len(memo) if arg is None else arg] = texts[-1]
        elif op.name in ("BINGET", "LONG_BINGET", "GET") and arg in memo:
            texts.append(memo[arg])
        elif op.name == "GLOBAL":
            found[".".join(str(arg).split(" "))] = None
        elif op.name == "STACK_GLOBAL":
            found[".".join(texts[-2:])] = None
    return list(found)


def _of_today(full: str) -> str:
    """The name that Python 3 has for a name of Python 2, which is what these pickles use."""
    module, _, name = full.rpartition(".")
    module, name = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))
    return f"{_compat_pickle.IMPORT_MAPPING.get(module, module)}.{name}"


def unsafe_names(f: Any, allowed: dict[str, Any], tensors: Any) -> list[str]:
    """Those that `load(weights_only=True)` would refuse.

    Args:
        f: a path, or an open binary file.
        allowed: what `add_safe_globals` allowed, by full name.
        tensors: what tensors of a checkpoint are made with.
    """
    try:
        archive = zipfile.ZipFile(os.fspath(f) if isinstance(f, str | os.PathLike) else f)
    except zipfile.BadZipFile:
        raise ValueError("Expected input to be a checkpoint returned by torch.save") from None
    with archive:
        member = next((n for n in archive.namelist() if n.endswith("data.pkl")), None)
        if member is None:
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        names = names_in(archive.read(member))
    known = map(_of_today, names)
    return [n for n in known if n not in allowed and n not in PLAIN and special(n, tensors) is None]
