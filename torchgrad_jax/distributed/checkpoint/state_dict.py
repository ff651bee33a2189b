"""State dictionaries of models and optimizers under the names that parameters have without wrappers around modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ..._engine.memory.tensor import Tensor
from ...autograd.grad_mode import no_grad
from ...nn._compiled import OptimizedModule
from ...nn.modules._loading import EXTRA_STATE, _IncompatibleKeys
from ...nn.modules.module import Module
from ...nn.parallel.distributed import DistributedDataParallel
from ...optim.optimizer import Optimizer
from ...utils import _pytree
from .._groups import get_rank, is_initialized
from .._objects import broadcast_object_list
from ..tensor._dtensor import DTensor

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

_CHECKPOINTED = "_checkpoint_wrapped_module."
_SHARDED = "_fsdp_wrapped_module."


@dataclass
class StateDictOptions:
    """What goes into the dictionaries, and how strictly they are read.

    Args:
        full_state_dict: whether dictionaries hold whole tensors; here they always do.
        cpu_offload: whether tensors are moved to the CPU.
        ignore_frozen_params: whether parameters without `requires_grad` are left out.
        keep_submodule_prefixes: as in torch; it belongs to the deprecated `submodules`.
        strict: whether missing and unexpected names are errors.
        broadcast_from_rank0: whether all processes read the dictionary of rank 0; those of the others may be empty.
        flatten_optimizer_state_dict: whether the optimizer's dictionary has one level, under names joined with dots.
        dsd_fqn_modifiers: the method of a module that renames entries; a module that has it is refused.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _name(model: Any, name: str, *, compiled: bool = False) -> str:
    """A name in a model as it is without wrappers; with `compiled`, those of compiling and DDP stay."""
    name = name.replace(_CHECKPOINTED, "").replace(_SHARDED, "")
    if "." not in name or compiled:
        return name
    kept, at = [], model
    for part in name.split("."):
        if isinstance(at, DistributedDataParallel):
            at = at.module
            continue
        if isinstance(at, OptimizedModule) and part == "_orig_mod":
            at = at._orig_mod
            continue
        kept.append(part)
        if part != EXTRA_STATE:
            at = getattr(at, part)
    return ".".join(kept)


def _entries(model: Module) -> Iterator[tuple[str, Any]]:
    """Yield what a model's dictionary holds, inner modules first, each module once; None stands for extra state."""
    seen: set[Module] = set()

    def inside(module: Module, prefix: str) -> Iterator[tuple[str, Any]]:
        seen.add(module)
        for name, child in module.named_children():
            if child not in seen:
                yield from inside(child, f"{prefix}{name}.")
        own = chain(module.named_buffers(recurse=False), module.named_parameters(recurse=False))
        for name, tensor in own:
            if name not in module._non_persistent_buffers_set:
                yield prefix + name, tensor
        if type(module).get_extra_state is not Module.get_extra_state:
            yield prefix + EXTRA_STATE, None

    return inside(model, "")


def _checked(model: Module, options: StateDictOptions | None, submodules: Any = None) -> StateDictOptions:
    options = options or StateDictOptions()
    if any(hasattr(m, options.dsd_fqn_modifiers) for m in model.modules()):
        raise NotImplementedError(f"modules that rename entries in {options.dsd_fqn_modifiers}() are not implemented")
    if submodules:
        raise NotImplementedError(
            "submodules is not implemented, which torch has deprecated: pick the names from the whole dictionary"
        )
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


def _collected(value: Any, options: StateDictOptions) -> Any:
    """A dictionary as the options want it: in containers of its own, and on the CPU.

    Whole dictionaries on the CPU are for saving, so that only rank 0 gets one.
    """
    if options.full_state_dict and options.cpu_offload and is_initialized() and get_rank():
        for t in _pytree.tree_leaves(value):
            if isinstance(t, DTensor) and not t.sharding.is_fully_addressable:
                t.detach().full_tensor()  # type: ignore[attr-defined] - all processes take part
        return {}
    if not (options.full_state_dict or options.cpu_offload):
        return value
    if isinstance(value, DTensor) and options.full_state_dict:
        return value.detach().full_tensor()  # type: ignore[attr-defined]
    if isinstance(value, Tensor):
        return value.to("cpu") if options.cpu_offload else value
    if isinstance(value, dict):
        return {k: _collected(v, options) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_collected(v, options) for v in value])
    if value is None or isinstance(value, (int, float, str, bytes)):
        return value
    raise ValueError(f"Unexpected value type {type(value)}")


