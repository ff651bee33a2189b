"""The command: groups of trainings in processes of their own, and the tables of what was counted."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .trainings import GROUPS, MARK, SCRIPTS, WAYS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("transformers", "timm", "torchvision", "diffusers", "peft", "accelerate")
WHAT = {
    "optimizers": "each optimizer, with two schedules",
    "pairs": "training programs of `examples/pairs`",
    "scripts": "programs of `examples` that compile",
    "models": "[published models](compiled_models.md), the model and the whole step",
}
NUMBERS = {"often": 10, "verify": 10, "budget": 5}


def processes(group: str) -> Sequence[tuple[bool, str]]:
    """Whether a process takes this package for PyTorch, and a part of the names of the trainings that it runs."""
    if group == "scripts":
        return [(alias, name) for name, (alias, _) in SCRIPTS.items()]
    return [(True, name) for name in PACKAGES] if group == "models" else [(False, "")]


def counted(args: argparse.Namespace, group: str, part: str, alias: bool) -> Iterator[Any]:
    """What a process counts, for each training as it is done."""
    start = ["-m", "torchgrad_jax"] if alias else []
    site = args.site.resolve()
    numbers = [str(args.number or NUMBERS[args.way]), str(args.steps)]
    command = [sys.executable, "-W", "ignore", *start, "-m", f"{__package__}.one"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    wanted = [group, args.way, *numbers, part, "|".join(args.name), str(site), str(site / "apart")]
    with subprocess.Popen([*command, *wanted], stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(MARK):
                yield json.loads(line[len(MARK) :])
    if process.returncode:
        yield {"name": part or group, "error": f"the process ended with {process.returncode}"}


def line(row: dict[str, Any]) -> str:
    """One training, for the terminal."""
    if "runs" not in row:
        return f"{row['name']:60} {row['error']}"
    share = f", {row['in_checks'] / row['in_all']:.1%} of the time" if row["in_all"] else ""
    told = [*row["alarms"], *row["not_checked"], *row["reasons"], row["error"]]
    return (
        f"{row['name']:60} traced {row['traced']}, run {row['runs']}, as written {row['eager']}; checked "
        f"{row['checks']} times{share}, {row['not_compared']} of them nothing  {'; '.join(filter(None, told))}"
    )


def table(rows: dict[str, dict[str, Any]]) -> str:
    """The tables of docs/compile_rules.md: what was counted with frequent checks, and with the clock as it is."""
    lines = [
        "| steps | how many | runs of each | checks on the clock | checks asked for | false alarms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for group, what in WHAT.items():
        often, asked = (_compiled(rows, group, way) for way in ("often", "verify"))
        if often:
            runs = sorted({r["runs"] for r in often})
            lines.append(
                f"| {what} | {len(often)} | {_range(runs)} | {_sum(often, 'checks'):,} | {_sum(asked, 'checks'):,} "
                f"| {sum(len(r['alarms']) for r in (*often, *asked))} |"
            )
    lines += [
        "",
        "| steps, with the clock as it is | how many | runs | traces for checks | share of time | false alarms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for group, what in WHAT.items():
        if found := _compiled(rows, group, "budget"):
            share = 100 * _sum(found, "in_checks") / _sum(found, "in_all")
            lines.append(
                f"| {what} | {len(found)} | {_sum(found, 'runs'):,} | {_sum(found, 'checks'):,} | {share:.1f} % "
                f"| {sum(len(r['alarms']) for r in found)} |"
            )
    return "\n".join(lines)


def _compiled(rows: dict[str, dict[str, Any]], group: str, way: str) -> list[dict[str, Any]]:
    """The trainings of a group that ran as programs."""
    here = [row for key, row in rows.items() if key.startswith(f"{group}, {way}: ")]
    return [row for row in here if row.get("runs", 0) > row.get("eager", 0)]


def _sum(rows: Sequence[dict[str, Any]], what: str) -> Any:
    return sum(row[what] for row in rows)


def _range(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def kept(state: Path) -> dict[str, dict[str, Any]]:
    """What was counted before."""
    return json.loads(state.read_text()) if state.exists() else {}


def main(arguments: list[str]) -> int:
    """Run the command; exit 1 after a false alarm or an error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks self_checks", description=__doc__)
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}; all without one")
    parser.add_argument("--way", choices=WAYS, default="often", help="when a program is checked")
    parser.add_argument("--number", type=int, help="after how many runs, or for `budget`: the seconds of a training")
    parser.add_argument("--steps", type=int, default=200, help="of each training")
    parser.add_argument("--name", action="append", default=[], help="only trainings with this in their names")
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "packages", help="where packages are installed")
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "self_checks.json", help="what was counted")
    args = parser.parse_args(arguments)
    bad = False
    for group in args.groups or GROUPS:
        for alias, part in processes(group):
            for row in counted(args, group, part, alias):
                print(line(row), flush=True)
                bad |= bool(row["error"] or row["alarms"])
                args.state.parent.mkdir(parents=True, exist_ok=True)
                rows = kept(args.state) | {f"{group}, {args.way}: {row['name']}": row}
                args.state.write_text(json.dumps(rows, indent=1) + "\n")
    rows = kept(args.state)
    print(f"\n{table(rows)}")
    return int(bad)
