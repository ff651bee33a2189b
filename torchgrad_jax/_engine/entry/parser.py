"""What torch says of a call with wrong arguments, worked out after it has failed here, or where it looks odd.

`signatures.txt` has the overloads of the functions that torch parses in C++. `complaint` tries them as
torch does, and gives the error of torch's if none of them takes the arguments. Nothing of this runs
where the arguments have the types that they nearly always have.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._core.errors import warn
from ..memory.tensor import Tensor
from .arguments import ELEMENTS, KINDS, NUMPY_NAMES, is_index, is_number, type_name

NUMBERS_AS_TENSORS = frozenset(
    name + end
    for name in ("add", "div", "divide", "mul", "multiply", "sub", "subtract", "true_divide", "floor_divide", "copy")
    for end in ("", "_")
)
"""Functions that take a number wherever they take a tensor."""
_PARAMETER = re.compile(r"(?P<kind>.+?)(?:\[(?P<size>\d+)\])?(?P<none>\?)? (?P<name>\w+)(?: = (?P<default>.*))?")
_SEPARATOR = re.compile(r", (?![^\[]*\])")  # commas in brackets separate nothing


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of an overload: `size` is how many ints a single one may stand for."""

    kind: str
    name: str
    size: int
    none: bool
    optional: bool
    keyword: bool


@dataclasses.dataclass(frozen=True)
class Signature:
    """One overload, and how messages write it; a hidden one is not written."""

    parameters: tuple[Parameter, ...]
    text: str
    hidden: bool

    @functools.cached_property
    def positional(self) -> int:
        """How many arguments may come by position."""
        return sum(not p.keyword for p in self.parameters)

    @functools.cached_property
    def least(self) -> int:
        """How many arguments there must be."""
        return sum(not p.optional for p in self.parameters)

    @functools.cached_property
    def spreads(self) -> bool:
        """Whether the only positional argument is a size that may come as so many arguments."""
        return self.positional == 1 and self.parameters[0].kind == "tuple of ints"


def raise_if_any(complaint: Exception | None) -> None:
    """Raise a complaint in place of the error that led to it.

    An error that its own traceback leads to would keep the tensors of all frames in between.
    """
    try:
        if complaint is not None:
            raise complaint from None
    finally:
        del complaint


class Mismatch(Exception):
    """Why an overload does not take the arguments."""


@functools.cache
def _table() -> dict[str, str]:
    text = Path(__file__).with_name("signatures.txt").read_text()
    parts = (line.partition(" ") for line in text.splitlines()[1:])
    return {where: rest for where, _, rest in parts}


def names() -> tuple[str, ...]:
    """The full names of the functions that the table has."""
    return tuple(_table())


def signatures(where: str) -> tuple[Signature, ...] | None:
    """The overloads of a function by its full name, such as `Tensor.add`; () if it takes nothing, None if unknown."""
    text = _table().get(where)
    if text is None:
        return None
    return () if text == "-" else tuple(parse_signature(part.strip()) for part in text.split("|"))


def parse_signature(text: str) -> Signature:
    """An overload from its line; what stands in brackets and after a question mark is not printed."""
    plain, keyword, found = [], False, []
    for part in _SEPARATOR.split(text.removeprefix("~")) if text else ():
        if part == "*":
            keyword = True
            plain.append(part)
            continue
        m = _PARAMETER.fullmatch(part)
        assert m is not None, part
        default = m["default"]
        none = bool(m["none"]) or default in ("None", "[]")
        found.append(Parameter(m["kind"], m["name"], int(m["size"] or 0), none, default is not None, keyword))
        plain.append(f"{m['kind']} {m['name']}" + ("" if default is None else f" = {default}"))
    return Signature(tuple(found), ", ".join(plain), text.startswith("~"))


