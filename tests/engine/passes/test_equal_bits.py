"""Equal calls give equal bits: the fortieth equal pass gives those of the first.

Passes over arrays that NumPy computes do so always. Those that XLA computes a part of do where
`use_deterministic_algorithms(True)` asks for it, and with TORCHGRAD_JAX_EQUAL_BITS=1.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import torchgrad_jax as tg
from torchgrad_jax._core.host import choice
from torchgrad_jax._engine.passes import compiled_segments, segments
from torchgrad_jax.utils.checkpoint import checkpoint

TIMES = segments.WALKS + compiled_segments.CALLS + 20
Kind = Callable[..., Sequence[Any]]
KINDS: dict[str, Kind] = {}


def kind(fn: Kind) -> Kind:
    KINDS[fn.__name__] = fn
    return fn


def leaves(n: int, dtype: Any) -> list[Any]:
    rng = np.random.RandomState(n)
    return [tg.tensor(rng.randn(n)).to(dtype).requires_grad_() for _ in range(3)]


def long_formula(x: Any, w: Any, b: Any) -> Any:
    """Products with sums behind them, which XLA contracts where it fuses them."""
    h = (x * w + b).sigmoid() * x
    h = (h * 0.99 + w * 0.01).tanh()
    return (h * h + b * x).sin() * 0.1 + h * w - b * 0.3


def total(*args: Any) -> Any:
    return long_formula(*args).sum()


def grads(*args: Any) -> list[Any]:
    return [a.grad for a in args]


class Cube(tg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


@kind
def backward(call, x, w, b):
    total(x, w, b).backward()
    return grads(x, w, b)


@kind
def backward_to_some(call, x, w, b):
    total(x, w, b).backward(inputs=[x, b])
    return grads(x, b)


@kind
def grad(call, x, w, b):
    return tg.autograd.grad(total(x, w, b), (x, w))


@kind
def grad_of_a_tensor_inside(call, x, w, b):
    h = x * w
    return tg.autograd.grad(total(h, w, b), (h, b))


@kind
def grad_of_a_grad(call, x, w, b):
    (g,) = tg.autograd.grad(total(x, w, b), x, create_graph=True)
    (g * g).sum().backward()
    return grads(x, w, b)


@kind
def grad_of_several_rows(call, x, w, b):
    return tg.autograd.grad(long_formula(x, w, b), (x, w), tg.stack([b, w, x]), is_grads_batched=True)


@kind
def kept_and_run_again(call, x, w, b):
    loss = total(x, w, b)
    loss.backward(retain_graph=True)
    first = x.grad.clone()
    loss.backward()
    return [first, x.grad]


@kind
def added_up(call, x, w, b):
    for _ in range(3):
        (long_formula(x, w, b) * w).sum().backward()
    return grads(x, w, b)


@kind
def of_several_roots(call, x, w, b):
    h = x * w
    tg.autograd.backward([long_formula(h, w, b), h.sin() * b], [w.detach(), b.detach()])
    return grads(x, w, b)


@kind
def with_a_hook(call, x, w, b):
    y = long_formula(x, w, b)
    y.register_hook(lambda g: g * 1.0)
    ((y * x).sin() + y).sum().backward()
    return grads(x, w, b)


@kind
def with_a_hook_half_way(call, x, w, b):
    y = long_formula(x, w, b)
    if call > TIMES // 2:
        y.register_hook(lambda g: None)
        x.register_hook(lambda g: None)
    (y * x).sum().backward()
    return grads(x, w, b)


@kind
def watched_half_way(call, x, w, b):
    with tg.autograd.set_detect_anomaly(call > TIMES // 2, check_nan=False):
        total(x, w, b).backward()
    return grads(x, w, b)


@kind
def with_kept_gradients(call, x, w, b):
    h = x * w
    h.retain_grad()
    total(h, w, b).backward()
    return grads(h, x, w, b)


@kind
def through_functions(call, x, w, b):
    total(x, Cube.apply(w), Cube.apply(b).sin()).backward()
    return grads(x, w, b)


@kind
def through_writes(call, x, w, b):
    h = x * w
    h.add_(b)
    h[1:3] = b[1:3] * 2
    h[:2].mul_(3)
    total(h.sin(), w, b).backward()
    return grads(x, w, b)


@kind
def through_packed_values(call, x, w, b):
    with tg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = total(x, w, b)
    y.backward()
    return grads(x, w, b)


@kind
def checkpointed(call, x, w, b):
    checkpoint(long_formula, x, w, b, use_reentrant=False).sum().backward()
    return grads(x, w, b)


@kind
def checkpointed_in_a_pass_of_its_own(call, x, w, b):
    checkpoint(long_formula, x, w, b, use_reentrant=True).sum().backward()
    return grads(x, w, b)


@kind
def products_of_matrices(call, x, w, b):
    n = int(x.numel() ** 0.5)
    p, q = (t[: n * n].view(n, n) for t in (x, w))
    (((p @ q).tanh() @ q.t()).softmax(-1) @ p).pow(2).mean().backward()
    return grads(x, w)


@kind
def sums_of_rows(call, x, w, b):
    m = x.view(5, -1)
    y = tg.nn.functional.layer_norm(m, m.shape[1:]) * w.view(5, -1).softmax(-1)
    (y.logsumexp(-1) * y.var(-1, correction=0) + y.mean(-1)).sum().backward()
    return grads(x, w)


@kind
def convolutions(call, x, w, b):
    n = x.numel() // 5
    images, kernel = x[: 5 * n].view(1, 5, n), w[:5].view(1, 5, 1) * b[:15].sum()
    tg.nn.functional.conv1d(images.sin() * 2, kernel.expand(3, 5, 1)).tanh().sum().backward()
    return grads(x, w, b)


@kind
def steps_of_an_optimizer(call, x, w, b):
    opt = tg.optim.AdamW([x, w, b], lr=0.1)
    for _ in range(2):
        opt.zero_grad()
        total(x, w, b).backward()
        opt.step()
    return [x, w, b]


@kind
def func_vjp(call, x, w, b):
    out, pull = tg.func.vjp(long_formula, x, w, b)
    return pull(tg.ones_like(out))


@kind
def func_jvp(call, x, w, b):
    return tg.func.jvp(long_formula, (x, w, b), (w, b, x))


@kind
def func_grad_under_vmap(call, x, w, b):
    return [tg.func.vmap(tg.func.grad(total))(x.view(5, -1), w.view(5, -1), b.view(5, -1))]


@kind
def func_jacrev(call, x, w, b):
    return [tg.func.jacrev(lambda t: long_formula(x * t.sum(), w, b).view(5, -1).sum(-1))(w[:3].detach())]


@kind
def functional_vjp(call, x, w, b):
    return tg.autograd.functional.vjp(long_formula, (x, w, b), tg.ones_like(x))[1]


@kind
def functional_hvp(call, x, w, b):
    return [tg.autograd.functional.hvp(lambda x: total(x, w, b), x, w)[1]]


def bits(results: Sequence[Any]) -> bytes:
    return b"".join(np.ascontiguousarray(np.asarray(t.detach())).tobytes() for t in results)


def digest(results: Sequence[Any]) -> str:
    return hashlib.sha256(bits(results)).hexdigest()


def changed_at(fn: Kind, n: int, dtype: Any) -> list[int]:
    """The calls that gave other bits than the first one."""
    found = [bits(fn(k, *leaves(n, dtype))) for k in range(TIMES)]
    return [k for k, b in enumerate(found) if b != found[0]]


@pytest.fixture
def deterministic() -> Iterator[None]:
    tg.use_deterministic_algorithms(True)
    yield
    tg.use_deterministic_algorithms(False)


@pytest.fixture(autouse=True)
def unmet(monkeypatch) -> None:
    monkeypatch.setattr(segments, "_walked", {})
    monkeypatch.setattr(segments, "_COMPILED", segments.KERNELS.cache())


SMALL = {"tiny": (5, tg.float32), "float32": (1000, tg.float32), "bfloat16": (1000, tg.bfloat16)}


@pytest.fixture(autouse=True)
def large_tensors_are_of_xla(monkeypatch):
    """XLA computes tensors of `LARGE` elements, as it does larger ones, which would take longer."""
    monkeypatch.setattr(choice, "LARGEST", choice.SMALL)
    monkeypatch.setattr(choice, "BLOCKS_END", choice.SMALL)


LARGE = {"float32": (40_040, tg.float32), "float64": (40_040, tg.float64), "float16": (40_040, tg.float16)}


@pytest.mark.parametrize("name", KINDS)
def test_small_passes(name):
    if name not in _WITHOUT_SMALL:
        assert {s: changed_at(KINDS[name], *SMALL[s]) for s in ("tiny", "bfloat16")} == {"tiny": [], "bfloat16": []}


_WITHOUT_SMALL = {"convolutions", "products_of_matrices", "func_jacrev"}
"""Kinds whose small halves are XLA's."""


