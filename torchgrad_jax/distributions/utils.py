"""Helpers of the distributions: broadcasting parameters, probabilities and log odds, triangular matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final

from .. import Size, Tensor, arange, broadcast_tensors, empty, enable_grad, finfo, get_default_dtype, nn, tensor
from ..overrides import is_tensor_like

_F = nn.functional

SCALAR: Final = Size()
"""The shape of one number."""

euler_constant: Final = 0.57721566490153286060

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors and numbers as tensors of one shape; numbers take dtype and device of the first tensor."""
    if not all(is_tensor_like(v) or isinstance(v, int | float) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    like: Any = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = get_default_dtype() if like is None else like.dtype
    device = None if like is None else like.device
    return broadcast_tensors(*[v if is_tensor_like(v) else tensor(v, dtype=dtype, device=device) for v in values])


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Draws from the standard normal distribution."""
    return empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last dimensions."""
    return value if dim == 0 else value.reshape((*value.shape[:-dim], -1)).sum(-1)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of log odds, or of unnormalised logarithms."""
    return logits.sigmoid() if is_binary else _F.softmax(logits, dim=-1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities a little away from 0 and 1."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Inverse of `logits_to_probs`."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


def one_of(probs: Any, logits: Any) -> tuple[str, Any]:
    """The name and value of the one that was given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return ("probs", probs) if probs is not None else ("logits", logits)


class lazy_property:
    """Computed when first asked for, and then kept."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """Elements on and below a diagonal of square matrices, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    places: Any = arange(n, device=mat.device)
    return mat[..., places < places.view(-1, 1) + (diag + 1)]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Inverse of `tril_matrix_to_vec`, with zeros above."""
    count, shift = vec.shape[-1], 1 + 2 * diag
    root = (shift**2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5
    n = (root - shift) / 2
    if round(n) - n > finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    n = round(n)
    places: Any = arange(n, device=vec.device)
    mat = vec.new_zeros((*vec.shape[:-1], n, n))
    mat[..., places < places.view(-1, 1) + (diag + 1)] = vec
    return mat
