"""Classes of Python, apart from those that are written in C."""

from __future__ import annotations

_MADE_WHILE_RUNNING, _IMMUTABLE = 1 << 9, 1 << 8


def is_python_class(cls: type) -> bool:
    """Whether a class statement made a class. `decimal.Decimal` is made while Python runs as well, but immutable."""
    return cls.__flags__ & (_MADE_WHILE_RUNNING | _IMMUTABLE) == _MADE_WHILE_RUNNING
