"""State dictionaries of FullyShardedDataParallel: names of the module inside, whole tensors or split ones."""

from __future__ import annotations

from typing import Any

import jax

from ..._engine.memory.tensor import Tensor
from ...nn.modules.module import Module
from ..tensor._dtensor import DTensor
from .api import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    StateDictSettings,
    StateDictType,
)

WRAPPED = "_fsdp_wrapped_module"
"""The name of the module inside."""

_CONFIGS = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}


def settings(kind: StateDictType, config: Any = None, of_optimizer: Any = None) -> StateDictSettings:
    """Return what was asked for, with torch's details where none were given.

    Raises:
        RuntimeError: the details are those of another kind of state dictionary.
    """
    rows = zip(("state_dict_config", "optim_state_dict_config"), _CONFIGS[kind], (config, of_optimizer), strict=True)
    for name, wanted, given in rows:
        if given is not None and type(given) is not wanted:
            raise RuntimeError(f"Expected {name} of type {wanted} but got {type(given)}")
    plain, optimizer = _CONFIGS[kind]
    return StateDictSettings(kind, config or plain(), of_optimizer or optimizer())


def settings_of(module: Module) -> StateDictSettings | None:
    """Return what was asked for of the first wrapper in a module; None where there is none."""
    found = (m.__dict__.get("_state_dict_settings") for m in module.modules())
    return next((s for s in found if s is not None), None)


def names_out(module: Any, state: Any, prefix: str, metadata: Any) -> None:
    """Leave the wrapper out of the names of a state, and gather what is to be whole."""
    wanted = module._state_dict_settings
    whole = wanted.state_dict_type is StateDictType.FULL_STATE_DICT
    elsewhere = whole and jax.process_index() and getattr(wanted.state_dict_config, "rank0_only", False)
    inside = f"{prefix}{WRAPPED}."
    for name in [n for n in state if n.startswith(prefix)]:
        value = _given(state.pop(name), whole, wanted.state_dict_config.offload_to_cpu)
        if not elsewhere:
            state[prefix + name.removeprefix(inside).removeprefix(prefix)] = value


def names_in(state: Any, prefix: str, *rest: Any) -> None:
    """Put the wrapper into the names of a state that is being loaded."""
    inside = f"{prefix}{WRAPPED}."
    for name in [n for n in state if n.startswith(prefix) and not n.startswith(inside)]:
        state[inside + name.removeprefix(prefix)] = state.pop(name)


def _given(value: Any, gather: bool, offload: bool) -> Any:
    """A value as it is, or as a whole tensor, on the CPU where that is wanted."""
    if gather and isinstance(value, DTensor):
        value = value.detach().full_tensor()
    return value.cpu() if gather and offload and isinstance(value, Tensor) else value


def _copied(value: Any) -> Any:
    """A tensor with its own memory: what is saved or loaded does not follow the steps of another optimizer."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def _names_by_number(model: Module, optim: Any) -> dict[int, str]:
    names = {id(p): name.replace(f"{WRAPPED}.", "") for name, p in model.named_parameters()}
    params = [p for g in optim.param_groups for p in g["params"]]
    return {i: names[id(p)] for i, p in enumerate(params)}


def optim_state_dict(model: Any, optim: Any, optim_state_dict: Any = None, group: Any = None) -> dict[str, Any]:
    """The state of an optimizer by names of parameters: whole tensors, or split ones after `set_state_dict_type`.

    Args:
        model: the module that the optimizer is of.
        optim: the optimizer.
        optim_state_dict: its state dictionary, made if None.
        group: not looked at.
    """
    given = optim.state_dict() if optim_state_dict is None else optim_state_dict
    wanted = settings_of(model) or settings(StateDictType.FULL_STATE_DICT)
    gather = wanted.state_dict_type is StateDictType.FULL_STATE_DICT
    config = wanted.optim_state_dict_config
    found = _by_names(model, optim, given, gather, config.offload_to_cpu)
    only_first = gather and getattr(config, "rank0_only", False)
    return {} if only_first and jax.process_index() else found


def full_optim_state_dict(
    model: Any, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None
) -> dict[str, Any]:
    """The state of an optimizer by names of parameters, as whole tensors.

    Args:
        model: the module that the optimizer is of.
        optim: the optimizer.
        optim_input: not needed: the optimizer knows its parameters.
        rank0_only: whether only rank 0 gets it; the dictionaries of others are empty.
        group: not looked at.
    """
    found = _by_names(model, optim, optim.state_dict(), gather=True, offload=True)
    return {} if rank0_only and jax.process_index() else found


def _by_names(model: Module, optim: Any, given: Any, gather: bool, offload: bool) -> dict[str, Any]:
    names = _names_by_number(model, optim)
    return {
        "state": {
            names[i]: {k: _copied(_given(v, gather, offload)) for k, v in s.items()} for i, s in given["state"].items()
        },
        "param_groups": [{**g, "params": [names[i] for i in g["params"]]} for g in given["param_groups"]],
    }


def optim_state_dict_to_load(
    model: Module,
    optim: Any,
    optim_state_dict: dict[str, Any],
    is_named_optimizer: bool = False,
    load_directly: bool = False,
    group: Any = None,
) -> dict[str, Any]:
    """The inverse of `optim_state_dict`: what `optim.load_state_dict` takes.

    Args:
        model: the module that the optimizer is of.
        optim: the optimizer.
        optim_state_dict: a state by names.
        is_named_optimizer: not supported.
        load_directly: whether to load it, too.
        group: not looked at.
    """
    if is_named_optimizer:
        raise NotImplementedError("optim_state_dict_to_load(is_named_optimizer=True)")
    numbers = {name: i for i, name in _names_by_number(model, optim).items()}
    out = {
        "state": {
            numbers[name]: {k: _copied(v) for k, v in s.items()} for name, s in optim_state_dict["state"].items()
        },
        "param_groups": [{**g, "params": [numbers[n] for n in g["params"]]} for g in optim_state_dict["param_groups"]],
    }
    if load_directly:
        optim.load_state_dict(out)
    return out
