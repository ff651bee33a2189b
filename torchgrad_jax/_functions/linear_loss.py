"""The cross entropy of a linear layer's result."""

from __future__ import annotations

from typing import Any

from .._core.arrays import dtypes
from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.memory.tensor import Tensor


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


def _check_options(acc: Any, dtype: dtypes.dtype) -> None:
    """Refuse a dtype of sums in which torch does not add up its chunks."""
    widened = acc is dtypes.float32 and dtype in (dtypes.float16, dtypes.bfloat16)
    if acc is not None and acc is not dtype and not widened:
        raise RuntimeError(
            f"linear_cross_entropy supports float32 acc_dtype with float16/bfloat16 inputs, but got {acc!r} acc_dtype "
            f"and {dtype!r} inputs."
        )


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
    options: Any = None,
) -> Tensor:
    """`cross_entropy` of `linear`; the weight may have several dimensions of classes and positions."""
    _check(input, linear_weight, target, linear_bias, ignore_index)
    out_shape = linear_weight._m.shape[:-1]
    in_chunks = len(out_shape) == 1 and not label_smoothing and target._m.dtype is dtypes.int64
    if options is not None and in_chunks:
        _check_options(options.acc_dtype, input._m.dtype)
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
