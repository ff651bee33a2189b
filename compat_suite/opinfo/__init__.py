"""Torch's own table of operators and samples (`op_db`), run on both libraries.

    python -m compat_suite opinfo [--samples N] [--op NAME] [--state FILE]

Live torch only. What was judged is kept in a JSON file, so that an interrupted run goes on where it
stopped.
"""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..core_ops import CORE_OPS
from ..ledger import current
from .runner import CHECKS, Runner


def infos(names: tuple[str, ...]) -> list[Any]:
    """The rows of torch's table for these names, in their order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

    by_name: dict[str, list[Any]] = {}
    for info in op_db:
        by_name.setdefault(info.name, []).append(info)
    return [info for name in names for info in by_name[name]]


def label(info: Any) -> str:
    """``round.decimals_3``."""
    return info.name + ("." + info.variant_test_name if info.variant_test_name else "")


def main(args: Any) -> int:
    """Run what the state file does not have yet, then print the table."""
    import torch

    torch.set_num_threads(1)
    names = tuple(args.op) if args.op else CORE_OPS
    path = Path(args.state)
    state: dict[str, Any] = json.loads(path.read_text()) if path.exists() and not args.op else {}
    settings = {"samples": args.samples, "seed": args.seed}
    if state.pop("settings", settings) != settings or args.redo:
        state = {}
    runner = Runner(args.samples, args.seed, tuple(args.checks) if args.checks else CHECKS)
    rows = infos(names)
    began = time.time()
    for i, info in enumerate(rows):
        name = label(info)
        if name in state:
            continue
        start = time.time()
        scores = runner.run(info)
        state[name] = {c: asdict(s) for c, s in scores.items()} | {
            "seconds": round(time.time() - start, 1)
        }
        if not args.op:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"settings": settings, **state}, indent=1))
        marks = " ".join(
            f"{c}:{s.passed}/{s.passed + s.failed}"
            for c, s in scores.items()
            if s.passed + s.failed
        )
        print(f"[{i + 1}/{len(rows)} {time.time() - began:.0f}s] {name}: {marks}", flush=True)
        for c, s in scores.items():
            if s.failed:
                print(f"    {c}: {s.first}")
                for reason, n in list(s.reasons.items())[1:4]:
                    print(f"        {n} x {reason}")
    wanted = {label(info) for info in rows}
    return summary({k: v for k, v in state.items() if k in wanted})


GOALS = {"forward": 100.0, "grad": 100.0, "gradgrad": 98.0, "jvp": 98.0, "inplace": 100.0}
"""The share of operators, in percent, that has to agree or stand in the ledger with a reason."""


def summary(state: dict[str, Any]) -> int:
    """Print how many samples, and how many operators entirely, pass each check."""
    print(f"\n{'check':10} {'samples':>21} {'operators':>16} {'in the ledger':>14} {'goal':>6}")
    met = True
    for check in CHECKS:
        cells = {name: row[check] for name, row in state.items() if check in row}
        cells = {name: c for name, c in cells.items() if c["passed"] + c["failed"]}
        if not cells:
            continue
        passed = sum(c["passed"] for c in cells.values())
        every = passed + sum(c["failed"] for c in cells.values())
        bad = [name for name, c in cells.items() if c["failed"]]
        known = [
            name for name in bad if current().expected_failure(f"opinfo {check} {name}", "torch")
        ]
        whole, total = len(cells) - len(bad), len(cells)
        share = 100 * (whole + len(known)) / total
        met &= share >= GOALS.get(check, 0.0)
        goal = f"{GOALS[check]:.0f}%" if check in GOALS else ""
        samples = f"{passed}/{every} = {100 * passed / every:.1f}%"
        print(f"{check:10} {samples:>21} {f'{whole}/{total}':>16} {len(known) or '':>14} {goal:>6}")
    return 0 if met else 1
