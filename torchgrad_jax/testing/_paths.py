"""Nested values as flat ones: each leaf under the path by which a program would reach it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Container:
    """Stands for a container among the leaves, so that a list and a tuple of the same leaves differ."""

    kind: str
    size: int
    type_name: str

    def __str__(self) -> str:
        return f"{self.kind if self.type_name == self.kind else self.type_name} of {self.size}"

    def differs(self, other: Any, exactly: bool) -> bool:
        """Return whether another value is another container; of another type only where types count `exactly`."""
        if not isinstance(other, Container) or (self.kind, self.size) != (other.kind, other.size):
            return True
        return exactly and self.type_name != other.type_name


def _children(x: Any) -> tuple[str, list[tuple[str, Any]]] | None:
    """The kind of a container and what it holds, or None for a leaf."""
    if isinstance(x, Mapping):
        keys = sorted(x, key=lambda k: (type(k).__name__, str(k)))
        return "dict", [(f"[{k!r}]", x[k]) for k in keys]
    if isinstance(x, tuple) and (names := _names(x)):
        return "tuple", [(f".{n}", v) for n, v in zip(names, x, strict=True)]
    if isinstance(x, tuple | list):
        kind = "list" if isinstance(x, list) else "tuple"
        return kind, [(f"[{i}]", v) for i, v in enumerate(x)]
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return type(x).__name__, [(f".{f.name}", getattr(x, f.name)) for f in dataclasses.fields(x)]
    return None


def _names(x: tuple[Any, ...]) -> tuple[str, ...]:
    """The names in a named tuple, or in one of those that C code makes, as torch's `max` gives."""
    if hasattr(x, "_fields"):
        return x._fields
    return x.__match_args__ if hasattr(x, "n_sequence_fields") else ()


def walk(x: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Paths and leaves, with a `Container` before the leaves of each container."""
    found = _children(x)
    if found is None:
        yield path, x
        return
    kind, children = found
    yield path, Container(kind, len(children), type(x).__name__)
    for step, child in children:
        yield from walk(child, path + step)


def map_with_path(f: Callable[[str, Any], Any], x: Any, path: str) -> Any:
    """The same containers with `f(path, leaf)` in place of each leaf."""
    if isinstance(x, Mapping):
        return {k: map_with_path(f, v, f"{path}[{k!r}]") for k, v in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        names = x._fields
        return type(x)(*(map_with_path(f, v, f"{path}.{n}") for n, v in zip(names, x)))
    if isinstance(x, tuple | list):
        kind = list if isinstance(x, list) else tuple
        return kind(map_with_path(f, v, f"{path}[{i}]") for i, v in enumerate(x))
    return f(path, x)
