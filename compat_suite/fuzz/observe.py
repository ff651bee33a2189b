"""What can be seen of a program's tensors: plain data, the same for every library."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from torchgrad_jax.testing import _described as described
from torchgrad_jax.testing._tolerances import difference

from ..libs import Lib
from .precision import Precision

INCIDENTAL = described.INCIDENTAL | {"base", "shares", "graph"}
"""What is not promised of a gradient on its way through a pass, nor of what is made of one."""
MAX_NODES = 60
"""How many nodes of a graph are written down."""
_FACTS = (
    "storage_offset", "requires_grad", "is_leaf", "grad_fn", "output_nr", "is_view", "version", "is_inference",
    "is_conj", "retains_grad",
)  # fmt: skip


def _raised(error: Exception) -> str:
    """An exception as its type; an assert of torch's is nothing to compare with."""
    if "INTERNAL ASSERT FAILED" in str(error):
        raise error
    return f"raises {type(error).__name__}"


def attempt(read: Callable[[], Any]) -> Any:
    """A value, or the type of the exception that reading it raised."""
    try:
        return read()
    except Exception as error:
        return _raised(error)


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
    seen = described.facts_of(t, ("dtype", "shape", "requires_grad", "is_leaf"))
    return seen | {"stride": _strides(t) if leaf else (), "value": lib.array(t)}


def tensor(lib: Lib, t: Any, names: dict[int, str], storages: dict[int, str], deep: bool) -> dict[str, Any]:
    """Everything about one tensor; `names` and `storages` know the tensors listed before it."""
    first = storages.setdefault(lib.storage_key(t), names[id(t)])
    base = attempt(lambda: t._base)
    seen = {
        **described.facts_of(t, ("type", "dtype", "shape")),
        "stride": tuple(t.stride()) if t._is_view() and t.numel() else _strides(t),
        **described.facts_of(t, _FACTS, _raised),
        "base": base if isinstance(base, str) or base is None else names.get(id(base), "unnamed"),
        "shares": None if first == names[id(t)] else first,
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

    def near(got: Any, want: Any, path: str) -> str | None:
        allowed = precision.tolerance(np.asarray(want), path)
        return difference(_plain_infinities(np.asarray(got)), _plain_infinities(np.asarray(want)), allowed)

    return [*described.differences(got, want, near, _unpromised, path)]


def _plain_infinities(array: np.ndarray) -> np.ndarray:
    """Complex infinities and NaNs made one: which part of a quotient overflows is up to its kernel."""
    if array.dtype.kind != "c" or np.isfinite(array).all():
        return array
    return np.where(np.isfinite(array), array, complex(np.nan, np.nan))


def _unpromised(got: dict[str, Any]) -> Collection[str]:
    """Attributes that are not promised: a recorded gradient is one node here, and several in torch."""
    if described.RECORDED_GRADIENT.search(str(got.get("grad_fn"))):
        return INCIDENTAL
    return {"graph"} if described.RECORDED_GRADIENT.search(str(got.get("graph"))) else ()
