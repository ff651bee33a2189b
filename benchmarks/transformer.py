"""A two-layer transformer trained with AdamW, as one program: tensor code beside a step written for JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torchgrad_jax._bridge.compile.calls import Call

from .by_hand import BETAS, DECAY, EPS, RATE, adamw_step, first_state, repeated

Step = Callable[[], object]
LAYERS, WIDTH, HEADS, HIDDEN, TOKENS, LENGTH, BATCH = 2, 64, 4, 256, 64, 32, 8


def arrays() -> dict[str, np.ndarray]:
    """Parameters by name."""
    rs = np.random.RandomState(0)
    shapes: dict[str, tuple[int, ...]] = {"embed": (TOKENS, WIDTH), "place": (LENGTH, WIDTH)}
    for i in range(LAYERS):
        shapes |= {
            f"{i}.qkv.w": (3 * WIDTH, WIDTH),
            f"{i}.qkv.b": (3 * WIDTH,),
            f"{i}.out.w": (WIDTH, WIDTH),
            f"{i}.out.b": (WIDTH,),
            f"{i}.up.w": (HIDDEN, WIDTH),
            f"{i}.up.b": (HIDDEN,),
            f"{i}.down.w": (WIDTH, HIDDEN),
            f"{i}.down.b": (WIDTH,),
            f"{i}.norm1.w": (WIDTH,),
            f"{i}.norm1.b": (WIDTH,),
            f"{i}.norm2.w": (WIDTH,),
            f"{i}.norm2.b": (WIDTH,),
        }
    shapes |= {"head.w": (TOKENS, WIDTH), "head.b": (TOKENS,)}
    drawn = {name: (rs.randn(*s) * 0.05).astype(np.float32) for name, s in shapes.items()}
    scales = {name: np.ones(WIDTH, np.float32) for name in shapes if "norm" in name and name[-1] == "w"}
    return drawn | scales


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Tokens, and those that follow."""
    rs = np.random.RandomState(1)
    return rs.randint(0, TOKENS, (BATCH, LENGTH)), rs.randint(0, TOKENS, (BATCH, LENGTH))


def _tensor_step(t: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The step of a PyTorch user, and its batch."""
    F = t.nn.functional
    p = {name: t.tensor(a, requires_grad=True) for name, a in arrays().items()}
    opt = t.optim.AdamW(p.values(), lr=RATE, weight_decay=DECAY, betas=BETAS, eps=EPS)

    def linear(name: str, h: Any) -> Any:
        return F.linear(h, p[name + ".w"], p[name + ".b"])

    def norm(name: str, h: Any) -> Any:
        return F.layer_norm(h, (WIDTH,), p[name + ".w"], p[name + ".b"])

    def attention(i: int, h: Any) -> Any:
        parts = linear(f"{i}.qkv", h).view(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return linear(f"{i}.out", h.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))

    def step(x: Any, y: Any) -> Any:
        h = F.embedding(x, p["embed"]) + p["place"]
        for i in range(LAYERS):
            h = h + attention(i, norm(f"{i}.norm1", h))
            h = h + linear(f"{i}.down", F.gelu(linear(f"{i}.up", norm(f"{i}.norm2", h))))
        loss = F.cross_entropy(linear("head", h).flatten(0, 1), y.flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    return step, [t.tensor(a) for a in batch()]


def build(t: Any, **settings: Any) -> Step:
    """The step, compiled where that needs no C++ compiler."""
    step, (x, y) = _tensor_step(t)
    run = t.compile(step, **settings) if t.__name__ == "torchgrad_jax" else step
    return lambda: run(x, y).item()


def retrace(t: Any) -> Step:
    """Time a second trace of the step, once its kernels are known; XLA does not come into it."""
    step, batch = _tensor_step(t)
    step(*batch)
    compiled = t.compile(step)
    call = Call.of(tuple(batch), {}, 0, compiled.batches, plain_numbers=False)
    return lambda: compiled.traced_again(call)


def _array_step() -> tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]:
    """The same by hand, its state and its batch."""

    def linear(p: Any, name: str, h: Any) -> Any:
        return h @ p[name + ".w"].T + p[name + ".b"]

    def norm(p: Any, name: str, h: Any) -> Any:
        mean = h.mean(-1, keepdims=True)
        var = ((h - mean) ** 2).mean(-1, keepdims=True)
        return (h - mean) * jax.lax.rsqrt(var + 1e-5) * p[name + ".w"] + p[name + ".b"]

    def attention(p: Any, i: int, h: Any) -> Any:
        parts = linear(p, f"{i}.qkv", h).reshape(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(WIDTH // HEADS)
        seen = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        h = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)) @ v
        return linear(p, f"{i}.out", h.swapaxes(1, 2).reshape(BATCH, LENGTH, WIDTH))

    def loss_of(p: Any, x: Any, y: Any) -> Any:
        h = p["embed"][x] + p["place"]
        for i in range(LAYERS):
            h = h + attention(p, i, norm(p, f"{i}.norm1", h))
            up = jax.nn.gelu(linear(p, f"{i}.up", norm(p, f"{i}.norm2", h)), approximate=False)
            h = h + linear(p, f"{i}.down", up)
        logp = jax.nn.log_softmax(linear(p, "head", h).reshape(-1, TOKENS))
        return -jnp.take_along_axis(logp, y.reshape(-1, 1), 1).mean()

    p = {name: jnp.asarray(a) for name, a in arrays().items()}
    return adamw_step(loss_of), first_state(p), tuple(jnp.asarray(a) for a in batch())


def build_jax() -> Step:
    """The hand-written step, which overwrites its state as well."""
    return repeated(*_array_step())


def retrace_jax() -> Step:
    """Tracing the hand-written step again."""
    step, state, batch = _array_step()
    return lambda: jax.jit(lambda *args: step(*args)).trace(*state, *batch)
