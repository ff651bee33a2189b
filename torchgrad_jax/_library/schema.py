"""Schemas of operators: read from text, and bound to the arguments of a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from .._core.arrays import dtypes
from .._core.arrays.devices import device
from .._core.arrays.dtypes import dtype
from .._core.arrays.formats import memory_format
from .._core.random.rng import Generator
from .._engine.memory.tensor import Tensor
from .._engine.tensor.attributes import layout

_MISSING: Any = object()

# What torch calls the kinds of arguments in its messages, where that is not their name in schemas.
_SHOWN = {"SymInt": "int", "ScalarType": "int", "Scalar": "number", "Layout": "int", "MemoryFormat": "int"}
_CPP_ONLY = (
    "Unable to cast Python instance of type {} to C++ type '?' (#define PYBIND11_DETAILED_ERROR_MESSAGES or compile "
    "in debug mode for details)"
)


@dataclass(frozen=True)
class Type:
    """The type of an argument or result: ``Tensor(a!)[]?`` is base Tensor, a list, optional, alias "a!"."""

    base: str
    is_list: bool = False
    optional: bool = False  # the value itself may be None
    optional_items: bool = False
    length: int | None = None  # of a list that a single item stands for
    alias: str = ""

    @property
    def is_tensor(self) -> bool:
        return self.base == "Tensor"

    def annotation(self) -> str:
        """How it is written in a schema."""
        alias = f"({self.alias})" if self.alias else ""
        items = "?" if self.optional_items else ""
        length = "" if self.length is None else self.length
        brackets = f"[{length}]" if self.is_list else ""
        return f"{self.base}{alias}{items}{brackets}{'?' if self.optional else ''}"

    def __str__(self) -> str:
        shown = _SHOWN.get(self.base, self.base)
        if self.optional_items:
            shown = f"Optional[{shown}]"
        if self.is_list:
            shown = f"List[{shown}]"
        return f"Optional[{shown}]" if self.optional else shown


@dataclass(frozen=True)
class Argument:
    """One argument of a schema."""

    name: str
    type: Type
    default: Any = _MISSING
    kwarg_only: bool = False

    @property
    def default_value(self) -> Any:
        """The default, or None."""
        return self.default if self.has_default_value() else None

    @property
    def is_write(self) -> bool:
        """Is it written to?"""
        return self.type.alias.endswith("!")

    def has_default_value(self) -> bool:
        return self.default is not _MISSING

    def __str__(self) -> str:
        shown = f"{self.type.annotation()} {self.name}"
        if not self.has_default_value():
            return shown
        default = self.default
        if self.type.length is not None and isinstance(default, list) and len(set(default)) == 1:
            default = default[0]
        return f"{shown}={_default_text(default)}"


@dataclass(frozen=True)
class Schema:
    """An operator's name, arguments and results."""

    name: str  # with the namespace
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]  # most have no name

    @property
    def is_mutable(self) -> bool:
        """Is any argument written to?"""
        return any(argument.is_write for argument in self.arguments)

    @property
    def positional(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not a.kwarg_only)

    @property
    def keyword_only(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.kwarg_only)

    def __str__(self) -> str:
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}{self.signature()}"

    def signature(self) -> str:
        """The schema without the name."""
        shown = [str(a) for a in self.positional]
        if self.keyword_only:
            shown += ["*", *map(str, self.keyword_only)]
        returns = [r.type.annotation() for r in self.returns]
        results = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
        return f"({', '.join(shown)}) -> {results}"

    # --- calls ---

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Values of the arguments: those by position up to the last that is not its default, and the rest by name."""
        positional = self.positional
        if len(args) > len(positional):
            if self.keyword_only:
                raise RuntimeError(
                    f"{self.name}() takes {len(positional)} positional argument(s) but {len(args)} was/were given. "
                    f" Declaration: {self}"
                )
            raise RuntimeError(
                f"{self.name}() expected at most {len(positional)} argument(s) but received {len(args)} "
                f"argument(s). Declaration: {self}"
            )
        left = dict(kwargs)
        values = [self._checked(i, a, v) for i, (a, v) in enumerate(zip(positional, args))]
        for i, argument in enumerate(positional[len(args) :], len(args)):
            values.append(self._named(i, argument, left))
        named = {a.name: self._named(len(positional) + i, a, left) for i, a in enumerate(self.keyword_only)}
        if left:
            name = next(iter(left))
            if any(a.name == name for a in self.arguments):
                raise RuntimeError(
                    f"Argument '{name}' specified both as positional and keyword argument. Schema: {self}"
                )
            raise RuntimeError(f"Unknown keyword argument '{name}' for operator '{self.name}'. Schema: {self}")
        while values and _is_default(positional[len(values) - 1], values[-1]):
            values.pop()
        return values, named

    def filled(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Arguments by position, with the defaults that `bind` left out."""
        return (*values, *(a.default_value for a in self.positional[len(values) :]))

    def _named(self, position: int, argument: Argument, left: dict[str, Any]) -> Any:
        if argument.name in left:
            return self._checked(position, argument, left.pop(argument.name))
        if argument.has_default_value():
            return argument.default
        raise RuntimeError(f"{self.name}() is missing value for argument '{argument.name}'. Declaration: {self}")

    def _checked(self, position: int, argument: Argument, value: Any) -> Any:
        kind = argument.type
        if value is None and kind.optional:
            return None

        def refused(details: str) -> RuntimeError:
            return RuntimeError(
                f"{self.name}() Expected a value of type '{kind}' for argument '{argument.name}' but instead "
                f"found type '{type(value).__name__}'.\nPosition: {position}\nValue: {value!r}\n"
                f"Declaration: {self}\n{details}"
            )

        if not kind.is_list:
            return _cast(kind.base, value, refused)
        if kind.length is not None and isinstance(value, int | float):
            value = [value] * kind.length
        try:
            items = list(cast(Iterable[Any], value))
        except TypeError as error:
            raise refused(f" Python error details: TypeError: {error}") from None
        return [None if item is None and kind.optional_items else _cast(kind.base, item, refused) for item in items]


