"""Torch's own table of operators and samples (`op_db`), run on both libraries.

    python -m compat_suite opinfo [--samples N] [--op NAME] [--state FILE]

Live torch only. What was judged is kept in a JSON file, so that an interrupted run goes on where it
stopped.
"""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..core_ops import CORE_OPS
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


def summary(state: dict[str, Any]) -> int:
    """Print how many samples, and how many operators entirely, pass each check."""
    print(f"\n{'check':10} {'samples':>15} {'operators':>15}")
    for check in CHECKS:
        samples: Counter[str] = Counter()
        whole = total = 0
        for row in state.values():
            s = row.get(check)
            if s is None or s["passed"] + s["failed"] == 0:
                continue
            samples["passed"] += s["passed"]
            samples["all"] += s["passed"] + s["failed"]
            total += 1
            whole += s["failed"] == 0
        if total:
            share = 100 * samples["passed"] / samples["all"]
            counts = f"{samples['passed']:6}/{samples['all']:<6} {share:5.1f}%"
            print(f"{check:10} {counts} {whole:5}/{total:<5} {100 * whole / total:5.1f}%")
    return 0
