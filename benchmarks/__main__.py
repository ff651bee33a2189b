"""``python -m benchmarks``: measure programs, print the table, write docs/benchmarks.md and a picture.

``python -m benchmarks operators`` measures operators one by one, ``python -m benchmarks new_sizes`` operators on shapes
that are new to them, ``python -m benchmarks changing_sizes`` programs whose shapes change in each step,
``python -m benchmarks launches`` how many programs the pairs start, ``python -m benchmarks models`` published models,
``python -m benchmarks programs`` whole programs from their first run on, ``python -m benchmarks starts`` the first
steps of models in a new process, and
``python -m benchmarks self_checks`` what compiled steps that check themselves say.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from datetime import date
from pathlib import Path
from typing import Any

from . import changing_sizes, first_runs, launches, models, new_sizes, operators, planned, self_checks, starts

ROOT = Path(__file__).resolve().parent.parent
MEMORY_TARGET = 1.1
CHECKPOINT_TARGET = 1.3
BEGIN, END = "<!-- programs: begin -->", "<!-- programs: end -->"
"""Where the part of the page begins that people write, and that is kept."""


def main() -> int:
    """Run the benchmarks; exit 1 when a target is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        epilog="More: python -m benchmarks operators --help, python -m benchmarks models --help",
    )
    parser.add_argument("--only", default="", help="run cases whose name contains this")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md and the picture")
    parser.add_argument("--json", type=Path, help="write the ratios as JSON")
    args = parser.parse_args()
    import jax
    import torch

    import torchgrad_jax as tg

    from . import picture
    from .cases import CASES
    from .memory import peak_mib, share_left
    from .timing import best_of

    rows: list[dict[str, Any]] = []
    for case in CASES:
        if args.only not in case.name:
            continue
        print(f"  {case.name} ...", end="\r", file=sys.stderr, flush=True)
        ours = case.build(tg)
        row: dict[str, Any] = {"name": case.name, "target": case.target, "jit_target": case.jit_target, "ratio": None}
        if case.beside_torch:
            seconds = best_of({"torch": case.build(torch), "ours": ours}, case.rounds, case.inner)
            row["ratio"] = seconds["ours"] / seconds["torch"]
        if case.jax is not None:  # by themselves: torch's threads go on spinning for a while
            seconds = best_of({"ours": ours, "jax.jit": case.jax()}, case.rounds, case.inner)
            row["jit"] = seconds["ours"] / seconds["jax.jit"]
        rows.append(row)
    if args.only in "memory":
        print("  memory ...".ljust(60), end="\r", file=sys.stderr, flush=True)
        n = 4_000_000
        ratio = peak_mib("torchgrad_jax", n) / peak_mib("torch", n)
        rows.append({"name": "peak memory, 50-op chain over 4M elements", "ratio": ratio, "target": MEMORY_TARGET})
        tokens = [peak_mib(name, 8192, way="attention") for name in ("torchgrad_jax", "torch")]
        rows.append(
            {"name": "peak memory, attention over 8,192 tokens", "ratio": tokens[0] / tokens[1], "target": None}
        )
        left = [share_left(name, 2_000_000, 4) for name in ("torchgrad_jax", "torch")]
        rows.append(
            {
                "name": "share of memory left when a 200-op chain is checkpointed in ten links",
                "ratio": left[0] / left[1],
                "target": CHECKPOINT_TARGET,
            }
        )
    print(" " * 60, end="\r", file=sys.stderr)
    table = render(rows)
    print(table)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    if args.write:
        file = ROOT / "docs" / "benchmarks.md"
        measured = (
            f"Measured on {date.today()} with jax {jax.__version__}, torch {torch.__version__}, "
            f"Python {platform.python_version()}, {platform.machine()}, {torch.get_num_threads()} threads."
        )
        before, _, rest = file.read_text().partition(BEGIN)
        file.write_text(f"{before}{BEGIN}\n\n{measured}\n\n{table}\n\n{END}{rest.partition(END)[2]}")
        picture.write(rows, ROOT / "docs" / "benchmarks.svg")
    return 0 if all(_within_limits(r) for r in rows) else 1


def _within_limits(row: dict[str, Any]) -> bool:
    wanted = row.get("jit_target")
    if wanted is not None and row["jit"] > wanted:
        return False
    return row["target"] is None or row["ratio"] <= row["target"]


def render(rows: list[dict[str, Any]]) -> str:
    """The table as markdown."""
    lines = ["| case | x torch | at most | x jax.jit | at most |", "| --- | --- | --- | --- | --- |"]
    for r in rows:
        mark = "" if _within_limits(r) else " (missed)"
        jit = f"{r['jit']:.2f}" if "jit" in r else ""
        bound = "" if r["target"] is None else f"{r['target']:.2f}"
        limit = "" if r.get("jit_target") is None else f"{r['jit_target']:.2f}"
        ratio = "" if r["ratio"] is None else f"{r['ratio']:.2f}"
        lines.append(f"| {r['name']}{mark} | {ratio} | {bound} | {jit} | {limit} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parts = {
        "operators": operators.main,
        "new_sizes": new_sizes.main,
        "changing_sizes": changing_sizes.main,
        "launches": launches.main,
        "models": models.main,
        "planned": planned.main,
        "programs": first_runs.main,
        "starts": starts.main,
        "self_checks": self_checks.main,
    }
    part = parts.get(sys.argv[1]) if sys.argv[1:] else None
    sys.exit(main() if part is None else part(sys.argv[2:]))
