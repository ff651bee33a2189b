"""The named tuples `torch.return_types.*`."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

RETURN_TYPES: dict[str, type] = {}


def return_type(name: str, fields: Sequence[str]) -> type:
    """The named tuple ``torch.return_types.<name>``."""
    known = RETURN_TYPES.get(name)
    if known is not None:
        return known
    base = namedtuple(name, list(fields))

    class Result(base):
        __slots__ = ()

        def __new__(cls, *values: Any) -> Any:
            if len(values) == 1 and len(fields) != 1:
                values = tuple(values[0])
                if len(values) != len(fields):
                    raise TypeError(
                        f"torch.return_types.{name}() takes a {len(fields)}-sequence ({len(values)}-sequence given)"
                    )
            return base.__new__(cls, *values)

        def __repr__(self) -> str:
            body = ",\n".join(f"{f}={v!r}" for f, v in zip(fields, self))
            return f"torch.return_types.{name}(\n{body})"

        def __reduce__(self) -> Any:
            return (_rebuild_result, (name, tuple(fields), tuple(self)))

    Result.__name__ = Result.__qualname__ = name
    Result.__module__ = "torch.return_types"
    Result.n_fields = Result.n_sequence_fields = len(fields)
    Result.n_unnamed_fields = 0
    RETURN_TYPES[name] = Result
    return Result


def _rebuild_result(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return return_type(name, fields)(*values)