def _is_default(argument: Argument, value: Any) -> bool:
    if isinstance(value, Tensor) or not argument.has_default_value():
        return False
    return type(value) is type(argument.default) and value == argument.default


_CLASSES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "Layout": (layout,),
    "MemoryFormat": (memory_format,),
    "ScalarType": (dtype,),
    "Generator": (Generator,),
}


def _cast(base: str, value: Any, refused: Callable[[str], RuntimeError]) -> Any:
    if base == "Tensor":
        if not isinstance(value, Tensor):
            raise refused(f"Cast error details: Unable to cast {value} to Tensor")
        return value
    if (
        isinstance(value, Tensor)
        and base in ("SymInt", "int", "float", "bool", "Scalar", "complex")
        and not value.dim()
    ):
        value = value.item()
    if base in ("SymInt", "int") and isinstance(value, int):
        return int(value)
    if base == "float" and isinstance(value, int | float):
        return float(value)
    if base == "bool" and isinstance(value, int | float):
        return bool(value)
    if base == "complex" and isinstance(value, int | float | complex):
        return complex(value)
    if base == "Scalar" and isinstance(value, int | float | complex):
        return value
    if base == "Device" and isinstance(value, str | device):
        return device(value)
    if isinstance(value, _CLASSES.get(base, ())):
        return value
    raise refused(f"Cast error details: {_CPP_ONLY.format(type(value))}")


