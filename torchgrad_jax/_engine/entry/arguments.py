"""Arguments of a row's function: what torch takes where, and what it says of the rest."""

from __future__ import annotations

import inspect
import numbers
from typing import Any

import numpy as np

from ..._core.arrays import dtypes
from ..._core.arrays.python_numbers import Number
from ..._core.errors import messages as errors
from ..._ops import registry as reg
from ..graph.history import requires_grad_of
from ..graph.record import NUMBERS, as_leaf
from ..memory.concrete import concrete
from ..memory.tensor import Tensor, wrap_array

EMPTY = inspect.Parameter.empty
ALIASES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
    "axis0": "dim0",
    "axis1": "dim1",
}
_KIND_NAMES = {
    reg.Array: "Tensor",
    reg.Scalar: "Number",
    reg.TracedInt: "int",
    reg.Arrays: "tuple of Tensors",
    reg.OptArrays: "tuple of Tensors",
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    reg.Dims: "tuple of ints",
    reg.Size: "tuple of ints",
    reg.Dtype: "torch.dtype",
    reg.Static: "Number",
}


def type_name(value: Any) -> str:
    """How torch's messages name the type of an argument."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        inner = f" of {type_name(value[0])}s" if value and isinstance(value[0], (*NUMBERS, Tensor)) else ""
        return type(value).__name__ + inner if inner else type(value).__name__
    return errors.class_name(value)


def tensor_of(number: Any) -> Tensor:
    """What a number becomes where there is no tensor."""
    return wrap_array(np.asarray(number, dtypes.of_python(number.__class__).np))


def bad_argument(op: str, param: reg.Param, position: int, value: Any) -> TypeError:
    """torch's complaint about an argument of the wrong type."""
    where = f"argument '{param.name}'" + ("" if param.kwonly else f" (position {position})")
    got = errors.class_name(value) if param.kind is reg.Array else type_name(value)
    complaint = f"must be {_KIND_NAMES.get(param.kind, 'valid')}, not {got}"
    error = TypeError(f"{op}(): {where} {complaint}")
    error.about = (value, complaint)  # type: ignore[attr-defined] - for whoever handed the value on
    return error


LEFT_OUT: Any = None
"""Default of arguments that may be left out, but not given as None: what is given has the annotated class."""
MISSING: Any = type("missing", (), {"__slots__": (), "__repr__": lambda self: "<required>"})()
"""Default of required arguments, which may come under numpy's name instead."""


def missing_argument(op: str, name: str) -> TypeError:
    """torch's complaint about an argument that was not given."""
    return TypeError(f'{op}() missing 1 required positional arguments: "{name}"')


def may_change(value: Any) -> bool:
    """Whether an argument is a tensor, a number of a compiled function, or a sequence with one.

    What such a number is equal to may be another one at the next call.
    """
    if isinstance(value, list | tuple):
        return any(may_change(v) for v in value)
    return isinstance(value, Tensor) or type(value) is Number


def as_number(value: Tensor) -> Any:
    """The number that a tensor is where torch takes a number: a 0-dim one that no gradient is asked of; else None."""
    if value._m.ndim or requires_grad_of(value):
        return None
    return concrete(value).reshape(()).item()


def _as_float(value: Tensor) -> float | None:
    number = as_number(value)
    if not isinstance(number, complex):
        return None if number is None else float(number)
    if number.imag:
        raise RuntimeError("value cannot be converted to type double without overflow")
    return number.real


def real(fn: str, name: str, value: Any, position: int = 0) -> Any:
    """A float argument of a function over tensors: the number, if it came as a tensor that can be one."""
    if not isinstance(value, Tensor):
        return value
    number = _as_float(value)
    if number is None:
        where = f" (position {position})" if position else ""
        raise TypeError(f"{fn}(): argument '{name}'{where} must be float, not {type_name(value)}")
    return number


def as_int(value: Any) -> int | None:
    """An int where torch takes an int: Python and numpy integers, integer tensors of one element."""
    if value.__class__ is int:
        return value
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, Tensor) and value._m.numel == 1 and value._m.dtype.category < dtypes.FLOATING:
        if value._m.dtype.category == dtypes.BOOL:
            return None
        return int(concrete(value).reshape(()))
    return None


def as_single_int(value: Any) -> int | None:
    """An int that is an argument of its own: no tensor with a dimension, which may stand for one in a size."""
    return None if isinstance(value, Tensor) and value._m.ndim else as_int(value)


def as_ints(value: Any) -> tuple[int, ...] | None:
    """A tuple of ints from a sequence of ints, or None; torch looks at the type of the first alone, and bools count."""
    if isinstance(value, list | tuple):
        out = tuple(int(v) if i and v.__class__ is bool else as_int(v) for i, v in enumerate(value))
        return None if None in out else out  # type: ignore[return-value]
    return None


def static_value(op: str, param: reg.Param, position: int, value: Any) -> Any:
    """A static argument checked and normalised."""
    kind = param.kind
    if value is MISSING:
        raise missing_argument(op, param.name)
    if value is None and (param.optional or param.default is None):
        return None
    out: Any = None
    if kind is int:
        out = as_single_int(value)
    elif kind is bool:
        out = bool(value) if isinstance(value, bool | np.bool_) else None
    elif kind is float:
        if isinstance(value, int | float | np.number):
            out = float(value)
        elif isinstance(value, Tensor):
            out = _as_float(value)
    elif kind is str:
        out = value if isinstance(value, str) else None
    elif kind is reg.Dims or kind is reg.Size:
        single = as_int(value) if kind is reg.Dims and not isinstance(value, list | tuple) else None
        out = (single,) if single is not None else as_ints(value)
    elif kind is reg.Dtype:
        try:
            out = dtypes.to_dtype(value)
        except TypeError:
            out = None
    elif isinstance(value, Tensor):
        out = as_number(value)
    elif isinstance(param.default, NUMBERS):
        out = value if isinstance(value, numbers.Number) else None
    else:
        return tuple(value) if isinstance(value, list) else value
    if out is None:
        raise bad_argument(op, param, position, value)
    return out


def dynamic_value(op: str, param: reg.Param, position: int, value: Any) -> Any:
    """A leaf checked and normalised: tensor, Python number or None."""
    if isinstance(value, Tensor):
        if param.kind is reg.Scalar:
            if (number := as_number(value)) is not None:
                return number
            raise bad_argument(op, param, position, value)
        if param.kind is reg.TracedInt:
            out = as_single_int(value)
            if out is None:
                raise bad_argument(op, param, position, value)
            return out
        return value
    if value is None:
        if param.optional or param.default is None:
            return None
        raise bad_argument(op, param, position, value)
    if param.kind is reg.TracedInt:
        out = as_int(value)
        if out is None:
            raise bad_argument(op, param, position, value)
        return out
    if param.kind is reg.Scalar or param.scalar:
        try:
            return as_leaf(value)
        except TypeError:
            pass
    if value is MISSING:
        raise missing_argument(op, param.name)
    raise bad_argument(op, param, position, value)


def size_argument(given: tuple[Any, ...], kw: dict[str, Any], name: str) -> Any:
    """A shape given as varargs, as one sequence, or by keyword."""
    if name in kw:
        return kw.pop(name)
    if len(given) == 1 and isinstance(given[0], list | tuple):
        given = tuple(given[0])
    elif not given:
        return MISSING
    for v in given:
        if v.__class__ is not int:  # a list is no key: True and 1.0 are not to be taken for 1
            return list(given)
    return given
