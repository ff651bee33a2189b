"""The plan of a model with many equal layers, from two plans with a few of them.

    with interop.target("v5e:4x4"):
        step.plan_by_layers(tokens)  # of 32 layers, 2 are compiled, and then 4

Each further layer needs as much as the one before: memory, arithmetic, exchanges. So a line through the two plans
gives the one of the whole model, which says in `layers` that it was made so. What the compiler does in another way
for many layers than for a few does not show.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ...._core.errors.messages import Unsupported
from ...._core.jax.target import Target
from ...._core.signals import contextmanager
from ..inspection import Lowered, compile_together, reachable
from .chips import Chip, device_of
from .plan import Plan, least_time, plan_of

_FEW, _MORE = 2, 4
_ROWS = {"held": ("line",), "exchanges": ("kind", "shape"), "emulated": ("operator", "dtype", "line")}
"""The lists of a plan, and what tells two rows of one apart; all else in a row is a number."""


class Layers(NamedTuple):
    """Equal modules in one list or chain of modules."""

    name: str
    owner: Any
    count: int


def equal_layers(fn: Any) -> Layers:
    """Return the longest list of equal layers, by their parameters, that a function reaches.

    Raises:
        RuntimeError: there is none of more than four layers.
    """
    found = [
        layers
        for name, value in reachable(fn).items()
        if hasattr(value, "named_modules")
        for layers in _lists_in(name, value)
    ]
    if not found:
        raise Unsupported(
            f"the step reaches no list of more than {_MORE} equal layers (nn.ModuleList or nn.Sequential), so that no "
            "few of them stand for all"
        )
    return max(found, key=lambda layers: sum(p.numel() for p in layers.owner.parameters()))


def _lists_in(name: str, model: Any) -> Iterator[Layers]:
    for path, module in model.named_modules():
        inner = [*module._modules.values()]
        numbered = [*module._modules] == [str(i) for i in range(len(inner))]
        if len(inner) > _MORE and numbered and len({_described(layer) for layer in inner}) == 1:
            yield Layers(".".join(filter(None, (name, path))), module, len(inner))


def _described(layer: Any) -> Any:
    """Return what is the same for equal layers."""
    if layer is None:
        return None
    return type(layer), tuple((name, tuple(p.shape), p.dtype) for name, p in layer.named_parameters())


@contextmanager
def only_first(layers: Layers, count: int) -> Iterator[None]:
    """Let a model have only the first layers for a while."""
    held: dict[str, Any] = layers.owner._modules
    before = dict(held)
    try:
        for name in [*held][count:]:
            del held[name]
        yield
    finally:
        held.clear()
        held.update(before)


def plan_by_layers(target: Target, fn: Any, lower: Callable[[], Lowered]) -> Plan:
    """Return the plan of a function's model, of whose equal layers a few are compiled.

    Args:
        target: the hardware.
        fn: the function.
        lower: gives the function's program for the model as it is.
    """
    layers = equal_layers(fn)
    lows = []
    for count in (_FEW, _MORE):
        with only_first(layers, count):
            lows.append(lower())
    compile_together(lows)
    return extended(layers, device_of(target), *(plan_of(target, low) for low in lows))


def plans_by_layers(target: Target, compiled: Any) -> Callable[[Any], Plan]:
    """Return what plans a step on a target for arguments, `(args, kwargs)`, by a few of its model's equal layers."""
    return lambda given: plan_by_layers(target, compiled.fn, lambda: compiled.lower(*given[0], **given[1]))


def extended(layers: Layers, chip: Chip, few: Plan, more: Plan) -> Plan:
    """Return the plan that a line through two plans gives."""

    def at(a: float, b: float) -> float:
        return a + (b - a) * (layers.count - _FEW) / (_MORE - _FEW)

    kinds = dict.fromkeys([*more.memory, *few.memory])
    flops, moved = at(few.flops, more.flops), at(few.bytes, more.bytes)
    seconds, limited_by = least_time(flops, moved, chip)
    lists = {name: _rows(getattr(few, name), getattr(more, name), keys, at) for name, keys in _ROWS.items()}
    return dataclasses.replace(
        more,
        memory={kind: max(0, round(at(few.memory.get(kind, 0), more.memory.get(kind, 0)))) for kind in kinds},
        flops=flops,
        bytes=moved,
        seconds=seconds,
        limited_by=limited_by,
        kernels=round(at(few.kernels, more.kernels)),
        layers=f"{_FEW} and {_MORE} of {layers.count} in {layers.name}, extended",
        **lists,
    )


def _rows(few: list[Any], more: list[Any], keys: tuple[str, ...], at: Callable[[float, float], float]) -> list[Any]:
    """The rows of a list of both plans; a row that is in one of them counts 0 in the other."""

    def by_key(rows: list[Any]) -> dict[Any, Any]:
        return {tuple(getattr(row, key) for key in keys): row for row in rows}

    before, after = by_key(few), by_key(more)
    found = []
    for key in dict.fromkeys([*after, *before]):
        row = after.get(key) or before[key]
        numbers = [field.name for field in dataclasses.fields(row) if field.name not in keys]
        values = {n: round(at(getattr(before.get(key), n, 0), getattr(after.get(key), n, 0))) for n in numbers}
        if any(value > 0 for value in values.values()):
            found.append(dataclasses.replace(row, **values))
    of = "bytes" if found and hasattr(found[0], "bytes") else "elements"
    return sorted(found, key=lambda row: -getattr(row, of))


__all__ = ["Layers", "equal_layers", "extended", "only_first", "plan_by_layers", "plans_by_layers"]
