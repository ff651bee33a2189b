"""State of modules as dictionaries: saving it, and loading it with all complaints collected."""

from __future__ import annotations

import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import Any

from ..._core.errors import warn
from ..._engine.memory.tensor import Tensor
from ...autograd.grad_mode import no_grad
from ..parameter import Parameter, is_lazy

EXTRA_STATE = "_extra_state"
_NOT_ASSIGNED = (
    "for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, which is "
    "a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their corresponding key "
    "in the module instead of copying them in place?)"
)


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What a state had too little and too much."""

    __slots__ = ()

    def __repr__(self) -> str:
        if self.missing_keys or self.unexpected_keys:
            return super().__repr__()
        return "<All keys matched successfully>"

    __str__ = __repr__


def own_state(module: Any) -> dict[str, Any]:
    """A module's own parameters and persistent buffers that are not None."""
    kept = {k: v for k, v in module._buffers.items() if k not in module._non_persistent_buffers_set}
    return {k: v for k, v in itertools.chain(module._parameters.items(), kept.items()) if v is not None}


def overrides(module: Any, name: str, base: Any) -> bool:
    """Return whether the class of a module has its own `get_extra_state` or `set_extra_state`."""
    return getattr(type(module), name, base) is not base


def load_own(
    module: Any,
    state: Any,
    prefix: str,
    metadata: Any,
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
    extra: bool,
) -> None:
    """Load what belongs to the module itself, not to its submodules."""
    assign = metadata.get("assign_to_params_buffers", False)
    own = own_state(module)
    for name, param in own.items():
        key = prefix + name
        if key not in state:
            if strict:
                missing.append(key)
            continue
        complaint = _load_one(module, name, key, param, state[key], assign)
        if complaint:
            errors.append(complaint)
    extra_key = prefix + EXTRA_STATE
    if extra:
        if extra_key in state:
            module.set_extra_state(state[extra_key])
        elif strict:
            missing.append(extra_key)
    elif strict and extra_key in state:
        unexpected.append(extra_key)
    if strict:
        for key in state:
            if key.startswith(prefix) and key != extra_key:
                first, dot, _ = key[len(prefix) :].partition(".")
                if first not in (module._modules if dot else own):
                    unexpected.append(key)


def _load_one(module: Any, name: str, key: str, param: Any, given: Any, assign: bool) -> str | None:
    """Load one tensor; what is wrong with it, if anything."""
    if not (isinstance(given, Tensor) or hasattr(type(given), "__torch_function__")):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
            f"but received {type(given)}"
        )
    if not is_lazy(param):
        # What old versions saved for 0-dim tensors.
        if not param.shape and tuple(given.shape) == (1,):
            given = given[0]
        if given.shape != param.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape in "
                f"current model is {param.shape}."
            )
    try:
        with no_grad():
            if not assign:
                if param.is_meta and not given.is_meta:
                    warn.to_user(_NOT_ASSIGNED.format(key=key))
                param.copy_(given)
                return None
            if isinstance(param, Parameter):
                if not isinstance(given, Parameter):
                    given = Parameter(given, requires_grad=param.requires_grad)
                else:
                    given.requires_grad_(param.requires_grad)
            setattr(module, name, given)
            return None
    except Exception as error:  # all that went wrong is told at the end, in one error
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are {param.size()} and whose '
            f"dimensions in the checkpoint are {given.size()}, an exception occurred : {error.args}."
        )


def load(module: Any, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> Any:
    """`Module.load_state_dict`."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []
    metadata = getattr(state_dict, "_metadata", None)
    state: Any = OrderedDict(state_dict)
    if metadata is not None:
        state._metadata = metadata

    def visit(module: Any, state: Any, prefix: str = "") -> None:
        local = {} if metadata is None else metadata.get(prefix[:-1], {})
        if assign:
            local["assign_to_params_buffers"] = assign
        module._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
        for name, child in module._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                visit(child, {k: v for k, v in state.items() if k.startswith(below)}, below)
        found = _IncompatibleKeys(missing, unexpected)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, found) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values, if incompatible_keys need to be modified, it should be done inplace."
                )

    visit(module, state)
    if strict:
        for what, keys in (("Unexpected", unexpected), ("Missing", missing)):
            if keys:
                quoted = ", ".join(f'"{k}"' for k in keys)
                errors.insert(0, f"{what} key(s) in state_dict: {quoted}. ")
    if errors:
        lines = "\n\t".join(errors)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{lines}")
    return _IncompatibleKeys(missing, unexpected)
