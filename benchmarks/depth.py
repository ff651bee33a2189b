"""A deep transformer trained with AdamW: what its first calls and its steps cost, beside `jax.jit` with a scan by hand.

    python -m benchmarks.depth          # 12 and 48 layers
    python -m benchmarks.depth 12

Each way runs in a process of its own, without kernels from earlier runs, in turns; the least CPU seconds count.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .by_hand import DECAY, RATE, adamw_step, first_state, repeated

WIDTH, HEADS, TOKENS, LENGTH, BATCH = 64, 4, 64, 32, 8
HIDDEN = 4 * WIDTH
WAYS = ("jax.jit with scan", "stacked", "scanned", "eager")
ROUNDS, STEPS = 2, 20


def batch() -> list[np.ndarray]:
    """Tokens, and those that follow."""
    rs = np.random.RandomState(1)
    return [rs.randint(0, TOKENS, (BATCH, LENGTH)) for _ in range(2)]


def with_tensors(way: str, depth: int) -> Callable[[], float]:
    """The step of a PyTorch user, compiled."""
    import torchgrad_jax as torch
    from torchgrad_jax import nn

    F = nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

        def forward(self, h: Any) -> Any:
            parts = self.qkv(self.norm1(h)).view(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + self.out(a.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
            return h + self.down(F.gelu(self.up(self.norm2(h))))

    embed, head = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, TOKENS)
    place = nn.Parameter(torch.zeros(LENGTH, WIDTH))
    layers: Any = nn.ModuleList(Block() for _ in range(depth))
    if way == "eager":
        run = layers = nn.Sequential(*layers)
    else:
        run = torch.scan_layers(layers, stacked=way == "stacked")
        layers = run if way == "stacked" else layers
    ps = [p for m in (embed, layers, head) for p in m.parameters()]
    opt = torch.optim.AdamW([*ps, place], lr=RATE, weight_decay=DECAY)

    @torch.compile
    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(head(run(embed(x) + place)).flatten(0, 1), y.flatten())
        loss.backward()
        opt.step()
        return loss

    x, y = map(torch.tensor, batch())
    return lambda: step(x, y).item()


def with_arrays(depth: int) -> Callable[[], float]:
    """The same by hand, over layers that are stacked from the beginning."""
    rs = np.random.RandomState(0)
    shapes: dict[str, tuple[int, ...]] = {
        "qkv": (3 * WIDTH, WIDTH),
        "out": (WIDTH, WIDTH),
        "up": (HIDDEN, WIDTH),
        "down": (WIDTH, HIDDEN),
        "norm1": (WIDTH,),
        "norm2": (WIDTH,),
    }
    drawn = {k: (rs.randn(depth, *s) * 0.05).astype(np.float32) for k, s in shapes.items()}
    biases = {k + ".b": np.zeros((depth, s[0]), np.float32) for k, s in shapes.items()}
    first = {
        "layers": drawn | biases,
        "embed": rs.randn(TOKENS, WIDTH).astype(np.float32),
        "place": np.zeros((LENGTH, WIDTH), np.float32),
        "head": np.zeros((TOKENS, WIDTH), np.float32),
        "head.b": np.zeros(TOKENS, np.float32),
    }

    def linear(p: Any, name: str, h: Any) -> Any:
        return h @ p[name].T + p[name + ".b"]

    def norm(p: Any, name: str, h: Any) -> Any:
        mean = h.mean(-1, keepdims=True)
        var = ((h - mean) ** 2).mean(-1, keepdims=True)
        return (h - mean) * jax.lax.rsqrt(var + 1e-5) * (1 + p[name]) + p[name + ".b"]

    def block(h: Any, p: Any) -> Any:
        parts = linear(p, "qkv", norm(p, "norm1", h)).reshape(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(WIDTH // HEADS)
        seen = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        a = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)) @ v
        h = h + linear(p, "out", a.swapaxes(1, 2).reshape(BATCH, LENGTH, WIDTH))
        up = jax.nn.gelu(linear(p, "up", norm(p, "norm2", h)), approximate=False)
        return h + linear(p, "down", up), None

    def loss_of(p: Any, x: Any, y: Any) -> Any:
        h, _ = jax.lax.scan(block, p["embed"][x] + p["place"], p["layers"])
        logp = jax.nn.log_softmax(linear(p, "head", h).reshape(-1, TOKENS))
        return -jnp.take_along_axis(logp, y.reshape(-1, 1), 1).mean()

    first_arrays = jax.tree.map(jnp.asarray, first)
    return repeated(adamw_step(loss_of), first_state(first_arrays), [*map(jnp.asarray, batch())])


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(way: str, depth: int) -> dict[str, float]:
    """CPU seconds of the first two calls and of a step, and peak memory in MB."""
    jax.config.update("jax_enable_compilation_cache", False)
    call = with_arrays(depth) if way == WAYS[0] else with_tensors(way, depth)
    began = _cpu()
    call()
    call()
    first, steps = _cpu() - began, []
    for _ in range(STEPS):
        began = _cpu()
        call()
        steps.append(_cpu() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"first": first, "step": min(steps), "MB": peak}


def main(depths: list[int], ways: tuple[str, ...] = WAYS) -> None:
    """Measure and print."""
    for depth in depths:
        best: dict[str, dict[str, float]] = {}
        for _ in range(ROUNDS):
            for way in ways:
                done = subprocess.run(
                    [sys.executable, "-m", "benchmarks.depth", "--one", way, str(depth)],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                found = json.loads(done.stdout.splitlines()[-1])
                known = best.setdefault(way, found)
                best[way] = {k: min(v, known[k]) for k, v in found.items()}
        for way, found in best.items():
            ratios = [found[k] / best[WAYS[0]][k] for k in ("first", "step", "MB")]
            print(
                f"| {depth} layers, {way} | {found['first']:.1f} s | {ratios[0]:.2f} | {found['step'] * 1e3:.0f} ms "
                f"| {ratios[1]:.2f} | {found['MB']:.0f} MB |"
            )


if __name__ == "__main__":
    if "--one" in sys.argv:
        print(json.dumps(measure(sys.argv[-2], int(sys.argv[-1]))))
    else:
        main([int(n) for n in sys.argv[1:]] or [12, 48])
