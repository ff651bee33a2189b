"""Padding: constant, reflected, replicated and circular."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from .._core.arrays import shapes
from .._core.arrays.kernels import scalar_name
from .._core.arrays.layouts import following, with_statics
from .helpers import is_bool
from .registry import Array, Dims, Fits, NoGradient, Numbers, Scalar, Size, op

Shape = tuple[int, ...]


def _pairs(x: Array, pad: Shape) -> list[tuple[int, int]]:
    """(before, after) for each axis of x; `pad` starts at the last axis."""
    given = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (x.ndim - len(given)) + given[::-1]


_following = following()


@with_statics
def _padded(metas: Sequence[Any], out: Shape, statics: dict[str, Any]) -> Shape:
    """The layout of a copy if the input is only cropped, otherwise channels last if the input has them last."""
    if any(n > 0 for n in statics["pad"]):
        return _following(metas, out)
    return shapes.preserve_strides(out, metas[0].strides)


@op(node="ConstantPadNdBackward0", layout=_padded, method=False, numbers=Numbers(fits=Fits.EXACTLY))
def constant_pad_nd(input: Array, pad: Size, value: Scalar = 0) -> Array:
    """Grow (or, where negative, crop) the last axes with a value."""
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * input.ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad "
            f"length is {len(pad)} while the input has {input.ndim} dimensions."
        )
    pairs = _pairs(input, pad)
    if any(n + min(lo, 0) + min(hi, 0) < 0 for n, (lo, hi) in zip(input.shape, pairs)):
        raise RuntimeError("narrow(): length must be non-negative.")
    fill = jnp.asarray(value)
    if jnp.issubdtype(fill.dtype, jnp.complexfloating) and not jnp.issubdtype(input.dtype, jnp.complexfloating):
        raise RuntimeError("value cannot be converted to type float without overflow")
    return lax.pad(input, fill.astype(input.dtype), [(lo, hi, 0) for lo, hi in pairs])


def _crop(x: Array, axis: int, lo: int, hi: int) -> Array:
    if lo >= 0 and hi >= 0:
        return x
    return lax.slice_in_dim(x, max(-lo, 0), x.shape[axis] - max(-hi, 0), axis=axis)


def _reflect(x: Array, axis: int, lo: int, hi: int) -> Array:
    n, parts = x.shape[axis], [x]
    if lo > 0:
        parts.insert(0, lax.rev(lax.slice_in_dim(x, 1, lo + 1, axis=axis), (axis,)))
    if hi > 0:
        parts.append(lax.rev(lax.slice_in_dim(x, n - 1 - hi, n - 1, axis=axis), (axis,)))
    return _crop(lax.concatenate(parts, axis) if len(parts) > 1 else x, axis, lo, hi)


def _replicate(x: Array, axis: int, lo: int, hi: int) -> Array:
    def edge(at: int, count: int) -> Array:
        one = lax.slice_in_dim(x, at, at + 1, axis=axis)
        return jnp.broadcast_to(one, (*x.shape[:axis], count, *x.shape[axis + 1 :]))

    parts = [x]
    if lo > 0:
        parts.insert(0, edge(0, lo))
    if hi > 0:
        parts.append(edge(x.shape[axis] - 1, hi))
    return _crop(lax.concatenate(parts, axis) if len(parts) > 1 else x, axis, lo, hi)


def _check(kind: str, label: str, x: Array, pad: Shape) -> int:
    """torch's checks on reflected and replicated padding; the number of padded axes."""
    k = len(pad) // 2
    if is_bool(x):
        shown = scalar_name(x)
        raise NotImplementedError(f"\"{label}\" not implemented for '{shown}'")
    if x.ndim not in (k + 1, k + 2) or 0 in x.shape[x.ndim - k - 1 :]:
        raise RuntimeError(
            f"Expected {k + 1}D or {k + 2}D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(x.shape)}"
        )
    pairs = _pairs(x, pad)
    if kind == "reflect":
        for i in range(k):
            axis = x.ndim - 1 - i
            lo, hi = pairs[axis]
            if lo >= x.shape[axis] or hi >= x.shape[axis]:
                raise RuntimeError(
                    f"Argument #{4 + 2 * i}: Padding size should be less than the corresponding input "
                    f"dimension, but got: padding ({lo}, {hi}) at dimension {axis} of input {list(x.shape)}"
                )
    names = "DHW"[3 - k :]
    image = x.shape[x.ndim - k :]
    sizes = [n + lo + hi for n, (lo, hi) in zip(image, pairs[x.ndim - k :])]
    if any(n < 1 for n in sizes):
        given = " ".join(f"{a}: {n}" for a, n in zip(names, image))
        got = " ".join(f"{a}: {n}" for a, n in zip(names, sizes))
        raise RuntimeError(f"input ({given}) is too small. Calculated output {got}")
    return k


def _extend(x: Array, pad: Shape, one: Any) -> Array:
    for axis, (lo, hi) in enumerate(_pairs(x, pad)):
        if lo or hi:
            x = one(x, axis, lo, hi)
    return x


def _declare(kind: str, word: str, one: Any, k: int) -> None:
    label = f"{word}_pad{k}d"

    def impl(input: Array, padding: Dims) -> Array:
        if len(padding) != 2 * k:
            raise RuntimeError(f"padding size is expected to be {2 * k}, but got: {len(padding)}")
        _check(kind, label, input, padding)
        return _extend(input, padding, one)

    node = f"{word.capitalize()}Pad{k}DBackward0"
    impl.__name__ = impl.__qualname__ = label
    op(
        impl,
        name=label,
        node=node,
        layout=following(),
        method=False,
        function=False,
        out=False,
        keeps=("input",),
        no_gradient={NoGradient.ZEROS: ("input",)},
    )


for _k in (1, 2, 3):
    _declare("reflect", "reflection", _reflect, _k)
    _declare("replicate", "replication", _replicate, _k)
