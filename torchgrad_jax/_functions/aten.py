"""Functions that torch publishes under its dispatcher alone, as ``torch.ops.aten.<name>``.

These are functions for users of torch's own tables. Whatever has a public name is called by that.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._engine.entry.bind import composite, ops
from .._engine.entry.composite import composite_out
from .._engine.memory.tensor import Tensor
from .copies import slice_range
from .create import from_host

_aten = functools.partial(composite, method=False, namespace="ops.aten")
_top = functools.partial(composite, method=False)


@_aten(name="slice")
def aten_slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """``input[start:end:step]`` along a dimension, as a view."""
    d, at, length = slice_range(input._m, dim, start, end, step)
    return ops.slice(input, d, at, length, step)


# --- softmax --------------------------------------------------------------------------------------


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """What the backward of softmax computes from its result."""
    _check_input_dtype(grad_output, input_dtype)
    return ops._softmax_backward_data_row(grad_output, output, dim)


def _log_softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """What the backward of log_softmax computes from its result."""
    _check_input_dtype(grad_output, input_dtype)
    return ops._log_softmax_backward_data_row(grad_output, output, dim)


def _check_input_dtype(grad: Tensor, dtype: Any) -> None:
    if dtype is dtypes.float16 and grad._m.dtype is dtypes.float32:
        raise RuntimeError("expected scalar type Float but found Half")


for _fn in (_softmax_backward_data, _log_softmax_backward_data):
    _top(_fn)


# --- dropout --------------------------------------------------------------------------------------


@_aten(out=True)
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """What the backward of `native_dropout` computes."""
    return ops.native_dropout_backward_row(grad_output, mask, scale)


# --- pooling, resampling --------------------------------------------------------------------------


@_aten
def max_pool2d_with_indices_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    """Gradients of maxima, sent to where the maxima were."""
    if grad_output._m.shape != indices._m.shape:
        raise RuntimeError(
            f"Expected a gradient of shape {list(indices._m.shape)}, but got {list(grad_output._m.shape)}"
        )
    return ops.max_pool2d_backward_row(grad_output, self, indices)


@_aten(out=True)
def _upsample_bilinear2d_aa(
    input: Tensor,
    output_size: Any,
    align_corners: bool,
    scales_h: Any = None,
    scales_w: Any = None,
    *,
    scale_factors: Any = None,
) -> Tensor:
    """Antialiased bilinear resampling of images, to a size or by two factors."""
    if isinstance(scales_h, list | tuple):  # this overload takes both factors in one argument
        scales_h, scale_factors = None, scales_h
    if scale_factors is not None:
        scales_h, scales_w = scale_factors
        if output_size is None:
            output_size = [int(n * f) for n, f in zip(input._m.shape[-2:], scale_factors)]
    return ops._upsample_bilinear2d_aa(input, output_size, align_corners, scales_h, scales_w)


# --- batch normalisation --------------------------------------------------------------------------


def _normalized(
    row: Any,
    input: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return row(input, weight, bias, running_mean, running_var, training, momentum, eps)[:3]


@_aten
def _batch_norm_with_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """Batch normalisation in training; the last result is torch's space for cuDNN, empty here."""
    found = _normalized(
        ops._batch_norm_with_update, input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return (*found, from_host(np.zeros(0, np.uint8), input._m.device))


@_top
def _native_batch_norm_legit(*args: Any, out: Any = None, **kwargs: Any) -> tuple[Tensor, ...]:
    """Batch normalisation, with or without running statistics, and the batch's own."""
    if out is not None:
        return composite_out(_native_batch_norm_legit, args, kwargs, out)
    names = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")
    if len(args) + len(kwargs) == len(names) - 2:
        names = (*names[:3], *names[5:])
    given: dict[str, Any] = dict(zip(names, args))
    if len(args) > len(names) or given.keys() & kwargs.keys() or {*given, *kwargs} != {*names}:
        raise TypeError(
            "_native_batch_norm_legit() received an invalid combination of arguments: it takes input, weight, bias, "
            "running_mean and running_var or neither, training, momentum and eps"
        )
    given.update(kwargs)
    row = ops._batch_norm_legit if "running_mean" in given else ops._batch_norm_legit_no_stats
    given = {"running_mean": None, "running_var": None, **given}
    if row is ops._batch_norm_legit_no_stats and not given["training"]:
        raise RuntimeError("running_mean must be defined in evaluation mode")
    return _normalized(row, **given)


@_top
def _native_batch_norm_legit_no_training(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """Batch normalisation by running statistics."""
    return _normalized(
        ops._batch_norm_legit_no_training, input, weight, bias, running_mean, running_var, False, momentum, eps
    )
