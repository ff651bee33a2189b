"""Losses that are single ops in torch; the others are compositions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import dtypes, shapes
from .._core.arrays.division import averaged, divide
from .._core.arrays.dtypes import BOOL, COMPLEX, FLOATING, INTEGRAL
from .._core.arrays.kernels import category, half_as_float, is_half, refuse, scalar_name, where, widen
from .._core.arrays.matrices import require_not
from .._core.errors.checks import fail_if, first_outside, integers, outside, readable
from .._core.host import forms
from .._core.jax.custom_jvp import custom_jvp
from .._core.jax.target import platform
from .helpers import broadcast, softplus, softplus_with_rule
from .inner import inner_op
from .registry import COMMON, Array, Layout, NoGradient, with_rule

_NOT_FLOAT = (BOOL, INTEGRAL, COMPLEX)
_loss = functools.partial(inner_op, layout=Layout.ELEMENTWISE)


def _reduced(x: Array, reduction: str) -> Array:
    """The mean (nan of nothing, as in torch), the sum, or every entry."""
    if reduction == "none":
        return x
    total = jnp.sum(x)
    return averaged(total, x.size) if reduction == "mean" else total


def _elementwise_loss(body: Callable[..., Array], x: Array, y: Array, reduction: str, kernel: str) -> Array:
    """``body(x, y)`` reduced; half types are rounded once, after the reduction."""
    x, y = broadcast(x, y)
    refuse(x, kernel, *_NOT_FLOAT)
    return half_as_float(lambda x, y: _reduced(body(x, y), reduction))(x, y)


def _size(d: Array) -> Array:
    """|d| with slope 0 at 0."""
    return d * lax.sign(d)


def _by_distance(
    fn: Callable[[Array], Array], slope: Callable[[Array], Array], zeros: bool = False
) -> Callable[..., Array]:
    """``fn(x - y)``. The slope for `y` is that of ``fn(y - x)``, so that its zeros have the signs of torch's."""
    return with_rule(
        lambda x, y: fn(x - y), lambda x, y, out, tx, ty: tx * slope(x - y) + ty * slope(y - x), zeros=zeros
    )


def _quadratic_within(width: float, over: float = 1.0) -> Callable[..., Array]:
    """d^2 / 2 within `width`, and a straight line outside. It has one slope, as two would make NaN of infinities.

    All is divided by `over`, which is 1 or the width, term by term as torch does.
    """
    steep = width / over

    def scaled(x: Array) -> Array:
        return x if over == 1 else divide(x, over)

    return _by_distance(
        lambda d: where(lax.abs(d) < width, scaled(0.5 * d * d), steep * (_size(d) - 0.5 * width)),
        lambda d: where(d <= -width, -steep, where(d >= width, steep, where(d == d, scaled(d), jnp.nan))),
    )


def _squares(zeros: bool) -> Callable[..., Array]:
    square = _by_distance(lambda d: d * d, lambda d: 2 * d, zeros)
    return lambda input, target, reduction="mean": _elementwise_loss(square, input, target, reduction, "mse_cpu")


@_loss(promote=COMMON, forward=_squares(zeros=True))
def mse_loss(input: Array, target: Array, reduction: str = "mean") -> Array:
    """``(input - target) ** 2``."""
    return _squares(zeros=False)(input, target, reduction)


@_loss(promote=COMMON)
def smooth_l1_loss(input: Array, target: Array, reduction: str = "mean", beta: float = 1.0) -> Array:
    """Quadratic within `beta`, linear outside."""
    if not beta >= 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")

    def body(x: Array, y: Array) -> Array:
        return _quadratic_within(beta, beta)(x, y) if beta else _size(x - y)

    return _elementwise_loss(body, input, target, reduction, "smooth_l1_cpu")


def _common(x: Array, y: Array) -> Any:
    return dtypes.promote_types(dtypes.from_np(x.dtype), dtypes.from_np(y.dtype)).np


def _like_first(body: Callable[..., Array], x: Array, y: Array, reduction: str, kernel: str) -> Array:
    """`_elementwise_loss` in the dtype of the first argument, into which some of torch's kernels write."""
    common = _common(x, y)
    into = _castable(jnp.zeros((), common), x).dtype
    x, y = (lax.convert_element_type(a, common) for a in (x, y))
    return lax.convert_element_type(_elementwise_loss(body, x, y, reduction, kernel), into)