def _sent(state: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """The dictionary that a process reads: its own, or that of rank 0."""
    if not options.broadcast_from_rank0:
        return state
    box: list[Any] = [_collected(state, StateDictOptions(cpu_offload=True)) if get_rank() == 0 else None]
    broadcast_object_list(box, 0)
    if get_rank():
        state.clear()
        state.update(box[0])
    return state


def _optimizers(given: Optimizer | Iterable[Optimizer]) -> tuple[Optimizer, ...]:
    return (given,) if isinstance(given, Optimizer) else tuple(given)


@no_grad()
def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """A model's dictionary, under names without wrappers.

    Args:
        model: the model, perhaps compiled.
        submodules: refused.
        options: what goes into it.

    Returns:
        The dictionary; its tensors share memory with the model.
    """
    options = _checked(model, options, submodules)
    state = model.state_dict()
    for key in list(state):
        if (name := _name(model, key)) != key:
            state[name] = state.pop(key)
    if options.ignore_frozen_params:
        for key, param in model.named_parameters():
            if not param.requires_grad:
                state.pop(_name(model, key))
    state = _collected(state, options)
    _not_empty(state, options)
    return state


def _not_empty(state: Mapping[str, Any], options: StateDictOptions) -> None:
    spared = options.ignore_frozen_params or (options.cpu_offload and options.full_state_dict)
    if not state and not spared and options.strict:
        raise RuntimeError(
            "The option indicates that model state_dict is required to save or load, but model state_dict is empty."
        )


@no_grad()
def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> _IncompatibleKeys:
    """Read a dictionary of `get_model_state_dict` back into a model.

    Args:
        model: the model, perhaps compiled.
        model_state_dict: the dictionary. Names that the model has otherwise are changed in it, as in torch.
        options: `full_state_dict` takes what is missing from the model, as in torch.

    Returns:
        The names that are missing and those that are unexpected.
    """
    options = _checked(model, options)
    model_state_dict = _sent(model_state_dict, options)
    _not_empty(model_state_dict, options)
    if not model_state_dict:
        return _IncompatibleKeys({}, {})
    own: dict[str, Any] = {}
    for key, value in _entries(model):
        name, wrapped = _name(model, key), _name(model, key, compiled=True)
        if name != wrapped:
            found = model_state_dict.pop(name, None)
            if found is not None:
                model_state_dict[wrapped] = found
            elif options.strict:
                raise RuntimeError(f"Missing key: {name}.")
        own[wrapped] = value
    assign = False
    if options.full_state_dict:
        assign = _completed(model_state_dict, own)
    return model.load_state_dict(model_state_dict, strict=options.strict, assign=assign)


def _completed(state: dict[str, Any], own: dict[str, Any]) -> bool:
    """Add what a full dictionary lacks from the model, on its device; whether tensors are assigned, not copied."""
    where = {v.device for v in own.values() if isinstance(v, Tensor) and v.dim() > 0}
    real = {d for d in where if d.type != "meta"}
    if len(real) > 1:
        raise ValueError("Multiple devices found")
    device = next(iter(real), "cpu")
    for key, value in state.items():
        if not isinstance(value, Tensor):
            own[key] = value
        elif value.dim() == 0:
            own[key] = value.cpu()
        elif own.get(key) is not None:
            own[key] = value.detach().to(device)
    state.update(own)
    return real != where


def _init_optim_state(optim: Optimizer) -> None:
    """Let an optimizer make its state, by a step with gradients and rates of zero."""
    groups = optim.param_groups
    if optim.state or any(p.grad is not None for g in groups for p in g["params"]):
        return
    for group in groups:
        for param in group["params"]:
            if param.requires_grad:
                param.grad = param.new_zeros(param.shape)
    rates = [g.get("lr") for g in groups]
    for group, rate in zip(groups, rates, strict=True):
        if rate is not None:
            group["lr"] = rate.new_zeros(()) if isinstance(rate, Tensor) else 0.0
    optim.step(closure=None)
    for group, rate in zip(groups, rates, strict=True):
        if rate is not None:
            group["lr"] = rate
    optim.zero_grad(set_to_none=True)


def _names(model: Module) -> dict[Tensor, list[str]]:
    """The names of each parameter; one that is shared has several."""
    found: dict[Tensor, list[str]] = {}
    for key, value in _entries(model):
        if value is not None:
            names = found.setdefault(value, [])
            if (name := _name(model, key)) not in names:
                names.append(name)
    return found


def _read(model: Module, optimizers: tuple[Optimizer, ...]) -> dict[str, Any]:
    """The states of optimizers, by names of parameters."""
    out: dict[str, Any] = {"state": {}, "param_groups": []}
    for optim in optimizers:
        _init_optim_state(optim)
        numbers = {p: i for i, p in enumerate(q for g in optim.param_groups for q in g["params"])}
        names = {numbers[p]: _name(model, k) for k, p in model.named_parameters() if p in numbers}
        state = optim.state_dict()
        out["state"].update({names[i]: s for i, s in state["state"].items()})
        out["param_groups"] += [{**g, "params": [names[i] for i in g["params"]]} for g in state["param_groups"]]
    return out


def _flat(value: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _flat(inner, f"{prefix}.{key}")
        elif isinstance(inner, (Tensor, int, float)):
            yield f"{prefix}.{key}", inner
        else:
            raise NotImplementedError(
                "Flattening optimizer state_dict only supports tensor, int, float, dict states now. "
                f"Type is {type(inner)}."
            )


def _flattened(state: Mapping[str, Any]) -> dict[str, Any]:
    """A dictionary of one level: `state.<parameter>.<name>` and `param_groups.<parameter>.<name>`."""
    out: dict[str, Any] = {}
    for name, values in state["state"].items():
        out.update(_flat(values, f"state.{name}"))
    for group in state["param_groups"]:
        for name in group["params"]:
            out.update({f"param_groups.{name}.{k}": v for k, v in group.items() if k != "params"})
    return out


@no_grad()
def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The states of optimizers, by names of the model's parameters.

    Args:
        model: the model, perhaps compiled.
        optimizers: one or several.
        submodules: refused.
        options: what goes into it.

    Returns:
        The dictionary. An optimizer that made no step yet has its state made first.
    """
    options, all_of = _checked(model, options, submodules), _optimizers(optimizers)
    if not all_of:
        raise RuntimeError("Optimizers are not passed in but optim_only is set to True.")
    state = _read(model, all_of)
    if options.flatten_optimizer_state_dict:
        state = _flattened(state)
    return _collected(state, options)


def _nested(state: Mapping[str, Any], prefix: str) -> Any:
    """Return what a flat dictionary has under a name: the value, or the levels below."""
    if prefix in state:
        return state[prefix]
    out: dict[str, Any] = {}
    for key, value in state.items():
        if key.startswith(prefix + "."):
            *parts, last = key[len(prefix) + 1 :].split(".")
            at = out
            for part in parts:
                at = at.setdefault(part, {})
            at[last] = value
    return out


def _unflattened(optim: Optimizer, state: Mapping[str, Any], names: Mapping[Tensor, list[str]]) -> dict[str, Any]:
    """The part of a flat dictionary that belongs to an optimizer, in levels again."""
    out: dict[str, Any] = {"state": {}, "param_groups": []}
    for group in optim.param_groups:
        options = [k for k in group if k != "params"]
        params = []
        for param in group["params"]:
            known = names[param]
            for name in known:
                if len(known) > 1 and f"param_groups.{name}.{options[0]}" not in state:
                    continue
                params.append(name)
                if param.requires_grad:
                    out["state"][name] = {k: _nested(state, f"state.{name}.{k}") for k in optim.state[param]}
        values = {k: state[f"param_groups.{params[0]}.{k}"] for k in options}
        out["param_groups"].append({"params": params, **values})
    return out


def _part(
    optim: Optimizer, state: dict[str, Any], names: Mapping[Tensor, list[str]], *, strict: bool
) -> dict[str, Any]:
    """The part of a dictionary that belongs to an optimizer, in the order of its parameters."""
    if all(isinstance(k, int) for k in state["state"]):
        return state
    given = {name: g for g in state["param_groups"] for name in g["params"]}
    bare = [g for g in state["param_groups"] if not g["params"]]
    out: dict[str, Any] = {"state": {}, "param_groups": []}
    for group in optim.param_groups:
        params, source = [], None
        for param in group["params"]:
            known = names[param]
            for name in known:
                if len(known) > 1 and name not in given:
                    continue
                params.append(name)
                source = given.get(name, source)
                if not param.requires_grad:
                    continue
                if name in state["state"]:
                    out["state"][name] = state["state"][name]
                elif strict:
                    raise RuntimeError(
                        f"Missing optimizer state for parameter '{name}' in checkpoint. The parameter requires "
                        "gradients but has no saved optimizer state. To load anyway, use "
                        "StateDictOptions(strict=False)."
                    )
        if not group["params"]:
            if len(bare) != 1:
                raise ValueError(
                    "There are param groups that have zero parameters. In such a case, DSD only support exactly one "
                    "param group with zero parameters.But the loaded state_dict has zero or more than one param "
                    "groups that have zero parameters."
                )
            source = bare[0]
        out["param_groups"].append({**(source or {}), "params": params})
    return out


def _over(part: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A full dictionary, with the optimizer's own values where it has none."""
    state = {n: {**own["state"].get(n, {}), **part["state"].get(n, {})} for n in {**own["state"], **part["state"]}}
    groups = [{**a, **b} for a, b in zip(own["param_groups"], part["param_groups"], strict=True)]
    return {"state": state, "param_groups": groups}


@no_grad()
def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Read a dictionary of `get_optimizer_state_dict` back into optimizers.

    Args:
        model: the model, perhaps compiled.
        optimizers: one or several; each takes what belongs to its parameters.
        optim_state_dict: the dictionary, flat or in levels.
        options: how strictly it is read.
    """
    options, all_of = _checked(model, options), _optimizers(optimizers)
    if not all_of:
        raise RuntimeError("Optimizers are not passed in but optim_only is set to True.")
    optim_state_dict = _sent(optim_state_dict, options)
    if not optim_state_dict and not (options.cpu_offload and options.full_state_dict):
        raise RuntimeError(
            "The option indicates that model state_dict is required to save, "
            f"or load but optim state_dict is empty. {optim_state_dict}"
        )
    names = _names(model)
    for optim in all_of:
        _init_optim_state(optim)
        if "state" in optim_state_dict:
            part = _part(optim, optim_state_dict, names, strict=options.strict)
        else:
            part = _unflattened(optim, optim_state_dict, names)
        if options.full_state_dict:
            part = _over(part, _read(model, (optim,)))
        optim.load_state_dict(part)


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The dictionaries of a model and of its optimizers; see `get_model_state_dict`, `get_optimizer_state_dict`.

    Args:
        model: the model.
        optimizers: one or several, or none.
        submodules: refused.
        options: what goes into them.
    """
    all_of = _optimizers(optimizers)
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, all_of, options=options) if all_of else {},
    )


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> _IncompatibleKeys:
    """Read dictionaries of `get_state_dict` back.

    Args:
        model: the model.
        optimizers: one or several, or none.
        model_state_dict: the model's; an empty one leaves the model as it is.
        optim_state_dict: the optimizers'.
        options: how strictly they are read.

    Returns:
        The names that are missing in the model's dictionary and those that are unexpected.
    """
    all_of = _optimizers(optimizers)
    if all_of:
        set_optimizer_state_dict(model, all_of, optim_state_dict, options=options)
    if not model_state_dict and not _checked(model, options).broadcast_from_rank0:
        return _IncompatibleKeys({}, {})
    return set_model_state_dict(model, model_state_dict, options=options)
