"""Modules as functions of their parameters, in the way of before `torch.func.functional_call`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from .._engine.entry.bind import ops
from .._engine.graph.record import no_grad
from .._engine.memory.tensor import Tensor
from ..func import functional_call
from ..func._modules import check_ensemble
from ..nn import Module


def _names(module: Any, walk: str) -> dict[str, list[str]]:
    """All names of each tensor, by the first of them."""
    first: dict[int, str] = {}
    found: dict[str, list[str]] = {}
    for name, t in getattr(module, walk)(remove_duplicate=False):
        found.setdefault(first.setdefault(id(t), name), []).append(name)
    return found


class FunctionalModuleWithBuffers(Module):
    """A module as a function of parameters, buffers and arguments."""

    def __init__(
        self,
        stateless_model: Any,
        param_names: tuple[str, ...],
        buffer_names: tuple[str, ...],
        param_names_map: dict[str, list[str]],
        buffer_names_map: dict[str, list[str]],
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = param_names, buffer_names
        self.all_names_map = {**param_names_map, **buffer_names_map}

    @staticmethod
    def _create_from(model: Any, disable_autograd_tracking: bool = False) -> Any:
        model = copy.deepcopy(model)
        params, buffers = _names(model, "named_parameters"), _names(model, "named_buffers")
        made = FunctionalModuleWithBuffers(model, tuple(params), tuple(buffers), params, buffers)
        values = _values(model, params, "named_parameters", disable_autograd_tracking)
        return made, values, _values(model, buffers, "named_buffers", False)

    def forward(self, params: Sequence[Any], buffers: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        given = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers)))
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModule(Module):
    """A module without buffers as a function of parameters and arguments."""

    def __init__(self, stateless_model: Any, param_names: tuple[str, ...], names_map: dict[str, list[str]]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.names_map = param_names, names_map

    @staticmethod
    def _create_from(model: Any, disable_autograd_tracking: bool = False) -> Any:
        model = copy.deepcopy(model)
        params = _names(model, "named_parameters")
        made = FunctionalModule(model, tuple(params), params)
        return made, _values(model, params, "named_parameters", disable_autograd_tracking)

    def forward(self, params: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        return functional_call(self.stateless_model, dict(zip(self.param_names, params)), args, kwargs)


def _values(model: Any, names: dict[str, Any], walk: str, detach: bool) -> tuple[Any, ...]:
    held = dict(getattr(model, walk)(remove_duplicate=False))
    found = tuple(held[n] for n in names)
    for p in found if detach else ():
        p.requires_grad_(False)
    return found


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """A module without buffers as a function, and its parameters.

    Args:
        model: the module.
        disable_autograd_tracking: whether the parameters shall not require gradients.
    """
    if list(model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(model: Any, disable_autograd_tracking: bool = False) -> tuple[Any, Any, Any]:
    """A module as a function, its parameters, and its buffers.

    Args:
        model: the module.
        disable_autograd_tracking: whether the parameters shall not require gradients.
    """
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def _stacked(tensors: tuple[tuple[Tensor, ...], ...]) -> tuple[Tensor, ...]:
    with no_grad():
        return tuple(ops.stack(list(shards), 0) for shards in zip(*tensors))


def combine_state_for_ensemble(models: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Modules of one class as one function, with their parameters and buffers stacked.

    Args:
        models: the modules, all in the same mode.
    """
    check_ensemble("combine_state_for_ensemble", models)
    functions, params, buffers = zip(*[make_functional_with_buffers(m) for m in models])
    return functions[0], _stacked(params), _stacked(buffers)
