"""torch.autograd: backward, grad, and the names of its submodules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from .._core.errors import messages as errors, warn
from .._core.errors.messages import missing as _missing
from .._core.state import MODES
from .._engine.graph.record import zeros_for
from .._engine.graph.saved import SavedTensor as SavedTensor
from .._engine.memory.tensor import Tensor
from .._engine.overrides.looking import public as overridable
from . import (
    anomaly_mode as anomaly_mode,
    forward_ad as forward_ad,
    function as function,
    functional as functional,
    grad_mode as grad_mode,
    graph as graph,
    profiler as profiler,
)
from ._passes import Engine, as_tuple, make_grads, run_backward, run_batched
from .anomaly_mode import detect_anomaly as detect_anomaly, set_detect_anomaly as set_detect_anomaly
from .function import Function as Function, NestedIOFunction as NestedIOFunction
from .grad_mode import (
    _unsafe_preserve_version_counter as _unsafe_preserve_version_counter,
    enable_grad as enable_grad,
    enforce_grad_layout_policy as enforce_grad_layout_policy,
    inference_mode as inference_mode,
    is_multithreading_enabled as is_multithreading_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
    set_multithreading_enabled as set_multithreading_enabled,
)
from .gradcheck import gradcheck as gradcheck, gradgradcheck as gradgradcheck
from .graph import GradientEdge
from .profiler import _profiler_enabled as _profiler_enabled
from .variable import Variable as Variable


def kineto_available() -> bool:
    """Return whether `torch.profiler` can record: always."""
    return True


_TensorOrEdges = Tensor | GradientEdge | Sequence[Tensor] | Sequence[GradientEdge]


def _as_outputs(tensors: Any) -> tuple[Any, ...]:
    return (tensors,) if isinstance(tensors, (Tensor, GradientEdge)) else tuple(tensors)


@overridable("autograd")
def backward(
    tensors: _TensorOrEdges,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensor | Sequence[Tensor | None] | None = None,
    inputs: _TensorOrEdges | dict[str, Tensor] | None = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves that they were computed from.

    Args:
        tensors: where to start: tensors, or edges from `graph.get_gradient_edge`.
        grad_tensors: a gradient per start; None stands for 1 at one-element tensors.
        retain_graph: keep what the graph saved for another pass; by default `create_graph`.
        create_graph: record the pass, so that gradients can be differentiated.
        grad_variables: the old name of `grad_tensors`.
        inputs: accumulate into these only, non-leaf tensors included.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> torch.autograd.backward((x * x).sum())
        >>> x.grad
        tensor([2., 4.])
    """
    if MODES.transforming():
        raise RuntimeError(errors.BACKWARD_INSIDE)
    if grad_variables is not None:
        warn.to_user("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only "
                "use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if isinstance(inputs, dict):
        inputs = tuple(inputs.values())
    targets = () if inputs is None else _as_outputs(inputs)
    if inputs is not None and not targets:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    if isinstance(tensors, Tensor) and isinstance(grad_tensors, Tensor) and grad_tensors._m is tensors._m:
        outputs, given = (tensors,), (grad_tensors,)  # nothing to check, or to make
    else:
        outputs = _as_outputs(tensors)
        given = make_grads(outputs, as_tuple(grad_tensors, len(outputs)), False)
    keep = create_graph if retain_graph is None else retain_graph
    run_backward(outputs, given, keep, create_graph, targets, True, True)


@overload
def grad(
    outputs: _TensorOrEdges,
    inputs: dict[str, Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> dict[str, Tensor]: ...
@overload
def grad(
    outputs: _TensorOrEdges,
    inputs: _TensorOrEdges,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...
@overridable("autograd", ("outputs", "inputs"))
def grad(
    outputs: _TensorOrEdges,
    inputs: _TensorOrEdges | dict[str, Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...] | dict[str, Tensor]:
    """The gradients of `outputs` with respect to `inputs`, without touching any `.grad`.

    Args:
        outputs: what is differentiated: tensors, or edges from `graph.get_gradient_edge`.
        inputs: with respect to what; a dict gives a dict.
        grad_outputs: a gradient per output; None stands for 1 at one-element tensors.
        retain_graph: keep what the graph saved for another pass; by default `create_graph`.
        create_graph: record the pass, so that the results can be differentiated.
        only_inputs: a relic; False warns and does nothing.
        allow_unused: return None for inputs that the outputs do not depend on, instead of raising.
        is_grads_batched: the first dimension of `grad_outputs` counts independent passes, which run
            in one `jax.vmap` (row by row with `create_graph`).
        materialize_grads: return zeros for inputs that the outputs do not depend on.

    Returns:
        One gradient per input.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> torch.autograd.grad(x**2, x)
        (tensor(6.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    if isinstance(inputs, dict):
        found = grad(
            outputs,
            tuple(inputs.values()),
            grad_outputs,
            retain_graph,
            create_graph,
            only_inputs,
            allow_unused,
            is_grads_batched,
            materialize_grads,
        )
        return dict(zip(inputs, found))
    starts, targets = _as_outputs(outputs), _as_outputs(inputs)
    if not only_inputs:
        warn.to_user(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
        )
    if not targets:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    given = make_grads(starts, as_tuple(grad_outputs, len(starts)), is_grads_batched)
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        result = run_batched(starts, given, keep, create_graph, targets, allow_unused)
    else:
        result = run_backward(starts, given, keep, create_graph, targets, allow_unused, False)
    if materialize_grads:
        if any(g is None and not isinstance(t, Tensor) for g, t in zip(result, targets)):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        result = tuple(
            zeros_for(t._m).requires_grad_(create_graph) if g is None else g for g, t in zip(result, targets)
        )
    return result


def _is_checkpoint_valid() -> bool:
    return Engine().is_checkpoint_valid()


def variable(*args: Any, **kwargs: Any) -> None:
    """Raise: `torch.tensor` took its place."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


# The function hides the module of that name, whose contents are looked for here too.
variable.Variable = Variable

__all__ = [
    "Function", "NestedIOFunction", "Variable", "backward", "detect_anomaly", "enable_grad",
    "enforce_grad_layout_policy", "grad", "grad_mode", "gradcheck", "gradgradcheck", "inference_mode", "no_grad",
    "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled", "variable",
]  # fmt: skip

__getattr__ = _missing(__name__)
