"""Views and bases that are written to under every pair and triple of transforms, beside torch.

A function makes views of a base, writes to the base or to a view of it, makes the views again, and returns all of them.
Who has a tangent or a gradient, and where examples lie in memory, is up to the transforms around it.
"""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import pytest

import torchgrad_jax as torch

VIEWS = {
    "row": lambda v: v[:1],
    "column": lambda v: v[:, 1],
    "transposed": lambda v: v.t(),
    "diagonal": lambda v: v.diagonal(),
    "view of a view": lambda v: v[:1].t()[1:],
    "every second": lambda v: v[:, ::2],
    "expanded": lambda v: v[0].expand(2, 3),
}
ALONG_TANGENTS = {"window": lambda v: v.as_strided((2,), (1,), 1)}
"""In `vmap` along another dimension than the first, torch's gradient of a window is that of other elements."""
OF_COMPLEX = {"real": lambda v: v.real, "imaginary": lambda v: v.imag[:1], "conjugated": lambda v: v.conj()[0]}
BASES = {
    "clone": lambda m, x: x.clone(),
    "transposed clone": lambda m, x: x.t().contiguous().t(),
    "fresh": lambda m, x: m.zeros(2, 3, dtype=m.float64),
    "like": lambda m, x: m.zeros_like(x),
    "product": lambda m, x: x * 2,
    "detached": lambda m, x: x.detach().clone(),
    "complex": lambda m, x: m.complex(x, x + 1),
    "complex like": lambda m, x: m.zeros_like(m.complex(x, x)),
}
WRITES = {
    "copy": lambda m, b, y: b.copy_(y),
    "copy of a row": lambda m, b, y: b.copy_(y[0]),
    "product": lambda m, b, y: b.mul_(y),
    "copy to a row": lambda m, b, y: b[:1].copy_(y[:1]),
    "copy to the transposed": lambda m, b, y: b.t().copy_(y.t()),
    "sum on the diagonal": lambda m, b, y: b.diagonal().add_(y[0, :2]),
    "product on a column": lambda m, b, y: b[:, 1].mul_(y[:, 0]),
    "one element": lambda m, b, y: b.__setitem__((0, 1), y[1, 2]),
    "view of a view": lambda m, b, y: b.t()[1:].mul_(y.t()[:2]),
    "zeros": lambda m, b, y: b[0].zero_(),
    "number": lambda m, b, y: b[:, 0].fill_(y[0, 0]),
    "without a tangent": lambda m, b, y: b.copy_(y.detach()),
    "of itself": lambda m, b, y: b[0].mul_(b[1]),
    "again and again": lambda m, b, y: (b.copy_(y), b[0].sin_(), b.mul_(2)),
    "gaps": lambda m, b, y: b[:, ::2].exp_(),
    "two factors": lambda m, b, y: b[0].addcmul_(y[0], b[1]),
    "whole row by index": lambda m, b, y: b.index_copy_(0, m.tensor([1]), y[:1].to(b.dtype)),
    "turned": lambda m, b, y: (b.t_(), b.copy_(y.t()), b.t_()),
}
OVER_SAVED = {
    "factor": lambda m, b, y: b.add_(_then(b * y, b.mul_(2))),
    "factor with a tangent": lambda m, b, y: b.add_(_then(b * b, b.mul_(y))),
    "result": lambda m, b, y: b.add_(_then(*_overwritten(b.exp(), lambda w: w.mul_(y)))),
    "result that a view overwrites": lambda m, b, y: b.add_(_then(*_overwritten(b.tanh(), lambda w: w[0].zero_()))),
    "result in place": lambda m, b, y: (b.sigmoid_(), b.mul_(y)),
    "result of a row in place": lambda m, b, y: (b[0].exp_(), b[0].mul_(y[0])),
    "part": lambda m, b, y: b.add_(_then(b.sin(), b[0].zero_())),
    "view of what is overwritten": lambda m, b, y: b[0].add_(_then(b[0] ** 3, b.copy_(y))),
    "whole": lambda m, b, y: b.add_(_then(b.cos(), b.copy_(y))),
    "by place": lambda m, b, y: b.add_(_then(b * y, b.__setitem__((0, 1), y[1, 2]))),
    "several": lambda m, b, y: b.add_(_then(m.addcmul(y, b, b), b.sqrt_())),
    "again": lambda m, b, y: [b.mul_(b + 1) for _ in range(3)],
}
"""Writes to what an operation saved for its derivative. Tangents were taken before; a gradient is refused."""
TO_COMPLEX = {
    "real part": lambda m, b, y: b.real.copy_(y),
    "imaginary part": lambda m, b, y: b.imag[:1].mul_(y[:1]),
    "conjugate": lambda m, b, y: b.conj().copy_(m.complex(y, y)),
    "row of the conjugate": lambda m, b, y: b.conj()[0].mul_(y[0]),
}


