"""Arguments: which values torch takes for a kind of parameter, what a function gets of them, what is said of others.

``x.sum(np.int64(0))``: torch takes NumPy's integer for an ``int``, and the row gets the int 0.
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._core.arrays import devices, dtypes, shapes
from ..._core.arrays.formats import memory_format
from ..._core.arrays.python_numbers import Number
from ..._core.errors import messages as errors
from ..._core.python_classes import is_python_class
from ..._core.random import generator
from ..._ops import registry as reg
from ..graph.history import requires_grad_of
from ..graph.record import NUMBERS, as_leaf
from ..memory.concrete import concrete
from ..memory.tensor import Tensor, wrap_array

EMPTY = inspect.Parameter.empty
LEFT_OUT: Any = None
"""Default of arguments that may be left out, but not given as None: what is given has the annotated class."""
MISSING: Any = type("missing", (), {"__slots__": (), "__repr__": lambda self: "<required>"})()
"""Default of required arguments, which may come under numpy's name instead."""
NUMPY_NAMES: dict[str, str] = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
    "axis0": "dim0",
    "axis1": "dim1",
}
"""NumPy's names of parameters, which torch knows as well."""
_NAMED_TYPES = {
    dtypes.dtype: "torch.dtype",
    devices.device: "torch.device",
    memory_format: "torch.memory_format",
    generator.Generator: "torch._C.Generator",
    shapes.Size: "torch.Size",
}


def type_name(value: Any) -> str:
    """How torch's messages name the type of an argument: with its module where it is written in C."""
    kind = type(value)
    if isinstance(value, jax.Array):
        return errors.class_name(value)
    for ours, name in _NAMED_TYPES.items():
        if issubclass(kind, ours):
            return name
    if is_layout(value):
        return "torch.layout"
    if is_python_class(kind) or kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__name__}"


def tensor_of(number: Any) -> Tensor:
    """Return what a number becomes where there is no tensor."""
    return wrap_array(np.asarray(number, dtypes.of_python(number.__class__).np))


def may_change(value: Any) -> bool:
    """Return whether an argument is a tensor, a number of a compiled function, or a sequence with one.

    What such a number is equal to may be another one at the next call.
    """
    if isinstance(value, list | tuple):
        return any(may_change(v) for v in value)
    return isinstance(value, Tensor) or type(value) is Number


# --- what torch takes ---------------------------------------------------------------------------------


def is_layout(value: Any) -> bool:
    """Return whether this is a `torch.layout`."""
    return type(value).__name__ == "layout"  # the class is defined in a file that imports this one


def _is_storage(value: Any) -> bool:
    return any(c.__name__ in ("UntypedStorage", "TypedStorage") for c in type(value).__mro__)


def is_number(value: Any) -> bool:
    """A number, or a tensor that can be one: without dimensions, and no gradient is asked of it."""
    if isinstance(value, Tensor):
        return not value._m.ndim and not requires_grad_of(value)
    return isinstance(value, numbers.Number | np.bool_)


def is_real(value: Any) -> bool:
    """Any number but a complex one; of a tensor the value will tell."""
    return is_number(value) and isinstance(value, Tensor | int | float | np.integer | np.floating | np.bool_)


