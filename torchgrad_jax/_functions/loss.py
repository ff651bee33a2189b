"""Losses and distances of nn.functional."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.arrays import dtypes, shapes
from .._core.arrays.dtypes import FLOATING
from .._core.errors import warn
from .._core.errors.checks import fail_if
from .._core.errors.messages import AsWritten
from .._engine.entry.arguments import real as _real
from .._engine.entry.bind import composite, ops
from .._engine.graph.deferred import now_or_later
from .._engine.graph.record import no_grad
from .._engine.memory.concrete import concrete
from .._engine.memory.tensor import Tensor
from .._ops.loss import check_ctc_lengths
from .traced_spans import comes_later

_functional = functools.partial(composite, method=False, namespace="nn.functional")
_LEGACY = "size_average and reduce args will be deprecated, please use reduction='{}' instead."


def _reduction(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """The reduction, given by its name or by the older `size_average` and `reduce`."""
    if size_average is not None or reduce is not None:
        average = size_average is None or size_average
        reduction = "none" if reduce is not None and not reduce else "mean" if average else "sum"
        warn.to_user(_LEGACY.format(reduction))
    if reduction == "elementwise_mean":
        warn.to_user("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
        reduction = "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _reduce(loss: Tensor, reduction: str) -> Tensor:
    return loss if reduction == "none" else ops.mean(loss) if reduction == "mean" else ops.sum(loss)


def _size(t: Tensor) -> str:
    return f"torch.Size({list(t._m.shape)})"


def _pair(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both expanded to one shape, with torch's warning when they were not."""
    if input._m.shape == target._m.shape:
        return input, target
    warn.to_user(
        f"Using a target size ({_size(target)}) that is different to the input size ({_size(input)}). "
        "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
    )
    return _expanded(input, target)


