"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._engine.entry.bind import NAMESPACES
from .._engine.graph.history import requires_grad_of
from .._engine.graph.record import no_grad
from .._engine.memory.tensor import Tensor


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with the given tensors in the place of its own parameters and buffers.

    Args:
        module: the module to call.
        parameter_and_buffer_dicts: tensors by their names in the module: one dict, or several. A buffer that the
            module assigns is put into the dict.
        args: arguments of the call; anything but a tuple is the only one.
        kwargs: more of them, by name.
        tie_weights: whether tensors that the module holds under several names are replaced under all of them.
        strict: raise unless exactly all tensors are given.

    Returns:
        What the module returns.
    """
    from ..nn.utils.stateless import call_with

    if isinstance(parameter_and_buffer_dicts, dict):
        tensors = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, Sequence):
        tensors = _merged(parameter_and_buffer_dicts)
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    return call_with(module, tensors, args, kwargs, tie_weights=tie_weights, strict=strict)


def _merged(dicts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if not all(isinstance(d, dict) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    keys = [k for d in dicts for k in d]
    repeated = [k for k in dict.fromkeys(keys) if keys.count(k) > 1]
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {k: v for d in dicts for k, v in d.items()}


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of several modules of one kind, stacked: what `vmap` runs an ensemble over.

    Args:
        models: a list of modules of the same class, in the same mode.

    Returns:
        Two dicts of new leaf tensors by name: parameters and buffers, with a first dimension of one entry per module.
    """
    check_ensemble("stack_module_state", models)
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return (
        {k: _stacked([p[k] for p in parameters], k) for k in parameters[0]},
        {k: _stacked([b[k] for b in buffers], k) for k in buffers[0]},
    )


def check_ensemble(fn: str, models: Sequence[Any]) -> None:
    """Raise unless the models that `fn` got are of one class and in one mode."""
    if len(models) == 0:
        raise RuntimeError(f"{fn}: Expected at least one model, got 0.")
    if not all(m.training == models[0].training for m in models):
        raise RuntimeError(f"{fn}: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError(f"{fn}: Expected all models to be of the same class.")


def _stacked(tensors: Sequence[Tensor], name: str) -> Tensor:
    needed = requires_grad_of(tensors[0])
    if any(requires_grad_of(t) is not needed for t in tensors):
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    with no_grad():
        out = NAMESPACES[""]["stack"](list(tensors), 0)  # of the class of the tensors
    return out.requires_grad_(needed)


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Make every batch norm inside a module keep no running statistics, which `vmap` could not write to.

    Args:
        root: the module to change, in place; it is returned.
    """
    from ..nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root