@pytest.mark.parametrize("name", ["backward", "grad_of_a_tensor_inside", "with_a_hook_half_way", "convolutions"])
def test_large_passes_that_ask_for_it(name, deterministic):
    assert not changed_at(KINDS[name], *LARGE["float32"])


@pytest.mark.parametrize("size", [*SMALL, *[f"large {s}" for s in LARGE]])
@pytest.mark.parametrize("name", KINDS)
def test_all_passes_that_ask_for_it(name, size, deterministic):
    n, dtype = LARGE[size.split()[1]] if size.startswith("large") else SMALL[size]
    assert not changed_at(KINDS[name], n, dtype)


def test_large_complex_passes_that_ask_for_it(deterministic):
    def complex_pass(call: int, x: Any, w: Any, b: Any) -> Sequence[Any]:
        (tg.complex(x, w) * tg.complex(b, x)).sin().mul(0.5 + 2j).abs().sum().backward()
        return grads(x, w, b)

    assert not changed_at(complex_pass, 40_040, tg.float32)


def test_joined_starts_keep_the_bits(deterministic):
    """Kernels of XLA's are started together after `CALLS` calls, and not fused."""
    assert not changed_at(KINDS["backward"], *LARGE["float32"])
    assert any(c._together not in (None, c.fn) for c in segments._COMPILED.young.values())
    assert all(c._whole is None for c in segments._COMPILED.young.values())


_PROCESS = """
import sys
sys.path.insert(0, {root!r})
from tests.engine.passes.test_equal_bits import *
for name in {names!r}:
    for k in range({before}):
        KINDS[name](k, *leaves(300_000 if k else 290_000, tg.float32))
    print(name, digest(KINDS[name](0, *leaves(300_000, tg.float32))))
"""


def test_two_processes():
    """A run that is resumed has other calls behind it than the first one had at the same place."""
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
    names = ["backward", "grad_of_a_grad", "through_writes", "products_of_matrices"]
    found = []
    for before in (0, 25):
        code = _PROCESS.format(root=root, names=names, before=before)
        env = {**os.environ, "TORCHGRAD_JAX_EQUAL_BITS": "1"}
        found.append(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True))
    assert found[0].stdout.count("\n") == len(names)
    assert found[0].stdout == found[1].stdout