def is_int(value: Any) -> bool:
    """An integer; a bool is none, in a tensor neither."""
    if isinstance(value, Tensor):
        return is_number(value) and dtypes.BOOL < value._m.dtype.category < dtypes.FLOATING
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_index(value: Any) -> bool:
    """An element of a size or of dimensions: a tensor may hold a bool."""
    if isinstance(value, Tensor):
        return is_number(value) and value._m.dtype.category < dtypes.FLOATING
    return is_int(value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_dtype(value: Any) -> bool:
    python = value is bool or value is int or value is float or value is complex  # NumPy's dtypes are equal to these
    return python or isinstance(value, dtypes.dtype | dtypes.NamedDtype)


# --- what a function gets ----------------------------------------------------------------------------


def as_int(value: Any) -> int | None:
    """An int where torch takes an int: Python and numpy integers, integer tensors of one element."""
    if value.__class__ is int:
        return value
    if isinstance(value, Tensor):
        whole = dtypes.BOOL < value._m.dtype.category < dtypes.FLOATING
        return int(concrete(value).reshape(())) if value._m.numel == 1 and whole else None
    return int(value) if is_int(value) else None


def as_ints(value: Any) -> tuple[int, ...] | None:
    """A tuple of ints from a sequence of ints, or None; torch looks at the type of the first alone, and bools count."""
    if isinstance(value, list | tuple):
        out = tuple(int(v) if i and v.__class__ is bool else as_int(v) for i, v in enumerate(value))
        return None if None in out else out  # type: ignore[return-value]
    return None


def _as_dims(value: Any) -> tuple[int, ...] | None:
    single = None if isinstance(value, list | tuple) else as_int(value)
    return as_ints(value) if single is None else (single,)


def as_number(value: Any) -> Any:
    """A Python number where torch takes a number, or None."""
    if not is_number(value):
        return None
    try:
        return concrete(value).reshape(()).item() if isinstance(value, Tensor) else as_leaf(value)
    except TypeError:  # a number of another library, such as a fraction
        return None


def as_float(value: Any) -> float | None:
    """A float where torch takes a real number, or None."""
    number = as_number(value) if is_real(value) else None
    if not isinstance(number, complex):
        return None if number is None else float(number)
    if number.imag:
        raise RuntimeError("value cannot be converted to type double without overflow")
    return number.real


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_some(value: Any) -> bool:
    return value is not None


def _same(value: Any) -> Any:
    return value


def _as_dtype(value: Any) -> Any:
    return None if isinstance(value, dtypes.NamedDtype) else dtypes.to_dtype(value)


class Kind(NamedTuple):
    """A kind of parameters: what torch takes for it, as far as it looks before it reads it, and what a row gets."""

    takes: Callable[[Any], bool]
    reads: Callable[[Any], Any] = _same
    """None stands for a value that turned out not to be taken."""
    classes: frozenset[type] = frozenset()
    """What comes nearly always, and needs no second look."""


KINDS: dict[str, Kind] = {
    "Tensor": Kind(_is_tensor),
    "Number": Kind(is_number, as_number),
    "float": Kind(is_real, as_float, frozenset((float, int))),
    "complex": Kind(is_number, as_number),
    "int": Kind(is_int, as_int, frozenset((int,))),
    "bool": Kind(_is_bool, bool, frozenset((bool,))),
    "str": Kind(_is_text, classes=frozenset((str,))),
    "name": Kind(_is_text),
    "tuple of ints": Kind(_is_some, as_ints),
    "torch.dtype": Kind(_is_dtype, _as_dtype),
    "torch.device": Kind(lambda v: isinstance(v, str | devices.device) or is_int(v)),
    "torch.layout": Kind(is_layout),
    "torch.Storage": Kind(_is_storage),
    "torch.memory_format": Kind(lambda v: isinstance(v, memory_format)),
    "torch.Generator": Kind(lambda v: isinstance(v, generator.Generator)),
}
"""Kinds of parameters by the names that torch's messages give them."""
ELEMENTS: dict[str, Callable[[Any], bool]] = {
    "tuple of ints": is_index,
    "tuple of floats": is_real,
    "tuple of Scalars": is_number,
    "tuple of bools": _is_bool,
    "tuple of names": lambda v: v is None or isinstance(v, str),
}
"""What torch takes for the first element of a sequence, which is all that it looks at."""
_DIMS = Kind(_is_some, _as_dims)
_NAMES = {
    reg.Array: "Tensor", reg.Arrays: "tuple of Tensors", reg.OptArrays: "tuple of Tensors", reg.Scalar: "Number",
    reg.Static: "Number", reg.TracedInt: "int", int: "int", float: "float", bool: "bool", str: "str",
    reg.Dims: "tuple of ints", reg.Size: "tuple of ints", reg.Dtype: "torch.dtype",
}  # fmt: skip
"""The kinds of parameters of rows, by annotation."""


def argument(op: str, param: reg.Param, position: int, value: Any) -> Any:
    """An argument as the row gets it, or torch's complaint."""
    if value is MISSING:
        raise missing_argument(op, param.name)
    if value is None and (param.optional or param.default is None):
        return None
    if param.kind is reg.Static and not isinstance(value, Tensor) and not isinstance(param.default, NUMBERS):
        return tuple(value) if isinstance(value, list) else value
    kind = _DIMS if param.kind is reg.Dims else KINDS[_NAMES[param.kind]]
    out = kind.reads(value) if kind.takes(value) else None
    if out is None and param.scalar and not isinstance(value, Tensor):
        out = as_number(value)
    if out is None:
        raise bad_argument(op, param, position, value)
    return out


def real(fn: str, name: str, value: Any, position: int = 0) -> Any:
    """A float argument of a function over tensors: the number, if it came as a tensor that can be one."""
    if not isinstance(value, Tensor):
        return value
    number = as_float(value)
    if number is None:
        where = f" (position {position})" if position else ""
        raise TypeError(f"{fn}(): argument '{name}'{where} must be float, not {type_name(value)}")
    return number


def bad_argument(op: str, param: reg.Param, position: int, value: Any) -> TypeError:
    """torch's complaint about an argument of the wrong type."""
    where = f"argument '{param.name}'" + ("" if param.kwonly else f" (position {position})")
    complaint = f"must be {_NAMES[param.kind]}, not {type_name(value)}"
    error = TypeError(f"{op}(): {where} {complaint}")
    error.about = (value, complaint)  # type: ignore[attr-defined] - for the caller, which knows where the value came from
    return error


def missing_argument(op: str, name: str) -> TypeError:
    """torch's complaint about an argument that was not given."""
    return TypeError(f'{op}() missing 1 required positional arguments: "{name}"')


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
