"""The cross entropy of a linear layer's result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._core.arrays import dtypes
from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.memory.tensor import Tensor


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How torch would cut the batch into chunks to save memory.

    Differs from torch: XLA decides how a product and its loss share memory, so that the result is
    the same with and without options, and all derivatives exist.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


def _check(input: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None, ignore: Any) -> None:
    x, w = input._m, weight._m
    if x.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {x.ndim}")
    if w.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {w.ndim}")
    if x.shape[-1] != w.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{x.shape[-1]} and {w.shape[-1]}, respectively"
        )
    if w.ndim > 2 and x.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(w.shape)} requires batched input, "
            f"(N, {w.shape[-1]}), got unbatched input with shape {tuple(x.shape)}"
        )
    if bias is not None and bias._m.shape != w.shape[:-1]:
        raise RuntimeError(f"expected linear_bias shape {tuple(w.shape[:-1])}, got {tuple(bias._m.shape)}")
    if ignore is not None and target._m.dtype.category >= dtypes.FLOATING:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")


@composite(namespace="nn.functional", method=False)
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """`cross_entropy` of `linear`; the weight may have several dimensions of classes and positions."""
    _check(input, linear_weight, target, linear_bias, ignore_index)
    if options is not None and not isinstance(options, LinearCrossEntropyOptions):
        raise TypeError(f"expected options to be LinearCrossEntropyOptions, got {type(options).__name__}")
    out_shape = linear_weight._m.shape[:-1]
    flat = linear_weight
    bias = linear_bias
    if len(out_shape) > 1:
        flat = NAMESPACES[""]["flatten"](linear_weight, 0, -2)
        bias = None if bias is None else NAMESPACES[""]["flatten"](bias)
    logits = NAMESPACES["nn.functional"]["linear"](input, flat, bias)
    if len(out_shape) > 1:
        logits = ops.view(logits, (input._m.shape[0], *out_shape))
    return NAMESPACES["nn.functional"]["cross_entropy"](
        logits,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
