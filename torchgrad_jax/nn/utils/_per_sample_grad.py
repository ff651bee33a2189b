"""Gradients of each example."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..._core import tree
from ..._engine.tensor import Tensor
from ..modules.module import Module
from ._expanded_weights import ExpandedWeight
from .stateless import call_with


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:  # fmt: skip
    """The forward of a module after whose backward pass each parameter has a `grad_sample`, one gradient per example.

    Args:
        module: the module; all of its parameters that require a gradient are covered.
        batch_size: the number of examples; read off the inputs by default.
        loss_reduction: "mean" if the loss is a mean over the examples, "sum" if it is their sum.
        batch_first: whether the first dimension of the inputs counts the examples, and not the second.
    """
    _check(module, batch_size, loss_reduction)

    @functools.wraps(module.forward)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        size = batch_size
        if size is None:
            size = _batch_size((args, kwargs), 0 if batch_first else 1)
        tensors = {
            name: ExpandedWeight(p, size, loss_reduction) if p.requires_grad else p
            for name, p in module.named_parameters()
        }
        return call_with(module, tensors, args, kwargs, tie_weights=True, strict=False)

    return wrapper


def _check(module: Module, batch_size: int | None, loss_reduction: str) -> None:
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(
            f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}"
        )
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(
            f"Batch size passed must be None or an integer, got {type(batch_size).__name__}"
        )
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for weight in module.parameters():
        if getattr(weight, "grad_sample", None) is not None:
            raise RuntimeError(
                "Current Expanded Weights accumulates the gradients, which will be incorrect for multiple "
                f"calls without clearing gradients. Please clear out the grad_sample parameter of {weight} or "
                "post an issue to pytorch/pytorch to prioritize correct behavior"
            )


def _batch_size(inputs: Any, dim: int) -> int:
    """The number of examples that all tensors among the inputs have."""
    found: int | None = None
    for leaf in tree.flatten(inputs)[0]:
        if isinstance(leaf, Tensor):
            size = leaf._m.shape[dim]
            if found is not None and found != size:
                raise RuntimeError(
                    "When computing batch size, found at least one input with batch size "
                    f"{found} and one with batch size {size}. Please specify it "
                    "explicitly using the batch size kwarg in call_for_per_sample_grads"
                )
            found = size
    if found is None:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs. They may not be pytree-able "
            "and so ExpandedWeights cannot compute the batch size from the inputs. Please specify "
            "it explicitly"
        )
    return found
