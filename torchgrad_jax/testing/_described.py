"""Tensors, arrays and errors as they are compared, alike for both libraries, and what two descriptions differ in."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FACTS: dict[str, Callable[[Any], Any]] = {
    "type": lambda t: type(t).__name__,
    "layout": lambda t: str(t.layout).rpartition(".")[2],
    "dtype": lambda t: dtype_name(t),
    "shape": lambda t: tuple(t.shape),
    "stride": lambda t: tuple(t.stride()),
    "is_contiguous": lambda t: bool(t.is_contiguous()),
    "storage_offset": lambda t: t.storage_offset(),
    "requires_grad": lambda t: bool(t.requires_grad),
    "is_leaf": lambda t: bool(t.is_leaf),
    "grad_fn": lambda t: None if t.grad_fn is None else t.grad_fn.name(),
    "output_nr": lambda t: t.output_nr,
    "is_view": lambda t: bool(t._is_view()),
    "version": lambda t: t._version,
    "is_inference": lambda t: bool(t.is_inference()),
    "is_conj": lambda t: bool(t.is_conj()),
    "retains_grad": lambda t: bool(t.retains_grad),
}
"""What a tensor says of itself."""
INCIDENTAL = frozenset(
    ("stride", "is_contiguous", "storage_offset", "is_view", "version", "output_nr", "grad_fn", "is_conj")
)
"""Facts that docs/contract.md does not promise of a gradient on its way through a pass, nor of what is made of one."""
RECORDED_GRADIENT = re.compile("Backwards?[0-9]*Backward|CopySlicesBackward")
"""In the name of a node that `create_graph=True` recorded: one here, several in torch."""


@dataclass(frozen=True)
class Array:
    """What is compared of a tensor or array: its numbers, and facts that both sides know."""

    values: np.ndarray | None
    dtype: str
    shape: tuple[int, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


def array_of(x: Any) -> np.ndarray:
    """The numbers of a tensor of either library; bfloat16 as float32, which NumPy has."""
    x = x.detach()
    if getattr(x, "_is_zerotensor", bool)():  # torch's zero without memory
        x = x.new_zeros(x.shape)
    if "strided" not in str(x.layout):
        x = x.to_dense()
    if "bfloat16" in str(x.dtype):
        x = x.float()
    return np.array(x.resolve_conj().resolve_neg().cpu().numpy())


def tensor_of(lib: Any, array: Any) -> Any:
    """A tensor with the numbers and dtype of an array; NumPy's bfloat16 is unknown to torch."""
    array = np.asarray(array)
    if array.dtype.name == "bfloat16":
        return lib.tensor(array.astype(np.float32)).to(lib.bfloat16)
    return lib.tensor(array)


def facts_of(t: Any, names: Iterable[str], failed: Callable[[Exception], Any] | None = None) -> dict[str, Any]:
    """Return what a tensor says of itself; with `failed` that of the error of a fact that cannot be asked."""
    found = {}
    for name in names:
        try:
            found[name] = FACTS[name](t)
        except Exception as error:
            if failed is None:
                raise
            found[name] = failed(error)
    return found


def describe(x: Any, lib: Any) -> Any:
    """A leaf of a result as it is compared."""
    if not isinstance(x, lib.Tensor):
        return plain(x)
    names = ["type", "requires_grad", "is_leaf", "layout"]
    names += [] if x.is_inference() else ["version"]
    names += ["stride"] if "strided" in str(x.layout) else []
    facts = facts_of(x, names)
    return Array(None if x.is_meta else array_of(x), dtype_name(x), tuple(x.shape), facts)


def dtype_name(x: Any) -> str:
    """The name of a dtype, or of a tensor's, without that of its library."""
    return str(getattr(x, "dtype", x)).rpartition(".")[2]


def plain(x: Any) -> Any:
    """An array of NumPy or JAX, or a value of Python, as it is compared."""
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return Array(np.asarray(x), np.dtype(x.dtype).name, tuple(x.shape))
    return x


def plain_tensor(t: Any) -> Array:
    """A tensor of which only dtype, shape and numbers are promised."""
    return Array(array_of(t), dtype_name(t), tuple(t.shape))


def first_line(e: BaseException) -> str:
    """Type and first line of an exception, alike in both libraries."""
    text = (str(e).splitlines() or [""])[0]
    return f"{type(e).__name__}: {text.replace('torchgrad_jax.', 'torch.')}"


Near = Callable[[Any, Any, str], str | None]
"""What distinguishes two arrays of one dtype and shape, or two numbers, at a path."""


def differences(
    got: Any, want: Any, near: Near, unpromised: Callable[[Any], Collection[str]] = lambda got: (), path: str = ""
) -> Iterator[tuple[str, str]]:
    """Where two descriptions differ, by path, and how.

    Args:
        got: containers of arrays, numbers, texts and whatever has an `==`.
        want: the expected ones.
        near: judges arrays, and numbers that are not whole.
        unpromised: the keys of a dict of `got` that are not compared.
        path: where they are.
    """
    if isinstance(want, Mapping) and isinstance(got, Mapping):
        ignored = unpromised(got)
        for k in dict.fromkeys((*want, *got)):
            where = f"{path}.{k}" if path else str(k)
            if k not in ignored and k in got and k in want:
                yield from differences(got[k], want[k], near, unpromised, where)
            elif k not in ignored:
                yield where, f"got {got.get(k, 'nothing')!r}, want {want.get(k, 'nothing')!r}"
    elif isinstance(want, list | tuple) and isinstance(got, list | tuple) and len(got) == len(want):
        for i, (g, w) in enumerate(zip(got, want)):
            yield from differences(g, w, near, unpromised, f"{path}[{i}]")
    elif isinstance(want, np.ndarray) and isinstance(got, np.ndarray):
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            yield path, f"got {got.dtype}{got.shape}, want {want.dtype}{want.shape}"
        elif found := near(got, want, path):
            yield path, found
    elif type(got) is not type(want):
        yield path, f"got {got!r}, want {want!r}"
    elif isinstance(want, float | complex):
        if found := near(got, want, path):
            yield path, found
    elif got != want:
        yield path, f"got {got!r}, want {want!r}"
