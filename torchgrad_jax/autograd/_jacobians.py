"""Jacobians by finite differences, by rows of backward, and by columns of forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.meta import Meta, meta
from .._engine.graph.history import requires_grad_of
from .._engine.memory.strided import read, write
from .._engine.memory.tensor import Tensor, make
from . import forward_ad
from ._passes import run_backward

Fn = Callable[..., Any]


def as_tuple(x: Any) -> tuple[Any, ...]:
    """A tuple or list as a tuple; anything else as a tuple of one."""
    return x if isinstance(x, tuple) else tuple(x) if isinstance(x, list) else (x,)


def is_complex(t: Tensor) -> bool:
    """Whether a tensor has a complex dtype."""
    return t._m.dtype.category == dtypes.COMPLEX


def differentiable(outputs: Any) -> tuple[Tensor, ...]:
    """The outputs that require grad."""
    return tuple(o for o in as_tuple(outputs) if o.requires_grad)


def checked(inputs: Sequence[Any]) -> list[int]:
    """Positions of the inputs whose Jacobians matter."""
    return [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and requires_grad_of(t)]


def tensor_like(m: Meta, values: np.ndarray) -> Tensor:
    """A plain tensor of a given shape and dtype."""
    return make(jnp.asarray(values.astype(m.dtype.np).reshape(m.shape)), meta(m.shape, m.dtype, m.device))


def values_of(t: Tensor) -> np.ndarray:
    """A tensor's values as numpy, half types widened."""
    host = np.asarray(read(t))
    return host if host.dtype.kind in "biufc" else host.astype(np.float32)


# --- finite differences ---------------------------------------------------------------------------


def _floats(outputs: Any) -> list[np.ndarray | None]:
    return [values_of(o) if o._m.dtype.category >= dtypes.FLOATING else None for o in as_tuple(outputs)]


BOOL_DIFFERENCE = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
    "instead."
)


class Nudged:
    """Runs a function with one input moved, in place, so that closures over it see the change."""

    def __init__(self, fn: Fn, inputs: Sequence[Any], which: int, eps: float, moved: Tensor | None = None) -> None:
        self.fn, self.inputs, self.eps = fn, inputs, eps
        self.input = inputs[which] if moved is None else moved
        self.before = read(self.input)
        self.outputs: Any = ()

    def _at(self, values: np.ndarray) -> list[np.ndarray | None]:
        m = self.input._m
        try:
            write(self.input, jnp.asarray(values.astype(m.dtype.np)), bump=False)
            self.outputs = self.fn(*self.inputs)
            return _floats(self.outputs)
        finally:
            write(self.input, self.before, bump=False)

    def derivative(self, direction: np.ndarray) -> list[np.ndarray | None]:
        """Central difference of every output along a direction; None for outputs that are integers."""
        here = np.asarray(self.before)
        here = here if here.dtype.kind in "fc" else here.astype(np.float32)
        step = direction * self.eps
        low, high = self._at(here - step), self._at(here + step)
        if any(o._m.dtype is dtypes.bool_ for o in as_tuple(self.outputs)):
            raise RuntimeError(BOOL_DIFFERENCE)
        with np.errstate(all="ignore"):  # infinities and NaN are for the comparison to see
            return [None if a is None or b is None else (a - b) / (2 * self.eps) for a, b in zip(high, low)]


def numerical(fn: Fn, inputs: Sequence[Any], eps: float, forward: bool = False, which: Any = None) -> list[list[Any]]:
    """``jacobians[input][output]``, each of shape (input numel, output numel)."""
    return [numerical_rows(Nudged(fn, inputs, i, eps), forward) for i in (checked(inputs) if which is None else which)]


def numerical_rows(nudged: Nudged, forward: bool) -> list[Any]:
    """Per output the derivatives by every element of the moved input, stacked; None for integers."""
    t = nudged.input
    rows = [column(nudged, t, unit, unit, forward) for unit in np.eye(t._m.numel)]
    if not rows:
        outs = _floats(nudged.fn(*nudged.inputs))
        return [None if o is None else np.zeros((0, o.size), o.dtype) for o in outs]
    return [None if o is None else np.stack([r[j] for r in rows]) for j, o in enumerate(rows[0])]


def column(nudged: Nudged, t: Tensor, real: np.ndarray, imag: np.ndarray, forward: bool) -> list[Any]:
    """Derivatives of all outputs along a direction; of complex inputs, with respect to conj(w)."""
    shape = t._m.shape
    along = nudged.derivative(real.reshape(shape))
    if is_complex(t) and not forward:
        across = nudged.derivative(imag.reshape(shape) * 1j)
        along = [None if a is None or b is None else a + 1j * b for a, b in zip(along, across)]
    return [None if a is None else a.reshape(-1) for a in along]


# --- backward -------------------------------------------------------------------------------------


def pull(output: Tensor, inputs: Sequence[Tensor], v: Tensor) -> tuple[Any, ...]:
    """Gradients of the inputs for a gradient of one output."""
    return run_backward((output,), (v,), True, False, inputs, True, False)


def analytical(inputs: Sequence[Any], output: Tensor) -> tuple[list[np.ndarray], bool, bool]:
    """Jacobians of one output by all inputs, and whether gradients had the right sizes and dtypes."""
    wanted = [inputs[i] for i in checked(inputs)]
    jacobians = [np.zeros((t._m.numel, output._m.numel), t._m.dtype.np) for t in wanted]
    sizes = types = True
    for k in range(output._m.numel):
        unit = np.zeros(output._m.numel)
        unit[k] = 1
        for t, g, jac in zip(wanted, pull(output, wanted, tensor_like(output._m, unit)), jacobians):
            if g is None:
                continue
            types = types and g._m.dtype is t._m.dtype
            if g._m.shape != t._m.shape:
                sizes = False
            else:
                jac[:, k] = values_of(g).reshape(-1)
    return jacobians, sizes, types


# --- forward mode ---------------------------------------------------------------------------------


def push(fn: Fn, inputs: Sequence[Any], which: int, direction: np.ndarray) -> list[np.ndarray]:
    """Tangents of the differentiable outputs for a tangent of one input."""
    plain = [t.detach() if isinstance(t, Tensor) and requires_grad_of(t) else t for t in inputs]
    with forward_ad.dual_level():
        plain[which] = forward_ad.make_dual(plain[which], tensor_like(inputs[which]._m, direction))
        out = []
        for o in as_tuple(fn(*plain)):
            if o._m.dtype.category < dtypes.FLOATING:
                continue
            primal, tangent = forward_ad.unpack_dual(o)
            out.append(np.zeros(primal._m.shape, primal._m.dtype.np) if tangent is None else values_of(tangent))
    return [o.reshape(-1) for o in out]


def by_forward_mode(fn: Fn, inputs: Sequence[Any]) -> list[list[np.ndarray]]:
    """``jacobians[input][output]``, each of shape (input numel, output numel)."""
    out = []
    for i in checked(inputs):
        n = inputs[i]._m.numel
        rows = [push(fn, inputs, i, row) for row in np.eye(n)]
        out.append([np.stack([r[j] for r in rows]) for j in range(len(rows[0]))] if rows else [])
    return out
