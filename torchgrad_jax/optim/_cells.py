"""The few tensor methods that update rules use, on arrays inside of a traced function.

A rule is written once, with methods that tensors have too. Run on tensors it is the eager, recordable step;
run on cells, inside one `jax.jit` over all parameters, it becomes one kernel. A cell counts the
writes to it, so that version counters move as if every method had run on its own.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays.division import divide
from .._core.arrays.kernels import round_half

_BFLOAT16 = np.dtype(jnp.bfloat16)
_FLOAT16 = np.dtype(np.float16)


class Cell:
    """A mutable array of one dtype; half types are held in float32 and rounded after each step."""

    __slots__ = ("dtype", "parent", "value", "writes")

    def __init__(self, array: Any, dtype: np.dtype | None = None, parent: Cell | None = None):
        self.dtype = np.dtype(array.dtype) if dtype is None else dtype
        half = self.dtype in (_BFLOAT16, _FLOAT16)
        self.value = array.astype(np.float32) if half else array
        self.parent = parent
        self.writes = 0

    def array(self) -> Any:
        """The current content."""
        return self.value.astype(self.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def is_complex(self) -> bool:
        return self.dtype.kind == "c"

    def dim(self) -> int:
        return self.value.ndim

    def numel(self) -> int:
        return self.value.size

    def size(self, dim: int) -> int:
        return self.value.shape[dim]

    def view_as_real(self) -> Cell:
        """Real and imaginary parts, innermost; writes to them arrive here."""
        x = self.value
        return Cell(jnp.stack([jnp.real(x), jnp.imag(x)], -1), parent=self)

    # --- making and writing

    def _new(self, value: Any) -> Cell:
        return Cell(round_half(value, self.dtype), self.dtype)

    def _put(self, value: Any) -> Cell:
        if value.shape != self.value.shape:
            raise RuntimeError(
                f"output with shape {list(self.value.shape)} doesn't match the broadcast shape {list(value.shape)}"
            )
        self.value = round_half(value, self.dtype)
        self.writes += 1
        if self.parent is not None:
            self.parent._put(lax.complex(self.value[..., 0], self.value[..., 1]))
        return self

    def _of(self, other: Any) -> Any:
        """An operand in the type that is computed in."""
        if isinstance(other, Cell):
            return other.value.astype(self.value.dtype)
        return jnp.asarray(other).astype(self.value.dtype)

    def _rounded(self, other: Any) -> Any:
        """An operand of a sum: torch rounds numbers to the tensor's dtype there, and nowhere else."""
        return round_half(self._of(other), self.dtype)

    def clone(self) -> Cell:
        return Cell(self.value, self.dtype)

    def copy_(self, other: Any) -> Cell:
        return self._put(jnp.broadcast_to(self._of(other), self.value.shape))

    # --- arithmetic

    def _added(self, other: Any, alpha: Any) -> Any:
        other = self._rounded(other)
        return self.value + (other if alpha is None else self._rounded(alpha) * other)

    def add(self, other: Any, alpha: Any = None) -> Cell:
        return self._new(self._added(other, alpha))

    def add_(self, other: Any, alpha: Any = None) -> Cell:
        return self._put(self._added(other, alpha))

    def sub(self, other: Any) -> Cell:
        return self._new(self.value - self._of(other))

    def mul(self, other: Any) -> Cell:
        return self._new(self.value * self._of(other))

    def mul_(self, other: Any) -> Cell:
        return self._put(self.value * self._of(other))

    def div(self, other: Any) -> Cell:
        return self._new(divide(self.value, self._of(other)))

    def div_(self, other: Any) -> Cell:
        return self._put(divide(self.value, self._of(other)))

    def neg(self) -> Cell:
        return self._new(-self.value)

    def _fraction(self, a: Any, b: Any, value: Any) -> Any:
        a = self._of(a)
        return self.value + (a if value is None else self._of(value) * a) / self._of(b)

    def addcdiv_(self, a: Any, b: Any, value: Any = None) -> Cell:
        return self._put(self._fraction(a, b, value))

    def _product(self, a: Any, b: Any, value: Any) -> Any:
        a = self._of(a)
        return self.value + (a if value is None else self._of(value) * a) * self._of(b)

    def addcmul(self, a: Any, b: Any, value: Any = None) -> Cell:
        return self._new(self._product(a, b, value))

    def addcmul_(self, a: Any, b: Any, value: Any = None) -> Cell:
        return self._put(self._product(a, b, value))

    def _between(self, end: Any, weight: Any) -> Any:
        """From the nearer end, as torch does."""
        w, start, end = self._of(weight), self.value, self._of(end)
        near = w < 0.5
        return jnp.where(near, start, end) + jnp.where(near, w, w - 1) * (end - start)

    def lerp(self, end: Any, weight: Any) -> Cell:
        return self._new(self._between(end, weight))

    def lerp_(self, end: Any, weight: Any) -> Cell:
        return self._put(self._between(end, weight))

    # --- functions

    def sqrt(self) -> Cell:
        return self._new(jnp.sqrt(self.value))

    def rsqrt(self) -> Cell:
        return self._new(1 / jnp.sqrt(self.value))

    def square(self) -> Cell:
        return self._new(self.value * self.value)

    def reciprocal(self) -> Cell:
        return self._new(1 / self.value)

    def abs(self) -> Cell:
        return self._new(jnp.abs(self.value))

    def sign(self) -> Cell:
        return self._new(jnp.sign(self.value))

    def maximum(self, other: Any) -> Cell:
        return self._new(jnp.maximum(self.value, self._of(other)))

    def clamp(self, min: Any = None, max: Any = None) -> Cell:
        low, high = [None if v is None else self._of(v) for v in (min, max)]
        return self._new(jnp.clip(self.value, low, high))

    def clamp_(self, min: Any = None, max: Any = None) -> Cell:
        return self._put(self.clamp(min, max).value)

    def gt(self, other: Any) -> Any:
        return self.value > self._of(other)

    def lt(self, other: Any) -> Any:
        return self.value < self._of(other)

    def eq(self, other: Any) -> Any:
        return self.value == round_half(self._of(other), self.dtype)

    def where(self, condition: Any, other: Any) -> Cell:
        return self._new(jnp.where(condition, self.value, self._of(other)))

    # --- matrices

    def norm(self, dim: int | None = None) -> Cell:
        """The 2-norm of everything, or along `dim`, which is kept."""
        squares = self.value * self.value
        return self._new(jnp.sqrt(jnp.sum(squares, axis=dim, keepdims=dim is not None)))

    def mean(self, dim: int) -> Cell:
        return self._new(jnp.mean(self.value, axis=dim, keepdims=True))

    def matmul(self, other: Cell) -> Cell:
        exact = lax.Precision.HIGHEST
        return self._new(jnp.matmul(self.value, self._of(other), precision=exact))

    def addmm(self, a: Cell, b: Cell, beta: Any, alpha: Any = 1) -> Cell:
        exact = lax.Precision.HIGHEST
        product = jnp.matmul(a.value, b.value, precision=exact)
        return self._new(self._of(beta) * self.value + self._of(alpha) * product)

    def t(self) -> Cell:
        return Cell(self.value.T, self.dtype)

    def bfloat16(self) -> Cell:
        return Cell(round_half(self.value.astype(np.float32), _BFLOAT16), _BFLOAT16)

    def item(self) -> Any:
        """A number, although not a Python one."""
        return self.value.astype(jnp.result_type(float))


class NotElementwise(Exception):
    """A rule asks for more than the elements of a tensor."""


class Row(Cell):
    """The elements of many tensors in one row: it has no shape to ask for, and no rows and columns."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotElementwise

    dim = numel = size = view_as_real = norm = mean = matmul = addmm = t = item = _refuse
    shape = property(_refuse)

    def _new(self, value: Any) -> Row:
        return Row(value, self.dtype)

    def clone(self) -> Row:
        return Row(self.value, self.dtype)

    def bfloat16(self) -> Cell:
        return self._refuse()
