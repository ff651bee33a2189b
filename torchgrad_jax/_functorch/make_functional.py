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


class FunctionalModuleWithBuffers(Module):
    """A module as a function of parameters, buffers and arguments."""

    def __init__(self, stateless_model: Any, params: dict[str, list[str]], buffers: dict[str, list[str]]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = tuple(params), tuple(buffers)
        self.all_names_map = {**params, **buffers}

    def forward(self, params: Sequence[Any], buffers: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        given = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers)))
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModule(Module):
    """A module without buffers as a function of parameters and arguments."""

    def __init__(self, stateless_model: Any, params: dict[str, list[str]]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.names_map = tuple(params), params

    def forward(self, params: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        return functional_call(self.stateless_model, dict(zip(self.param_names, params)), args, kwargs)


def _names_and_values(named: Any) -> tuple[dict[str, list[str]], tuple[Any, ...]]:
    """All names of each tensor, by the first of them, and the tensors."""
    names: dict[int, list[str]] = {}
    tensors: dict[int, Any] = {}
    for name, t in named:
        names.setdefault(id(t), []).append(name)
        tensors[id(t)] = t
    return {of_one[0]: of_one for of_one in names.values()}, tuple(tensors.values())


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
    made, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    names = {name: made.all_names_map[name] for name in made.param_names}
    return FunctionalModule(made.stateless_model, names), params


def make_functional_with_buffers(model: Any, disable_autograd_tracking: bool = False) -> tuple[Any, Any, Any]:
    """A module as a function, its parameters, and its buffers.

    Args:
        model: the module.
        disable_autograd_tracking: whether the parameters shall not require gradients.
    """
    model = copy.deepcopy(model)
    names, params = _names_and_values(model.named_parameters(remove_duplicate=False))
    buffer_names, buffers = _names_and_values(model.named_buffers(remove_duplicate=False))
    for p in params if disable_autograd_tracking else ():
        p.requires_grad_(False)
    return FunctionalModuleWithBuffers(model, names, buffer_names), params, buffers


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
