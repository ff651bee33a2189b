"""Operators that join many tensors, run in pieces.

XLA's compile time grows faster than the number of operands and results of a kernel: `stack` of a
thousand tensors would take seconds to compile, its gradient ten times as long. Such a call joins 64 at a
time instead, and its gradients are read off 64 at a time, by kernels that all groups share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..._core.arrays.meta import Meta
from ..._core.jax.caches import KERNELS
from ..._core.jax.own_kernels import jit

PER_KERNEL = 64
"""How many tensors one kernel joins."""
PER_SEGMENT = 256
"""How many tensors a call may join and still become part of a larger kernel."""


@KERNELS.shared
@functools.partial(jit, static_argnums=(1, 2, 3))
def _joined(xs: Sequence[Any], dtype: Any, axis: int, new: bool) -> Any:
    xs = [lax.convert_element_type(x, dtype) for x in xs]
    return lax.concatenate([lax.expand_dims(x, (axis,)) if new else x for x in xs], axis)


@KERNELS.shared
@functools.partial(jit, static_argnums=(2, 3, 4, 5, 6))
def _parts(ct: Any, start: Any, count: int, size: int, axis: int, new: bool, dtype: Any) -> Any:
    if jnp.iscomplexobj(ct) and not jnp.issubdtype(dtype, jnp.complexfloating):
        ct = jnp.real(ct)
    segment = lax.dynamic_slice_in_dim(ct, start, count * size, axis, allow_negative_indices=False)
    parts = [lax.slice_in_dim(segment, k * size, (k + 1) * size, axis=axis) for k in range(count)]
    parts = [lax.squeeze(p, (axis,)) if new else p for p in parts]
    return [lax.convert_element_type(p, dtype) for p in parts]


def forward(keys: Sequence[Meta], out: Meta, axis: int, new: bool) -> Callable[..., Any]:
    """The compiled forward of a call that joins `keys` along `axis` (a new one for `stack`)."""
    dtype = out.dtype.np
    kept = [i for i, k in enumerate(keys) if new or k.ndim == out.ndim]  # `cat` skips shape (0,)

    def fwd(*xs: Any) -> Any:
        pieces = [xs[i] for i in kept]
        fresh = new
        while fresh or len(pieces) > 1:
            pieces = [
                _joined(pieces[i : i + PER_KERNEL], dtype, axis, fresh) for i in range(0, len(pieces), PER_KERNEL)
            ]
            fresh = False
        return pieces[0]

    return fwd


def backward(keys: Sequence[Meta], out: Meta, axis: int, new: bool, wanted: Sequence[int]) -> Callable[..., list[Any]]:
    """The compiled gradients of the keys numbered in `wanted`."""
    starts = []
    at = 0
    for k in keys:
        starts.append(at)
        if new:
            at += 1
        elif k.ndim == out.ndim:
            at += k.shape[axis]
    groups: list[tuple[int, int]] = []  # (first, how many): alike and next to each other
    for i in wanted:
        if groups:
            first, count = groups[-1]
            if i == first + count and keys[i] is keys[first] and count < PER_KERNEL:
                groups[-1] = (first, count + 1)
                continue
        groups.append((i, 1))

    def vjp(ct: Any) -> list[Any]:
        grads: list[Any] = []
        for first, count in groups:
            k = keys[first]
            if not new and k.ndim != out.ndim:  # `cat` takes empty tensors of shape (0,)
                grads += [jnp.zeros(k.shape, k.dtype.np)] * count
                continue
            size = 1 if new else k.shape[axis]
            grads += _parts(ct, starts[first], count, size, axis, new, k.dtype.np)
        return grads

    return vjp
