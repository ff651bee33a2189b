"""Lists of examples become batches."""

from __future__ import annotations

import collections.abc
import copy
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...._core.arrays import dtypes
from ...._core.arrays.meta import meta
from ...._core.arrays.transfer import put
from ...._engine.entry.bind import NAMESPACES
from ...._engine.graph.history import requires_grad_of
from ...._engine.memory.concrete import concrete
from ...._engine.memory.tensor import Tensor, make
from ....multiprocessing._carrying import WORTH_IT as _WORTH_IT

np_str_obj_array_pattern = re.compile("[SaUO]")
"""Codes of NumPy dtypes that become no tensors, for packages with collations of their own."""

_torch = NAMESPACES[""]
_WHAT = "batch must contain tensors, numpy arrays, numbers, dicts or lists; found"


def _is_named(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(x, "_fields")


def _rebuilt(x: Any, values: list[Any]) -> Any:
    """A container of the kind of `x`, or a list where its class cannot be made of a list."""
    try:
        if isinstance(x, collections.abc.MutableSequence):
            out = copy.copy(x)
            for i, value in enumerate(values):
                out[i] = value
            return out
        return type(x)(values)
    except TypeError:
        return values


def _rebuilt_map(x: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    try:
        if isinstance(x, collections.abc.MutableMapping):
            out = copy.copy(x)
            out.update(values)
            return out
        return type(x)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def default_convert(data: Any) -> Any:
    """NumPy arrays in nested containers as tensors; everything else stays."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray | np.generic):
        if data.dtype.kind in "SUOM":
            return data
        return _torch["as_tensor"](data)
    if isinstance(data, Mapping):
        return _rebuilt_map(data, {k: default_convert(v) for k, v in data.items()})
    if _is_named(data):
        return type(data)(*[default_convert(v) for v in data])
    if isinstance(data, tuple):
        return [default_convert(v) for v in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, str | bytes):
        return _rebuilt(data, [default_convert(v) for v in data])
    return data


def collate(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """One batch of a list of examples, with functions for some classes of examples.

    Args:
        batch: the examples, all of the same structure.
        collate_fn_map: class, or tuple of classes, to a function of the examples.

    Raises:
        TypeError: an example is of a class that nobody knows how to batch.
        RuntimeError: sequences of different lengths.
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        fn = collate_fn_map.get(kind) or next((f for k, f in collate_fn_map.items() if isinstance(first, k)), None)
        if fn is not None:
            return fn(batch, collate_fn_map=collate_fn_map)

    def inner(xs: Any) -> Any:
        return collate(xs, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _rebuilt_map(first, {k: inner([x[k] for x in batch]) for k in first})
    if _is_named(first):
        return kind(*[inner(xs) for xs in zip(*batch)])
    if isinstance(first, collections.abc.Sequence):
        if any(len(x) != len(first) for x in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [inner(xs) for xs in zip(*batch)]
        return columns if isinstance(first, tuple) else _rebuilt(first, columns)
    raise TypeError(f"default_collate: {_WHAT} {kind}")


PLACES: list[Any] = []
"""In a worker process: the pool of the queue that its batches go to."""


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Tensors, stacked."""
    stacked = _stacked_in_place(batch, PLACES[-1]) if PLACES else None
    return _torch["stack"](list(batch), 0) if stacked is None else stacked


def _stacked_in_place(batch: Any, pool: Any) -> Tensor | None:
    """The stack, in memory that the program maps; None where it is small or more than a copy of values."""
    first = batch[0]._m
    size = first.numel * first.dtype.itemsize * len(batch)
    if size < _WORTH_IT or first.device.type != "cpu":
        return None
    if not all(type(t) is Tensor and t._m.shape == first.shape and t._m.dtype is first.dtype for t in batch):
        return None
    if any(requires_grad_of(t) for t in batch):
        return None
    out = pool.empty((len(batch), *first.shape), first.dtype.np)
    np.stack([concrete(t) for t in batch], out=out)
    return make(put(out, first.device), meta(out.shape, first.dtype, first.device))


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Arrays, stacked as tensors."""
    if batch[0].dtype.kind in "SUO":
        raise TypeError(f"default_collate: {_WHAT} {batch[0].dtype}")
    return collate([_torch["as_tensor"](b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Scalars of NumPy, as a tensor of their dtype."""
    return _torch["as_tensor"](np.asarray(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Floats, as float64."""
    return _torch["tensor"](batch, dtype=dtypes.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Integers or bools."""
    return _torch["tensor"](batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Strings stay a list."""
    return batch


default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """One batch of a list of examples: tensors are stacked, numbers become tensors, containers are entered."""
    return collate(batch, collate_fn_map=default_collate_fn_map)
