"""`torch._foreach_*`: one operation on each tensor of a list, which optimizers outside of torch are written with.

They are loops here. On a GPU torch runs each as one kernel; XLA does that for a compiled step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._core.builtin_functions import builtin
from .._core.random.rounding import is_half
from .._core.state import MODES
from .._engine.entry.bind import METHODS, NAMESPACES
from .._engine.graph.history import is_captured
from .._engine.graph.record import no_grad
from .._engine.memory.tensor import Tensor

UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "pow", "lerp", "maximum", "minimum", "clamp_min", "clamp_max")
TERNARY = ("addcmul", "addcdiv")
NAMES = ("tensor1", "tensor2", "value")


def _tensors(name: str, xs: Any) -> list[Tensor]:
    if not isinstance(xs, list | tuple) or not all(isinstance(x, Tensor) for x in xs):
        raise TypeError(f"{name}(): argument 'self' must be tuple of Tensors, not {type(xs).__name__}")
    if not xs:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return list(xs)


def _spread(value: Any, n: int) -> list[Any]:
    """An argument for each tensor: the elements of a list, or the same value for all."""
    if isinstance(value, list | tuple):
        if len(value) != n:
            if not all(isinstance(v, Tensor) for v in value) or not value:
                raise RuntimeError("Tensor list must have same number of elements as scalar list.")
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {n} and {len(value)}")
        mixed = [i for i, v in enumerate(value) if not isinstance(v, Tensor)]
        if value and isinstance(value[0], Tensor) and mixed:
            kind = type(value[mixed[0]]).__name__
            raise TypeError(f"expected Tensor as element {mixed[0]} in argument 1, but got {kind}")
        return list(value)
    return [value] * n


def _method(base: str, inplace: bool) -> Callable[..., Any]:
    return METHODS[base + "_"] if inplace else METHODS[base]


def _one(base: str, inplace: bool, x: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if base in ("maximum", "minimum", "clamp_min", "clamp_max"):
        low = base in ("maximum", "clamp_min")
        bound = {"min" if low else "max": args[0]}
        return _method("clamp", inplace)(x, **bound)
    if base in TERNARY and len(args) == 3:
        return _method(base, inplace)(x, args[0], args[1], value=args[2])
    if base == "mul" and inplace and isinstance(args[0], float) and is_half(x._m.dtype.np):
        args = (float(x._m.dtype.np.type(args[0])),)  # torch rounds the number here, and only here
    return _method(base, inplace)(x, *args, **kwargs)


def _written(x: Tensor, write: Callable[..., Any], *args: Any) -> Any:
    """A write as torch does it inside of a transform of `func`: lists of captured tensors too, unseen by it."""
    if not MODES.transforms or not is_captured(x):
        return write(*args)
    level, MODES.level = MODES.level, 0
    try:
        with no_grad():
            return write(*args)
    finally:
        MODES.level = level


def _make(base: str, inplace: bool) -> Any:
    name = f"_foreach_{base}{'_' if inplace else ''}"

    def foreach(self: Any, *args: Any, **kwargs: Any) -> Any:
        for key in NAMES[len(args) :] if base in TERNARY else ():
            if key in kwargs:
                args = (*args, kwargs.pop(key))
        if base in TERNARY and len(args) == 3 and isinstance(args[2], Tensor):
            args = (args[0], args[1], args[2].tolist())
        # One number to the power of each tensor.
        if base == "pow" and not isinstance(self, list | tuple):
            return tuple([self**x for x in _tensors(name, args[0])])
        xs = _tensors(name, self)
        for key in ("tensors1", "other", "weight", "weights", "exponent", "scalar", "scalars"):
            if key in kwargs:
                args = (*args, kwargs.pop(key))
        rows = zip(*[_spread(a, len(xs)) for a in args]) if args else [()] * len(xs)
        if not inplace:
            return tuple([_one(base, False, x, row, kwargs) for x, row in zip(xs, rows)])
        return [_written(x, _one, base, True, x, row, kwargs) for x, row in zip(xs, rows)]

    foreach.__name__ = foreach.__qualname__ = name
    foreach.__doc__ = f"`{base}{'_' if inplace else ''}` of each tensor of a list."
    return foreach


def _foreach_zero_(self: Any) -> list[Tensor]:
    """Fill each tensor of a list with zeros."""
    return [_written(x, METHODS["zero_"], x) for x in _tensors("_foreach_zero_", self)]


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> list[Tensor]:
    """Copy each tensor of a list into that of another."""
    xs = _tensors("_foreach_copy_", self)
    rows = zip(xs, _spread(src, len(xs)))
    return [_written(x, METHODS["copy_"], x, y) for x, y in rows]


def _foreach_clone(self: Any, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    """Copies of the tensors of a list."""
    clone = METHODS["clone"]
    return tuple([clone(x, memory_format=memory_format) for x in _tensors("_foreach_clone", self)])


def _foreach_max(self: Any) -> tuple[Tensor, ...]:
    """The greatest element of each tensor of a list."""
    return tuple([METHODS["max"](x) for x in _tensors("_foreach_max", self)])


def _foreach_mm(self: Any, mat2: Any) -> tuple[Tensor, ...]:
    """Products of the matrices of two lists."""
    xs = _tensors("_foreach_mm", self)
    return tuple([METHODS["mm"](x, y) for x, y in zip(xs, _spread(mat2, len(xs)))])


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of each tensor of a list."""
    norm = NAMESPACES["linalg"]["vector_norm"]
    return tuple([norm(x, ord, dtype=dtype) for x in _tensors("_foreach_norm", self)])


def _foreach_powsum(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The sum of the absolute values of each tensor's elements to the power `ord`."""
    xs = _tensors("_foreach_powsum", self)
    return tuple([METHODS["sum"](METHODS["pow"](METHODS["abs"](x), ord), dtype=dtype) for x in xs])


_MADE = [
    _make(base, inplace)
    for base in (*UNARY, *BINARY, *TERNARY)
    for inplace in (False, True)
    if base not in UNARY or not inplace or base + "_" in METHODS
]
_OWN: tuple[Any, ...] = (
    _foreach_zero_,
    _foreach_copy_,
    _foreach_clone,
    _foreach_max,
    _foreach_mm,
    _foreach_norm,
    _foreach_powsum,
)
FUNCTIONS: dict[str, Any] = {fn.__name__: builtin(fn) for fn in (*_MADE, *_OWN)}