def _expanded(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    if x._m.shape == y._m.shape:
        return x, y
    shape = shapes.broadcast_shapes(x._m.shape, y._m.shape)
    return x.expand(shape), y.expand(shape)


def _weighted(errors: Tensor, weight: Tensor, input: Tensor, reduction: str, *, by_weight: bool = True) -> Tensor:
    if weight._m.shape != input._m.shape:
        raise ValueError("Weights and input must have the same size.")
    loss = ops.mul(errors, weight)
    if reduction == "mean" and by_weight:
        return ops.true_divide(ops.sum(loss), ops.sum(weight))
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")
    return _reduce(loss, reduction)


# --- regression ---------------------------------------------------------------------------------


@_functional
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Squared differences."""
    x, y = _pair(input, target)
    if size_average is not None or reduce is not None or weight is None:
        reduction = _reduction(reduction, size_average, reduce)
    if weight is None:
        return ops.mse_loss(x, y, reduction)
    return _weighted(ops.pow_const(ops.sub(x, y), 2), weight, input, reduction)


def _l1(x: Tensor, y: Tensor, reduction: str) -> Tensor:
    return _reduce(ops.abs(ops.sub(x, y)), reduction)


@_functional
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Absolute differences."""
    x, y = _pair(input, target)
    if size_average is not None or reduce is not None or weight is None:
        reduction = _reduction(reduction, size_average, reduce)
    if weight is None:
        return _l1(x, y, reduction)
    return _weighted(_l1(x, y, "none"), weight, input, reduction)


@_functional
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Quadratic within `beta`, linear outside."""
    x, y = _pair(input, target)
    reduction = _reduction(reduction, size_average, reduce)
    return _l1(x, y, reduction) if beta == 0 else ops.smooth_l1_loss(x, y, reduction, beta)


@_functional
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Quadratic within `delta`, linear with slope `delta` outside."""
    x, y = _pair(input, target)
    if weight is None:
        return ops.huber_loss(x, y, _reduction(reduction), delta)
    return _weighted(ops.huber_loss(x, y, "none", delta), weight, input, reduction, by_weight=False)


# --- likelihoods --------------------------------------------------------------------------------


@_functional
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cross entropy between probabilities and targets in [0, 1]."""
    return ops.binary_cross_entropy(input, target, weight, _reduction(reduction, size_average, reduce))


@_functional
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Cross entropy between ``sigmoid(input)`` and targets in [0, 1]."""
    reduction = _reduction(reduction, size_average, reduce)
    if input._m.shape != target._m.shape:
        raise ValueError(f"Target size ({_size(target)}) must be the same as input size ({_size(input)})")
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


@_functional
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Kullback-Leibler divergence of log-probabilities from probabilities."""
    legacy = size_average is not None or reduce is not None
    if reduction == "mean" and not legacy:
        warn.to_user(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release."
        )
    how = _reduction("sum" if reduction == "batchmean" else reduction, size_average, reduce)
    loss = divergence(input, target, how, log_target)
    if reduction == "batchmean" and input._m.ndim:
        loss = ops.true_divide(loss, input._m.shape[0])
    return loss


def divergence(input: Tensor, target: Tensor, reduction: str, log_target: bool) -> Tensor:
    """`kl_div` without its advice about means."""
    kinds = (input._m.dtype.category, target._m.dtype.category)
    if min(kinds) < dtypes.FLOATING or max(kinds) > dtypes.FLOATING:
        kind = "Integral" if min(kinds) < dtypes.FLOATING else "Complex"
        raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    if log_target:
        gap = ops.sub(target, input)  # torch makes the operands in this order
        loss = ops.mul(ops.exp(target), gap)
    else:
        cross = ops.mul(target, input)
        loss = ops.sub(ops.xlogy(target, target), cross)
    return _reduce(loss, reduction)


@_functional
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-08,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-likelihood of a Poisson distribution, up to terms of the target unless `full`."""
    reduction = _reduction(reduction, size_average, reduce)
    eps = _real("poisson_nll_loss", "eps", eps, 5)
    if log_input:
        cross = ops.mul(target, input)
        loss = ops.sub(ops.exp(input), cross)
    else:
        loss = ops.sub(input, ops.mul(target, ops.log(ops.add_number(input, eps))))
    if full:
        root = ops.mul_number(ops.log(ops.mul_number(target, 2 * math.pi)), 0.5)
        stirling = ops.add(ops.sub(ops.mul(target, ops.log(target)), target), root)
        loss = ops.add(loss, ops.masked_fill(stirling, ops.le(target, 1), 0))
    return _reduce(loss, reduction)


def _no_negative(arrays: Sequence[Any]) -> None:
    fail_if((arrays[0] < 0).any(), lambda: ValueError("var has negative entry/entries"))


@_functional
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-06, reduction: str = "mean"
) -> Tensor:
    """Minus the log-likelihood of a normal distribution with mean `input` and variance `var`."""
    if not isinstance(var, Tensor):
        var = ops.mul(input.detach().new_ones(input._m.shape), var)
    now_or_later((var.detach(),), _no_negative)
    a, b = input._m.shape, var._m.shape
    if a != b:
        if a[:-1] == b:
            var = var.unsqueeze(-1)
        elif len(a) != len(b) or sum(y for x, y in zip(a, b) if x != y) != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    var = var.clone()
    with no_grad():  # the derivative does not go through the clamp
        ops.clamp_(var, eps)
    size = ops.log(var)
    error = ops.pow_const(ops.sub(input, target), 2)
    loss = ops.mul(ops.add(size, ops.true_divide(error, var)), 0.5)
    if full:
        loss = ops.add(loss, 0.5 * math.log(2 * math.pi))
    return _reduce(loss, reduction)


# --- class indices and class probabilities ------------------------------------------------------


