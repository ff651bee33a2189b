"""What can be seen of a program's tensors: plain data, the same for every library."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from torchgrad_jax.testing._tolerances import difference

from ..libs import Lib, dtype_name
from .precision import Precision

DERIVED = re.compile("Backwards?[0-9]*Backward|CopySlicesBackward")
"""In the name of a node that stands for a recorded gradient here."""
INCIDENTAL = frozenset(
    ("stride", "storage_offset", "is_view", "base", "shares", "version", "output_nr", "grad_fn", "graph", "is_conj")
)
"""What is not promised of a gradient on its way through a pass, nor of what is made of one."""
MAX_NODES = 60
"""How many nodes of a graph are written down."""
ORDER = (
    "type", "dtype", "shape", "stride", "storage_offset", "requires_grad", "is_leaf", "grad_fn",
    "output_nr", "is_view", "base", "shares", "version", "is_inference", "is_conj", "retains_grad",
    "value", "grad", "graph",
)  # fmt: skip
"""Attributes in the order in which a difference is looked for."""


def attempt(read: Callable[[], Any]) -> Any:
    """A value, or the type of the exception that reading it raised; an assert of torch's is nothing to compare with."""
    try:
        return read()
    except Exception as error:
        if "INTERNAL ASSERT FAILED" in str(error):
            raise
        return f"raises {type(error).__name__}"


def node_name(node: Any) -> str | None:
    """The name of a graph node."""
    return None if node is None else node.name()


def graph(node: Any) -> str:
    """The graph behind a node, in depth-first order; a node seen before is written as its number."""
    seen: dict[int, int] = {}
    keep: list[Any] = []

    def walk(n: Any) -> str:
        if n is None:
            return "-"
        if id(n) in seen:
            return f"#{seen[id(n)]}"
        if len(seen) >= MAX_NODES:
            return "..."
        seen[id(n)] = len(seen)
        keep.append(n)
        parts = [f"{walk(m)}.{k}" if k else walk(m) for m, k in n.next_functions]
        return n.name() + (f"({', '.join(parts)})" if parts else "")

    return walk(node)


def _strides(t: Any) -> tuple[int, ...]:
    """Strides where they mean something: not of empty tensors, nor of dimensions of size 1. (Those
    of views are compared in full all the same.)"""
    return tuple(0 if size == 1 else s for size, s in zip(t.shape, t.stride())) if t.numel() else ()


def _plain(lib: Lib, t: Any, leaf: bool) -> dict[str, Any]:
    """What a gradient shows; that of a leaf is laid out like the leaf."""
    return {
        "dtype": dtype_name(t),
        "shape": tuple(t.shape),
        "stride": _strides(t) if leaf else (),
        "requires_grad": bool(t.requires_grad),
        "is_leaf": bool(t.is_leaf),
        "value": lib.array(t),
    }


def tensor(lib: Lib, t: Any, names: dict[int, str], storages: dict[int, str], deep: bool) -> dict[str, Any]:
    """Everything about one tensor; `names` and `storages` know the tensors listed before it."""
    first = storages.setdefault(lib.storage_key(t), names[id(t)])
    base = attempt(lambda: t._base)
    seen = {
        "type": type(t).__name__,
        "dtype": dtype_name(t),
        "shape": tuple(t.shape),
        "stride": tuple(t.stride()) if t._is_view() and t.numel() else _strides(t),
        "storage_offset": t.storage_offset(),
        "grad_fn": attempt(lambda: node_name(t.grad_fn)),
        "requires_grad": attempt(lambda: bool(t.requires_grad)),
        "is_leaf": attempt(lambda: bool(t.is_leaf)),
        "output_nr": attempt(lambda: t.output_nr),
        "is_view": bool(t._is_view()),
        "base": base if isinstance(base, str) or base is None else names.get(id(base), "unnamed"),
        "shares": None if first == names[id(t)] else first,
        "version": attempt(lambda: t._version),
        "is_inference": bool(t.is_inference()),
        "is_conj": bool(t.is_conj()),
        "retains_grad": attempt(lambda: bool(t.retains_grad)),
        "value": lib.array(t),
    }
    if deep:
        seen["graph"] = attempt(lambda: graph(t.grad_fn))
    gradient = attempt(lambda: t.grad)
    seen["grad"] = (
        gradient if gradient is None or isinstance(gradient, str) else _plain(lib, gradient, seen["is_leaf"] is True)
    )
    return seen


def state(lib: Lib, env: dict[str, Any], deep: bool) -> dict[str, Any]:
    """All named tensors of a program and what its hooks logged."""
    live = {k: v for k, v in env.items() if k[0] == "v" and k[1:].isdigit()}
    tensors = {k: v for k, v in live.items() if isinstance(v, lib.tensor_type)}
    names: dict[int, str] = {}
    for k, v in tensors.items():
        names.setdefault(id(v), k)
    storages: dict[int, str] = {}
    out: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, v in live.items():
            if k not in tensors:
                out[k] = {"type": type(v).__name__, "repr": repr(v)}
            elif names[id(v)] != k:
                out[k] = {"type": f"is {names[id(v)]}"}
            else:
                out[k] = tensor(lib, v, names, storages, deep)
        out["log"] = [(label, *[_logged(lib, v) for v in values]) for label, *values in env.get("log", ())]
    return out


def _logged(lib: Lib, value: Any) -> Any:
    return lib.array(value) if isinstance(value, lib.tensor_type) else value


def differences(got: Any, want: Any, precision: Precision, path: str = "") -> list[tuple[str, str]]:
    """(attribute, description) of everything that differs between two states.

    `precision` says which tensors inherit the rounding of coarser numbers than their own.
    """
    out: list[tuple[str, str]] = []
    if isinstance(want, dict) and isinstance(got, dict):
        rank = {k: i for i, k in enumerate(ORDER)}
        own = _names_of_its_own(got)
        for k in sorted({*got, *want} - own, key=lambda k: (rank.get(k, -1), k)):
            where = f"{path}.{k}" if path else k
            if k not in got or k not in want:
                out.append((where, "only in " + ("torch" if k in want else "torchgrad_jax")))
            else:
                out += differences(got[k], want[k], precision, where)
    elif isinstance(want, np.ndarray) and isinstance(got, np.ndarray):
        if got.shape != want.shape or got.dtype != want.dtype:
            out.append((path, f"got {got.dtype}{got.shape}, want {want.dtype}{want.shape}"))
        elif found := difference(_plain_infinities(got), _plain_infinities(want), precision.tolerance(want, path)):
            out.append((path, found))
    elif isinstance(want, list | tuple) and isinstance(got, list | tuple) and len(got) == len(want):
        for i, (g, w) in enumerate(zip(got, want)):
            out += differences(g, w, precision, f"{path}[{i}]")
    elif isinstance(got, np.ndarray) is not isinstance(want, np.ndarray) or got != want:
        out.append((path, f"got {got!r}, want {want!r}"))
    return out


def _plain_infinities(array: np.ndarray) -> np.ndarray:
    """Complex infinities and NaNs made one: which part of a quotient overflows is up to its kernel."""
    if array.dtype.kind != "c" or np.isfinite(array).all():
        return array
    return np.where(np.isfinite(array), array, complex(np.nan, np.nan))


def _names_of_its_own(got: dict[str, Any]) -> set[str]:
    """Attributes that are not promised: a recorded gradient is one node here, and several in torch."""
    if DERIVED.search(str(got.get("grad_fn"))):
        return {*INCIDENTAL}
    return {"graph"} if DERIVED.search(str(got.get("graph"))) else set()
