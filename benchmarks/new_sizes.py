"""``python -m benchmarks new_sizes [--middle | --large]``: operators on new shapes, beside torch."""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .operators.inputs import SIZES, Size
from .operators.main import compute_at_once, keep_freed_memory, keep_to_one_core
from .operators.measure import results
from .operators.rows import ROWS, Row

FIRST = Size("first", rows=5, columns=6, side=5, order=4, batch=2, channels=2, image=8)
NEW = tuple(
    Size(f"new {k}", rows=7 + k, columns=9 + 2 * k, side=6 + k, order=5 + k, batch=3 + k, channels=2, image=10 + 2 * k)
    for k in range(4)
)
FIRST_MIDDLE = Size("first", rows=280, columns=300, side=180, order=40, batch=4, channels=8, image=50)
NEW_MIDDLE = tuple(
    Size(
        f"new {k}", rows=310 + 9 * k, columns=320 + 6 * k, side=200 + k, order=48 + k, batch=4, channels=8, image=56 + k
    )
    for k in range(2)
)
FIRST_LARGE = Size("first", rows=900, columns=1100, side=480, order=120, batch=7, channels=16, image=60)
NEW_LARGE = tuple(
    Size(
        f"new {k}",
        rows=1000 + 9 * k,
        columns=1030 + 6 * k,
        side=500 + 3 * k,
        order=100 + k,
        batch=8,
        channels=16,
        image=64 + 2 * k,
    )
    for k in range(2)
)


@dataclass(frozen=True)
class Measured:
    """What one operator took, in milliseconds of CPU."""

    name: str
    first: float
    """The first call of all, forward and backward."""
    new: float
    """A call on a new shape: the best of a few such shapes."""
    torch: float
    """The same in torch."""


def main(arguments: list[str]) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks new_sizes", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="operators whose name contains this")
    parser.add_argument("--middle", action="store_true", help="tensors of a hundred thousand elements")
    parser.add_argument("--large", action="store_true", help="tensors of a million elements")
    args = parser.parse_args(arguments)
    os.environ["TORCHGRAD_JAX_CACHE"] = "0"  # a size that was compiled in an earlier run is not new
    keep_to_one_core()
    keep_freed_memory()
    compute_at_once()
    import torch

    import torchgrad_jax

    torch.set_num_threads(1)
    sizes = (FIRST_LARGE, NEW_LARGE) if args.large else (FIRST_MIDDLE, NEW_MIDDLE) if args.middle else (FIRST, NEW)
    measured = []
    for row in ROWS:
        if args.only is None or any(part in row.name for part in args.only):
            print(f"  {row.name} ...".ljust(60), end="\r", file=sys.stderr, flush=True)
            measured.append(measure(row, torchgrad_jax, torch, sizes))
    print(" " * 60, end="\r", file=sys.stderr)
    print(table(measured))
    return 0


def measure(row: Row, ours: Any, torch: Any, sizes: tuple[Size, Sequence[Size]]) -> Measured:
    """One operator at a first size and at others, with nothing in the caches that it made before."""
    first_size, new_sizes = sizes
    ours.clear_caches()
    _milliseconds(row, torch, SIZES["tiny"])
    first = _milliseconds(row, ours, first_size)
    new = min(_milliseconds(row, ours, size) for size in new_sizes)
    return Measured(row.name, first, new, min(_milliseconds(row, torch, size) for size in new_sizes))


def _milliseconds(row: Row, t: Any, size: Size) -> float:
    """The CPU time of a call and its backward pass; what is given is made before."""
    rs = np.random.RandomState(zlib.crc32(row.name.encode()))
    tensors = [t.tensor(draw(rs, size)) for draw in row.inputs]
    for x in tensors[: row.leaves]:
        if x.dtype is t.float32:
            x.requires_grad_()
    gc.collect()
    before = time.process_time()
    outs = [out for out in results(row.call(t, *tensors)) if getattr(out, "requires_grad", False)]
    taken = time.process_time() - before
    if outs:
        gradients = [t.ones_like(out) for out in outs]
        before = time.process_time()
        t.autograd.backward(outs, gradients)
        taken += time.process_time() - before
    return taken * 1e3


def table(measured: Sequence[Measured]) -> str:
    """The medians, and the fifteen operators that take longest, as markdown."""
    lines = ["| operator | first call, ms | new shape, ms | torch, ms |", "| --- | --- | --- | --- |"]
    medians = [statistics.median(getattr(m, what) for m in measured) for what in ("first", "new", "torch")]
    lines.append("| median of {} | {:.1f} | {:.2f} | {:.3f} |".format(len(measured), *medians))
    slowest = sorted(measured, key=lambda m: -m.new)[:15]
    lines += [f"| {m.name} | {m.first:.1f} | {m.new:.2f} | {m.torch:.3f} |" for m in slowest]
    return "\n".join(lines)