def _castable(loss: Array, like: Array) -> Array:
    """The tensor that a loss is written into, if its dtype can hold one."""
    if category(loss) > category(like):
        raise RuntimeError(
            f"result type {scalar_name(loss)} can't be cast to the desired output type {scalar_name(like)}"
        )
    return like


def _one_dtype(metas: dict[str, Any], results: Any, wanted: Any) -> str | None:
    """Return what torch's backward of huber_loss says of a target of another dtype."""
    x, y = (dtypes.scalar_type_name(metas[name].dtype) for name in ("input", "target"))
    return None if x == y else f"Found dtype {y} but expected {x}"


@_loss(refused=_one_dtype)
def huber_loss(input: Array, target: Array, reduction: str = "mean", delta: float = 1.0) -> Array:
    """Quadratic within `delta`, linear with slope `delta` outside."""
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")

    return _like_first(_quadratic_within(delta), input, target, reduction, "huber_cpu")


_soft_margin = with_rule(lambda z: lax.log1p(lax.exp(z)), lambda z, y, t: t * lax.exp(z) / (1 + lax.exp(z)))


@_loss(no_gradient={NoGradient.REFUSED: ("target",)})
def soft_margin_loss(input: Array, target: Array, reduction: str = "mean") -> Array:
    """``log(1 + exp(-target * input))``, which overflows for large margins, as in torch."""
    common = _common(input, target)
    float_at_least = common if category(target) >= FLOATING else np.dtype(np.float32)
    _castable(jnp.zeros((), float_at_least), input)
    broad = shapes.broadcast_shapes(input.shape, target.shape)
    if broad != input.shape:  # torch has allocated the result before it looks
        raise RuntimeError(f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(broad)}")
    return _like_first(lambda x, y: _soft_margin(-y * x), input, target, reduction, "exp_vml_cpu")


# --- binary cross entropy -----------------------------------------------------------------------


@custom_jvp
def _bce(x: Array, y: Array) -> Array:
    floor = jnp.asarray(-100, x.dtype)
    return (y - 1) * lax.max(lax.log1p(-x), floor) - y * lax.max(lax.log(x), floor)


@_bce.defjvp
def _bce_jvp(primals: Any, tangents: Any) -> Any:
    """torch keeps the denominator above 1e-12 in single precision, and does not clamp the target's slope."""
    (x, y), (tx, ty) = primals, tangents
    variance = (1 - x) * x
    least = float(np.float32(1e-12))
    variance = where(variance < least, jnp.asarray(least, x.dtype), variance)
    return _bce(x, y), tx * ((x - y) / variance) + ty * (lax.log1p(-x) - lax.log(x))


def _in_unit_interval(**arrays: Any) -> None:
    for name in ("input", "target"):
        x = readable(arrays[name])
        complaint = f"all elements of {name} should be between 0 and 1"
        fail_if(~((x >= 0) & (x <= 1)).all(), lambda complaint=complaint: RuntimeError(complaint))


@_loss(check=_in_unit_interval, no_gradient={NoGradient.REFUSED: ("weight",)}, keeps={"target": ("input", "target")})
def binary_cross_entropy(input: Array, target: Array, weight: Array | None = None, reduction: str = "mean") -> Array:
    """Cross entropy of probabilities; logarithms are kept above -100."""
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size ({_torch_size(target)}) that is different to the input size "
            f"({_torch_size(input)}) is deprecated. Please ensure they have the same size."
        )
    if input.dtype != target.dtype:
        raise RuntimeError(f"Found dtype {scalar_name(target)} but expected {scalar_name(input)}")
    refuse(input, "binary_cross_entropy", *_NOT_FLOAT)

    def body(x: Array, y: Array, w: Array | None) -> Array:
        loss = _bce(x, y)
        return _reduced(loss if w is None else loss * w, reduction)

    return half_as_float(body)(input, target, _like(weight, input))


def _torch_size(x: Array) -> str:
    return f"torch.Size({list(x.shape)})"


def _like(w: Array | None, x: Array) -> Array | None:
    return None if w is None else jnp.broadcast_to(lax.convert_element_type(w, x.dtype), x.shape)


