"""Asks torch for the signatures by which it judges arguments: ``python -m compat_suite.signatures``.

Writes ``torchgrad_jax/_engine/entry/signatures.txt``, a line for each function and method of torch's that is
parsed in C++ and that we have, with its overloads in the order in which torch tries them. Functions
of several overloads list them when they are called badly. Those of one overload have a schema, as
have those of several, which says what a listing leaves out: ``int?`` may be None, ``int[2]`` may be
one int for both. ``~`` marks an overload that torch takes and does not list.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import torchgrad_jax
from torchgrad_jax._engine.surface import METHODS, NAMESPACES, OPERATORS

FILE = Path(torchgrad_jax.__file__).parent / "_engine" / "entry" / "signatures.txt"
HEAD = "# Written by `python -m compat_suite.signatures`; says what torch {} takes.\n"
_SPACES = {
    "": torch,
    "linalg": torch.linalg,
    "fft": torch.fft,
    "special": torch.special,
    "nn.functional": torch.nn.functional,
}
_TYPES = {
    "Tensor": "Tensor", "Scalar": "Number", "int": "int", "SymInt": "int", "float": "float", "bool": "bool",
    "str": "str", "ScalarType": "torch.dtype", "Layout": "torch.layout", "Device": "torch.device",
    "MemoryFormat": "torch.memory_format", "Generator": "torch.Generator", "complex": "complex",
    "Tensor[]": "tuple of Tensors", "int[]": "tuple of ints", "SymInt[]": "tuple of ints",
    "float[]": "tuple of floats", "Scalar[]": "tuple of Scalars", "Tensor?[]": "tuple of Tensors",
    "bool[]": "tuple of bools", "Dimname": "name", "Dimname[]": "tuple of names", "Storage": "torch.Storage",
}  # fmt: skip
_PARAMETER = re.compile(r"^(?P<type>.+?) (?P<name>\w+)(?: ?= ?(?P<default>.*))?$")


def parameters(text: str) -> list[tuple[str, str, str | None]]:
    """Type, name and default of each parameter of a signature; a star is one without a name."""
    out: list[tuple[str, str, str | None]] = []
    for part in re.split(r", (?![^\[]*\])", text) if text else []:
        found = _PARAMETER.match(part)
        out.append(("*", "", None) if found is None else (found["type"], found["name"], found["default"]))
    return out


def _schemas(name: str) -> list[list[tuple[str, str, str | None]]]:
    """Parameters by torch's schemas, with types as its messages write them."""
    out = []
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        text = str(schema).partition("(")[2].rpartition(" -> ")[0].removesuffix(")")
        text = re.sub(r"\(\w+!?( -> \*)?\)", "", text)
        out.append([(_written(kind), name, default) for kind, name, default in parameters(text)])
    return out


def _written(kind: str) -> str:
    """A type of a schema as messages write it, with what they leave out in the end."""
    optional = "?" if kind.endswith("?") else ""
    plain = kind.removesuffix("?")
    sized = re.fullmatch(r"(.*)\[(\d+)\]", plain)
    if sized:
        return f"{_TYPES.get(sized[1] + '[]', plain)}[{sized[2]}]{optional}"
    return _TYPES.get(plain, plain) + optional


def _positional(row: list[tuple[str, str, str | None]]) -> list[tuple[str, str, str | None]]:
    names = [kind for kind, _, _ in row]
    return row[: names.index("*")] if "*" in names else row


def _annotated(text: str, name: str, method: bool) -> str:
    """A listed overload with what only the schema knows of its parameters."""
    listed = parameters(text)
    known: dict[str, str] = {}
    mine = [n for kind, n, _ in listed if n and n not in ("out", "requires_grad", "generator")]
    mine = ["self" if n == "input" else n for n in mine]
    for row in _schemas(name):
        row = [(kind, "self" if n == "input" else n, d) for kind, n, d in row]
        names = [n for _, n, _ in row if n][method:]
        kinds = {n: kind for kind, n, _ in row}
        given = [(kind, "self" if n == "input" else n) for kind, n, _ in listed if n]
        same = all(_same(kind, kinds.get(n, kind)) for kind, n in given)
        if same and [n for n in names if n not in ("out", "generator")][: len(mine)] == mine:
            known = kinds
            break
    parts = []
    for kind, n, default in listed:
        if not n:
            parts.append("*")
            continue
        exact = known.get("self" if n == "input" else n, kind)
        more = exact.removeprefix(kind) if exact.startswith(kind) else ""
        parts.append(f"{kind}{more} {n}" + ("" if default is None else f" = {default}"))
    return ", ".join(parts)


def _same(kind: str, exact: str) -> bool:
    return re.sub(r"(\[\d+\])?\??$", "", exact) == kind


def _single(name: str, method: bool, least: int, most: int) -> str | None:
    """The only overload of a function, by the schema that takes as many arguments."""
    rows = _schemas(name)
    for row in rows:
        where = _positional(row)[method:]
        needed = [n for _, n, default in where if default is None]
        rest = {n for _, n, default in row[len(where) + method :] if default is None}
        writes = rest & {"out", "out0", "values", "U", "L", "sign"}
        if len(where) != most or writes or len(needed) > least:
            continue
        if any(kind in ("name", "tuple of names") for kind, _, _ in row):
            continue
        parts = [
            "*" if not n else f"{kind} {_renamed(n)}" + ("" if d is None else f" = {d}") for kind, n, d in row[method:]
        ]
        has = {n for _, n, _ in row}
        extra = []
        outs = [
            [(kind, n) for kind, n, d in other if n and d is None and n not in has]
            for other in rows
            if other is not row and {*needed} <= {n for _, n, _ in other}
        ]
        if any(outs) and not method and not name.endswith("_"):
            one = [("Tensor", "out")] in outs
            extra.append("Tensor out = None" if one else "tuple of Tensors out = None")
        if {"dtype", "layout", "device", "pin_memory"} <= has:
            extra.append("bool requires_grad = False")
        if extra:
            parts += extra if "*" in parts else ["*", *extra]
        return ", ".join(parts)
    return None


