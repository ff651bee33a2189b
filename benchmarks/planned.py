"""``python -m benchmarks planned``: training steps beside JAX by hand, compiled for a TPU and a GPU that are not here.

Flops, bytes, temporary memory, donated memory and kernels are the compiler's: no clock, no noise, the same figures on
every machine with the same versions. `planned.json` holds the ratios that were found last, and a test fails where one
gets worse. `--write` writes both.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np

import torchgrad_jax as tg
from torchgrad_jax._bridge.compile.plans.plan import _cost, kernels_in
from torchgrad_jax._core.jax.target import compiled

from .accelerator_steps import (
    HIGHEST,
    RATE,
    cross_entropy_jax,
    jax_step,
    mlp,
    mlp_arrays,
    mlp_jax,
    numbers,
    tensors,
    transformer,
    transformer_arrays,
    transformer_jax,
)

ROOT = Path(__file__).resolve().parent.parent
FOUND = Path(__file__).with_suffix(".json")
BEGIN, END = "<!-- planned: begin -->", "<!-- planned: end -->"
TARGETS = ("v5e:2x2", "h100")
DTYPES = ("float32", "bfloat16")
TOLERATED = 0.01


class Figures(NamedTuple):
    """What a compiled step needs."""

    flops: float
    bytes: float
    temporary: float
    donated: float
    kernels: float


# --- a network of residual blocks, which the other benchmarks lack ------------------------------------


def resnet_arrays(_: bool) -> Any:
    """Two blocks behind a convolution."""
    width = 32
    params: dict[str, np.ndarray] = {"stem": numbers(width, 3, 3, 3), "head": numbers(width, 10)}
    for i in range(2):
        params |= {f"{i}.{name}": numbers(width, width, 3, 3) for name in ("first", "second")}
        params |= {f"{i}.{name}": np.ones(width, np.float32) for name in ("scale1", "scale2")}
        params |= {f"{i}.{name}": np.zeros(width, np.float32) for name in ("shift1", "shift2")}
    return params, {"x": numbers(16, 3, 32, 32, scale=1), "y": np.arange(16) % 10}


def resnet(t: Any, p: Any, x: Any, y: Any) -> Any:
    """The loss for tensors."""
    F = t.nn.functional

    def normal(h: Any, i: int, n: int) -> Any:
        return F.batch_norm(h, None, None, p[f"{i}.scale{n}"], p[f"{i}.shift{n}"], training=True).relu()

    h = F.conv2d(x, p["stem"], padding=1)
    for i in range(2):
        inner = F.conv2d(normal(h, i, 1), p[f"{i}.first"], padding=1)
        h = h + F.conv2d(normal(inner, i, 2), p[f"{i}.second"], padding=1)
    return F.cross_entropy((h.mean((2, 3)) @ p["head"]).float(), y)


def resnet_jax(p: Any, x: Any, y: Any) -> Any:
    """The loss for arrays."""

    def conv(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(x, w, (1, 1), [(1, 1), (1, 1)], precision=HIGHEST)

    def normal(h: Any, i: int, n: int) -> Any:
        f = h.astype(jnp.float32)
        mean, var = f.mean((0, 2, 3), keepdims=True), f.var((0, 2, 3), keepdims=True)
        scale, shift = (p[f"{i}.{name}{n}"].astype(jnp.float32)[None, :, None, None] for name in ("scale", "shift"))
        return jax.nn.relu(((f - mean) * jax.lax.rsqrt(var + 1e-5) * scale + shift).astype(h.dtype))

    h = conv(x, p["stem"])
    for i in range(2):
        inner = conv(normal(h, i, 1), p[f"{i}.first"])
        h = h + conv(normal(inner, i, 2), p[f"{i}.second"])
    return cross_entropy_jax(jnp.matmul(h.mean((2, 3)), p["head"], precision=HIGHEST), y)


STEPS = {
    "MLP": (mlp_arrays, mlp, mlp_jax),
    "GPT": (transformer_arrays, transformer, transformer_jax),
    "ResNet": (resnet_arrays, resnet, resnet_jax),
}


# --- figures ----------------------------------------------------------------------------------------


def figures(program: Any) -> Figures:
    """The compiler's figures of a program."""
    cost, memory = _cost(program), program.memory_analysis()
    temporary, donated = memory.temp_size_in_bytes, memory.alias_size_in_bytes
    return Figures(cost["flops"], cost["bytes accessed"], temporary, donated, kernels_in(program.as_text()))


