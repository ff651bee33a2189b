"""Results of `vmap` that lie in the memory of its input: which do, how, and what later writes to either change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.programs import digest

FUNCTIONS = {
    "add_": lambda m, x: x.add_(1),
    "twice": lambda m, x: x.add_(1).mul_(2),
    "part": lambda m, x: x[0].add_(1),
    "view before": lambda m, x: (x[0], x.add_(1))[0],
    "detach": lambda m, x: x.detach(),
    "detached part": lambda m, x: x.detach()[0],
    "part, detached": lambda m, x: x[0].detach(),
    "detached write": lambda m, x: x.detach().add_(1),
    "two": lambda m, x: (x.mul_(2), x[0], x.detach()),
    "real": lambda m, x: x.real,
    "imag": lambda m, x: x.mT.imag,
    "as real": lambda m, x: m.view_as_real(x),
    "conj": lambda m, x: x.conj(),
    "write to real": lambda m, x: x.real.add_(1),
    "as complex": lambda m, x: m.view_as_complex(x),
    "part as complex": lambda m, x: m.view_as_complex(x)[0].imag,
    "unsafe split": lambda m, x: m.unsafe_split(x, 1),
    "unsafe chunk": lambda m, x: m.unsafe_chunk(x, 2, 1)[1],
}
COMPLEX = ("real", "imag", "as real", "conj", "write to real")
PLACES = [(0, 0, None), (1, 0, None), (1, -1, None), (2, 0, None), (0, 0, 0), (1, 0, 2)]
"""`in_dims`, `out_dims`, and that of a `vmap` around it."""


def _batch(m: Any, name: str) -> Any:
    x = m.arange(48.0).view(2, 3, 4, 2) - 8
    return m.view_as_complex(x) if name in COMPLEX else x if "complex" in name else x[..., 0] * 1


def _looks(m: Any, fn: Any, x: Any, place: Any) -> Any:
    dim, out, around = place
    run = m.func.vmap(lambda x: fn(m, x), dim, out)
    if around is not None:
        run = m.func.vmap(run, around)
    try:
        outs = run(x)
    except (RuntimeError, ValueError) as error:
        return type(error).__name__
    outs = outs if isinstance(outs, tuple) else (outs,)
    memory = [y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for y in outs]
    seen = [
        [list(y.shape), y.stride(), y.storage_offset(), y is x, y._is_view(), y._base is x, y.is_conj(), y._version]
        for y in outs
    ]
    with m.no_grad():
        x.add_(10)
        after = [digest(m, y) for y in outs]
        outs[0].mul_(2)
    return (memory, seen, after, [y._version for y in outs], digest(m, x), [y.requires_grad for y in outs])


# Parts of an unsafe split that require a gradient are copies.
CASES = [(n, r) for n in FUNCTIONS for r in (False, True) if not (r and n.startswith("unsafe"))]


@pytest.mark.parametrize("name, requires", CASES)
def test_shared(name: str, requires: bool, same: Any) -> None:
    def run(m: Any) -> Any:
        seen = []
        for place in PLACES:
            x = _batch(m, name)
            x = x.requires_grad_() * 1 if requires else x.clone()
            seen.append(_looks(m, FUNCTIONS[name], x, place))
        return seen

    same(run, f"{name} {requires}")
