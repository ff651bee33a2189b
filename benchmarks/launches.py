"""``python -m benchmarks launches``: how many programs a step of each pair starts on an accelerator.

The counts don't depend on the machine: on a CPU XLA computes all, as on an accelerator (`TORCHGRAD_JAX_EXECUTOR=xla`).
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAIRS = ROOT / "examples" / "pairs"
BEGIN, END = "<!-- launches: begin -->", "<!-- launches: end -->"
WARMUP = 3


def counts(name: str, wrap: Callable[[Any], Any]) -> Any:
    """What the fourth step of a pair starts; `wrap` is done to the step."""
    import torchgrad_jax as torch

    found: list[Any] = []

    def counted(step: Any) -> Any:
        made, calls = wrap(step), iter(range(WARMUP + 2))

        def run(*args: Any) -> Any:
            if next(calls) != WARMUP:
                return made(*args)
            results: list[Any] = []
            found.append(torch.profiler.profile_launches(lambda: results.append(made(*args)), warmup=0))
            return results[0]

        return run

    importlib.import_module(name).in_torch(torch, WARMUP + 1, counted)
    return found[0]


def row(name: str) -> str:
    """A row of the table."""
    import torchgrad_jax as torch

    eager, compiled = counts(name, lambda f: f), counts(name, torch.compile)
    (_, file, line), most, _ = eager.lines()[0]
    return f"| {name} | {eager.total} | {compiled.total} | {Path(file).name}:{line}, {most} |"


def main(argv: list[str]) -> int:
    """Print the table, or write it into docs/accelerators.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks launches", description=__doc__)
    parser.add_argument("names", nargs="*", help="some of the pairs")
    parser.add_argument("--write", action="store_true", help="write docs/accelerators.md")
    args = parser.parse_args(argv)
    names = args.names or sorted(p.stem for p in PAIRS.glob("*.py") if p.stem not in ("__main__", "common"))
    if os.environ.get("TORCHGRAD_JAX_EXECUTOR") != "xla":
        again = [sys.executable, "-m", "benchmarks", "launches", *argv]
        return subprocess.call(again, env={**os.environ, "TORCHGRAD_JAX_EXECUTOR": "xla"})
    sys.path.insert(0, str(PAIRS))
    lines = ["| program | eager | compiled | the line that starts most |", "| --- | --- | --- | --- |"]
    for name in names:
        lines.append(row(name))
        print(lines[-1], flush=True)
    if args.write:
        file = ROOT / "docs" / "accelerators.md"
        before, _, rest = file.read_text().partition(BEGIN)
        table = "\n".join(lines)
        file.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}")
    return 0