def ours(name: str, dtype: str) -> Figures:
    """The step of tensors, for the target."""
    arrays, loss, _ = STEPS[name]
    params, batch = arrays(False)
    p = {k: v.requires_grad_() for k, v in tensors(tg, params, dtype).items()}
    x, y = tensors(tg, batch, dtype).values()
    opt = tg.optim.SGD(p.values(), lr=RATE)

    @tg.compile
    def step(x: Any, y: Any) -> Any:
        value = loss(tg, p, x, y)
        value.backward()
        opt.step()
        opt.zero_grad()
        return value.detach()

    return figures(step.lower(x, y).compile())


def by_hand(name: str, dtype: str, target: Any) -> Figures:
    """The step of arrays."""
    arrays, _, loss = STEPS[name]
    run, *given = jax_step(arrays, loss, dtype, False)
    return figures(compiled(target.lower(run, tuple(given)), target))


def measured(names: Sequence[str] = TARGETS, only: str = "") -> Iterator[tuple[str, Figures, Figures]]:
    """For each target, step and dtype with `only` in their name: the name, and the figures of both."""
    for target_name in names:
        target = tg.interop.target(target_name)
        for name in STEPS:
            for dtype in DTYPES:
                row = f"{target_name} {name} {dtype}"
                if only in row:
                    with target:
                        yield row, ours(name, dtype), by_hand(name, dtype, target)


def ratios(found: Figures, hand: Figures) -> dict[str, float]:
    """How many times as much a step needs as the one by hand; 1 where both need nothing."""
    pairs = zip(Figures._fields, found, hand)
    return {what: round(a / b, 3) if b else 1.0 if a == b else math.inf for what, a, b in pairs}


def recorded() -> dict[str, dict[str, float]]:
    """The ratios that were found last with this version of the compilers."""
    found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    return found["ratios"] if found.get("jaxlib") == jaxlib.__version__ else {}


def worse(now: dict[str, float], then: dict[str, float]) -> list[str]:
    """Which ratios have become worse, in words. Less is better, but of donated memory more is."""
    sign = {what: -1 if what == "donated" else 1 for what in Figures._fields}
    return [
        f"{what}: {now[what]}, and it was {then[what]}"
        for what in Figures._fields
        if sign[what] * (now[what] - then[what]) > TOLERATED
    ]


def table(rows: dict[str, dict[str, float]]) -> str:
    """The ratios as markdown."""
    lines = ["| step | " + " | ".join(Figures._fields) + " |", "| --- |" + " --- |" * len(Figures._fields)]
    lines += [
        f"| {name} | " + " | ".join(f"{row[what]:.2f}" for what in Figures._fields) + " |" for name, row in rows.items()
    ]
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks planned", description=__doc__)
    parser.add_argument("--on", action="append", metavar="TARGET", help="v5e:2x2 and h100, unless named (repeatable)")
    parser.add_argument("--only", default="", help="only rows with this in their names")
    parser.add_argument("--write", action="store_true", help="write planned.json and docs/accelerators.md")
    args = parser.parse_args(argv)
    rows = {}
    for name, found, hand in measured(args.on or TARGETS, args.only):
        rows[name] = ratios(found, hand)
        print(name, found, hand, rows[name], sep="\n    ", flush=True)
    print(table(rows))
    if args.write:
        before = recorded()
        rows = {**before, **rows}
        FOUND.write_text(json.dumps({"jaxlib": jaxlib.__version__, "ratios": rows}, indent=1) + "\n")
        file = ROOT / "docs" / "accelerators.md"
        before, _, rest = file.read_text().partition(BEGIN)
        about = f"{date.today()}, jax {jax.__version__}."
        file.write_text(f"{before}{BEGIN}\n\n{about}\n\n{table(rows)}\n\n{END}{rest.partition(END)[2]}")
    return 0