def _default_text(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        shown = f"{value:.17g}"
        return shown if any(mark in shown for mark in ".einf") else f"{shown}."
    if isinstance(value, list):
        return f"[{', '.join(map(_default_text, value))}]"
    return str(value).removeprefix("torch.")


# --- from text ---

_TYPE = r"(?P<base>\w+)(?:\((?P<alias>[^)]*)\))?(?P<rest>(?:\?|\[\d*\])*)"
_ARGUMENT = re.compile(rf"\s*{_TYPE}\s+(?P<name>\w+)\s*(?:=\s*(?P<default>.+?))?\s*$", re.DOTALL)
_RESULT = re.compile(rf"\s*\(?\s*{_TYPE}\s*(?P<name>\w+)?\s*\)?\s*$")
_HEAD = re.compile(r"\s*(?P<name>(?:\w+::)?\w+)(?:\.(?P<overload>\w+))?\s*$")
_BASES = {
    "Tensor", "int", "SymInt", "float", "bool", "str", "complex", "Scalar", "ScalarType", "Device", "Layout",
    "MemoryFormat", "Generator",
}  # fmt: skip


def parse(text: str, namespace: str | None = None) -> Schema:
    """The schema that a text like ``ns::name.overload(Tensor x, int n=2) -> Tensor`` states."""
    try:
        head, rest = text.split("(", 1)
        inside, results = _closing(rest)
        arrow, results = results.lstrip()[:2], results.lstrip()[2:].strip()
        if arrow != "->" or not results:
            raise ValueError
        named = _HEAD.match(head)
        if named is None:
            raise ValueError
        arguments, kwarg_only = [], False
        for part in _split(inside):
            if part.strip() == "*":
                kwarg_only = True
            else:
                arguments.append(_argument(part, kwarg_only))
        if results.startswith("(") and _closing(results[1:])[1] == "":
            returns = tuple(_result(part) for part in _split(_closing(results[1:])[0]))
        else:
            returns = (_result(results),)
    except ValueError as error:
        detail = f" ({error})" if str(error) else ""
        raise RuntimeError(f"cannot read this as the schema of an operator: {text}{detail}") from None
    name = named["name"] if namespace is None or "::" in named["name"] else f"{namespace}::{named['name']}"
    return Schema(name, named["overload"] or "", tuple(arguments), returns)


def _closing(text: str) -> tuple[str, str]:
    """Text up to the parenthesis that closes it, and what comes after."""
    depth = 1
    for at, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth:
            return text[:at], text[at + 1 :]
    raise ValueError("a parenthesis is not closed")


def _split(text: str) -> list[str]:
    """Parts between commas that stand in no brackets and no quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    last = text[start:]
    return [*parts, last] if parts or last.strip() else []


def _type(match: re.Match[str]) -> Type:
    base = match["base"]
    if base not in _BASES:
        raise ValueError(f"unknown type '{base}'")
    marks = re.findall(r"\?|\[\d*\]", match["rest"])
    optional_items = marks[:1] == ["?"] and len(marks) > 1
    lists = [mark for mark in marks if mark != "?"]
    if len(lists) > 1:
        raise ValueError("a list of lists")
    length = int(lists[0][1:-1]) if lists and lists[0] != "[]" else None
    optional = bool(marks) and marks[-1] == "?"
    return Type(base, bool(lists), optional, optional_items, length, (match["alias"] or "").strip())


def _argument(text: str, kwarg_only: bool) -> Argument:
    match = _ARGUMENT.match(text)
    if match is None:
        raise ValueError(f"argument '{text.strip()}'")
    kind = _type(match)
    default = _MISSING if match["default"] is None else _default(kind, match["default"].strip())
    return Argument(match["name"], kind, default, kwarg_only)


def _result(text: str) -> Argument:
    match = _RESULT.match(text)
    if match is None:
        raise ValueError(f"result '{text.strip()}'")
    return Argument(match["name"] or "", _type(match))


def _default(kind: Type, text: str) -> Any:
    if text == "None":
        return None
    if kind.is_list:
        if not text.startswith("["):
            item = _default(Type(kind.base), text)
            return [item] * (kind.length or 1)
        return [_default(Type(kind.base), part.strip()) for part in _split(text[1:-1])]
    if text[0] in "\"'" and text[-1] == text[0]:
        return device(text[1:-1]) if kind.base == "Device" else text[1:-1]
    if kind.base == "bool" and text in ("True", "False"):
        return text == "True"
    if kind.base in ("int", "SymInt"):
        return int(text)
    if kind.base == "float":
        return float(text)
    if kind.base == "Scalar":
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    if kind.base == "ScalarType":
        found = dtypes.bool_ if text == "bool" else getattr(dtypes, text, None)
        if isinstance(found, dtype):
            return found
    raise ValueError(f"default '{text}'")
