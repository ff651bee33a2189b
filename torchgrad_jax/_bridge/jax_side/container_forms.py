"""The arguments and results of exported functions: containers with tensors, described as data that a file can hold.

`{"x": tensor, "scale": 2}` is the form `["dict", [["x", ["tensor", 0]], ["scale", ["value", 2]]]]` and a list of one
tensor. Dicts, lists, tuples, named tuples and dataclasses are containers; None, numbers and strings belong to the form.
"""

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..._core.homes import home_of
from ..._engine.memory.tensor import Tensor

Form = list[Any]
_VALUES = (type(None), bool, int, float, str)
_DICTS = (dict, collections.OrderedDict, collections.defaultdict)
"""They come back as plain dicts."""
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
        fields = _fields(x)
        if fields is not None:
            name = f"{home_of(x.__class__)}.{x.__class__.__qualname__}"
            classes[name] = x.__class__
            kind = "namedtuple" if isinstance(x, tuple) else "object"
            return [kind, name, [[k, of(getattr(x, k))] for k in fields]]
        if x.__class__ in _DICTS and all(k.__class__ in (str, int) for k in x):
            return ["dict", [[k, of(v)] for k, v in x.items()]]
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


def leaves_of(form: Form, x: Any, name: str, names: list[str]) -> list[Any]:
    """The tensors of something that must have a form; `names` is told where each is.

    Raises:
        TypeError: it has another one.
    """
    leaves: list[Any] = []

    def look(form: Form, x: Any, at: str) -> None:
        kind = form[0]
        if kind == "tensor":
            _require(isinstance(x, Tensor), at, "a tensor", x)
            leaves.append(x)
            names.append(at)
        elif kind == "value":
            _require(x.__class__ is form[1].__class__ and x == form[1], at, repr(form[1]), x)
        elif kind in ("list", "tuple"):
            fits = isinstance(x, list if kind == "list" else tuple) and len(x) == len(form[1])
            _require(fits, at, f"a {kind} of {len(form[1])}", x)
            for i, (inner, v) in enumerate(zip(form[1], x)):
                look(inner, v, f"{at}[{i}]")
        elif kind == "dict":
            keys = [k for k, _ in form[1]]
            _require(isinstance(x, Mapping) and set(x) == set(keys), at, f"a dict of {keys}", x)
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
    """Return what has a form and these tensors.

    Dataclasses that are not among `classes` become `types.SimpleNamespace`, named tuples become others.
    """
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
    values = {k: build(inner, leaves, classes) for k, inner in form[2]}
    if kind == "namedtuple":
        cls: Any = classes.get(form[1]) or collections.namedtuple("unknown", [*values], rename=True)
        return getattr(cls, "_make", cls)(values.values())
    make: Callable[..., Any] = classes.get(form[1], types.SimpleNamespace)
    if not dataclasses.is_dataclass(make):
        return make(**values)
    computed = {f.name: values.pop(f.name) for f in dataclasses.fields(make) if not f.init}
    out: Any = make(**values)
    for name, value in computed.items():
        object.__setattr__(out, name, value)
    return out


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
        if kind in ("object", "namedtuple"):
            names = [form[1], *[p[0] for p in rest]] if len(form) == 3 else [None]
            if any(type(name) is not str for name in names):
                return False
        elif kind != "dict" or len(form) != 2:
            return False
        return all(check(inner, depth + 1) for _, inner in rest)

    return check(form, 0) and found == list(range(n))
