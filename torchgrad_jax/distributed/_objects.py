"""Python objects between processes, pickled."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from . import _exchange
from ._arguments import group_for, root_of
from ._collectives import _only_at_root


def _packed(obj: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(obj), np.uint8)


def _opened(array: np.ndarray) -> Any:
    return pickle.loads(array.tobytes())


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the objects of all processes into a list."""
    pg = group_for("all_gather_object", group)
    if pg is not None:
        found = _exchange.all_gather(pg.turn("all_gather_object"), _packed(obj))
        for r, x in enumerate(found):
            object_list[r] = _opened(x)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Put the objects of all processes into a list of one of them."""
    pg = group_for("gather_object", group)
    if pg is None:
        return
    root = root_of("gather", pg, dst, group_dst, 0)
    _only_at_root("gather_list", "destination", object_gather_list, pg.rank() == root)
    found = _exchange.gather(pg.turn("gather_object"), _packed(obj), root)
    if object_gather_list:
        object_gather_list[: len(found)] = map(_opened, found)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Put the objects of one process's list into those of all."""
    pg = group_for("broadcast_object_list", group)
    if pg is None:
        return
    root = root_of("broadcast", pg, src, group_src, 0)
    sent = _packed(object_list if pg.rank() == root else None)
    turn = pg.turn(f"broadcast_object_list of {len(object_list)} objects from {root}")
    found = _exchange.broadcast(turn, sent, root)
    if pg.rank() != root:
        object_list[:] = _opened(found)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Put the object that one process has for this one first into a list."""
    pg = group_for("scatter_object_list", group)
    if pg is None:
        return
    root = root_of("scatter", pg, src, group_src, 0)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    sent: list[np.ndarray] = []
    if pg.rank() == root:
        if not scatter_object_input_list:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        if len(scatter_object_input_list) != pg.size():
            raise ValueError(f"scatter_object_list: {len(scatter_object_input_list)} objects for {pg.size()} processes")
        sent = [_packed(o) for o in scatter_object_input_list]
    found = _exchange.scatter(pg.turn(f"scatter_object_list from {root}"), sent, root)
    scatter_object_output_list[0] = _opened(found)
