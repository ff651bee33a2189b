"""What a loader tells the data pipes that a dataset is made of: seeds, shards, whether to shuffle."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from ..._core.errors import warn
from . import _draw
from .datapipes.datapipe import IterDataPipe, MapDataPipe


def _inner(value: Any) -> Iterator[Any]:
    """The pipes that a value is or holds."""
    if isinstance(value, IterDataPipe | MapDataPipe):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _inner(part)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _inner(part)


def _sources(pipe: Any) -> list[Any]:
    return [each for value in vars(pipe).values() for each in _inner(value)]


def _all_pipes(pipe: Any) -> list[Any]:
    found: dict[int, Any] = {}

    def visit(each: Any) -> None:
        if id(each) not in found:
            found[id(each)] = each
            for source in _sources(each):
                visit(source)

    visit(pipe)
    return list(found.values())


def _has(pipe: Any, *names: str) -> bool:
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Seed every pipe that has a method `set_seed`, with numbers of a generator."""
    for pipe in _all_pipes(datapipe):
        if _has(pipe, "set_seed"):
            pipe.set_seed(_draw.seed(rng))
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Tell every pipe that shuffles whether to do so; None leaves them as they are."""
    if shuffle is None:
        return datapipe
    shufflers = [pipe for pipe in _all_pipes(datapipe) if _has(pipe, "set_shuffle", "set_seed")]
    if not shufflers and shuffle:
        warn.to_user(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. Be aware "
            "that the default buffer size might not be sufficient for your task."
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_sharding(datapipe: Any, num_of_instances: int, instance_id: int) -> Any:
    """Tell the pipes that have a method `apply_sharding` which part of the examples is theirs.

    Raises:
        RuntimeError: such a pipe takes its examples from another one.
    """

    def visit(pipe: Any, sharded: Any) -> None:
        if _has(pipe, "apply_sharding"):
            if sharded is not None:
                raise RuntimeError(
                    "Sharding twice on a single pipeline is likely unintended and will cause data loss. "
                    f"Sharding already applied to {sharded} while trying to apply to {pipe}"
                )
            pipe.apply_sharding(num_of_instances, instance_id)
            sharded = pipe
        for source in _sources(pipe):
            visit(source, sharded)

    visit(datapipe, None)
    return datapipe
