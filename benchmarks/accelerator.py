"""``python -m benchmarks.accelerator``: what JAX finds, measured, tested and written to docs/accelerators.md.

Times are divided by those of hand-written `jax.jit` on the same device, and by those of torch where torch sees a device
of the same kind. Sizes follow the device: a CPU gets small ones.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import jax
import numpy as np

import torchgrad_jax as tg

from . import accelerator_steps as steps
from .timing import best_of

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "accelerators.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass(frozen=True)
class Row:
    """One line of the table; ratios are None where there is nobody to compare with."""

    name: str
    seconds: float
    of_jax: float | None
    of_torch: float | None


def torch_beside() -> Any:
    """torch, if it is installed and sees a device like the one that JAX found."""
    try:
        import torch
    except ImportError:
        return None
    kind = tg.empty(0).device.type
    if kind == "cpu":
        torch.set_num_threads(1)  # as many as one core: others would wait for those of JAX
        return torch
    return torch if kind == "cuda" and torch.cuda.is_available() else None


def measure(case: steps.Case, torch: Any, big: bool) -> Row:
    """One case: this package, `jax.jit` by hand, and torch."""
    contenders: dict[str, Callable[[], object]] = {"ours": case.build(tg, big)}
    if case.jax is not None:
        contenders["jax"] = case.jax(big)
    found = best_of(contenders, rounds=case.rounds, inner=case.inner)
    of_torch = None
    if torch is not None and case.beside_torch:  # apart: its threads go on spinning for a while
        with torch.device(tg.empty(0).device.type):
            theirs = case.build(torch, big)
            pair = best_of({"ours": contenders["ours"], "torch": theirs}, case.rounds, case.inner)
        of_torch = pair["ours"] / pair["torch"]
    of_jax = found["ours"] / found["jax"] if "jax" in found else None
    return Row(case.name, found["ours"], of_jax, of_torch)


# --- what is told of the device -------------------------------------------------------------------


def device_lines() -> list[str]:
    """The device and the versions."""
    first = jax.local_devices()[0]
    memory = first.memory_stats() or {}
    kinds = [m.kind for m in first.addressable_memories()]
    facts = {
        "measured": str(date.today()),
        "device": f"{len(jax.local_devices())} x {first.device_kind} ({first.platform})",
        "JAX": f"{jax.__version__}, jaxlib {jax.lib.__version__}",
        "its platform": str(getattr(first.client, "platform_version", "")).splitlines()[0],
        "Python, NumPy": f"{platform.python_version()}, {np.__version__}",
        "host": f"{platform.machine()}, {os.cpu_count()} cores",
        "name of the device here": str(tg.empty(0).device),
        "kinds of memory": ", ".join(kinds),
        "memory": _size(memory["bytes_limit"]) if "bytes_limit" in memory else "no figures",
    }
    return ["| what | found |", "| --- | --- |", *[f"| {k} | {v} |" for k, v in facts.items()]]


def _size(count: float) -> str:
    power = min(int(math.log(max(count, 1), 1024)), 4)
    return f"{count / 1024**power:.1f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds / 1e-6:.1f} us"


def memory_lines() -> list[str]:
    """Bytes that a compiled step needs for its arguments, its results, and in between, ours and by hand."""
    rows = ["| compiled step | temporary, ours | temporary, `jax.jit` |", "| --- | --- | --- |"]
    for name, ours, by_hand in steps.programs():
        a, b = (p.memory_analysis() for p in (ours, by_hand))
        rows.append(f"| {name} | {_size(a.temp_size_in_bytes)} | {_size(b.temp_size_in_bytes)} |")
    return rows


def precision_lines() -> list[str]:
    """How far products of float32 are from those in float64, by the setting."""
    rs = np.random.RandomState(0)
    x, y = (rs.randn(512, 512).astype(np.float32) for _ in range(2))
    want = x.astype(np.float64) @ y.astype(np.float64)
    rows = ["| `set_float32_matmul_precision` | largest error of a product, relative |", "| --- | --- |"]
    for name in ("highest", "high", "medium"):
        tg.set_float32_matmul_precision(name)
        found = (tg.tensor(x) @ tg.tensor(y)).cpu().numpy()
        rows.append(f'| "{name}" | {np.abs(found - want).max() / np.abs(want).max():.1e} |')
    tg.set_float32_matmul_precision("highest")
    return rows


# --- tests and examples ---------------------------------------------------------------------------


def run_tests() -> list[str]:
    """The marked tests, with how many passed."""
    workers = str(min(8, os.cpu_count() or 1))
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "-m", "accelerator", "tests/accelerator"]
    return [_outcome("tests marked `accelerator`", command)]


EXAMPLES = {
    "train_mlp.py": ["examples/train_mlp.py", "--steps", "20"],
    "train_cnn.py, compiled": [
        "-m",
        "torchgrad_jax",
        "examples/train_cnn.py",
        "--epochs",
        "2",
        "--examples",
        "500",
        "--compile",
    ],
    "gpt2.py": ["-m", "torchgrad_jax", "examples/gpt2.py"],
}


def run_examples() -> list[str]:
    """Programs of examples/, as they are."""
    return [_outcome(name, [sys.executable, *args]) for name, args in EXAMPLES.items()]


def _outcome(name: str, command: list[str]) -> str:
    env = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # several processes share the memory of a GPU
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    out = done.stdout.strip().splitlines()
    last = out[-1].strip("= ") if out else ""
    print(f"  {name}: {'done' if done.returncode == 0 else 'FAILED'} {last}", flush=True)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:], file=sys.stderr)
    return f"| {name} | {'passed' if done.returncode == 0 else 'failed'} | {last} |"


# --- the page -------------------------------------------------------------------------------------


def table(rows: list[Row]) -> list[str]:
    """The times as markdown."""
    lines = ["| case | time | x `jax.jit` | x torch |", "| --- | --- | --- | --- |"]
    for r in rows:
        ratios = ["" if x is None else f"{x:.2f}" for x in (r.of_jax, r.of_torch)]
        lines.append(f"| {r.name} | {_duration(r.seconds)} | {ratios[0]} | {ratios[1]} |")
    return lines


def main() -> int:
    """Run everything; exit 1 when a test or an example failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accelerator")
    parser.add_argument("--only", default="", help="measure cases whose name contains this")
    parser.add_argument("--write", action="store_true", help="write docs/accelerators.md")
    parser.add_argument("--no-tests", action="store_true", help="leave out tests and examples")
    args = parser.parse_args()
    tg.set_default_device("xla")
    done = [] if args.no_tests else [*run_tests(), *run_examples()]
    torch, big = torch_beside(), tg.empty(0).device.type != "cpu"
    rows = []
    for case in steps.CASES:
        if args.only in case.name:
            rows.append(measure(case, torch, big))
            print("  " + table(rows)[-1], flush=True)
    beside = f"torch {torch.__version__}" if torch is not None else "no torch on such a device"
    ran = ["| what | result | its last line |", "| --- | --- | --- |", *done]
    parts = [
        device_lines(),
        ran if done else [],
        [f"Beside: {beside}. Sizes are those for {'accelerators' if big else 'CPUs'}."],
        table(rows),
        memory_lines(),
        precision_lines(),
    ]
    text = "\n\n".join("\n".join(part) for part in parts if part)
    print(text)
    if args.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")
    return 1 if any("| failed |" in line for line in done) else 0


if __name__ == "__main__":
    sys.exit(main())