def _nll(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int) -> Tensor:
    """Any number of dimensions: the classes are in dimension 1, or 0 for a single sample."""
    x, t = input._m, target._m
    if not x.ndim:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if x.ndim != 1 and (not t.ndim or x.shape[0] != t.shape[0]):
        batch = t.shape[0] if t.ndim else 0
        raise ValueError(f"Expected input batch_size ({x.shape[0]}) to match target batch_size ({batch}).")
    if x.ndim == 1 and t.ndim == 1 and t.shape[0] != 1 and t.dtype.category < FLOATING:
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {t.shape[0]}")
    if x.ndim <= 2:
        return ops.nll_loss(input, target, weight, ignore_index, reduction)
    if x.ndim == 4:
        return ops.nll_loss2d(input, target, weight, ignore_index, reduction)
    out = (x.shape[0], *x.shape[2:])
    if t.shape[1:] != x.shape[2:]:
        raise RuntimeError(f"Expected target size {list(out)}, got {list(t.shape)}")
    flat = math.prod(x.shape[2:])
    image = input.contiguous().view(x.shape[0], x.shape[1], 1, flat)
    labels = target.contiguous().view(x.shape[0], 1, flat)
    loss = ops.nll_loss2d(image, labels, weight, ignore_index, reduction)
    return loss.view(out) if reduction == "none" else loss


@_functional
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability that each target names."""
    return _nll(input, target, weight, _reduction(reduction, size_average, reduce), ignore_index)


def _along_classes(weight: Tensor, ndim: int, dim: int) -> Tensor:
    shape = [1] * ndim
    shape[dim] = weight._m.numel
    return weight.view(shape)


def _check_smoothing(share: float) -> None:
    if share > 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {share:g}")


def _soft_targets(logp: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float) -> Tensor:
    m = logp._m
    dim = 0 if m.ndim == 1 else 1
    if target._m.dtype.category < FLOATING:
        name = dtypes.scalar_type_name(target._m.dtype)
        raise RuntimeError(f"Expected floating point type for target with class probabilities, got {name}")
    classes = m.shape[dim]
    if weight is not None and (weight._m.ndim != 1 or weight._m.numel != classes):
        raise RuntimeError(
            "cross_entropy: weight tensor should be defined either for all "
            f"{classes} classes or no classes but got weight tensor of shape: {list(weight._m.shape)}"
        )
    if smoothing > 0:
        _check_smoothing(smoothing)
        target = ops.add_number(ops.mul_number(target, 1 - smoothing), smoothing / classes)
    loss = ops.mul(logp, target)
    if weight is not None:
        loss = ops.mul(loss, _along_classes(weight, m.ndim, dim))
    if reduction == "none":
        return ops.neg(ops.sum(loss, dim))
    total = ops.sum(loss)
    if reduction == "sum":
        return ops.neg(total)
    if not m.numel:  # torch fills the sum with nan
        return ops.neg(ops.fill_value_(total, math.nan))
    return ops.div_number(ops.neg(total), m.numel / classes)


def _smoothed(
    logp: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int, smoothing: float
) -> Tensor:
    """Cross entropy where a part `smoothing` of each target is spread over all classes."""
    _check_smoothing(smoothing)
    m = logp._m
    dim = 0 if m.ndim == 1 else 1
    exact = _nll(logp, target, weight, reduction, ignore_index)
    weighted = logp if weight is None else ops.mul(logp, _along_classes(weight, m.ndim, dim))
    smooth = ops.neg(ops.sum(weighted, dim))
    ignored = ops.eq(target, ignore_index)
    smooth = ops.masked_fill(smooth, ignored, 0.0)
    if reduction == "mean":
        counted = ops.logical_not(ignored)
        if weight is None:
            share = counted.to(m.dtype)
        else:
            labels = ops.masked_fill(target, ignored, 0)
            share = weight.gather(0, labels.flatten().to(dtypes.int64)).view(target._m.shape)
            share = ops.masked_fill(share, ignored, 0.0)
        smooth = ops.true_divide(ops.sum(smooth), ops.sum(share))
    elif reduction == "sum":
        smooth = ops.sum(smooth)
    smooth = ops.mul_number(smooth, smoothing / m.shape[dim])
    return ops.add(ops.mul_number(exact, 1 - smoothing), smooth)


@_functional
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """`nll_loss` of `log_softmax`; targets are class indices, or probabilities of the input's shape."""
    reduction = _reduction(reduction, size_average, reduce)
    soft = input._m.shape == target._m.shape
    if soft and ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    logp = ops._log_softmax(input, 0 if input._m.ndim == 1 else 1)
    if soft:
        return _soft_targets(logp, target, weight, reduction, label_smoothing)
    if label_smoothing > 0:
        return _smoothed(logp, target, weight, reduction, ignore_index, label_smoothing)
    return _nll(logp, target, weight, reduction, ignore_index)


