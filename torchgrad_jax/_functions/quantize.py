"""Fake quantization: numbers rounded to a grid, with gradients that go straight through."""

from __future__ import annotations

import functools
from typing import Any

from .._engine.entry.bind import composite, ops
from .._engine.memory.tensor import Tensor
from .arguments import no_match

_SIGNATURES = (
    "Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max",
    "Tensor input, float scale, int zero_point, int quant_min, int quant_max",
)
_function = functools.partial(composite, method=False)


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@_function
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """Numbers rounded to ``(n - zero_point) * scale`` for the nearest integer `n` in range.

    The gradient is 1 where that integer was in range and 0 elsewhere.
    """
    name = "fake_quantize_per_tensor_affine"
    given = (input, scale, zero_point, quant_min, quant_max)
    if not (_integer(quant_min) and _integer(quant_max)):
        raise no_match(name, given, {}, *_SIGNATURES)
    if isinstance(scale, Tensor) and isinstance(zero_point, Tensor):
        return ops._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(*given)[0]
    scale = scale.item() if isinstance(scale, Tensor) else scale
    zero_point = zero_point.item() if isinstance(zero_point, Tensor) else zero_point
    if not isinstance(scale, float | int) or not _integer(zero_point):
        raise no_match(name, given, {}, *_SIGNATURES)
    return ops.fake_quantize_per_tensor_affine_cachemask(input, float(scale), zero_point, quant_min, quant_max)[0]


@_function
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """The same with a scale and a zero point for each index along `axis`."""
    return ops.fake_quantize_per_channel_affine_cachemask(input, scale, zero_point, axis, quant_min, quant_max)[0]
