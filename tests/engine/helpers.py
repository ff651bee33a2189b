"""What the engine tests look at: every observable fact of a tensor, and the shape of a graph."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tests.differential import everything
from tests.programs import Programs as Programs, attempt as attempt


def leaf(
    m: Any, *shape: int, start: float = -1.3, stop: float = 2.1, requires_grad: bool = True, dtype: str = "float32"
) -> Any:
    """A tensor of the given shape whose values are evenly spread, the same under every module."""
    n = 1
    for k in shape:
        n *= k
    step = (stop - start) / max(n - 1, 1)
    flat = m.tensor([start + step * i for i in range(n)], dtype=getattr(m, dtype))
    return flat.reshape(shape).requires_grad_(requires_grad)


def tree(node: Any, depth: int = 5) -> Any:
    """Names of a node and of those it leads to."""
    if node is None or depth == 0:
        return node and node.name()
    return [node.name(), [[tree(n, depth - 1), nr] for n, nr in node.next_functions]]


def program(name: str, fn: Callable[[Any], Any]) -> Any:
    """`fn` under a name, as the `same` fixture wants it."""

    def run(m: Any) -> Any:
        return fn(m)

    run.__name__ = name
    return run


def table(rows: dict[str, Callable[[Any], Any]]) -> Programs:
    """The same for one-liners."""
    return Programs(program(name, fn) for name, fn in rows.items())


def steps(
    rows: dict[str, Callable[..., Any]], make: Callable[[Any], dict[str, Any]] = lambda m: {}, attempted: bool = False
) -> Programs:
    """Programs that are tuples of steps: after the last, all is looked at that the steps gave and that `make` made.

    steps({"a write to a view is counted": lambda x: (v := x[:1], v.mul_(2))}, lambda m: {"x": m.ones(2)})

    A program gets what its parameters name. With `attempted` it is a single step, which may raise.
    """

    def played(fn: Callable[..., Any]) -> Callable[[Any], Any]:
        def run(m: Any) -> Any:
            made = make(m)
            step = given(fn, m=m, **made)
            gave = attempt(step) if attempted else step()
            return seen([*made.values(), *(gave if isinstance(gave, tuple) else [gave])])

        return run

    return table({name: played(fn) for name, fn in rows.items()})


def given(fn: Callable[..., Any], **values: Any) -> Callable[[], Any]:
    """A function that has got those of the values that its parameters name."""
    return functools.partial(fn, **{name: values[name] for name in inspect.signature(fn).parameters if name in values})


def under(mode: AbstractContextManager[Any], fn: Callable[[], Any]) -> Any:
    """What a step gives inside of a mode."""
    with mode:
        return fn()


def dual(m: Any, fn: Callable[[Any], Any]) -> Any:
    """What a function of `forward_ad` gives inside of a level."""
    with m.autograd.forward_ad.dual_level():
        return fn(m.autograd.forward_ad)


def seen(value: Any) -> Any:
    """All that can be seen of each tensor in lists and dicts, `locals()` for example, and of the nodes behind it.

    A tensor that came before in the same list is its place there. Of a dict, functions and modules are left out.
    """
    if isinstance(value, dict):
        return {k: seen(v) for k, v in sorted(value.items()) if _is_tensor(v) or isinstance(v, _LOOKED_AT)}
    if isinstance(value, list | tuple):
        places: dict[int, int] = {}
        firsts = [places.setdefault(id(v), i) if _is_tensor(v) else i for i, v in enumerate(value)]
        return [seen(v) if first == i else first for i, (v, first) in enumerate(zip(value, firsts))]
    if not _is_tensor(value):
        return value
    node = attempt(lambda: tree(value.grad_fn))
    return everything(value) | ({"node": node} if node else {})


def _is_tensor(value: Any) -> bool:
    return hasattr(type(value), "grad_fn")


_LOOKED_AT = (bool, int, float, str, list, tuple, dict, Exception)


def six(m: Any) -> Any:
    """A leaf of two rows with the numbers from 1 to 6."""
    return m.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)


def inference(m: Any) -> Any:
    """An inference tensor with the same numbers, for use outside of the mode."""
    with m.inference_mode():
        return m.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
