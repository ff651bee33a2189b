"""Kernels of few steps on many elements, which NumPy does block by block.

For `abs(x) * 2` of a hundred thousand numbers the code is

    out = new((100, 1000), float32)
    to, of_a0 = out.reshape(-1), a0.reshape(-1)
    for at in range(0, to.size, block):
        a0 = of_a0[at : at + block]
        v0 = absolute(a0)
        multiply(v0, c0, out=to[at : at + block])

XLA would read and write the same memory in the same time, after 30 ms of compiling for each size that it meets. So it
is NumPy's if its steps take little of that time, by estimate: a step of arithmetic on values in the processor's cache
costs NumPy less than a tenth of what it takes to read and write memory.

Arithmetic alone goes in blocks, and no sum beside a product, which XLA may round once where NumPy rounds twice. `sin`
of a million stays XLA's, although NumPy is faster: bits are then those of the compiled function, and of JAX's programs
that call this package's kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

BLOCK = 1 << 15
"""Elements."""

_ROOM = 0.35
"""Nanoseconds for each element that NumPy's steps may take."""
_ARITHMETIC = {
    **dict.fromkeys(("neg", "abs", "floor", "ceil", "add", "add_any", "sub", "mul", "max", "min", "copy"), 0.15),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "is_finite"), 0.1),
    **dict.fromkeys(("convert_element_type", "integer_pow", "square", "div", "sqrt"), 0.2),
}
"""Nanoseconds for each element."""
_PRODUCTS, _SUMS = ("mul", "integer_pow", "square"), ("add", "add_any", "sub")
_FREE = ("stop_gradient", "broadcast_in_dim")


def takes(jaxpr: Any, steps: Iterable[Any]) -> bool:
    """Return whether a kernel of these steps can go block by block, and should where there are many elements."""
    shapes = {v.aval.shape for v in jaxpr.outvars} | {v.aval.shape for v in jaxpr.invars if v.aval.ndim}
    if len(shapes) != 1 or any(hasattr(v, "val") for v in jaxpr.outvars):
        return False
    (shape,) = shapes
    left, names = _ROOM, set()
    for eqn in steps:
        names.add(eqn.primitive.name)
        price = _price(eqn, shape)
        if price is None:
            return False
        left -= price
    return left >= 0 and (names.isdisjoint(_PRODUCTS) or names.isdisjoint(_SUMS))


def _price(eqn: Any, shape: Any) -> float | None:
    """Nanoseconds for each element; None for what does not go block by block."""
    name, (out, *more) = eqn.primitive.name, eqn.outvars
    values = [*eqn.invars, out]
    if more or any(v.aval.shape not in ((), shape) or not _is_plain(v.aval.dtype) for v in values):
        return None
    if not out.aval.ndim:
        return 0.0 if name == "convert_element_type" else None
    if name in _FREE:
        return 0.0
    if name == "div" and out.aval.dtype.kind != "f":
        return None  # integers are divided one by one
    if name == "integer_pow" and eqn.params["y"] not in (2, 3):
        return None
    return _ARITHMETIC.get(name)


def _is_plain(dtype: Any) -> bool:
    return dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize >= 4)


def lines(
    steps: Iterable[Any], arrays: Sequence[str], results: Sequence[tuple[str, tuple[str, str]]], of_ufuncs: set[str]
) -> tuple[list[str], list[str]]:
    """Return the code that goes through arrays block by block, and the names that it gives to whole results.

    Args:
        steps: the code of each step, with the names that it gives, for one block.
        arrays: the names of arguments with elements.
        results: by the name that a result has in a block, its shape and its dtype as text.
        of_ufuncs: names that a ufunc gives, which can put them anywhere.
    """
    outs = [f"out{i}" for i in range(len(results))]
    code = [f"{o} = new({shape}, {dt}); to_{o} = {o}.reshape(-1)" for o, (_, (shape, dt)) in zip(outs, results)]
    code += [f"of_{name} = {name}.reshape(-1)" for name in arrays]
    code += [f"for at in range(0, to_{outs[0]}.size, block):", "    till = at + block"]
    code += [f"    {name} = of_{name}[at:till]" for name in arrays]
    places = [(name, f"to_{out}[at:till]") for out, (name, _) in zip(outs, results)]
    put = {name: place for name, place in places if name in of_ufuncs}
    for (name, *_), text, _ in steps:
        code.append(f"    {text[:-1]}, out={put[name]})" if name in put else f"    {text}")
    return code + [f"    {place} = {name}" for name, place in places if place != put.get(name)], outs
