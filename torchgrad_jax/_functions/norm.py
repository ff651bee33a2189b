"""Normalisation layers under their public names."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from .._core.arrays import dtypes
from .._core.arrays.dtypes import FLOATING, scalar_type_name
from .._core.arrays.meta import Meta
from .._core.errors import messages as errors
from .._core.state import MODES
from .._engine.entry.bind import composite, ops
from .._engine.graph.record import no_grad
from .._engine.memory.tensor import Tensor
from .._engine.modes.belonging import is_batched

_functional = functools.partial(composite, method=False, namespace="nn.functional")
_top = functools.partial(composite, method=False)


def _size(shape: Sequence[int]) -> str:
    return f"torch.Size({list(shape)})"


# --- batch --------------------------------------------------------------------------------------


def _check_batched(input: Tensor, *running: Tensor | None) -> None:
    """Refuse to write statistics of each example of a `vmap` into tensors that are the same for all examples."""
    run = MODES.run
    if run.batch is not None and run.inside(input):
        for t in running:
            if t is not None and not run.inside(t):
                raise RuntimeError(errors.BATCHED_STATISTICS)


def _batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float | None,
    eps: float,
) -> Any:
    if training:
        _check_batched(input, running_mean, running_var)
    momentum = 0.0 if momentum is None else momentum
    return ops._native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[:3]


def _batch_norm_or_empty(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float | None,
    eps: float,
) -> Tensor:
    if input._m.numel:
        return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]
    if not training and running_mean is None:
        raise RuntimeError("running_mean must be defined in evaluation mode")
    out = input.clone()  # torch: there is nothing to normalise, but the parameters keep their edges
    if weight is not None:
        out = out * weight[0]
    return out if bias is None else out + bias[0]


@_top(out=True)
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Normalised input, batch mean and 1 / std."""
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@_top(name="batch_norm")
def _top_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Batch normalisation, with torch's order of arguments at the top level."""
    return _batch_norm_or_empty(input, weight, bias, running_mean, running_var, training, momentum, eps)


def _check_batch(shape: Sequence[int], shown: str) -> None:
    if shape[0] * math.prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {shown}")


@_functional
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel over the batch, or by running statistics outside training."""
    if training:
        shape = input._m.shape
        _check_batch(shape, _size(shape))
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return _batch_norm_or_empty(input, weight, bias, running_mean, running_var, training, momentum, eps)


# --- instance -----------------------------------------------------------------------------------


def _instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """Batch normalisation of a batch of one, where every instance brings its own channels."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    if use_input_stats:
        _check_batched(input, running_mean, running_var)
    shape = input._m.shape
    batch, channels = shape[0], shape[1]
    w, b, mean, var = (None if t is None else t.repeat((batch,)) for t in (weight, bias, running_mean, running_var))
    flat = input.contiguous().view(1, batch * channels, *shape[2:])
    out = _batch_norm(flat, w, b, mean, var, use_input_stats, momentum, eps)[0]
    if use_input_stats:
        with no_grad():
            for running, new in ((running_mean, mean), (running_var, var)):
                if running is not None:
                    running.copy_(new.view(batch, channels).mean(0))  # type: ignore[union-attr]
    return out.view(shape)


@_top(name="instance_norm")
def _top_instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Instance normalisation, with torch's order of arguments at the top level."""
    return _instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)


@_functional
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each instance over its spatial positions."""
    shape = input._m.shape
    if use_input_stats and math.prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {_size(shape)}")
    return _instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)


# --- layer, group -------------------------------------------------------------------------------


def _normalized_shape(fn: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"{fn}(): argument 'normalized_shape' (position 2) must be tuple of ints, not {type(value).__name__}"
        )
    return tuple(value)


@_top
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Any:
    """Normalised input, mean and 1 / std over the last dimensions."""
    shape = _normalized_shape("native_layer_norm", normalized_shape)
    return ops._native_layer_norm(input, shape, weight, bias, eps)


@_top(name="layer_norm")
def _top_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Normalise over the last dimensions."""
    return ops._native_layer_norm(input, _normalized_shape("layer_norm", normalized_shape), weight, bias, eps)[0]


@_functional
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise over the last dimensions."""
    return ops._native_layer_norm(input, _normalized_shape("layer_norm", normalized_shape), weight, bias, eps)[0]


def _as_suggested(t: Tensor, like: Meta | None = None) -> Tensor:
    """The tensor, or a copy that is dense in the memory format which its strides (or these) suggest."""
    m = t._m
    if m.contiguous or is_batched(t):
        return t
    return t.contiguous(memory_format=(like or m).suggests)


def _group_norm(input: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    shape = input._m.shape
    n, c = shape[0], shape[1]
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if c % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(shape)} and num_groups={num_groups}"
        )
    input = _as_suggested(input)
    return ops.native_group_norm(input, weight, bias, n, c, math.prod(shape[2:]), num_groups, eps)[0]


@_top(name="group_norm")
def _top_group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Normalise over groups of channels and all positions."""
    return _group_norm(input, num_groups, weight, bias, eps)


@_functional
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise over groups of channels and all positions."""
    shape = input._m.shape
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    sizes = [shape[0] * shape[1] // num_groups, num_groups, *shape[2:]]
    _check_batch(sizes, str(sizes))
    return _group_norm(input, num_groups, weight, bias, eps)


# --- root mean square, local response -----------------------------------------------------------


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root mean square over the last dimensions."""
    shape = list(_normalized_shape("rms_norm", normalized_shape))
    m = input._m
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
            "but got normalized_shape = []"
        )
    if weight is not None and list(weight._m.shape) != shape:
        raise RuntimeError(
            "Expected weight to be of same shape as normalized_shape, but got weight of shape "
            f"{list(weight._m.shape)} and normalized_shape = {shape}"
        )
    if m.ndim < len(shape) or list(m.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={shape}, expected input with shape [*{', '.join(map(str, shape))}], but "
            f"got input of size{list(m.shape)}"
        )
    if m.dtype.category < FLOATING:
        raise NotImplementedError(f"\"rms_norm\" not implemented for '{scalar_type_name(m.dtype)}'")
    x = input.to(dtypes.float32) if m.dtype.itemsize < 4 else input
    if eps is None:
        eps = dtypes.finfo(x._m.dtype).eps
    square = x.pow(2).mean(tuple(range(-len(shape), 0)), keepdim=True)
    root = ops.rsqrt(ops.add_number(square, eps))
    out = x.mul(root)
    if weight is not None:
        out = out.mul(weight)
    return _as_suggested(out.to(m.dtype) if out._m.dtype is not m.dtype else out, m)


_top(rms_norm)
_functional(rms_norm)


@_functional
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide by a power of the mean square over neighbouring channels."""
    m = input._m
    if m.ndim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {m.ndim} dimensions)"
        )
    if m.numel == 0:
        return input
    squares = input.mul(input)
    around = (size // 2, (size - 1) // 2)
    if m.ndim == 3:
        padded = ops.constant_pad_nd(squares.unsqueeze(1), (0, 0, *around), 0)
        mean = ops.avg_pool2d(padded, (size, 1), 1).squeeze(1)
    else:
        n, c, h = m.shape[:3]
        padded = ops.constant_pad_nd(squares.view(n, 1, c, h, -1), (0, 0, 0, 0, *around), 0)
        mean = ops.avg_pool3d(padded, (size, 1, 1), 1).squeeze(1).view(m.shape)
    return input / mean.mul(alpha).add(k).pow(beta)
