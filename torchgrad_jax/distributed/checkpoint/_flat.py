"""Nested dictionaries and lists as one flat dictionary, and values put back where they were in one.

`{"model": {"w": x}, "steps": [1, y]}` is `{"model.w": x, "steps.0": 1, "steps.1": y}`. A list without tensors or
dictionaries in it stays one value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from ..._engine.memory.tensor import Tensor

Path = tuple[str | int, ...]


def flatten_state_dict(state_dict: Mapping[Any, Any], *, old: bool = False) -> tuple[dict[str, Any], dict[str, Path]]:
    """The values by flat names, and the keys that lead to each.

    Args:
        state_dict: the nested dictionary.
        old: whether dictionaries without tensors stay one value, as torch had it before 2.4.

    Raises:
        ValueError: two values have the same name.
    """
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for key, value in state_dict.items():
        for path, leaf in _leaves((str(key),), value, old):
            name = ".".join(map(str, path))
            if name in flat:
                raise ValueError(f"duplicated flatten key {name}")
            flat[name], paths[name] = leaf, path
    return flat, paths


def _leaves(path: Path, value: Any, old: bool) -> Iterator[tuple[Path, Any]]:
    inner: Any = ()
    if isinstance(value, Mapping) and not (old and _is_one_value(value.values())):
        inner = ((str(k), v) for k, v in value.items())
    elif isinstance(value, list) and not _is_one_value(value):
        inner = enumerate(value)
    else:
        yield path, value
    for key, v in inner:
        yield from _leaves((*path, key), v, old)


def _is_one_value(values: Any) -> bool:
    """Return whether a collection has neither tensors nor dictionaries in it."""
    return not any(isinstance(v, Mapping | Tensor) or (isinstance(v, list) and not _is_one_value(v)) for v in values)


def set_element(root: Any, path: Path, value: Any) -> None:
    """Put a value where some keys lead to; dictionaries and lists on the way are made where they are missing."""
    at: Any = root
    for key, following in itertools.pairwise(path):
        made: Any = {} if isinstance(following, str) else []
        if isinstance(key, int):
            _extend(at, key)
            at[key] = made if at[key] is None else at[key]
        elif key not in at:
            at[key] = made
        at = at[key]
    if isinstance(path[-1], int):
        _extend(at, path[-1])
    at[path[-1]] = value


def _extend(values: list[Any], index: int) -> None:
    values.extend([None] * (index + 1 - len(values)))
