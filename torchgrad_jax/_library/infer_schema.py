"""Schemas inferred from the annotations of functions."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._core.arrays.devices import device
from .._core.arrays.dtypes import dtype
from .._engine.memory.tensor import Tensor
from .schema import Type

_Number = int | float | bool

_ARGUMENT_BASES: dict[Any, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    _Number: "Scalar",
    dtype: "ScalarType",
    device: "Device",
}
_LIST_ITEMS = ("Tensor", "SymInt", "float", "bool", "Scalar")
_RETURN_BASES: dict[Any, str] = {
    Tensor: "Tensor",
    list[Tensor]: "Tensor[]",
    int: "SymInt",
    float: "float",
    bool: "bool",
    _Number: "Scalar",
}
_SEQUENCES = (list, collections.abc.Sequence)
_UNIONS = (typing.Union, types.UnionType)


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Sequence[str] | set[str] | Mapping[str, Any],
    op_name: str | None = None,
) -> str:
    """The schema that a function's annotations state.

    Args:
        prototype_function: a function whose parameters and result are annotated.
        mutates_args: names of the tensors that it writes to, or "unknown" for all.
        op_name: put before the schema.

    Example:
        >>> import torchgrad_jax as torch
        >>> def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor: ...
        >>> torch.library.infer_schema(scaled, mutates_args=())
        '(Tensor x, float by=2.0) -> Tensor'
    """
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
            "'unknown'. "
        )
    return _Inference(prototype_function, mutates_args).schema(op_name or "")


class _Inference:
    """What the annotations of one function say."""

    def __init__(self, function: Callable[..., Any], mutates: Any) -> None:
        self.function, self.mutates = function, mutates
        self.signature = inspect.signature(function)

    def schema(self, op_name: str) -> str:
        """The schema, after a name."""
        shown, kwarg_only, signature = [], False, self.signature
        for index, parameter in enumerate(signature.parameters.values()):
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise self.refused("We do not support positional-only args, varargs, or varkwargs.")
            if parameter.kind is parameter.KEYWORD_ONLY and not kwarg_only:
                shown.append("*")
                kwarg_only = True
            shown.append(self.parameter_text(index, parameter))
        unknown = set() if self.mutates == "unknown" else set(self.mutates) - {*signature.parameters}
        if unknown:
            raise self.refused(
                f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args should contain "
                "the names of all args that the custom op mutates, or just the string 'unknown' if you don't know."
            )
        if signature.return_annotation is signature.empty:
            raise self.refused("No return type annotation was provided. Please add one.")
        result = _result_text(self.evaluated(signature.return_annotation), self.refused)
        return f"{op_name}({', '.join(shown)}) -> {result}"

    def refused(self, complaint: str) -> ValueError:
        """The error about something that a schema cannot say."""
        return ValueError(f"infer_schema(func): {complaint} Got func with signature {self.signature})")

    def evaluated(self, annotation: Any) -> Any:
        """An annotation, also where it is the text of one."""
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, getattr(self.function, "__globals__", {}))
        except Exception as error:  # whatever the annotation raises
            complaint = (
                f"Unsupported type annotation {annotation}. It is not a type. ({error}). If you are using 'from "
                "__future__ import annotations', note that annotations are evaluated lazily as strings; make sure all "
                "types referenced in annotations are importable at module scope, not only inside a local function."
            )
            raise self.refused(complaint) from None

    def parameter_text(self, index: int, parameter: inspect.Parameter) -> str:
        """One parameter as a schema writes it."""
        name = parameter.name
        if parameter.annotation is parameter.empty:
            raise self.refused(f"Parameter {name} must have a type annotation.")
        kind = self.parameter_type(name, self.evaluated(parameter.annotation))
        if name in self.mutates if self.mutates != "unknown" else kind.is_tensor:
            if not kind.is_tensor:
                raise self.refused(
                    f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated"
                )
            kind = Type(kind.base, kind.is_list, kind.optional, kind.optional_items, alias=f"a{index}!")
        text = f"{kind.annotation()} {name}"
        if parameter.default is not parameter.empty:
            text += f"={_inferred_default(name, parameter.default, self.refused)}"
        return text

    def parameter_type(self, name: str, annotation: Any) -> Type:
        """The type that an annotation means."""
        kind = _argument_type(annotation)
        if kind is not None:
            return kind
        hint = ""
        if typing.get_origin(annotation) is tuple:
            hint = (
                "We do not support Tuple inputs in schema. As a workaround, please try to use List instead. For "
                f"example, {_as_list(annotation)}.\n\n"
            )
        raise self.refused(
            f"Parameter {name} has unsupported type {annotation}. {hint}The valid types are: {_valid_types()}."
        )


def _argument_type(annotation: Any) -> Type | None:
    """The type that an annotation means; None if it has none."""
    if annotation in _ARGUMENT_BASES:
        return Type(_ARGUMENT_BASES[annotation])
    inner = _optional(annotation)
    if inner is not None:
        kind = _argument_type(inner)
        return None if kind is None or kind.optional else Type(kind.base, kind.is_list, True, kind.optional_items)
    if typing.get_origin(annotation) in _SEQUENCES:
        (item,) = typing.get_args(annotation) or (None,)
        kind = _argument_type(item)
        if kind is None or kind.is_list or kind.base not in _LIST_ITEMS or (kind.optional and not kind.is_tensor):
            return None
        return Type(kind.base, True, optional_items=kind.optional)
    return None


def _optional(annotation: Any) -> Any:
    """``X`` of ``X | None``, or None."""
    if typing.get_origin(annotation) not in _UNIONS:
        return None
    parts = typing.get_args(annotation)
    if type(None) not in parts:
        return None
    rest = tuple(part for part in parts if part is not type(None))
    return rest[0] if len(rest) == 1 else typing.Union[rest]  # noqa: UP007 - built from a tuple


def _as_list(annotation: Any) -> str:
    items = {item for item in typing.get_args(annotation) if item is not Ellipsis}
    return f"list[{items.pop().__name__}]" if len(items) == 1 else "list"


def _valid_types() -> str:
    return ", ".join(
        [str(getattr(kind, "__name__", kind)) for kind in _ARGUMENT_BASES]
        + ["their Optional", f"Sequence and List of {', '.join(_LIST_ITEMS)}"]
    )


def _inferred_default(name: str, default: Any, refused: Callable[[str], ValueError]) -> str:
    if default is None or isinstance(default, int | float):
        return str(default)
    if isinstance(default, str | device):
        return f'"{default}"'
    if isinstance(default, dtype):
        return str(default).removeprefix("torch.")
    raise refused(
        f"Parameter {name} has an unsupported default value type {type(default)}. Please file an issue on GitHub so "
        "we can prioritize this."
    )


def _result_text(annotation: Any, refused: Callable[[str], ValueError]) -> str:
    if annotation is None or annotation is type(None):
        return "()"
    items = typing.get_args(annotation) if typing.get_origin(annotation) is tuple else None
    parts = []
    for item in (annotation,) if items is None else items:
        key = list[typing.get_args(item)] if typing.get_origin(item) is list else item
        try:
            known = _RETURN_BASES.get(key)
        except TypeError:  # an annotation that cannot be hashed
            known = None
        if known is None:
            raise refused(f"Return has unsupported type {annotation}. The valid types are: {_RETURN_BASES}.")
        parts.append(known)
    return parts[0] if items is None else f"({', '.join(parts)})"