def _renamed(name: str) -> str:
    return "input" if name == "self" else name


def _listing(fn: Any, *before: Any) -> str:
    """What torch says of far too many arguments."""
    try:
        fn(*before, *[object()] * 50)
    except TypeError as e:
        return str(e)
    except Exception:
        pass
    return ""


def overloads(fn: Any, name: str, method: bool = False) -> list[str]:
    """The signatures of a function, as far as torch tells them; [] if it does not."""
    said = _listing(fn, *([torch.ones(2)] if method else []))
    if "takes no arguments" in said:
        return ["-"]
    listed = re.findall(r"^ \* \((.*)\)$", said, re.M)
    one = re.search(r"but expected \((.*)\)$", said)
    if listed or one:
        found = listed or [one[1]] if one else listed
        out = [_annotated(text, name, method) for text in found]
        return out + ["~" + text for text in _hidden(found, method)]
    count = re.search(r"takes (?:from (\d+) to )?(\d+) positional argument", said)
    if count is None:
        return []
    text = _single(name, method, int(count[1] or count[2]), int(count[2]))
    if text is None:
        return []
    found = re.search(r"(, \*)?, \w[\w ]* out = None", text)
    if found and not _takes_out(fn, text):
        text = text.replace(", *" * (found[1] is not None) + found[0].removeprefix(", *"), "")
    return [text]


_VALUES = {
    "Tensor": torch.ones(2),
    "int": 1,
    "Number": 1,
    "float": 1.0,
    "bool": True,
    "str": "",
    "tuple of ints": [1],
    "tuple of Tensors": [torch.ones(2)],
    "torch.dtype": torch.float32,
    "tuple of floats": [1.0],
}


def _takes_out(fn: Any, text: str) -> bool:
    """Whether a function that has a schema with ``out`` has that argument itself."""
    needed = [kind for kind, n, default in parameters(text) if n and default is None]
    args = [_VALUES[re.sub(r"(\[\d+\])?\??$", "", kind)] for kind in needed]
    try:
        fn(*args, out=object())
    except TypeError as e:
        return "unexpected keyword" not in str(e)
    return True


def _hidden(listed: list[str], method: bool) -> list[str]:
    """Older overloads, with their numbers among the arguments, which torch takes and does not list."""
    out = []
    for text in listed[:1]:
        names = [n for _, n, _ in parameters(text)]
        tensors = [n for kind, n, _ in parameters(text) if kind == "Tensor" and n not in ("out", "input")]
        numbers = [n for n in ("beta", "value", "alpha") if n in names[len(tensors) :]]
        if "*" not in text or not numbers:
            continue
        rest = ", ".join(f"Tensor {n}" for n in tensors)
        out_ = ", *, Tensor out = None" if "out" in names else ""
        me = "" if method else "Tensor input, "
        if numbers[0] == "beta":
            out.append(f"Number beta, {me}Number alpha, {rest}{out_}")
            out.append(f"Number beta, {me}{rest}{out_}")
        else:
            out.append(f"{me}Number {numbers[0]}, {rest}{out_}")
    return out


_SPECIAL = {
    "torch.tensor": "object data, *, torch.dtype? dtype = None, torch.device? device = None, bool pin_memory = False, "
    "bool requires_grad = False",
    "torch.nonzero": "Tensor input, *, Tensor out = None | Tensor input, *, bool as_tuple",
    "torch.as_tensor": "object data, *, torch.dtype? dtype = None, torch.device? device = None",
    **{f"torch.atleast_{n}d": "Tensor input | tuple of Tensors tensors" for n in (1, 2, 3)},
}
"""Signatures that torch tells nobody: of functions that parse data, and of those that Python code stands before."""


def _ours() -> Iterator[tuple[str, str, Any]]:
    """What we have that torch parses in C++: namespace, name and torch's function."""
    for space, module in _SPACES.items():
        for name in sorted(NAMESPACES.get(space, {})):
            fn = getattr(module, name, None)
            where = f"{space or 'torch'}.{name}"
            if where in _SPECIAL or (inspect.isbuiltin(fn) and name != "from_numpy"):
                yield space, name, fn
    for name in sorted({*METHODS, *OPERATORS}):
        fn = torch._C.TensorBase.__dict__.get(name)
        if inspect.ismethoddescriptor(fn) and name not in vars(torch.Tensor):
            yield "Tensor", name, fn


def lines() -> list[str]:
    """The lines of the file."""
    out = []
    for space, name, fn in _ours():
        where = f"{space or 'torch'}.{name}"
        found = [_SPECIAL[where]] if where in _SPECIAL else overloads(fn, fn.__name__, space == "Tensor")
        if found:
            out.append(f"{where} {' | '.join(found)}\n")
    return out


def main() -> None:
    version = torch.__version__.partition("+")[0]
    FILE.write_text(HEAD.format(version) + "".join(lines()))


if __name__ == "__main__":
    main()
