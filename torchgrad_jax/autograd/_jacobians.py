"""Jacobians by finite differences, by backward, and by forward mode: whole ones, or their products with directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.meta import Meta, meta
from .._core.arrays.transfer import put
from .._engine.graph.history import requires_grad_of
from .._engine.graph.record import zeros_for
from .._engine.memory.strided import read, write
from .._engine.memory.tensor import Tensor, make
from . import forward_ad
from ._passes import run_backward

Fn = Callable[..., Any]
Directions = Sequence[tuple[np.ndarray, np.ndarray]]
"""Directions to move an input along: of its real part, and of its imaginary part."""


def as_tuple(x: Any) -> tuple[Any, ...]:
    """A tuple or list as a tuple; anything else as a tuple of one."""
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def is_complex(t: Tensor) -> bool:
    """Return whether a tensor has a complex dtype."""
    return t._m.dtype.category == dtypes.COMPLEX


def is_inexact(t: Tensor) -> bool:
    """Return whether a tensor has a dtype that has derivatives."""
    return t._m.dtype.category >= dtypes.FLOATING


def differentiable(outputs: Any) -> tuple[Tensor, ...]:
    """The outputs that require grad."""
    return tuple(o for o in as_tuple(outputs) if o.requires_grad)


def checked(inputs: Sequence[Any]) -> list[int]:
    """Positions of the inputs whose Jacobians matter."""
    return [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and requires_grad_of(t)]


def tensor_like(m: Meta, values: np.ndarray) -> Tensor:
    """A plain tensor of a given shape and dtype."""
    return make(
        put(np.array(values, m.dtype.np, order="C").reshape(m.shape), m.device), meta(m.shape, m.dtype, m.device)
    )


def values_of(t: Tensor) -> np.ndarray:
    """A tensor's values as numpy, half types widened."""
    host = np.asarray(read(t))
    return host if host.dtype.kind in "biufc" else host.astype(np.float32)


def units(t: Tensor) -> Directions:
    """The directions that give a whole Jacobian: one per element."""
    return [(unit, unit) for unit in np.eye(t._m.numel)]


# --- finite differences ---------------------------------------------------------------------------

_BOOL_DIFFERENCE = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
    "instead."
)


def _outputs_at(fn: Fn, inputs: Sequence[Any], t: Tensor, values: Any) -> list[np.ndarray | None]:
    """The outputs with an input moved, in place, so that closures over it see the change; None for integers."""
    before = read(t)
    try:
        write(t, put(np.array(values, t._m.dtype.np, order="C"), t._m.device), bump=False)
        outputs = as_tuple(fn(*inputs))
        if any(o._m.dtype is dtypes.bool_ for o in outputs):
            raise RuntimeError(_BOOL_DIFFERENCE)
        return [values_of(o) if is_inexact(o) else None for o in outputs]
    finally:
        write(t, before, bump=False)


def _difference(fn: Fn, inputs: Sequence[Any], t: Tensor, step: np.ndarray, eps: float) -> list[np.ndarray | None]:
    """Central difference of every output along a step of an input."""
    here, step = values_of(t), step.reshape(t._m.shape) * eps
    low, high = _outputs_at(fn, inputs, t, here - step), _outputs_at(fn, inputs, t, here + step)
    with np.errstate(all="ignore"):  # infinities and NaN are for the comparison to see
        return [None if a is None or b is None else ((a - b) / (2 * eps)).reshape(-1) for a, b in zip(high, low)]


def numerical(fn: Fn, inputs: Sequence[Any], which: int, along: Directions, eps: float, forward: bool) -> list[Any]:
    """Per output a row per direction of one input; None for integers. Of complex inputs with respect to conj(w)."""
    t, rows = inputs[which], []
    for real, imag in along:
        row = _difference(fn, inputs, t, real, eps)
        if is_complex(t) and not forward:
            across = _difference(fn, inputs, t, imag * 1j, eps)
            row = [None if a is None or b is None else a + 1j * b for a, b in zip(row, across)]
        rows.append(row)
    if not rows:
        outs = [values_of(o) if is_inexact(o) else None for o in as_tuple(fn(*inputs))]
        return [None if o is None else np.zeros((0, o.size), o.dtype) for o in outs]
    return [None if column[0] is None else np.stack(column) for column in zip(*rows)]


# --- backward -------------------------------------------------------------------------------------


def pull(output: Tensor, inputs: Sequence[Tensor], v: Tensor) -> tuple[Any, ...]:
    """Gradients of the inputs for a gradient of one output."""
    return run_backward((output,), (v,), True, False, inputs, True, False)


def flat(g: Tensor | None, t: Tensor) -> np.ndarray:
    """The values of a gradient of `t` in a row."""
    return np.zeros(t._m.numel, t._m.dtype.np) if g is None else values_of(g).reshape(-1)


def analytical(
    inputs: Sequence[Tensor], output: Tensor, vectors: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], bool, bool]:
    """Per input a column per gradient of one output, and whether all had the right sizes and dtypes."""
    jacobians = [np.zeros((t._m.numel, len(vectors)), t._m.dtype.np) for t in inputs]
    sizes = types = True
    for k, v in enumerate(vectors):
        for t, g, jac in zip(inputs, pull(output, inputs, tensor_like(output._m, v)), jacobians):
            if g is None:
                continue
            types = types and g._m.dtype is t._m.dtype
            if g._m.shape != t._m.shape:
                sizes = False
            else:
                jac[:, k] = flat(g, t)
    return jacobians, sizes, types


# --- forward mode ---------------------------------------------------------------------------------


def push(fn: Fn, inputs: Sequence[Any], which: int, tangent: Tensor) -> tuple[Tensor, ...]:
    """Tangents of the differentiable outputs for a tangent of one input."""
    plain = [t.detach() if isinstance(t, Tensor) and requires_grad_of(t) else t for t in inputs]
    with forward_ad.dual_level():
        plain[which] = forward_ad.make_dual(plain[which], tangent)
        duals = [forward_ad.unpack_dual(o) for o in as_tuple(fn(*plain)) if is_inexact(o)]
        return tuple(zeros_for(p._m) if t is None else t for p, t in duals)


def by_forward_mode(fn: Fn, inputs: Sequence[Any], which: int, along: Directions) -> list[np.ndarray]:
    """Per differentiable output a row per direction of one input."""
    m = inputs[which]._m
    rows = [push(fn, inputs, which, tensor_like(m, real)) for real, _ in along]
    return [np.stack([values_of(t).reshape(-1) for t in column]) for column in zip(*rows)]
