"""An optimizer with other parameters and another state for a while."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from .._core.signals import contextmanager, restore
from .._engine.memory.tensor import Tensor
from .optimizer import Optimizer

_ME = "swap_in_optimizer_params_and_state requires "
_STYLE = "optimizer.state_dict()-style "


def _insist(condition: Any, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


def _check_state(state: Any) -> None:
    _insist(
        isinstance(state, dict),
        f"{_ME}swapin_optim_state['state'] to be a dict mapping packed parameter ids to "
        f"per-param state dicts, got {type(state).__name__}.",
    )
    keyed = f"{_ME}{_STYLE}state keyed by packed parameter ids."
    _insist(not any(isinstance(k, Tensor) for k in state), keyed)
    _insist(
        all(isinstance(v, dict) for k, v in state.items() if isinstance(k, int)),
        f"{_ME}per-parameter optimizer state entries to be dictionaries.",
    )


def _check_group(i: int, mine: dict[str, Any], other: Any) -> list[int]:
    _insist(isinstance(other, dict), f"{_ME}each optimizer param group to be a dictionary.")
    numbers = other.get("params")
    _insist(
        isinstance(numbers, list) and all(isinstance(n, int) for n in numbers),
        f"{_ME}{_STYLE}param_groups[*]['params'] entries keyed by packed parameter ids.",
    )
    _insist(
        len(mine["params"]) == len(numbers),
        f"swapin_optim_state param group {i} has a different number of params than the live optimizer param group.",
    )
    added, lacking = [k for k in other if k not in mine], [k for k in mine if k not in other]
    _insist(
        not added and not lacking,
        f"{_ME}{_STYLE}param group keys to exactly match the live optimizer group keys for group {i}. "
        f"Keys only in swap-in: {added}. Keys only in live: {lacking}.",
    )
    return numbers


def _checked(
    optimizer: Optimizer, parameters: dict[str, Tensor], saved: Any
) -> list[tuple[dict[str, Any], list[Tensor]]]:
    """The saved groups, each with the tensors that stand for its parameters."""
    _insist(optimizer.state, f"{_ME}initialized optimizer state.")
    _insist(isinstance(saved, dict), f"{_ME}a DCP-style optimizer state_dict.")
    state, groups = saved.get("state"), saved.get("param_groups")
    _check_state(state)
    _insist(
        isinstance(groups, list),
        f"{_ME}swapin_optim_state['param_groups'] to be a list of param-group dicts, got {type(groups).__name__}.",
    )
    _insist(
        len(groups) == len(optimizer.param_groups),
        "swapin_optim_state has a different number of parameter groups than the live optimizer.",
    )
    tensors, known, found = list(parameters.values()), set(), []
    for i, (mine, other) in enumerate(zip(optimizer.param_groups, groups)):
        numbers = _check_group(i, mine, other)
        known.update(numbers)
        _insist(
            len(numbers) <= len(tensors), f"{_ME}the explicit parameter state to match optimizer.param_groups ordering."
        )
        found.append((other, tensors[: len(numbers)]))
        tensors = tensors[len(numbers) :]
    extra = [k for k in state if k not in known]
    _insist(
        not extra,
        f"{_ME}swapin_optim_state['state'] to be keyed only by packed parameter ids from "
        f"param_groups[*]['params']; got extra keys {extra!r}.",
    )
    return found


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Inside, the optimizer works on other parameters with the state that belongs to them.

    Args:
        optimizer: one that has stepped before.
        swapin_parameters: the parameters, in the order of its groups.
        swapin_optim_state: what `state_dict` of an optimizer of the same structure returned.
    """
    groups = _checked(optimizer, swapin_parameters, swapin_optim_state)
    state, options = optimizer.state, [dict(g) for g in optimizer.param_groups]

    def put_back() -> None:
        for mine, old in zip(optimizer.param_groups, options):
            mine.clear()
            mine.update(old)
        optimizer.state = state

    try:
        optimizer.state = defaultdict(dict)
        for mine, (other, tensors) in zip(optimizer.param_groups, groups):
            mine.update({**other, "params": tensors})
            for t, number in zip(tensors, other["params"]):
                optimizer.state[t] = dict(swapin_optim_state["state"].get(number, {}))
        yield
    finally:
        restore(put_back)


swap_in_optimizer_params_and_state.__module__ = "torchgrad_jax.optim"
