"""Checks on the shapes and dtypes of matrix arguments, with torch's complaints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import shapes
from .dtypes import FLOATING, from_np, scalar_type_name


def size_text(shape: Sequence[int]) -> str:
    """``2x3``."""
    return "x".join(map(str, shape))


def require_matrix(what: str, x: Any, name: str = "A") -> None:
    """At least two dimensions."""
    if x.ndim < 2:
        raise RuntimeError(f"{what}: The input tensor {name} must have at least 2 dimensions.")


def require_square(what: str, x: Any, name: str = "A") -> None:
    """Batches of square matrices."""
    require_matrix(what, x, name)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{what}: {name} must be batches of square matrices, but they are {x.shape[-2]} by {x.shape[-1]} matrices"
        )


def require_inexact(what: str, x: Any, *, half: bool = False) -> None:
    """A floating or complex dtype; half precision only where torch computes in it."""
    d = from_np(x.dtype)
    if d.category < FLOATING:
        raise RuntimeError(f"{what}: Expected a floating point or complex tensor as input. Got {scalar_type_name(d)}")
    if d.itemsize < 4 and not half:
        raise RuntimeError(f"{what}: Low precision dtypes not supported. Got {scalar_type_name(d)}")


def require_supported(kernel: str, x: Any) -> None:
    """A dtype that LAPACK has: float, double and their complex kinds."""
    d = from_np(x.dtype)
    if d.category < FLOATING or d.itemsize < 4:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_type_name(d)}'")


def require_not(kernel: str, x: Any, *names: str) -> None:
    """A dtype outside the named ones (``bool`` and the shell unsigned types by default)."""
    d = from_np(x.dtype)
    if d.name in (names or ("bool", "uint16", "uint32", "uint64")):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_type_name(d)}'")


def vector_rhs(a: Sequence[int], b: Sequence[int]) -> bool:
    """Return whether `b` is a (batch of) right-hand side vector(s) for the matrices `a`."""
    return len(b) == 1 or (len(a) - 1 == len(b) and tuple(a[:-1]) == tuple(b))


def column_major(metas: Sequence[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a LAPACK result: matrices are stored by columns, other outputs row-major."""
    strides = shapes.contiguous_strides(shape)
    if len(shape) < 2 or len(shape) != metas[0].ndim:
        return strides
    rows = max(shape[-2], 1)
    return (*strides[:-2], 1, rows)
