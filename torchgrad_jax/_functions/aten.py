"""Functions that torch publishes under its dispatcher or with an underscore, and that programs call."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._engine.entry.bind import composite, ops
from .._engine.memory.tensor import Tensor
from .copies import slice_range
from .create import from_host

_aten = functools.partial(composite, method=False, namespace="ops.aten")


@_aten(name="slice")
def aten_slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """``input[start:end:step]`` along a dimension, as a view."""
    d, at, length = slice_range(input._m, dim, start, end, step)
    return ops.slice(input, d, at, length, step)


@composite(method=False)
def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """Return what the backward of softmax computes from its result."""
    if input_dtype is dtypes.float16 and grad_output._m.dtype is dtypes.float32:
        raise RuntimeError("expected scalar type Float but found Half")
    return ops._softmax_backward_data_row(grad_output, output, dim)


@_aten(out=True)
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Return what the backward of `native_dropout` computes."""
    return ops._native_dropout_backward(grad_output, mask, scale)


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
    return ops._max_pool2d_with_indices_backward(grad_output, self, indices)


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
    """Batch normalisation in training; the last result is torch's space for cuDNN, which is empty here."""
    found = ops._batch_norm_with_update(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return (*found[:3], from_host(np.zeros(0, np.uint8), input._m.device))


@composite(method=False, out=True)
def _native_batch_norm_legit(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Any = None,
    running_var: Any = None,
    training: Any = None,
    momentum: Any = None,
    eps: Any = None,
) -> tuple[Tensor, ...]:
    """Batch normalisation, and the batch's mean and 1 / std; an overload has no running statistics."""
    *statistics, training, momentum, eps = _given(running_mean, running_var, training, momentum, eps)
    if statistics:
        return ops._batch_norm_legit(input, weight, bias, *statistics, training, momentum, eps)[:3]
    if not training:
        raise RuntimeError("running_mean must be defined in evaluation mode")
    return ops._batch_norm_legit_no_stats(input, weight, bias, None, None, True, momentum, eps)[:3]


def _given(*values: Any) -> list[Any]:
    """What a call gave, by position or by name, of two statistics and three numbers."""
    given = [v for v in values if v is not None]
    if len(given) in (3, 5):
        return given
    raise TypeError(
        "_native_batch_norm_legit() received an invalid combination of arguments: it takes input, weight, bias, "
        "running_mean and running_var or neither, training, momentum and eps"
    )


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
