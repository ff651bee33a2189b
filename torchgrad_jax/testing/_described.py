"""Tensors, arrays and errors as they are compared: alike for both libraries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Array:
    """What is compared of a tensor or array: its numbers, and facts that both sides know."""

    values: np.ndarray | None
    dtype: str
    shape: tuple[int, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


def array_of(x: Any) -> np.ndarray:
    """The numbers of a tensor of either library; bfloat16 as float32, which NumPy has."""
    x = x.detach()
    if getattr(x, "_is_zerotensor", bool)():  # torch's zero without memory
        x = x.new_zeros(x.shape)
    if "strided" not in str(x.layout):
        x = x.to_dense()
    if "bfloat16" in str(x.dtype):
        x = x.float()
    return np.array(x.resolve_conj().resolve_neg().cpu().numpy())


def tensor_of(lib: Any, array: Any) -> Any:
    """A tensor with the numbers and dtype of an array; NumPy's bfloat16 is unknown to torch."""
    array = np.asarray(array)
    if array.dtype.name == "bfloat16":
        return lib.tensor(array.astype(np.float32)).to(lib.bfloat16)
    return lib.tensor(array)


def describe(x: Any, lib: Any) -> Any:
    """A leaf of a result as it is compared."""
    if not isinstance(x, lib.Tensor):
        return plain(x)
    layout = str(x.layout).rpartition(".")[2]
    facts: dict[str, Any] = {
        "type": type(x).__name__,
        "requires_grad": x.requires_grad,
        "is_leaf": x.is_leaf,
        "layout": layout,
    }
    if not x.is_inference():
        facts["version"] = x._version
    if layout == "strided":
        facts["stride"] = tuple(x.stride())
    return Array(None if x.is_meta else array_of(x), dtype_name(x), tuple(x.shape), facts)


def dtype_name(t: Any) -> str:
    """The name of a tensor's dtype without that of its library."""
    return str(t.dtype).rpartition(".")[2]


def plain(x: Any) -> Any:
    """An array of NumPy or JAX, or a value of Python, as it is compared."""
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return Array(np.asarray(x), np.dtype(x.dtype).name, tuple(x.shape))
    return x


def plain_tensor(t: Any) -> Array:
    """A tensor of which only dtype, shape and numbers are promised."""
    return Array(array_of(t), dtype_name(t), tuple(t.shape))


def first_line(e: BaseException) -> str:
    """Type and first line of an exception, alike in both libraries."""
    text = (str(e).splitlines() or [""])[0]
    return f"{type(e).__name__}: {text.replace('torchgrad_jax.', 'torch.')}"
