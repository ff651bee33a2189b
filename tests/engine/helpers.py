"""What the engine tests look at: every observable fact of a tensor, and the shape of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

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


def _told(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:
        return [type(error).__name__, str(error)]


def _seen(t: Any) -> Any:
    node = _told(lambda: tree(t.grad_fn))
    return everything(t) | ({"node": node} if node else {})


def play(m: Any, lines: tuple[str, ...]) -> Any:
    """What each line raised, whatever the ones before did, and what can be seen of all tensors after the last."""
    env: dict[str, Any] = {"torch": m}
    errors = [
        [i, *error]
        for i, line in enumerate(lines)
        if (error := _told(lambda: exec(line, env)))  # noqa: B023
    ]
    tensors = {k: v for k, v in env.items() if isinstance(v, m.Tensor)}
    return errors, {k: _seen(v) for k, v in sorted(tensors.items())}


def played(programs: Mapping[str, tuple[str, ...]]) -> Callable[..., None]:
    """The test of programs by name: each does under both what it does under torch."""

    @pytest.mark.parametrize("name", programs)
    def test_program(name: str, same: Any) -> None:
        def run(m: Any) -> Any:
            return play(m, programs[name])

        same(run, name)

    return test_program
