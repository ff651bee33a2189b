"""The arguments and results of exported functions: containers with tensors, described as data that a file can hold.

`{"x": tensor, "scale": 2}` is the form `["dict", [["x", ["tensor", 0]], ["scale", ["value", 2]]]]` and a list of one
tensor. Dicts, lists, tuples, named tuples and dataclasses are containers; None, numbers and strings belong to the form.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._engine.tensor import Tensor

Form = list[Any]
_VALUES = (type(None), bool, int, float, str)
_DEEPEST = 100
"""How deep containers may be nested in a file."""


def describe(x: Any, leaves: list[Any], classes: dict[str, type], what: str) -> Form:
    """The form of something; its tensors join `leaves`, and its classes `classes` by their names.

    Raises:
        TypeError: it holds something that is neither a tensor nor part of a form.
    """

    def of(x: Any) -> Form:
        if isinstance(x, Tensor):
            leaves.append(x)
            return ["tensor", len(leaves) - 1]
        if x.__class__ in _VALUES:
            return ["value", x]
        if x.__class__ in (list, tuple):
            return [x.__class__.__name__, [of(v) for v in x]]
        if isinstance(x, dict) and all(k.__class__ in (str, int) for k in x):
            return ["dict", [[k, of(v)] for k, v in x.items()]]
        fields = _fields(x)
        if fields is not None:
            name = f"{x.__class__.__module__}.{x.__class__.__qualname__}"
            classes[name] = x.__class__
            return ["object", name, [[k, of(getattr(x, k))] for k in fields]]
        raise TypeError(
            f"export: {what} hold a {x.__class__.__name__}; they may be tensors, numbers, strings and None, in lists, "
            "tuples, dicts, named tuples and dataclasses"
        )

    return of(x)


def _fields(x: Any) -> Sequence[str] | None:
    if isinstance(x, tuple):
        return getattr(x, "_fields", None)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return [f.name for f in dataclasses.fields(x)]
    return None


def leaves_of(form: Form, x: Any, name: str) -> list[Any]:
    """The tensors of something that must have a form.

    Raises:
        TypeError: it has another one.
    """
    leaves: list[Any] = []

    def look(form: Form, x: Any, at: str) -> None:
        kind = form[0]
        if kind == "tensor":
            _require(isinstance(x, Tensor), at, "a tensor", x)
            leaves.append(x)
        elif kind == "value":
            _require(x.__class__ is form[1].__class__ and x == form[1], at, repr(form[1]), x)
        elif kind in ("list", "tuple"):
            fits = isinstance(x, list if kind == "list" else tuple) and len(x) == len(form[1])
            _require(fits, at, f"a {kind} of {len(form[1])}", x)
            for i, (inner, v) in enumerate(zip(form[1], x)):
                look(inner, v, f"{at}[{i}]")
        elif kind == "dict":
            names = [k for k, _ in form[1]]
            _require(isinstance(x, Mapping) and set(x) == set(names), at, f"a dict of {names}", x)
            for k, inner in form[1]:
                look(inner, x[k], f"{at}[{k!r}]")
        else:
            fits = all(hasattr(x, k) for k, _ in form[2])
            _require(fits, at, f"a {form[1]} with {[k for k, _ in form[2]]}", x)
            for k, inner in form[2]:
                look(inner, getattr(x, k), f"{at}.{k}")

    look(form, x, name)
    return leaves


def _require(holds: bool, at: str, want: str, x: Any) -> None:
    if not holds:
        shown = f"{x!r}" if x.__class__ in _VALUES else f"a {x.__class__.__name__}"
        if isinstance(x, Mapping):
            shown = f"a dict of {list(x)}"
        elif isinstance(x, list | tuple):
            shown += f" of {len(x)}"
        raise TypeError(f"exported for {want} as {at}, called with {shown}")


def build(form: Form, leaves: Sequence[Any], classes: Mapping[str, type]) -> Any:
    """What has a form and these tensors. Objects of unknown classes become `types.SimpleNamespace`."""
    kind = form[0]
    if kind == "tensor":
        return leaves[form[1]]
    if kind == "value":
        return form[1]
    if kind in ("list", "tuple"):
        parts = [build(inner, leaves, classes) for inner in form[1]]
        return parts if kind == "list" else tuple(parts)
    if kind == "dict":
        return {k: build(inner, leaves, classes) for k, inner in form[1]}
    make: Callable[..., Any] = classes.get(form[1], types.SimpleNamespace)
    return make(**{k: build(inner, leaves, classes) for k, inner in form[2]})


def is_form(form: Any, n: int) -> bool:
    """Whether something that a file holds is a form, of the tensors from 0 to n - 1, each once and in this order."""
    found: list[Any] = []

    def check(form: Any, depth: int) -> bool:
        if type(form) is not list or len(form) < 2 or depth > _DEEPEST:
            return False
        kind, rest = form[0], form[-1]
        if kind == "tensor":
            found.append(rest)
            return len(form) == 2 and type(rest) is int
        if kind == "value":
            return len(form) == 2 and type(rest) in _VALUES
        if type(rest) is not list:
            return False
        if kind in ("list", "tuple"):
            return len(form) == 2 and all(check(inner, depth + 1) for inner in rest)
        named = all(type(p) is list and len(p) == 2 and type(p[0]) in (str, int) for p in rest)
        if not named or len({p[0] for p in rest}) < len(rest):
            return False
        if kind == "object":
            if (
                len(form) != 3
                or type(form[1]) is not str
                or any(type(p[0]) is not str for p in rest)
            ):
                return False
        elif kind != "dict" or len(form) != 2:
            return False
        return all(check(inner, depth + 1) for _, inner in rest)

    return check(form, 0) and found == list(range(n))


__all__ = ["Form", "build", "describe", "is_form", "leaves_of"]