# --- margins ------------------------------------------------------------------------------------


@_functional
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """``log(1 + exp(-target * input))``."""
    return ops.soft_margin_loss(input, target, _reduction(reduction, size_average, reduce))


def _check_scores(input: Tensor) -> None:
    """Refuse anything but scores of at least one class, for one sample or a batch of them."""
    shape = input._m.shape
    if len(shape) > 2 or (shape and not shape[-1]):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}"
        )


def _check_labels(target: Tensor) -> None:
    if target._m.dtype is not dtypes.int64:
        name = dtypes.scalar_type_name(target._m.dtype)
        raise RuntimeError(f"expected scalar type Long but found {name}")


@_functional
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return how far other classes come within `margin` of the target's score."""
    reduction = _reduction(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight._m.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    _check_scores(input)
    batch = input._m.shape[0] if input._m.ndim == 2 else 1
    if target._m.ndim > 1 or target._m.numel != batch:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{batch}], but got {list(target._m.shape)}. Input has shape "
            f"{list(input._m.shape)}."
        )
    if weight is None or weight._m.shape == (input._m.shape[-1:] or (1,)):
        _check_labels(target)
    return ops.multi_margin_loss(input, target, p, margin, weight, reduction)


@_functional
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Margins between the labels of each row and all other classes."""
    reduction = _reduction(reduction, size_average, reduce)
    _check_scores(input)
    if target._m.shape == input._m.shape:
        _check_labels(target)
    return ops.multilabel_margin_loss(input, target, reduction)


@_functional
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy of each class, averaged over the classes."""
    if reduction not in ("none", "mean", "sum") and size_average is None and reduce is None:
        raise ValueError(f"{reduction} is not valid")
    reduction = _reduction(reduction, size_average, reduce)
    hit = ops.mul(target, ops.log_sigmoid(input))
    miss = ops.mul(ops.rsub(target, 1), ops.log_sigmoid(ops.neg(input)))
    loss = ops.neg(ops.add(hit, miss))
    if weight is not None:
        loss = ops.mul(loss, weight)
    dim = input._m.ndim - 1
    return _reduce(ops.true_divide(ops.sum(loss, dim), input._m.shape[dim]), reduction)


@_functional
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The input where the target is 1, what it lacks to `margin` where the target is -1."""
    reduction = _reduction(reduction, size_average, reduce)
    margin = _real("hinge_embedding_loss", "margin", margin, 3)
    none: float = 0.0
    if input._m.dtype.category < FLOATING:  # torch writes the margin into a tensor of integers
        margin, none = int(margin), 0
    lacking = ops.clamp_min(ops.sub(margin, input), 0)
    far = ops.where(ops.ne(target, 1), lacking, none)
    near = ops.where(ops.ne(target, -1), input, none)
    return _reduce(ops.add(far, near), reduction)


@_functional
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return what ``target * (input1 - input2)`` lacks to `margin`."""
    reduction = _reduction(reduction, size_average, reduce)
    margin = _real("margin_ranking_loss", "margin", margin, 4)
    if not input1._m.ndim == input2._m.ndim == target._m.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {_size(input1)}, input2: {_size(input2)}, target: {_size(target)} "
        )
    gap = ops.sub(input1, input2)
    gap = ops.mul(ops.neg(target), gap)
    return _reduce(ops.clamp_min_(ops.add_number(gap, float(margin)), 0), reduction)


