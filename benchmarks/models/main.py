"""The command: both sides of each model one after the other, and the table of their ratios."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import picture

ROOT = Path(__file__).resolve().parent.parent.parent
TOLERANCE = 1e-3
"""How far a loss may be from torch's, as a share of it: the time of a wrong step says nothing."""


@dataclass(frozen=True)
class Row:
    """One model: seconds of CPU by side, or why it was not measured."""

    name: str
    torch: dict[str, Any]
    ours: dict[str, Any]

    @property
    def why_not(self) -> str:
        """Why there are no ratios; empty if there are."""
        for side, found in (("torch", self.torch), ("torchgrad_jax", self.ours)):
            if "error" in found:
                return f"{side}: {found['error']}"
        apart = max(abs(a - b) / max(abs(a), 1e-6) for a, b in zip(self.torch["losses"], self.ours["losses"]))
        return "" if apart <= TOLERANCE else f"the losses are {apart:.1e} apart"

    def ratio(self, what: str) -> float:
        """Our time over torch's, of the forward pass or of the whole step."""
        return self.ours[what] / self.torch[what]


def measured(name: str, site: Path, *, ours: bool) -> dict[str, Any]:
    """What `one.py` prints for a model, in a process of its own."""
    alias = ["-m", "torchgrad_jax"] if ours else []
    sites = [str(site.resolve()), *([str((site / "apart").resolve())] if ours else [])]
    command = [sys.executable, "-W", "ignore", *alias, "-m", f"{__package__}.one", name, *sites]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["it ended without a word"])[-1][:160]}
    return json.loads(lines[-1])


def names() -> list[str]:
    """The models. The table of them imports torch, which a process of its own does."""
    code = "from compat_suite.packages.compiled_models import table; print(*table(), sep=chr(10))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.splitlines()


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def table(rows: Sequence[Row]) -> str:
    """The ratios as a table, the slowest model first, and below it what was not measured."""
    good = sorted((r for r in rows if not r.why_not), key=lambda r: -r.ratio("step"))
    lines = ["| model | torch, ms | torchgrad_jax, ms | step | forward |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {r.name} | {1e3 * r.torch['step']:.2f} | {1e3 * r.ours['step']:.2f} | {r.ratio('step'):.2f}x "
        f"| {r.ratio('forward'):.2f}x |"
        for r in good
    ]
    if good:
        step, forward = (mean([r.ratio(what) for r in good]) for what in ("step", "forward"))
        lines.append(f"| geometric mean of {len(good)} | | | **{step:.2f}x** | **{forward:.2f}x** |")
    lines += ["", *[f"Not measured: {r.name} ({r.why_not})." for r in rows if r.why_not]]
    return "\n".join(lines).rstrip()


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks models", description=__doc__)
    parser.add_argument("--name", action="append", default=[], help="a part of the names of the models")
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "packages", help="where the packages are")
    parser.add_argument("--json", type=Path, help="write what was measured as JSON")
    parser.add_argument("--write", action="store_true", help="write docs/models.svg")
    args = parser.parse_args(arguments)
    rows = []
    for name in names():
        if not args.name or any(part in name for part in args.name):
            print(f"  {name} ...".ljust(70), end="\r", file=sys.stderr, flush=True)
            rows.append(Row(name, measured(name, args.site, ours=False), measured(name, args.site, ours=True)))
    print(" " * 70, end="\r", file=sys.stderr)
    print(table(rows))
    if args.write:
        picture.models({r.name: r.ratio("step") for r in rows if not r.why_not}, ROOT / "docs" / "models.svg")
    if args.json:
        args.json.write_text(json.dumps([vars(r) for r in rows], indent=1))
    return 0
