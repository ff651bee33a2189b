"""The average of parameters over processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .... import cat
from ...._engine.memory.tensor import Tensor
from ..._collectives import all_reduce
from ..._groups import member_of, outside


def average_parameters(params: Iterator[Tensor], process_group: Any) -> None:
    """Replace parameters by their averages over the processes of a group."""
    if outside(process_group):
        return
    pg, found = member_of(process_group), list(params)
    flat = cat([p.data.reshape(-1) for p in found]).div_(pg.size())
    all_reduce(flat, group=pg)
    for p, mean in zip(found, flat.split([p.numel() for p in found])):
        p.data = mean.view_as(p).type_as(p)


def get_params_to_average(params: Iterable[Any]) -> list[Tensor]:
    """Those of some parameters, or of an optimizer's groups of parameters, that have a gradient."""
    found = [p for x in params for p in (x["params"] if isinstance(x, dict) else [x])]
    for p in found:
        if not isinstance(p, Tensor):
            raise NotImplementedError(f"Parameter input of type {type(p)} is not supported")
    return [p for p in found if p.grad is not None]


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """Replace parameters that have a gradient by their averages."""
    average_parameters(iter(get_params_to_average(params)), process_group)
