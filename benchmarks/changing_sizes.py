"""``python -m benchmarks changing_sizes``: training steps whose shapes keep changing, beside torch.

Sentences of other lengths, experts that get other numbers of rows, graphs of other sizes, a cache that grows.
Each program has a first step, then steps with new shapes, then the same steps once more.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .operators.main import compute_at_once, keep_freed_memory, keep_to_one_core

STEPS = 12
Step = Callable[[int], Any]


class Measured(NamedTuple):
    """Milliseconds of CPU that a program's steps take."""

    first: float
    new: float
    """The median of the steps with new shapes."""
    later: float
    """The median of the same steps when they come again."""


def lstm(t: Any) -> Step:
    """A tagger: embedding, LSTM and a head, over sentences of 5 to 40 words."""
    rs, net = np.random.RandomState(0), _modules(t, embed=t.nn.Embedding(50, 16), lstm=t.nn.LSTM(16, 16), head=_head(t))
    sgd, words = t.optim.SGD(net.parameters(), lr=0.1), [t.tensor(rs.randint(0, 50, (n, 4))) for n in _lengths(rs)]

    def step(k: int) -> None:
        x = words[k]
        hidden, _ = net["lstm"](net["embed"](x))
        _descend(sgd, t.nn.functional.cross_entropy(net["head"](hidden).flatten(0, 1), x.flatten() % 10))

    return step


def packed_lstm(t: Any) -> Step:
    """The same over packed batches, in which each sentence has a length of its own."""
    rs, lstm, head = np.random.RandomState(0), t.nn.LSTM(8, 16, bidirectional=True), t.nn.Linear(32, 10)
    sgd = t.optim.SGD([*lstm.parameters(), *head.parameters()], lr=0.1)
    lengths = [sorted(rs.choice(np.arange(2, 14), 4, replace=False), reverse=True) for _ in range(STEPS)]
    data = [[t.tensor(rs.standard_normal((int(n), 8)).astype(np.float32)) for n in ns] for ns in lengths]

    def step(k: int) -> None:
        packed, _ = lstm(t.nn.utils.rnn.pack_sequence(data[k]))
        _descend(sgd, head(packed.data).square().mean())

    return step


def experts(t: Any) -> Step:
    """A mixture of experts: each row goes to two of four experts, whose numbers of rows differ in each step."""
    rs = np.random.RandomState(0)
    gate, net = (
        t.nn.Linear(16, 4),
        [t.nn.Sequential(t.nn.Linear(16, 32), t.nn.GELU(), t.nn.Linear(32, 16)) for _ in "1234"],
    )
    sgd = t.optim.SGD([p for m in (gate, *net) for p in m.parameters()], lr=0.1)
    rows = [t.tensor(rs.standard_normal((48 + 3 * k, 16)).astype(np.float32)) for k in range(STEPS)]

    def step(k: int) -> None:
        x = rows[k]
        weights, chosen = gate(x).softmax(-1).topk(2)
        out = t.zeros_like(x)
        for e, expert in enumerate(net):
            row, slot = t.where(chosen == e)
            out.index_add_(0, row, expert(x[row]) * weights[row, slot, None])
        _descend(sgd, (out - x).square().mean())

    return step


def graphs(t: Any) -> Step:
    """A graph network with attention along edges: gather, scatter, a softmax for each node's edges."""
    rs, first, second, score = np.random.RandomState(0), t.nn.Linear(8, 16), t.nn.Linear(16, 4), t.nn.Linear(32, 1)
    sgd = t.optim.SGD([p for m in (first, second, score) for p in m.parameters()], lr=0.1)
    data = []
    for n in rs.choice(np.arange(10, 60), STEPS, replace=False):
        edges = t.tensor(rs.randint(0, n, (2, 3 * n)))
        data.append((t.tensor(rs.standard_normal((n, 8)).astype(np.float32)), edges, t.tensor(rs.randint(0, 4, n))))

    def step(k: int) -> None:
        x, (source, target), labels = data[k]
        h = first(x)
        e = t.nn.functional.leaky_relu(score(t.cat([h[source], h[target]], -1)).squeeze(-1), 0.2)
        e = (e - e.max()).exp()
        norm = t.zeros(len(x)).scatter_add(0, target, e)
        h = t.zeros_like(h).index_add(0, target, h[source] * (e / norm[target]).unsqueeze(-1))
        _descend(sgd, t.nn.functional.cross_entropy(second(h.relu()), labels))

    return step