@custom_jvp
def _logits_loss(x: Array, y: Array) -> Array:
    missed = lax.convert_element_type(softplus(-x), y.dtype)  # -log(sigmoid(x))
    return (1 - y) * lax.convert_element_type(x, y.dtype) + missed


@custom_jvp
def _weighted_logits_loss(x: Array, y: Array, p: Array) -> Array:
    missed = lax.convert_element_type(softplus(-x), y.dtype)
    return (1 - y) * lax.convert_element_type(x, y.dtype) + missed * (1 + (p - 1) * y)


# Each slope is one factor, so that infinite gradients stay infinite.


@_logits_loss.defjvp
def _logits_loss_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    along = tx * (lax.logistic(x) - y.astype(x.dtype))
    return _logits_loss(x, y), along.astype(y.dtype) - ty * x.astype(y.dtype)


@_weighted_logits_loss.defjvp
def _weighted_logits_loss_jvp(primals: Any, tangents: Any) -> Any:
    (x, y, p), (tx, ty, _) = primals, tangents
    hit, both = (p * y).astype(x.dtype), (p * y + 1 - y).astype(x.dtype)
    log_miss, log_hit = (-softplus_with_rule(s).astype(y.dtype) for s in (x, -x))
    along = (tx * (both * lax.logistic(x) - hit)).astype(y.dtype)
    return _weighted_logits_loss(x, y, p), along + ty * (log_miss - p * log_hit)


@_loss(no_gradient={NoGradient.REFUSED: ("weight", "pos_weight")}, keeps={"target": ("target",)})
def binary_cross_entropy_with_logits(
    input: Array, target: Array, weight: Array | None = None, pos_weight: Array | None = None, reduction: str = "mean"
) -> Array:
    """Cross entropy of ``sigmoid(input)``; `pos_weight` scales the positive class."""
    refuse(input, "log_sigmoid_cpu", *_NOT_FLOAT)
    if category(target) == BOOL:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    common = _common(input, target)
    into = _castable(jnp.zeros((), common), target).dtype  # torch writes the result into 1 - target
    target = lax.convert_element_type(target, common)
    if not is_half(target):
        input = widen(input)

    def body(x: Array, y: Array, w: Array | None, p: Array | None) -> Array:
        loss = _logits_loss(x, y) if p is None else _weighted_logits_loss(x, y, p)
        return _reduced(loss if w is None else loss * w, reduction)

    loss = half_as_float(body)(input, target, _like(weight, target), _like(pos_weight, target))
    return lax.convert_element_type(loss, into)


# --- class indices ------------------------------------------------------------------------------


def _target_range(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "") -> None:
    classes = input.shape[1 if input.ndim > 1 else 0]

    if (wrong := outside(target, classes, ignored=ignore_index)) is not False:
        fail_if(
            wrong,
            lambda: IndexError(f"Target {first_outside(target, classes, ignored=ignore_index)} is out of bounds."),
        )


