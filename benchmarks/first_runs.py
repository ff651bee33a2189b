"""CPU seconds of whole programs: PyTorch's, and ours with an empty and with a full kernel cache.

``python -m benchmarks.first_runs [NAME ...]`` prints a table.
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


def main() -> int:
    """Run the programs and print how long they took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_runs")
    parser.add_argument("names", nargs="*", help="programs; all without a name")
    args = parser.parse_args()
    rows = []
    for name in args.names or PROGRAMS:
        print(f"  {name} ...".ljust(40), end="\r", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as cache:
            theirs = cpu_seconds("torch", name, cache)
            rows.append((name, theirs, *[cpu_seconds("torchgrad_jax", name, cache) for _ in range(2)]))
    print(_table(rows))
    return 0


def cpu_seconds(module: str, name: str, cache: str) -> float:
    """What one program takes in a process of its own, whose kernels are kept in the folder `cache`."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    env["OMP_NUM_THREADS"] = "1"  # a pool of threads that spins counts as work, and makes PyTorch look slow
    command = [sys.executable, "-m", "benchmarks.programs", module, name]
    process = subprocess.Popen(command, cwd=ROOT, env={**env, "TORCHGRAD_JAX_CACHE": cache}, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{name} failed with {module}")
    return used.ru_utime + used.ru_stime


def _table(rows: list[tuple[str, float, float, float]]) -> str:
    lines = ["| program | torch, CPU s | first run | second run |", "| --- | --- | --- | --- |"]
    for name, theirs, first, second in rows:
        lines.append(f"| {name} | {theirs:.1f} | {first / theirs:.1f}x | {second / theirs:.1f}x |")
    means = [math.exp(sum(math.log(r[i] / r[1]) for r in rows) / len(rows)) for i in (2, 3)]
    lines.append(f"| geometric mean | | {means[0]:.2f}x | {means[1]:.2f}x |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