@_functional
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Pulls pairs with target 1 together and pairs with target -1 apart, by the angle between them."""
    reduction = _reduction(reduction, size_average, reduce)
    t, a, b = target._m.ndim, input1._m.ndim, input2._m.ndim
    if t not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if t == 1 and not (a == 2 and b == 2):
        raise RuntimeError(
            "1D target tensor expects 2D input tensors, but found inputs with sizes "
            f"{list(input1._m.shape)} and {list(input2._m.shape)}."
        )
    if t == 0 and not (a == 1 and b == 1):
        raise RuntimeError(
            "0D target tensor expects 1D input tensors, but found inputs with sizes "
            f"{list(input1._m.shape)} and {list(input2._m.shape)}."
        )
    dot = ops.sum(ops.mul(input1, input2), t)
    eps = 9.999999960041972e-13  # 1e-12 in single precision, which is what torch adds
    sq1, sq2 = (ops.add_number(ops.sum(ops.mul(u, u), t), eps) for u in (input1, input2))
    cos = ops.true_divide(dot, ops.sqrt(ops.mul(sq1, sq2)))
    near, far = ops.sub(1, cos), ops.clamp_min(ops.sub_number(cos, margin), 0)
    near = ops.where(ops.eq(target, 1), near, 0.0)
    far = ops.where(ops.eq(target, -1), far, 0.0)
    return _reduce(ops.add(near, far), reduction)


def _triplet(positive: Tensor, negative: Tensor, margin: float, reduction: str, number: bool) -> Tensor:
    shifted = ops.add_number(positive, margin) if number else ops.add(positive, margin)
    return _reduce(ops.clamp_min(ops.sub(shifted, negative), 0), reduction)


def _same_rank(anchor: Tensor, positive: Tensor, negative: Tensor) -> None:
    a, p, n = (t._m.ndim for t in (anchor, positive, negative))
    if not a == p == n:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            f"but got: anchor {a}D, positive {p}D, and negative {n}D inputs"
        )


@_functional
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-06,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """By how much the negative is nearer than the positive plus `margin`."""
    reduction = _reduction(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _same_rank(anchor, positive, negative)
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _triplet(near, far, margin, reduction, True)


@_functional
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a distance of your own."""
    reduction = _reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _same_rank(anchor, positive, negative)
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return _triplet(near, far, margin, reduction, False)


# --- distances ----------------------------------------------------------------------------------