def _check_labels(target: Array) -> None:
    if target.dtype not in (jnp.int64, jnp.uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {scalar_name(target)}")


def _check_weight(x: Array, weight: Array | None, classes: int) -> None:
    if weight is not None:
        if weight.ndim != 1 or weight.shape[0] != classes:
            raise RuntimeError(
                f"weight tensor should be defined either for all {classes} classes or no classes but "
                f"got weight tensor of shape: {list(weight.shape)}"
            )
        if weight.dtype != x.dtype:
            raise RuntimeError(f"expected scalar type {scalar_name(x)} but found {scalar_name(weight)}")


@custom_jvp
def _entries_of_classes(x: Array, at: Array) -> Array:
    """The entries of the classes `at` in dimension 1; a class of -1 stands for none."""
    return jnp.squeeze(jnp.take_along_axis(x, jnp.expand_dims(at, 1), axis=1, mode="clip"), 1)


@_entries_of_classes.defjvp
def _picked_jvp(primals: Any, tangents: Any) -> Any:
    # A comparison chooses them, so that the gradient is a choice, which XLA fuses, instead of a scatter.
    (x, at), (t, _) = primals, tangents
    chosen = lax.broadcasted_iota(at.dtype, x.shape, 1) == jnp.expand_dims(at, 1)
    return _entries_of_classes(x, at), jnp.sum(where(chosen, t, 0), axis=1, dtype=t.dtype)


def _dtype_of_count(share: Array) -> Any:
    """How labels are counted: a TPU makes int64 of smaller numbers, in forty instructions for one sum."""
    few = share.dtype == jnp.bool_ and platform() == "tpu" and math.prod(share.shape) < 2**31
    return jnp.int32 if few else None


def _nll(x: Array, target: Array, weight: Array | None, ignore_index: int, reduction: str) -> Array:
    """Over classes in dimension 1."""
    target = lax.convert_element_type(target, jnp.int64)
    valid = target != ignore_index
    at = where(valid, target, -1)

    def body(x: Array, w: Array | None) -> Array:
        loss = -_entries_of_classes(x, at) if x.shape[1] else jnp.zeros(at.shape, x.dtype)
        share = valid
        if w is not None:
            share = where(valid, jnp.take(w, at, axis=0, mode="clip"), 0)
            loss = loss * share
        loss = where(valid, loss, 0)
        if reduction == "none":
            return loss
        if reduction == "sum":
            return jnp.sum(loss)
        return jnp.sum(loss) / lax.convert_element_type(jnp.sum(share, dtype=_dtype_of_count(share)), x.dtype)

    return half_as_float(body)(x, weight)


@_loss(
    layout=Layout.CONTIGUOUS,
    check=_target_range,
    node="NllLossBackward0",
    no_gradient={NoGradient.REFUSED: ("weight",), NoGradient.ZEROS: ("input",)},
    keeps=("input",),
    host=forms.chosen_losses,
)
def nll_loss(
    input: Array, target: Array, weight: Array | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Array:
    """Minus the entry of each row that the target names."""
    if input.ndim not in (1, 2):
        raise RuntimeError("input tensor should be 1D or 2D")
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input.ndim == 2 and (target.ndim == 0 or input.shape[0] != target.shape[0]):
        raise RuntimeError(f"size mismatch (got input: {list(input.shape)}, target: {list(target.shape)})")
    refuse(input, "nll_loss_out_frame", *_NOT_FLOAT)
    _check_labels(target)
    _check_weight(input, weight, input.shape[-1])
    if input.ndim == 2:
        return _nll(input, target, weight, ignore_index, reduction)
    out = _nll(input[None], target.reshape(1), weight, ignore_index, reduction)
    return out.reshape(()) if reduction == "none" else out


@_loss(
    layout=Layout.CONTIGUOUS,
    check=_target_range,
    node="NllLoss2DBackward0",
    no_gradient={NoGradient.REFUSED: ("weight",), NoGradient.ZEROS: ("input",)},
    keeps=("input",),
)
def nll_loss2d(
    input: Array, target: Array, weight: Array | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Array:
    """`nll_loss` over images: classes in dimension 1, two dimensions of positions."""
    if target.ndim != 3:
        raise RuntimeError(
            f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {target.ndim}"
        )
    if input.ndim != 4:
        raise RuntimeError(
            f"only batches of spatial inputs supported (4D tensors), but got input of dimension: {input.ndim}"
        )
    _check_labels(target)
    if (input.shape[0], *input.shape[2:]) != target.shape:
        raise RuntimeError(f"size mismatch (got input: {list(input.shape)} , target: {list(target.shape)}")
    refuse(input, "nll_loss2d_forward_out_frame", *_NOT_FLOAT)
    _check_weight(input, weight, input.shape[1])
    return _nll(input, target, weight, ignore_index, reduction)


# --- margins ------------------------------------------------------------------------------------


def _hinge(z: Array) -> Array:
    """``max(z, 0)`` with slope 0 at 0."""
    return where(z > 0, z, 0)


def _margin_range(input: Any, target: Any, **_: Any) -> None:
    classes = input.shape[-1] if input.ndim else 1
    fail_if(outside(target, classes), lambda: RuntimeError("target out of range"))


@_loss(layout=Layout.CONTIGUOUS, check=_margin_range, no_gradient={NoGradient.REFUSED: ("weight",)})
def multi_margin_loss(
    input: Array, target: Array, p: int = 1, margin: float = 1.0, weight: Array | None = None, reduction: str = "mean"
) -> Array:
    """Return how far other classes come within `margin` of the target's score."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    x, t = (input, target) if input.ndim == 2 else (input.reshape(1, -1), target.reshape(-1))
    if t.ndim != 1 or t.shape[0] != x.shape[0]:
        raise RuntimeError(f"inconsistent target size, expected {list(x.shape[:1])} but got {list(target.shape)}")
    if weight is not None and weight.shape != x.shape[1:]:
        raise RuntimeError(f"inconsistent weight size, expected {x.shape[1]} but got {list(weight.shape)}")
    require_not("multi_margin_loss_cpu_kernel", x, "float16", "bfloat16")
    refuse(x, "multi_margin_loss", *_NOT_FLOAT)

    def body(x: Array, w: Array | None) -> Array:
        at = t[:, None]
        z = _hinge(margin - jnp.take_along_axis(x, at, axis=1, mode="clip") + x)
        z = z if p == 1 else z * z
        if w is not None:
            z = z * jnp.take(w, t, axis=0, mode="clip")[:, None]
        others = jnp.arange(x.shape[1])[None, :] != at
        loss = divide(jnp.sum(where(others, z, 0), axis=1), x.shape[1])
        return _reduced(loss if input.ndim == 2 else loss.reshape(()), reduction)

    return half_as_float(body)(x, weight)


def _label_range(input: Any, target: Any, **_: Any) -> None:
    t, classes = integers(target), max(input.shape[-1] if input.ndim else 1, 1)
    fail_if(((t < -1) | (t >= classes)).any(), lambda: RuntimeError("argument #2 'target' is out of range"))


@_loss(layout=Layout.CONTIGUOUS, check=_label_range)
def multilabel_margin_loss(input: Array, target: Array, reduction: str = "mean") -> Array:
    """Margins between the labels (up to the first -1 of each row) and all other classes."""
    if input.shape != target.shape or input.ndim > 2:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    require_not("multilabel_margin_loss_forward_out_frame", input, "float16", "bfloat16")
    refuse(input, "multilabel_margin_loss_forward_out_frame", *_NOT_FLOAT)
    x = input if input.ndim == 2 else input.reshape(1, -1)
    t = target.reshape(x.shape)
    listed = jnp.cumsum((t < 0).astype(jnp.int32), axis=1) == 0
    classes = x.shape[1]
    named = (t[:, :, None] == jnp.arange(classes)[None, None, :]) & listed[:, :, None]
    is_target = jnp.any(named, axis=1)

    def body(x: Array) -> Array:
        own = jnp.take_along_axis(x, jnp.maximum(t, 0), axis=1, mode="clip")
        z = _hinge(1 - own[:, :, None] + x[:, None, :])
        counted = listed[:, :, None] & ~is_target[:, None, :]
        loss = divide(jnp.sum(where(counted, z, 0), axis=(1, 2)), max(classes, 1))
        return _reduced(loss if input.ndim == 2 else loss.reshape(()), reduction)

    return half_as_float(body)(x)


# --- connectionist temporal classification ------------------------------------------------------

_NEVER = -1e30
"""The logarithm of 0, finite so that differences of it have derivatives."""


def _ctc_alphas(lp: Array, targets: Array, t_in: Array, t_out: Array, blank: int) -> Array:
    """Minus the log-likelihood of each sequence, by the forward recursion."""
    n, s = targets.shape
    width = 2 * s + 1
    labels = jnp.full((n, width), blank, jnp.int64).at[:, 1::2].set(targets)
    before = jnp.concatenate([jnp.full((n, min(2, width)), -1, jnp.int64), labels[:, :-2]], axis=1)[:, :width]
    may_skip = labels != before  # a blank among the targets is a label like any other
    never = jnp.asarray(_NEVER, lp.dtype)
    picked = jnp.take_along_axis(lp, jnp.broadcast_to(labels[None], (lp.shape[0], n, width)), axis=2, mode="clip")
    place = jnp.arange(width)[None, :]
    start = where((place == 0) | ((place == 1) & (t_out[:, None] > 0)), picked[0], never)

    def moved(a: Array, by: int) -> Array:
        return jnp.concatenate([jnp.full((n, min(by, width)), never), a[:, : max(width - by, 0)]], axis=1)

    def step(a: Array, row: Any) -> Any:
        at, t = row
        paths = jnp.stack([a, moved(a, 1), where(may_skip, moved(a, 2), never)])
        new = jax.nn.logsumexp(paths, axis=0) + at
        return where(t < t_in[:, None], jnp.maximum(new, never), a), None

    last, _ = lax.scan(step, start, (picked[1:], jnp.arange(1, lp.shape[0])))
    end = 2 * t_out[:, None]
    final = jnp.take_along_axis(last, end, axis=1, mode="clip")[:, 0]
    prior = jnp.take_along_axis(last, jnp.maximum(end - 1, 0), axis=1, mode="clip")[:, 0]
    prior = where(t_out > 0, prior, never)
    return -jnp.logaddexp(final, prior)


@functools.partial(custom_jvp, nondiff_argnums=(4, 5))
def _ctc(lp: Array, targets: Array, t_in: Array, t_out: Array, blank: int, zero_infinity: bool) -> Array:
    loss = _ctc_alphas(lp, targets, t_in, t_out, blank)
    return where(loss > -0.5 * _NEVER, jnp.inf, loss)


@_ctc.defjvp
def _ctc_jvp(blank: int, zero_infinity: bool, primals: Any, tangents: Any) -> Any:
    """torch's gradient assumes that the input is normalised, and adds ``exp(log_probs)``."""
    lp, targets, t_in, t_out = primals
    loss, slope = jax.value_and_grad(
        lambda z: (lambda v: (jnp.sum(v), v))(_ctc_alphas(z, targets, t_in, t_out, blank)), has_aux=True
    )(lp)
    possible = loss[1] < -0.5 * _NEVER
    within = jnp.arange(lp.shape[0])[:, None, None] < t_in[None, :, None]
    slope = where(within, slope + lax.exp(lp), 0)
    slope = where(possible[None, :, None] | ~within, slope, 0.0 if zero_infinity else jnp.nan)
    return _ctc(*primals, blank, zero_infinity), jnp.sum(slope * tangents[0], axis=(0, 2))


def check_ctc_lengths(t_in: Any, t_out: Any, steps: int, width: int | None) -> None:
    """Refuse lengths that are negative, or more than there are time steps or labels in a row."""
    where = "(while checking arguments for ctc_loss_allocate_outputs)"
    for name, given in (("target_lengths", t_out), ("input_lengths", t_in)):
        fail_if(
            (given < 0).any(),
            lambda name=name, given=given: RuntimeError(
                f"Expected {name} to have value at least 0, but got value {given[given < 0][0]} {where}"
            ),
        )
    fail_if(
        (t_in > steps).any(),
        lambda: RuntimeError(
            f"Expected input_lengths to have value at most {steps}, but got value {t_in[t_in > steps][0]} {where}"
        ),
    )
    if width is not None:
        fail_if(
            (t_out > width).any(),
            lambda: RuntimeError(
                f"Expected tensor to have size at least {t_out.max()} at dimension 1, but got size {width} for "
                f"argument #2 'targets' {where}"
            ),
        )


def _ctc_range(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, **_: Any) -> None:
    """torch reads what lies beside a row for a label out of range."""
    labels, lengths, classes = integers(targets), integers(target_lengths), log_probs.shape[2]
    steps, width = log_probs.shape[0], labels.shape[1]
    check_ctc_lengths(integers(input_lengths), lengths, steps, width)
    used = np.arange(width)[None] < lengths[:, None]
    wrong = used & ((labels < 0) | (labels >= classes))
    fail_if(
        wrong.any(),
        lambda: IndexError(
            f"ctc_loss: the labels of {classes} classes are 0 to {classes - 1}, but a target is "
            f"{int(np.asarray(labels)[np.asarray(wrong)][0])}"
        ),
    )


@_loss(layout=Layout.CONTIGUOUS, check=_ctc_range, name="_ctc_loss", node="CtcLossBackward0")
def _ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    blank: int = 0,
    zero_infinity: bool = False,
) -> Array:
    """Per-sequence loss of (time, batch, class) log-probabilities and (batch, label) targets."""
    refuse(log_probs, "ctc_loss_cpu", *_NOT_FLOAT)
    if is_half(log_probs):
        raise NotImplementedError(f"\"ctc_loss_cpu\" not implemented for '{scalar_name(log_probs)}'")
    if not 0 <= blank < log_probs.shape[2]:
        raise RuntimeError("blank must be in label range")
    rest = (lax.convert_element_type(a, jnp.int64) for a in (targets, input_lengths, target_lengths))
    return _ctc(log_probs, *rest, blank, zero_infinity)
