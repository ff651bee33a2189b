"""Annotations of the op table and of the functions over tensors as text that may stand in a stub.

Inside ``class Tensor`` and beside ``torchgrad_jax.float``, the builtins' names mean something else;
every type is therefore spelled with an underscore in front, as the stubs' prelude imports it.
"""

from __future__ import annotations

import ast
import inspect
import math
from typing import Any

from .._ops import registry as reg

INTS = "_int | Sequence[_int]"
_KINDS: dict[Any, str] = {
    reg.Array: "Tensor",
    reg.Scalar: "_Number",
    reg.TracedInt: "_int",
    reg.Arrays: "tuple[Tensor, ...] | list[Tensor]",
    reg.OptArrays: "Sequence[Tensor | None]",
    int: "_int",
    float: "_float",
    bool: "_bool",
    str: "str",
    reg.Dims: INTS,
    reg.Size: "Sequence[_int]",
    reg.Dtype: "_dtype",
    reg.Static: "Any",
}
_NAMES = {
    "int": "_int",
    "float": "_float",
    "bool": "_bool",
    "complex": "_complex",
    "str": "str",
    "Any": "Any",
    "None": "None",
    "Tensor": "Tensor",
    "Sequence": "Sequence",
    "Callable": "Callable",
    "Iterator": "Iterator",
    "tuple": "tuple",
    "list": "list",
    "dict": "dict",
    "object": "object",
    "NoReturn": "NoReturn",
    "_Ints": INTS,
    "Ints": "Sequence[_int]",
    "dtypes.dtype": "_dtype",
    "devices.device": "_device",
    "shapes.Size": "_Size",
    "Size": "_Size",
    "np.ndarray": "_ndarray",
    "jax.Array": "_jax_Array",
    "dtype": "_dtype",
    "device": "_device",
    "Generator": "_Generator",
    "RemovableHandle": "_RemovableHandle",
    "UntypedStorage": "_UntypedStorage",
    "type": "type",
    "float | None": "_float | None",
}
_BY_PARAMETER = {
    "dtype": "_dtype | None",
    "device": "_device | str | _int | _Sharding | None",
    "requires_grad": "_bool",
    "pin_memory": "_bool",
    "layout": "_layout | None",
    "memory_format": "_memory_format | None",
    "generator": "_Generator | None",
    "out": "Tensor | None",
    "keepdim": "_bool",
    "dim": f"{INTS} | None",
    "other": "Tensor | _Number",
    "fill_value": "_Number",
    "exponent": "Tensor | _Number",
    "input": "Tensor | _Number",
    "from_": "_dtype",
    "to": "_dtype",
    "type1": "_dtype",
    "type2": "_dtype",
    "output_size": "_int | Sequence[_int | None]",
    "kernel_size": INTS,
    "stride": f"{INTS} | None",
    "padding": INTS,
    "dilation": INTS,
    "unbiased": "_bool",
    "correction": "_Number | None",
    "tensors": "Tensor | Sequence[Tensor]",
    "periodic": "_bool",
    "replacement": "_bool",
}
"""What a parameter of this name is where a function says no more than Any."""
SIZES = frozenset({"size", "dims", "shape", "sizes"})
"""Parameters that are one sequence of ints or several ints."""


def of_param(p: reg.Param) -> str:
    """The type of an op's parameter."""
    text = _KINDS[p.kind]
    if p.scalar:
        text += " | _Number"
    return text + " | None" if p.optional or p.default is None else text


def of_text(text: str) -> str:
    """A function's annotation; a name that is not known here becomes Any, which is never wrong."""
    try:
        return _render(ast.parse(text, mode="eval").body)
    except KeyError:
        return "Any"


def _render(node: ast.expr) -> str:
    match node:
        case ast.Name() | ast.Attribute():
            return _NAMES[ast.unparse(node)]
        case ast.Constant(value=None):
            return "None"
        case ast.Constant(value=value) if value is ...:
            return "..."
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return f"{_render(left)} | {_render(right)}"
        case ast.Subscript(value=value, slice=index):
            inside = index.elts if isinstance(index, ast.Tuple) else [index]
            return f"{_render(value)}[{', '.join(map(_render, inside))}]"
        case ast.List(elts=elts):
            return f"[{', '.join(map(_render, elts))}]"
    raise KeyError(ast.unparse(node))


def of_parameter(p: inspect.Parameter) -> str:
    """The type of a function's parameter, from its annotation or else from its name."""
    text = p.annotation if isinstance(p.annotation, str) else ""
    if text not in ("", "Any"):
        return of_text(text)
    if p.kind is p.VAR_KEYWORD:
        return "Any"
    found = _BY_PARAMETER.get(p.name, "Any")
    optional = p.default is None and found != "Any" and not found.endswith("| None")
    return found + " | None" if optional else found


def default(value: Any) -> str:
    """A default value: as it is where it reads well, else ``...``."""
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    if isinstance(value, tuple) and all(isinstance(v, int) for v in value):
        return repr(value)
    return "..."
