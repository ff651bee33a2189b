"""Tensors from data, and tensors filled with something."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .._core import devices, dtypes
from .._core.meta import meta
from .._engine.bind import composite
from .._engine.tensor import Tensor, make


def place(array: Any, dev: devices.device) -> Any:
    """A host array as a JAX array on a device."""
    return jax.device_put(array, devices.to_jax(dev))


def from_host(array: np.ndarray, dt: dtypes.dtype, dev: devices.device) -> Tensor:
    """A fresh tensor with a host array's values."""
    host = np.ascontiguousarray(array, dt.np) if array.ndim else np.asarray(array, dt.np)
    return make(place(host, dev), meta(array.shape, dt, dev))


def infer_dtype(data: Any) -> dtypes.dtype:
    """The dtype torch infers from Python data."""
    array = np.asarray(data)
    if array.dtype == np.float64:
        return dtypes.get_default_dtype()
    if array.dtype == np.complex128:
        return dtypes.to_complex(dtypes.get_default_dtype())
    return dtypes.from_np(array.dtype)


@composite(method=False)
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """A fresh leaf with the given values."""
    dev = devices.resolve(device)
    if isinstance(data, Tensor):
        data = np.asarray(data.detach())
        dt = dtypes.from_np(data.dtype)
    elif isinstance(data, np.ndarray | np.generic):
        dt = dtypes.from_np(data.dtype)
    else:
        dt = infer_dtype(data)
    if dtype is not None:
        dt = dtypes.to_dtype(dtype)
    out = from_host(np.asarray(data), dt, dev)
    if requires_grad:
        out.requires_grad_(True)
    return out