def _cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`."""
    eps = _real("cosine_similarity", "eps", eps, 4)
    if not eps >= 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps:g}")
    common = dtypes.promote_types(x1._m.dtype, x2._m.dtype)
    if common.category != FLOATING:
        name = dtypes.scalar_type_name(common)
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {name}")
    a, b = _expanded(*[x if x._m.dtype is common else x.to(common) for x in (x1, x2)])
    sizes = []
    for v in (a, b):
        size = ops.linalg_vector_norm(v, 2, dim, True).clone()
        # A norm below eps is replaced in forward only; backward sees the norm itself.
        with no_grad():
            ops.clamp_min_(size, eps)
        sizes.append(size)
    second = ops.true_divide(b, sizes[1])  # torch computes the second quotient first
    return ops.sum(ops.mul(ops.true_divide(a, sizes[0]), second), dim)


def _pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension."""
    p, eps = _real("pairwise_distance", "p", p, 3), _real("pairwise_distance", "eps", eps, 4)
    return ops._norm_of_differences(ops.add_number(ops.sub(x1, x2), eps), float(p), -1, keepdim)


cosine_similarity = _functional(_cosine_similarity, name="cosine_similarity")
pairwise_distance = _functional(_pairwise_distance, name="pairwise_distance")
composite(_cosine_similarity, name="cosine_similarity", method=False)
composite(_pairwise_distance, name="pairwise_distance", method=False)


@_functional(out=True)
def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    """Vectors along `dim` divided by their p-norm, or by `eps` where that is larger."""
    size = ops.clamp_min(input.norm(p, dim, keepdim=True), eps)
    return ops.true_divide(input, size.expand(input._m.shape))


# --- connectionist temporal classification ------------------------------------------------------


def _lengths(value: Any) -> list[int]:
    if isinstance(value, Tensor):
        return [int(v) for v in concrete(value).reshape(-1)]
    return [int(v) for v in value]


def _lengths_of_program(given: Sequence[Any], targets: Tensor, batch: int) -> list[Tensor] | None:
    """The lengths as tensors, where a compiled function knows them only when it runs; None elsewhere."""
    if not any(isinstance(n, Tensor) and comes_later(n) for n in given):
        return None
    if targets._m.ndim == 1:
        raise AsWritten(
            "ctc_loss gets lengths that are not known yet with labels one after another; give rows of labels",
            lasting=True,
        )
    sizes = [
        n.reshape(-1).to(dtypes.int64) if isinstance(n, Tensor) else targets.new_tensor(_lengths(n), dtype=dtypes.int64)
        for n in given
    ]
    for name, n in zip(("input_lengths", "target_lengths"), sizes):
        if n._m.numel != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
    return sizes


def _padded(targets: Tensor, lengths: Sequence[int]) -> Tensor:
    """Concatenated labels as one row per sequence."""
    width = max([*lengths, 1])
    rows, at = [], 0
    for n in lengths:
        row = targets.narrow(0, at, n)
        rows.append(ops.cat((row, targets.new_zeros(width - n)), 0))
        at += n
    return ops.stack(tuple(rows), 0)


def _check_ctc(log_probs: Tensor, targets: Tensor, t_in: Sequence[int], t_out: Sequence[int], blank: int) -> None:
    steps, batch, classes = log_probs._m.shape
    where = "(while checking arguments for ctc_loss_allocate_outputs)"
    if not 1 <= targets._m.ndim <= 2:
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets._m.ndim}-dimensional tensor for argument #2 "
            f"'targets' {where}"
        )
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for name, given in (("input_lengths", t_in), ("target_lengths", t_out)):
        if len(given) != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
    width = targets._m.shape[1] if targets._m.ndim == 2 else None
    check_ctc_lengths(np.asarray(t_in), np.asarray(t_out), steps, width)
    if width is None and targets._m.numel != sum(t_out):
        raise RuntimeError(
            f"Expected tensor to have size {sum(t_out)} at dimension 0, but got size {targets._m.numel} "
            f"for argument #2 'targets' {where}"
        )


def _ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log-probability of label sequences over all alignments with the time steps."""
    reduction = _reduction(reduction)
    for name, given in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if isinstance(given, Tensor) and given.is_floating_point():
            raise RuntimeError(f"{name} must be integral")
    if targets._m.dtype not in (dtypes.int32, dtypes.int64):
        targets = targets.to(dtypes.int64)
    single = log_probs._m.ndim == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets._m.ndim == 1 else targets
    sizes = _lengths_of_program((input_lengths, target_lengths), targets, log_probs._m.shape[1])
    labels = targets
    if sizes is None:
        t_in, t_out = _lengths(input_lengths), _lengths(target_lengths)
        _check_ctc(log_probs, targets, t_in, t_out, blank)
        labels = _padded(targets, t_out) if targets._m.ndim == 1 else targets
        sizes = [targets.new_tensor(v, dtype=dtypes.int64) for v in (t_in, t_out)]
    loss = ops._ctc_loss(log_probs, labels, *sizes, blank, zero_infinity)
    if zero_infinity:
        loss = ops.where(ops.eq(loss, math.inf), 0.0, loss)
    if reduction == "mean":
        return ops.mean(ops.true_divide(loss, ops.clamp_min(sizes[1], 1)))
    loss = ops.sum(loss) if reduction == "sum" else loss
    return loss.squeeze(0) if single and reduction == "none" else loss


_functional(_ctc_loss, name="ctc_loss")
