"""CPU seconds of whole programs: PyTorch's, and ours with an empty and with a full kernel cache.

``python -m benchmarks programs [NAME ...]`` prints a table. A program whose number is not PyTorch's is not counted.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .programs import PROGRAMS

ROOT = Path(__file__).resolve().parent.parent
_AS_FAR = 1e-3
"""How far a program's number may be from PyTorch's, as a share of it: rounding grows over the steps of a training."""


def main(argv: list[str] | None = None) -> int:
    """Run the programs and print how long they took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks programs")
    parser.add_argument("names", nargs="*", help="programs; all without a name")
    args = parser.parse_args(argv)
    rows = []
    for name in args.names or PROGRAMS:
        print(f"  {name} ...".ljust(40), end="\r", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as cache:
            wanted, theirs = run("torch", name, cache)
            runs = [run("torchgrad_jax", name, cache) for _ in range(2)]
        for number, _ in runs:
            if not math.isclose(number, wanted, rel_tol=_AS_FAR):
                raise SystemExit(f"{name} gives {number}, and under PyTorch {wanted}")
        rows.append((name, [theirs, *[seconds for _, seconds in runs]]))
    print(_table(rows))
    return 0


def run(module: str, name: str, cache: str) -> tuple[float, float]:
    """What one program gives, and the CPU seconds that it takes in a process of its own.

    Its kernels are kept in the folder `cache`.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    env["OMP_NUM_THREADS"] = "1"  # a pool of threads that spins counts as work, and makes PyTorch look slow
    command = [sys.executable, "-m", "benchmarks.programs", module, name]
    env["TORCHGRAD_JAX_CACHE"] = cache
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{name} failed with {module}")
    return float(printed), used.ru_utime + used.ru_stime


def _table(rows: list[tuple[str, list[float]]]) -> str:
    lines = ["| program | torch, CPU s | first run | second run |", "| --- | --- | --- | --- |"]
    for name, (theirs, first, second) in rows:
        lines.append(f"| {name} | {theirs:.1f} | {first / theirs:.1f}x | {second / theirs:.1f}x |")
    means = [math.exp(sum(math.log(times[i] / times[0]) for _, times in rows) / len(rows)) for i in (1, 2)]
    lines.append(f"| geometric mean | | {means[0]:.2f}x | {means[1]:.2f}x |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