def _then(value: Any, *_: Any) -> Any:
    """A value that was computed before what is given besides it."""
    return value


def _overwritten(result: Any, write: Any) -> tuple[Any, Any]:
    """What a result was, and a write to it."""
    return result * 1, write(result)


def _views(b: Any, reverse: bool) -> list[Any]:
    made = VIEWS | (OF_COMPLEX if b.is_complex() else {}) | ({} if reverse else ALONG_TANGENTS)
    return [of(b) for of in made.values()]


def _written(m: Any, base: str, write: str, reverse: bool) -> Any:
    def f(x: Any, y: Any) -> tuple[Any, ...]:
        b = BASES[base](m, x)
        before = _views(b, reverse)
        (WRITES | TO_COMPLEX)[write](m, b, y)
        return (b, *before, *_views(b, reverse))

    return f


def _over_saved(m: Any, write: str) -> Any:
    def f(x: Any, y: Any) -> tuple[Any, ...]:
        b = x.clone()
        OVER_SAVED[write](m, b, y)
        return (b,)

    return f


# --- the transforms: each makes of a function of x and y another one -----------------------------------------


def _vmap(m: Any, f: Any, dim: int) -> Any:
    return lambda x, y: m.func.vmap(f, dim, dim)(m.stack([x, x * 2], dim), m.stack([y, y + 1], dim))


def _no_grad(m: Any, f: Any) -> Any:
    def g(x: Any, y: Any) -> Any:
        with m.no_grad():
            return f(x, y)

    return g


def _score(outs: Any) -> Any:
    return sum((abs(o) ** 2 * (i + 1)).sum() for i, o in enumerate(outs))


def _vjp(m: Any, f: Any) -> Any:
    def g(x: Any, y: Any) -> Any:
        outs, pull = m.func.vjp(f, x, y)
        return (*outs, *pull(tuple(m.full(o.shape, i + 1, dtype=o.dtype) for i, o in enumerate(outs))))

    return g


def _jvp(m: Any, f: Any, x: Any, y: Any, *moving: int) -> Any:
    given, along = (x, y), (x * x, y.sin() + x)

    def g(*xs: Any) -> Any:
        return f(*[xs[moving.index(i)] if i in moving else v for i, v in enumerate(given)])

    outs, slopes = m.func.jvp(g, tuple(given[i] for i in moving), tuple(along[i] for i in moving))
    return (*outs, *slopes)


TRANSFORMS = {
    "vmap": lambda m, f: _vmap(m, f, 0),
    "vmap along 1": lambda m, f: _vmap(m, f, 1),
    "vmap of x": lambda m, f: lambda x, y: m.func.vmap(f, (0, None))(m.stack([x, x * 2]), y),
    "jvp": lambda m, f: lambda x, y: _jvp(m, f, x, y, 0, 1),
    "jvp of x": lambda m, f: lambda x, y: _jvp(m, f, x, y, 0),
    "jvp of y": lambda m, f: lambda x, y: _jvp(m, f, x, y, 1),
    "grad": lambda m, f: m.func.grad(lambda x, y: _score(f(x, y)), (0, 1)),
    "vjp": _vjp,
    "no_grad": _no_grad,
}
TAKEN_BY_COMPLEX = ("product", "sum on the diagonal", "zeros", "number", "of itself", "gaps", *TO_COMPLEX)
ALL = [(b, w) for b in BASES for w in (TAKEN_BY_COMPLEX if "complex" in b else WRITES)]


def _is_right_in_torch(chain: tuple[str, ...]) -> bool:
    """Whether torch's answer can be compared: its `vjp` of several views has other results along 1 than along 0."""
    inside = chain[chain.index("vmap along 1") :] if "vmap along 1" in chain else ()
    return "vjp" not in inside and ("vmap of x" not in chain[1:] or "vmap" not in chain[0])


CHAINS = {
    n: [c for c in itertools.product(names, repeat=n) if _is_right_in_torch(c)]
    for n, names in ((2, TRANSFORMS), (3, ("vmap", "vmap along 1", "jvp", "grad", "vjp", "no_grad")))
}
"""Pairs and triples; a batch of `x` alone can't be written to from a batch around it."""


def _digests(m: Any, outs: Any) -> list[float]:
    """A number for each result and its views."""
    size = 1 + 2 * len(VIEWS)
    flat = [(m.view_as_real(o.resolve_conj()) if o.is_complex() else o).reshape(-1) for o in outs]
    whole = [m.cat(flat[i : i + size]) for i in range(0, len(flat), size)]
    return [(v * m.arange(1, v.numel() + 1, dtype=v.dtype).sqrt()).sum().item() for v in whole]


