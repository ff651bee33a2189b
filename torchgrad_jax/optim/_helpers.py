"""What optimizers written after torch's import from `torch.optim.optimizer`, besides `Optimizer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._core.arrays import dtypes
from .._core.state import MODES
from .._engine.entry.bind import NAMESPACES
from .._engine.memory.tensor import Tensor

_params_doc = (
    """params (iterable): the parameters, dicts that define groups of them, or pairs of names and parameters."""
)
_foreach_doc = """foreach (bool, optional): accepted; each step is one program in any case (default: None)"""
_fused_doc = """fused (bool, optional): accepted; each step is one program in any case (default: None)"""
_capturable_doc = """capturable (bool, optional): whether a graph may capture the optimizer (default: False)"""
_differentiable_doc = """differentiable (bool, optional): whether autograd records the step (default: False)"""
_maximize_doc = """maximize (bool, optional): maximize the objective instead of minimizing it (default: False)"""

_FUSED, _FOREACH = ("cpu", "cuda"), ("cuda",)


def _compiling() -> bool:
    return any(run.may_write_outside for run in MODES.runs)


def _get_value(x: Any) -> Any:
    """The number in a tensor; inside of a compiled function, where it is not known, the tensor."""
    return x.item() if isinstance(x, Tensor) and not _compiling() else x


def _stack_if_compiling(x: Any) -> Any:
    """Tensors as they are; inside of a compiled function as one."""
    return NAMESPACES[""]["stack"](x) if _compiling() else x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without dimensions; anything else as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _view_as_real(params: list[Any], *state_and_grads: list[Any]) -> None:
    """Put views of real numbers into lists, where the parameters are complex."""
    for i, p in enumerate(params):
        if p.is_complex():
            for values in (params, *state_and_grads):
                values[i] = NAMESPACES[""]["view_as_real"](values[i])


def _default_to_fused_or_foreach(
    params: Sequence[Any], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Return whether torch would take its fused step for some parameters, or the one with lists of tensors."""
    given = [p for p in params if p is not None]
    if differentiable:
        return False, False
    fused = use_fused and all(p.device.type in _FUSED and p.is_floating_point() for p in given)
    return fused, not fused and all(p.device.type in _FOREACH for p in given)


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    """The dtype of step counts."""
    wide = not is_fused and dtypes.get_default_dtype() is dtypes.float64
    return dtypes.float64 if wide else dtypes.float32


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Devices on which a step with `capturable=True` is one that a graph may capture."""
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function that stays as it is: compiled functions take all of them."""
    return lambda fn: fn
