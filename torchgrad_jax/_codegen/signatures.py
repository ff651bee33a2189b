"""From a public function to the lines that declare it in a stub."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

from .._core.builtin_functions import function_of
from .._engine.entry import bind, binding
from .._ops import registry as reg
from ..return_types import RETURN_TYPES
from . import annotations
from .overloads import METHOD_OVERLOADS, OVERLOADS


@dataclass(frozen=True)
class Parameter:
    """One parameter as a stub shows it."""

    name: str
    type: str
    default: str | None = None
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD

    def __str__(self) -> str:
        star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(self.kind, "")
        return f"{star}{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


@dataclass(frozen=True)
class Signature:
    """Parameters and result."""

    params: tuple[Parameter, ...]
    result: str

    def __str__(self) -> str:
        parts, starred = [], False
        for i, p in enumerate(self.params):
            if p.kind == inspect.Parameter.VAR_POSITIONAL:
                starred = True
            elif p.kind == inspect.Parameter.KEYWORD_ONLY and not starred:
                parts.append("*")
                starred = True
            parts.append(str(p))
            if p.kind == inspect.Parameter.POSITIONAL_ONLY and (
                i + 1 == len(self.params) or self.params[i + 1].kind != inspect.Parameter.POSITIONAL_ONLY
            ):
                parts.append("/")
        return f"({', '.join(parts)}) -> {self.result}"


def signatures(fn: Any, name: str, namespace: str, method: bool) -> list[str]:
    """Every overload of a function, as text."""
    fn = function_of(fn)
    special = (METHOD_OVERLOADS if method else {}).get(name) or OVERLOADS.get(f"{namespace}.{name}".lstrip("."))
    if special is not None:
        found: list[str] = list(special)
        return [_as_method(s) for s in found] if method else found
    row = hasattr(fn, "binding")
    sig = _of_row(fn) if row else _of_function(fn, name, namespace)
    if method and sig.params:
        sig = replace(sig, params=(Parameter("self", ""), *sig.params[1:]))
    return [_clean(str(s)) for s in _unfold(sig)]


def _as_method(text: str) -> str:
    head, _, tail = text.partition("input: Tensor")
    return f"{head}self{tail}"


def _clean(text: str) -> str:
    return text.replace("(self: ,", "(self,").replace("(self: )", "(self)")


def _of_row(fn: Any) -> Signature:
    b = fn.binding
    row: reg.OpDef = b.row
    inplace = fn.__name__.endswith("_") or fn.__name__.startswith("__i")
    params = []
    varargs = _varargs(b)
    for p in row.params:
        kind = inspect.Parameter.KEYWORD_ONLY if p.kwonly else inspect.Parameter.POSITIONAL_OR_KEYWORD
        if p is varargs:
            kind = inspect.Parameter.VAR_POSITIONAL
        default = None if p.default is inspect.Parameter.empty else annotations.default(p.default)
        hint = annotations.INTS if p is varargs else annotations.of_param(p)
        params.append(Parameter(p.name, hint, default, kind))
    result = "Tensor" if inplace else _row_result(row)
    operator = fn.__name__.startswith("__")
    if operator and len(params) > 1:  # an operator takes its operands and nothing else
        params = params[:2]
    if row.out and not inplace and not operator and not row.view:
        params.append(_out(result))
    return Signature(tuple(params), result)


def _varargs(b: Any) -> reg.Param | None:
    """The parameter that `generate.generate` turns into varargs."""
    positional = [p for p in b.params if not p.kwonly]
    last = positional[-1]
    return last if last.kind is reg.Size and last.default is inspect.Parameter.empty else None


def _out(result: str) -> Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    taken = "Tensor" if result == "Tensor" else "tuple[Tensor, ...] | list[Tensor]"
    return Parameter("out", f"{taken} | None", "None", kind)


def _row_result(row: reg.OpDef) -> str:
    if row.returns is not None:
        return f"_return_types.{binding.result_name(row)}"
    if row.view:
        returned = str(getattr(row.geometry, "__annotations__", {}).get("return"))
        return "tuple[Tensor, ...]" if "list" in returned else "Tensor"
    hint = get_type_hints(row.impl).get("return")
    count = len(getattr(hint, "__args__", ())) if getattr(hint, "__origin__", None) is tuple else 1
    if row.impl.__annotations__.get("return") in (None, "None"):
        return "Any"  # the implementation does not say how many results it has
    return "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"


def _of_function(fn: Any, name: str, namespace: str) -> Signature:
    found = inspect.signature(fn)
    params = [
        Parameter(
            p.name,
            annotations.of_parameter(p),
            None if p.default is p.empty else annotations.default(p.default),
            p.kind,
        )
        for p in found.parameters.values()
        # `named` collects keywords that have a meaning only beside varargs, such as size=
        if not (p.kind is p.VAR_KEYWORD and p.name == "named")
    ]
    text = found.return_annotation
    result = annotations.of_text(text) if isinstance(text, str) else "Any"
    if result == "Any":
        named = f"{namespace}_{name}" if namespace == "linalg" else name
        if namespace in ("", "linalg") and named in RETURN_TYPES:
            result = f"_return_types.{named}"
    if name in bind.OPERATORS and result == "Any":
        result = "Tensor"  # NotImplemented is not a result
    if getattr(getattr(fn, "form", None), "adds_out", False):
        params.append(_out(result if result != "Any" else "Tensor"))
    params.sort(key=lambda p: p.kind == inspect.Parameter.VAR_KEYWORD)
    return Signature(tuple(params), result)


def _unfold(sig: Signature) -> Sequence[Signature]:
    """Varargs that may be a sequence instead become two overloads."""
    for i, p in enumerate(sig.params):
        if p.kind == inspect.Parameter.VAR_POSITIONAL and p.name in annotations.SIZES:
            one = replace(p, type="Sequence[_int]", kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
            many = replace(p, type="_int")
            first = Signature((*sig.params[:i], one, *sig.params[i + 1 :]), sig.result)
            return [first, Signature((*sig.params[:i], many, *sig.params[i + 1 :]), sig.result)]
    return [sig]


def doc(fn: Any) -> str:
    """The first sentence of a docstring, as it can stand in a stub."""
    text = (inspect.getdoc(fn) or "").strip().partition("\n\n")[0]
    text = " ".join(text.split())
    first, dot, _ = text.partition(". ")
    return (first + dot).strip().replace("\\", "\\\\").replace('"""', "'''").rstrip('"')


def declare(fn: Any, name: str, namespace: str, *, method: bool = False) -> str:
    """The stub of a function, overloads and docstring included."""
    pad = "    " if method else ""
    ignore = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
    texts = signatures(fn, name, namespace, method)
    lines = []
    for i, text in enumerate(texts):
        if len(texts) > 1:
            lines.append(f"{pad}@overload")
        sentence = doc(fn) if i == 0 else ""
        if sentence:
            lines += [f"{pad}def {name}{text}:{ignore}", f'{pad}    """{sentence}"""']
        else:
            lines.append(f"{pad}def {name}{text}: ...{ignore}")
    return "\n".join(lines) + "\n"