def _takes(p: Parameter, value: Any, position: int, numbers_too: bool) -> bool:
    """Return whether a parameter takes a value, as far as torch looks before it reads it."""
    if hasattr(type(value), "__torch_function__") and not isinstance(value, Tensor):
        return True
    if p.kind == "Tensor":
        return isinstance(value, Tensor) or (numbers_too and is_number(value))
    if p.kind == "tuple of Tensors":
        if not isinstance(value, list | tuple):
            return False
        for i, item in enumerate(value):
            if not isinstance(item, Tensor) and not hasattr(type(item), "__torch_function__"):
                raise Mismatch(f"expected Tensor as element {i} in argument {position}, but got {type_name(item)}")
        return True
    if p.kind in ELEMENTS:
        element = ELEMENTS[p.kind]
        if isinstance(value, list | tuple):
            return not value or element(value[0])
        return p.size > 0 and element(value)
    return p.kind not in KINDS or KINDS[p.kind].takes(value)


# --- one overload ---------------------------------------------------------------------------------


def match(name: str, s: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by their names in the overload; raises `Mismatch` unless it takes them."""
    found: dict[str, Any] = {}
    spreads = s.spreads and bool(args) and (isinstance(args[0], list | tuple) or is_index(args[0]))
    if len(args) > s.positional and not spreads:
        raise Mismatch(_too_many(name, s, len(args)))
    at, left = 0, len(kwargs)
    for i, p in enumerate(s.parameters):
        by_name = at >= len(args)
        if not by_name and p.keyword:
            raise Mismatch(_too_many(name, s, len(args)))
        names = [n for n in kwargs if n == p.name or NUMPY_NAMES.get(n) == p.name]
        given = not by_name or bool(names)
        value = args[at] if not by_name else kwargs[names[0]] if names else None
        if not given and not p.optional:
            raise Mismatch(_missing(name, s.parameters[i:]))
        spread = s.spreads and not at and not by_name
        left_out = not given or (value is None and p.none)
        if not left_out and not _takes(p, value, i, name in NUMBERS_AS_TENSORS):
            if not spread or not is_index(args[0]):
                raise Mismatch(_wrong(name, p, value, None if by_name else at + 1))
            at, value = len(args) - 1, tuple(args)
        if given:
            found[p.name] = value
        if not by_name:
            at += 1
        elif given:
            left -= 1
    if left:
        raise Mismatch(_unknown(name, s, args, kwargs))
    return found


def _too_many(name: str, s: Signature, given: int) -> str:
    if s.least != s.positional:
        return f"{name}() takes from {s.least} to {s.positional} positional arguments but {given} were given"
    plural, verb = "" if s.positional == 1 else "s", "was" if given == 1 else "were"
    return f"{name}() takes {s.positional} positional argument{plural} but {given} {verb} given"


def _missing(name: str, rest: Sequence[Parameter]) -> str:
    names = [f'"{p.name}"' for p in rest if not p.optional]
    # torch has the plural where it should not.
    plural = "s" if len(names) == 1 else ""
    return f"{name}() missing {len(names)} required positional argument{plural}: {', '.join(names)}"


def _wrong(name: str, p: Parameter, value: Any, position: int | None) -> str:
    where = f"{name}(): argument '{p.name}'" + (f" (position {position})" if position else "")
    if position and p.kind in ("tuple of ints", "tuple of floats") and isinstance(value, list | tuple):
        return f"{where} must be {p.kind}, but found element of type {type_name(value[0])} at pos 0"
    return f"{where} must be {p.kind}, not {type_name(value)}"


def _unknown(name: str, s: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    index = {p.name: i for i, p in enumerate(s.parameters)}
    for k in kwargs:
        if k not in index:
            return f"{name}() got an unexpected keyword argument '{k}'"
        if index[k] < len(args):
            return f"{name}() got multiple values for argument '{k}'"
    return "invalid keyword arguments"


# --- all of them ----------------------------------------------------------------------------------


def by_overload(where: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments by their names in the first overload that takes them, if one does.

    ``torch.add(x, 2, y)`` is an older overload, of which torch warns: its `alpha` is 2.
    """
    known = signatures(where) or ()
    for s in known:
        try:
            found = match(name, s, args, kwargs)
        except Mismatch:
            continue
        if s.hidden:
            present = "".join(f"\n\t{name}({other.text})" for other in known if not other.hidden)
            warn.once(
                f"This overload of {name} is deprecated:\n\t{name}({s.text})\n"
                f"Consider using one of the following signatures instead:{present}"
            )
        return found
    return None


def torch_complaint(where: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError | None:
    """`complaint` about a call whose arguments begin with the tensor if it is of a method."""
    if not where.startswith("Tensor."):
        return complaint(where, name, args, kwargs)
    if signatures(where) is None:
        return None
    if not args:
        return TypeError(f"unbound method TensorBase.{name}() needs an argument")
    if not isinstance(args[0], Tensor):
        return no_tensor(name, args[0])
    return complaint(where, name, args[1:], kwargs)


def no_tensor(name: str, value: Any) -> TypeError:
    """The error of a method that is called without its tensor."""
    return TypeError(
        f"descriptor '{name}' for 'torch._C.TensorBase' objects doesn't apply to a '{type(value).__name__}' object"
    )


def complaint(where: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError | None:
    """The error that torch raises for a call, or None if it takes the arguments or we do not know.

    Args:
        where: the full name, such as `Tensor.add`.
        name: the name in messages.
        args: the arguments by position, without the tensor whose method it is.
        kwargs: those by name.
    """
    known = signatures(where)
    if known is None:
        return None
    if not known:
        return _of_none("TensorBase" if where.startswith("Tensor.") else "torch", name, args, kwargs)
    first = ""
    for s in known:
        try:
            match(name, s, args, kwargs)
        except Mismatch as e:
            if str(e).startswith("expected Tensor as element"):
                return TypeError(str(e))
            first = first or str(e)
        else:
            return _unread(name, s, args, kwargs)
    if len(known) == 1:
        return TypeError(first)
    count = len(args) + len(kwargs)
    plausible = [s for s in known if not s.hidden and s.least <= count <= len(s.parameters)]
    if len(plausible) == 1:
        try:
            match(name, plausible[0], args, kwargs)
        except Mismatch as e:
            return TypeError(str(e))
    return TypeError(no_match(name, args, kwargs, [s.text for s in known if not s.hidden]))


def _of_none(home: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError | None:
    if kwargs:
        return TypeError(f"{home}.{name}() takes no keyword arguments")
    if args:
        return TypeError(f"{home}.{name}() takes no arguments ({len(args)} given)")
    return None


def _unread(name: str, s: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError | None:
    """The error that torch raises while it reads the elements of a list that it accepted."""
    given = dict(zip([p.name for p in s.parameters], args)) | dict(kwargs)
    if s.spreads and args and not isinstance(args[0], list | tuple | None):
        given[s.parameters[0].name] = tuple(args)
    for p in s.parameters:
        value = given.get(p.name)
        if p.kind != "tuple of ints" or not isinstance(value, list | tuple):
            continue
        for i, item in enumerate(value):
            if not is_index(item) and not isinstance(item, bool | np.bool_):
                return TypeError(
                    f"{name}(): argument '{p.name}' failed to unpack the object at pos {i + 1} with error "
                    f'"type must be {p.kind},but got {type_name(item)}"'
                )
    return None


def no_match(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: Sequence[str]) -> str:
    """The text about a call that no overload takes."""
    # torch names arguments in the order of a hash table, from the last to the first.
    named = "".join(f"{k}={type_name(kwargs[k])}, " for k in list(kwargs)[::-1])
    given = "".join(f"{type_name(a)}, " for a in args) + named
    head = (
        f"{name}() received an invalid combination of arguments - got ({given.removesuffix(', ') if args else given})"
    )
    if len(options) == 1:
        return f"{head}, but expected ({options[0]})"
    return f"{head}, but expected one of:\n" + "".join(f" * ({option})\n" for option in options)
