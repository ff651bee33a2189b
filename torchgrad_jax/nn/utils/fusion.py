"""Batch normalisation folded into the layer before it, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from .._top import torch
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _check(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")


def _check_statistics(bn: Any) -> None:
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what it and a batch normalisation do.

    Args:
        conv: the convolution.
        bn: the batch normalisation after it.
        transpose: whether the convolution is transposed.
    """
    _check(conv, bn)
    out = copy.deepcopy(conv)
    _check_statistics(bn)
    out.weight, out.bias = fuse_conv_bn_weights(
        out.weight, out.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return out


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any, transpose: bool = False
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the convolution that `fuse_conv_bn_eval` makes.

    Args:
        conv_w: weight of the convolution.
        conv_b: its bias.
        bn_rm: running mean.
        bn_rv: running variance.
        bn_eps: what is added to the variance.
        bn_w: factor of the normalisation.
        bn_b: its offset.
        transpose: whether the convolution is transposed.
    """
    kind = conv_w.dtype
    bias_kind = kind if conv_b is None else conv_b.dtype
    conv_b = torch.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = torch.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = torch.zeros_like(bn_rm) if bn_b is None else bn_b
    inverse = torch.rsqrt(bn_rv + bn_eps)
    shape = [1, -1] if transpose else [-1, 1]
    shape += [1] * (len(conv_w.shape) - 2)
    weight = (conv_w * (bn_w * inverse).reshape(shape)).to(dtype=kind)
    bias = ((conv_b - bn_rm) * inverse * bn_w + bn_b).to(dtype=bias_kind)
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, conv_b.requires_grad)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what it and a batch normalisation do.

    Args:
        linear: the linear layer.
        bn: the batch normalisation after it.
    """
    _check(linear, bn)
    out = copy.deepcopy(linear)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    _check_statistics(bn)
    out.weight, out.bias = fuse_linear_bn_weights(
        out.weight, out.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return out


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the layer that `fuse_linear_bn_eval` makes.

    Args:
        linear_w: weight of the linear layer.
        linear_b: its bias.
        bn_rm: running mean.
        bn_rv: running variance.
        bn_eps: what is added to the variance.
        bn_w: factor of the normalisation.
        bn_b: its offset.
    """
    kind = linear_w.dtype
    bias_kind = kind if linear_b is None else linear_b.dtype
    linear_b = torch.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * torch.rsqrt(bn_rv + bn_eps)
    weight = linear_w * scale.unsqueeze(-1).to(dtype=kind)
    bias = ((linear_b - bn_rm) * scale + bn_b).to(dtype=bias_kind)
    return Parameter(weight, linear_w.requires_grad), Parameter(bias, linear_b.requires_grad)