def _given(m: Any) -> Any:
    x = m.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=m.float64) / 4
    return x, m.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, 3.0]], dtype=m.float64)


def _reverse(chain: tuple[str, ...]) -> bool:
    """Whether gradients are taken."""
    return not {"grad", "vjp"}.isdisjoint(chain)


def _check(chain: tuple[str, ...], pairs: list[tuple[str, str]], same: Any) -> None:
    def run(m: Any) -> Any:
        found = {}
        for base, write in pairs:
            f = _written(m, base, write, _reverse(chain))
            for name in reversed(chain):
                f = TRANSFORMS[name](m, f)
            found[f"{base}: {write}"] = _digests(m, f(*_given(m)))
        return found

    same(run, ("plainest: " if pairs is PLAINEST else "") + " / ".join(chain), raises=False)


def _taken(chain: tuple[str, ...], base: str, write: str) -> bool:
    """Whether torch takes a program: it may lack a batch to write to, what it saved, or a rule for conjugates."""
    reverse, batched = _reverse(chain), any("vmap" in name for name in chain)
    if batched and (base == "fresh" or write == "number" or (reverse and write == "product")):
        return False
    if reverse and write in (
        "of itself",
        "two factors",
        "again and again",
        "product on a column",
        "gaps",
        "view of a view",
    ):
        return False
    return "complex" not in base or not reverse


def _some(chain: tuple[str, ...], count: int) -> list[tuple[str, str]]:
    """Some of all pairs of a base and a write, others for each chain."""
    taken = [pair for pair in ALL if _taken(chain, *pair)]
    return sorted(taken, key=lambda pair: zlib.crc32(f"{chain}{pair}".encode()))[:count]


PLAINEST = [("clone", "copy"), ("like", "copy"), ("detached", "copy to a row")]


@pytest.mark.parametrize("of", ["jvp", "jvp of x", "jvp of y"])
@pytest.mark.parametrize("over", ["vmap", "vmap along 1"])
def test_views_before_a_write_have_its_tangent(over: str, of: str, same: Any) -> None:
    _check((over, of), PLAINEST, same)


OF_TANGENTS = [
    ("jvp", "jvp"), ("jvp of x", "jvp of y"), ("jvp of y", "jvp of x"), ("jvp", "no_grad", "jvp"),
]  # fmt: skip
OF_TANGENTS_AND_BATCHES = [
    ("jvp", "jvp", "jvp"), ("vmap", "jvp", "jvp"), ("jvp", "vmap along 1", "jvp"), ("jvp", "jvp", "vmap"),
]  # fmt: skip


@pytest.mark.parametrize("chain", [*OF_TANGENTS, *OF_TANGENTS_AND_BATCHES], ids=lambda chain: " / ".join(chain))
def test_tangents_of_tangents_are_those_of_saved_values_before_a_write(chain: tuple[str, ...], same: Any) -> None:
    def run(m: Any) -> Any:
        found = {}
        for write in OVER_SAVED:
            f = _over_saved(m, write)
            for name in reversed(chain):
                f = TRANSFORMS[name](m, f)
            found[write] = f(*_given(m))
        return found

    same(run, "saved: " + " / ".join(chain), raises=False)


@pytest.mark.parametrize("chain", [("grad", "jvp"), ("jvp", "grad"), ("jvp", "grad", "jvp")], ids=" / ".join)
def test_gradients_of_what_was_overwritten_are_refused(chain: tuple[str, ...]) -> None:
    f = _over_saved(torch, "whole")
    for name in reversed(chain):
        f = TRANSFORMS[name](torch, f)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        f(*_given(torch))


@pytest.mark.parametrize("chain", CHAINS[2], ids=" / ".join)
def test_pairs(chain: tuple[str, ...], same: Any) -> None:
    _check(chain, _some(chain, 6), same)


@pytest.mark.parametrize("chain", CHAINS[3], ids=" / ".join)
def test_triples(chain: tuple[str, ...], same: Any) -> None:
    _check(chain, _some(chain, 1), same)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("of", ["vjp", "grad", "jvp"])
def test_batches_along_another_dimension_are_the_same(of: str, write: str) -> None:
    for base in ("clone", "transposed clone", "like", "product", "detached"):
        if not _taken(("vmap", of), base, write):
            continue
        f = TRANSFORMS[of](torch, _written(torch, base, write, of != "jvp"))
        for along, outer in zip(_vmap(torch, f, 1)(*_given(torch)), _vmap(torch, f, 0)(*_given(torch)), strict=True):
            torch.testing.assert_close(along.movedim(1, 0), outer)
