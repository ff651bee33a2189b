"""Settings of all the data pipes that one reads from."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from ._draw import seed as _draw_seed
from .datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_settings"]


def _pipes(value: Any, seen: set[int]) -> Iterator[Any]:
    """The pipes in a value, those that one reads from first the last."""
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        if id(value) not in seen:
            seen.add(id(value))
            yield value
            yield from _pipes(list(vars(value).values()), seen)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _pipes(inner, seen)
    elif isinstance(value, dict):
        yield from _pipes(list(value.values()), seen)


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Turn shuffling on or off.

    Args:
        datapipe: the last pipe.
        shuffle: on or off; None leaves it.

    Returns:
        The pipe, or a shuffled one of it where it was to be shuffled and nothing did.
    """
    if shuffle is None:
        return datapipe
    found = [
        p for p in _pipes(datapipe, set()) if hasattr(p, "set_shuffle") and hasattr(p, "set_seed")
    ]
    if shuffle and not found:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. "
            "Be aware that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        found = [datapipe]
    for pipe in found:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Seed all pipes that draw.

    Args:
        datapipe: the last pipe.
        rng: the generator that seeds are drawn from.
    """
    for pipe in _pipes(datapipe, set()):
        if hasattr(pipe, "set_seed"):
            pipe.set_seed(_draw_seed(rng))
    return datapipe


def apply_sharding(
    datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = None
) -> Any:
    """Take one of several shares.

    Args:
        datapipe: the last pipe.
        num_of_instances: how many shares there are.
        instance_id: which one is taken.
        sharding_group: the kind of shares.
    """
    found = [p for p in _pipes(datapipe, set()) if hasattr(p, "apply_sharding")]
    for pipe in found:
        more = () if sharding_group is None else (sharding_group,)
        pipe.apply_sharding(num_of_instances, instance_id, *more)
    return datapipe