def growing_cache(t: Any) -> Step:
    """Tokens one by one: attention over a cache of keys and values that grows by one each time."""
    q, k, v, out = (t.nn.Linear(32, 32) for _ in range(4))
    x, cache = t.ones(1, 1, 32) / 7, []

    def heads(y: Any) -> Any:
        return y.view(1, -1, 4, 8).transpose(1, 2)

    @t.no_grad()
    def step(n: int) -> None:
        if not n:
            cache[:] = [heads(k(x.expand(1, 5, 32))), heads(v(x.expand(1, 5, 32)))]
        cache[:] = [t.cat([old, heads(m(x))], 2) for old, m in zip(cache, (k, v))]
        mixed = t.nn.functional.scaled_dot_product_attention(heads(q(x)), *cache)
        out(mixed.transpose(1, 2).reshape(1, 1, 32)).argmax(-1).item()

    return step


def sentences(t: Any) -> Step:
    """A layer of a transformer, with a mask of what is padding, over batches of changing lengths."""
    rs, layer = np.random.RandomState(0), t.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    sgd = t.optim.SGD(layer.parameters(), lr=0.1)
    data = [t.tensor(rs.standard_normal((3, n, 32)).astype(np.float32)) for n in _lengths(rs)]

    def step(k: int) -> None:
        x = data[k]
        padding = t.arange(x.shape[1])[None] >= t.tensor([[x.shape[1]], [x.shape[1] - 1], [x.shape[1] // 2]])
        _descend(sgd, layer(x, src_key_padding_mask=padding).square().mean())

    return step


PROGRAMS = {f.__name__: f for f in (lstm, packed_lstm, experts, graphs, growing_cache, sentences)}


def _lengths(rs: Any) -> list[int]:
    return [int(n) for n in rs.choice(np.arange(5, 41), STEPS, replace=False)]


def _head(t: Any) -> Any:
    return t.nn.Linear(16, 10)


def _modules(t: Any, **named: Any) -> Any:
    return t.nn.ModuleDict(named)


def _descend(sgd: Any, loss: Any) -> None:
    sgd.zero_grad()
    loss.backward()
    sgd.step()


def measure(t: Any, program: Callable[[Any], Step]) -> Measured:
    """Run a program: its first step, the new shapes, and all of them again."""
    t.manual_seed(0)
    step = program(t)
    new = [_milliseconds(step, k) for k in range(STEPS)]
    later = [_milliseconds(step, k) for k in range(STEPS)]
    return Measured(new[0], statistics.median(new[1:]), statistics.median(later[1:]))


def _milliseconds(step: Step, k: int) -> float:
    gc.collect()
    before = time.process_time()
    step(k)
    return (time.process_time() - before) * 1e3


def main(arguments: list[str]) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks changing_sizes", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"programs: {', '.join(PROGRAMS)}; all without a name")
    args = parser.parse_args(arguments)
    keep_to_one_core()
    keep_freed_memory()
    compute_at_once()
    import torch

    import torchgrad_jax

    torch.set_num_threads(1)
    found = {}
    for name in args.names or PROGRAMS:
        print(f"  {name} ...".ljust(60), end="\r", file=sys.stderr, flush=True)
        measure(torch, PROGRAMS[name])
        torchgrad_jax.clear_caches()
        found[name] = measure(torchgrad_jax, PROGRAMS[name]), measure(torch, PROGRAMS[name])
    print(table(found))
    return 0


def table(found: dict[str, Sequence[Measured]]) -> str:
    """What all took, as markdown."""
    lines = [
        "| program | first step, ms | new shapes, ms | times torch | later, ms | times torch |",
        "| --- |" + " --- |" * 5,
    ]
    for name, (ours, theirs) in found.items():
        lines.append(
            f"| {name} | {ours.first:.0f} | {ours.new:.1f} | {ours.new / theirs.new:.1f} | {ours.later:.2f} "
            f"| {ours.later / theirs.later:.1f} |"
        )
    return "\n".join(lines)
