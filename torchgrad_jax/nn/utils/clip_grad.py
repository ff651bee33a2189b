"""Gradients made smaller where they are too large."""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from typing import Any

from ..._core.arrays.python_numbers import Number
from ..._core.errors import warn
from ..._core.errors.checks import Check, fail_if, numpy_of
from ..._core.jax import abstract
from ..._core.jax.caches import KERNELS
from ..._core.jax.own_kernels import jit
from ..._core.state import MODES
from ..._engine.entry.bind import ops
from ..._engine.graph.deferred import now_or_later
from ..._engine.memory.strided import read
from ..._engine.memory.tensor import Tensor
from ...autograd.grad_mode import no_grad
from .._top import torch

__all__: list[str] = []

Tensors = Tensor | Iterable[Tensor]


def _listed(tensors: Tensors) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Tensors) -> list[Any]:
    return [p.grad for p in _listed(parameters) if p.grad is not None]


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of several tensors as if they were one vector.

    Args:
        tensors: the tensors.
        norm_type: which norm.
        error_if_nonfinite: whether to raise if it is infinite or NaN.
        foreach: accepted as in torch; the norm is always one kernel where that is possible.
    """
    held = _listed(tensors)
    norm_type = float(norm_type)
    if not held:
        return torch.tensor(0.0)
    first = held[0]
    same = all(t.dtype is first.dtype and t.device == first.device for t in held)
    if same and norm_type > 0 and first.is_floating_point():
        total = ops._total_norm(tuple(held), norm_type)
    else:
        norms = [ops.linalg_vector_norm(t, norm_type).to(first.device) for t in held]
        total = ops.linalg_vector_norm(torch.stack(norms), norm_type)
    if error_if_nonfinite:
        now_or_later((total,), _finite_check(norm_type))
    return total


def _finite_check(norm_type: float) -> Check:
    """That a norm is finite."""

    def check(arrays: Sequence[Any]) -> None:
        (total,) = arrays
        fail_if(
            ~numpy_of(total).isfinite(total).all(),
            lambda: RuntimeError(
                f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
                "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
                "`error_if_nonfinite=False`"
            ),
        )

    return check


def _alone(grads: list[Any], factor: Any) -> bool:
    """Return whether the gradients are plain tensors with storages of their own, of the factor's dtype."""
    kind, device = factor._m.dtype, factor._m.device
    storages = {id(g._st) for g in grads}
    return (
        not MODES.bits
        and len(storages) == len(grads)
        and all(
            type(g) is Tensor and g._al is None and g._x is None and g._m.dtype is kind and g._m.device is device
            for g in grads
        )
    )


@KERNELS.shared
@jit
def _products(arrays: list[Any], factor: Any) -> list[Any]:
    return [x * factor for x in arrays]


def _scale_together(grads: list[Any], factor: Any) -> None:
    """Multiply gradients in place by one kernel, which counts as a write to each."""
    args = [read(g) for g in grads], read(factor)
    arrays = abstract.call(_products, *args) if factor.is_meta else _products(*args)
    for grad, array in zip(grads, arrays):
        storage = grad._st
        storage.array = array
        storage.stamp += 1
        grad._vc.version += 1


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients down by what a known norm of them exceeds another.

    Args:
        parameters: the parameters whose gradients are scaled.
        max_norm: what the norm shall be at most.
        total_norm: what it is.
        foreach: accepted as in torch.
    """
    grads = _gradients(parameters)
    if not grads:
        return
    bound = max_norm if type(max_norm) is Number else float(max_norm)
    factor = (bound / (total_norm + 1e-6)).clamp(max=1.0)
    if _alone(grads, factor):
        _scale_together(grads, factor)
        return
    for grad in grads:
        grad.mul_(factor.to(grad.device))


@no_grad()
def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients down so that their norm, as of one vector, is at most a given one.

    Args:
        parameters: the parameters whose gradients are scaled.
        max_norm: what the norm shall be at most.
        norm_type: which norm.
        error_if_nonfinite: whether to raise if the norm is infinite or NaN.
        foreach: accepted as in torch.

    Returns:
        The norm before.

    Example:
        >>> import torchgrad_jax as torch
        >>> p = torch.nn.Parameter(torch.ones(4))
        >>> p.grad = torch.ones(4)
        >>> clip_grad_norm_(p, 1.0)
        tensor(2.)
        >>> p.grad
        tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    held = _listed(parameters)
    if not held and isinstance(parameters, types.GeneratorType):
        warn.to_user("`parameters` is an empty generator, no gradient clipping will occur.")
    total = get_total_norm(_gradients(held), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(held, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The former name of `clip_grad_norm_`."""
    warn.to_user(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.", FutureWarning
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of the gradients to a range around 0.

    Args:
        parameters: the parameters whose gradients are limited.
        clip_value: half the width of the range.
        foreach: accepted as in torch.
    """
    clip_value = float(clip_value)
    for grad in _gradients(parameters):
        grad.clamp_(min=-clip_value, max=clip_value)
