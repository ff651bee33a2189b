"""``python -m benchmarks operators``: measure the table, print what it comes to, write it to docs/benchmarks.md."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BEGIN, END = "<!-- operators: begin -->", "<!-- operators: end -->"


def main(arguments: list[str]) -> int:
    """Run the benchmark; a result that is not torch's raises."""
    keep_to_one_core()
    keep_freed_memory()
    compute_at_once()
    import torch

    import torchgrad_jax

    from .. import picture
    from .measure import Measured, measure
    from .report import each, overview, summaries, worst

    args = _parsed(arguments)
    torch.set_num_threads(1)
    measured: list[Measured] = []
    for size in args.size:
        for row in args.only:
            print(f"  {size}: {row.name} ...".ljust(60), end="\r", file=sys.stderr, flush=True)
            measured += measure(row, size, (torch, torchgrad_jax), args.seconds)
    print(" " * 60, end="\r", file=sys.stderr)
    if args.each:
        print(each(measured), end="\n\n")
    found = summaries(measured)
    tables = f"{overview(found)}\n\n{worst(found)}"
    print(tables)
    if args.json:
        args.json.write_text(json.dumps([asdict(m) for m in measured], indent=1))
    if args.write:
        picture.operators([asdict(m) for m in measured], ROOT / "docs" / "operators.svg")
        _write(tables)
    return 0


def keep_to_one_core() -> None:
    """Hold this process to one core. XLA and NumPy then start one thread, if they are imported afterwards."""
    if not hasattr(os, "sched_setaffinity"):
        raise SystemExit("The operators are measured on one core, and this system cannot hold a process to one.")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def keep_freed_memory() -> None:
    """Let glibc use freed memory again, in one pool; elsewhere, leave it to the system.

    Otherwise it depends on what lies beside a large array whether freeing it gives its pages back, and the same call
    then takes up to fifteen times as long in one process as in another, of either package.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    trim, mmap, pools = -1, -3, -8  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_ARENA_MAX of malloc.h
    for option, value in ((mmap, 2**30), (trim, 2**31 - 1), (pools, 1)):
        ctypes.CDLL(None).mallopt(option, value)


def compute_at_once() -> None:
    """Let XLA compute in the call that asks for it, and not in a thread of its own.

    Otherwise what nobody reads is computed later, maybe in the turn of the other package.
    """
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)


def _parsed(arguments: list[str]) -> argparse.Namespace:
    from .inputs import SIZES
    from .rows import ROWS

    parser = argparse.ArgumentParser(prog="python -m benchmarks operators", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="operators of this name, or whose name contains it")
    parser.add_argument("--size", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--seconds", type=float, default=0.2, help="how long to measure each (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write what was measured as JSON")
    parser.add_argument("--each", action="store_true", help="print the times of each operator; --only does, too")
    parser.add_argument("--write", action="store_true", help="write the tables to docs/benchmarks.md, and the picture")
    args = parser.parse_args(arguments)
    if args.write and (args.only or len(args.size) < len(SIZES)):
        parser.error("--write needs all operators on all sizes")
    args.each = args.each or args.only is not None
    named = []
    for name in args.only or ():
        rows = [r for r in ROWS if r.name == name] or [r for r in ROWS if name in r.name]
        if not rows:
            parser.error(f"no operator's name contains {name!r}")
        named += rows
    args.only = list(dict.fromkeys(named)) or ROWS
    return args


def _write(tables: str) -> None:
    """Put the tables where the page has them, with the day and the versions."""
    import jax
    import torch

    file = ROOT / "docs" / "benchmarks.md"
    before, _, rest = file.read_text().partition(BEGIN)
    measured = (
        f"Measured on {date.today()} with jax {jax.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}, {platform.machine()}, one core."
    )
    file.write_text(f"{before}{BEGIN}\n\n{measured}\n\n{tables}\n\n{END}{rest.partition(END)[2]}")
