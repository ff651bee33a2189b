"""The command line of the differential suite."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from . import bar
from .fuzz.maker import SUBJECTS
from .fuzz.omitted import WAYS
from .jobs import CHECKS


def parser() -> argparse.ArgumentParser:
    """All subcommands."""
    top = argparse.ArgumentParser(prog="python -m compat_suite", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    _add_cases(commands)
    _add_random_programs(commands)
    _add_samples(commands)
    _add_targets(commands)
    _add_other_code(commands)
    for name, text in (("coverage", "docs/coverage.md"), ("saved", "docs/saved_tensors.md")):
        page = commands.add_parser(name, help=f"write {text}")
        page.add_argument("--check", action="store_true", help="only say whether the page is current")
    commands.add_parser("templates", help="which operators are traced once for all sizes, and why the others are not")
    commands.add_parser("record", help="remake recorded/ (live torch)")
    return top


def _add_cases(commands: Any) -> None:
    run = commands.add_parser("run", help="judge the cases against torch")
    run.add_argument("--family", action="append", help="only this family (repeatable)")
    run.add_argument("--op", action="append", help="only this operator (repeatable)")
    run.add_argument("--checks", nargs="+", choices=CHECKS)
    run.add_argument("--oracle", choices=("auto", "live", "recorded"), default="auto")
    run.add_argument("--library", default="torchgrad_jax", help="the module that is judged; it has torch's API")
    run.add_argument("--minutes", type=float, help="judge a sample of the cases for so long; 3 is the quick form")
    run.add_argument("--state", help="a file of what was judged: the next call goes on there")
    run.add_argument("--json", help="write every verdict to this file")
    run.add_argument("--html", help="write a page to this file")

    explain = commands.add_parser("explain", help="one case: its program, torch's answer, ours, JAX's, and the jaxpr")
    explain.add_argument("id", help="an id of `run`, or a part that only one has")
    explain.add_argument("--oracle", choices=("auto", "live", "recorded"), default="auto")


def _add_random_programs(commands: Any) -> None:
    fuzz = commands.add_parser("fuzz", help="compare random programs with live torch")
    fuzz.add_argument("count", type=int, nargs="?", default=200)
    fuzz.add_argument("--seed", type=int, default=0, help="the first seed")
    fuzz.add_argument("--length", type=int, default=14, help="lines of a program")
    fuzz.add_argument("--no-shrink", action="store_true")
    fuzz.add_argument(
        "--rarity",
        type=int,
        choices=range(4),
        default=0,
        help="lines up to this rarity: 0 everyday code, 1 what programs in the wild do, 2 any operator, 3 all",
    )
    fuzz.add_argument("--subject", action="append", choices=SUBJECTS, help="only lines about this (repeatable)")
    fuzz.add_argument(
        "--way",
        choices=WAYS,
        default="lines",
        help="line by line, as one compiled function, for each row of a batch, or over two devices",
    )
    fuzz.add_argument("--state", help="a file of what was judged: the next call goes on there")
    fuzz.add_argument("--json", help="write every finding to this file")
    fuzz.add_argument("--swarm", action="store_true", help="programs that share choices and kernels")
    fuzz.add_argument("--unfused", action="store_true", help="kernels step by step, not compiled")

    small = commands.add_parser("small", help="small programs, compared to the last stride and version (live torch)")
    small.add_argument("count", type=int, nargs="?", default=1000)
    small.add_argument("--seed", type=int, default=0, help="the first seed")
    small.add_argument("--kind", choices=("modes", "hooks"), default="hooks")


def _add_samples(commands: Any) -> None:
    opinfo = commands.add_parser("opinfo", help="torch's own operator samples, on both libraries (live torch)")
    opinfo.add_argument("--samples", type=int, default=4, help="per operator and dtype")
    opinfo.add_argument("--op", action="append", help="only this operator (repeatable); the state file is left alone")
    opinfo.add_argument("--core", action="store_true", help="only the core list of operators")
    opinfo.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    opinfo.add_argument("--html", help="write a page to this file")
    opinfo.add_argument("--checks", nargs="*", help="only these checks")
    opinfo.add_argument("--seed", type=int, default=0)
    opinfo.add_argument("--state", default="build/opinfo.json", help="where what was judged is kept")
    opinfo.add_argument("--redo", action="store_true", help="judge again what the state file has")

    modules = commands.add_parser(
        "modules", help="torch's own samples of layers and optimizers, on both libraries (live torch)"
    )
    modules.add_argument("--name", action="append", help="only this row (repeatable)")
    modules.add_argument("--only", choices=("layers", "optimizers"))
    modules.add_argument("--samples", type=int, default=0, help="per row, dtype and mode; 0: all")
    modules.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    modules.add_argument("--seed", type=int, default=0)


def _add_targets(commands: Any) -> None:
    targets = commands.add_parser("targets", help="compile the operators for a TPU and a GPU that are not here")
    targets.add_argument("--on", action="append", metavar="TARGET", help="v5e:2x2 and h100, unless named (repeatable)")
    targets.add_argument("--op", action="append", help="only operators with this in their names (repeatable)")
    targets.add_argument("--sample", type=int, help="so many calls, drawn by a hash of their names")
    targets.add_argument("--seed", default="", help="draw other ones")
    targets.add_argument("--seconds", type=float, help="stop after so long")
    targets.add_argument("--state", help="a file of what was compiled: the next call goes on there")
    targets.add_argument("--write", action="store_true", help="write the table of docs/accelerators.md")


def _add_other_code(commands: Any) -> None:
    packages = commands.add_parser(
        "packages", help="packages built on torch, on both libraries (live torch, a package index)"
    )
    packages.add_argument("--name", action="append", help="only this program (repeatable)")
    packages.add_argument("--site", default="build/packages", help="where they are installed")
    packages.add_argument("--state", default="build/packages.json", help="where verdicts are kept")
    packages.add_argument("--no-install", action="store_true", help="they are there already")
    packages.add_argument("--verbose", action="store_true", help="show all lines that differ")
    compiled = commands.add_parser("compiled", help="published models under torch.compile (a package index)")
    compiled.add_argument("--name", action="append", help="only models with this in their names (repeatable)")
    compiled.add_argument("--site", default="build/packages", help="where `packages` has installed them")
    compiled.add_argument("--jobs", type=int, default=1, help="processes")
    compiled.add_argument("--seconds", type=float, default=180, help="the time limit of a model")
    compiled.add_argument("--verbose", action="store_true", help="show whole reasons, and what a process said at last")
    compiled.add_argument("--json", help="write all that was measured to this file")
    compiled.add_argument("--write", action="store_true", help="write docs/compiled_models.md")
    suites = commands.add_parser(
        "suites", help="test-suites of others, on both libraries (live torch, a package index)"
    )
    suites.add_argument("--name", action="append", help="only this suite (repeatable)")
    suites.add_argument("--file", help="only files with this in their path")
    suites.add_argument("--site", default="build/suites", help="where they are unpacked")
    suites.add_argument("--state", default="compat_suite/packages/suites.json", help="where verdicts are kept")
    suites.add_argument("--verbose", action="store_true", help="show all tests that differ")


def main(argv: list[str] | None = None) -> int:
    """Parse and run a subcommand."""
    args = parser().parse_args(argv)
    _share_compiled_kernels()
    match args.command:
        case "run":
            from . import report as command
        case "explain":
            from . import explain as command
        case "opinfo":
            from . import opinfo as command
        case "modules":
            from . import modules as command
        case "packages":
            from . import packages as command
        case "compiled":
            from .packages import compiled as command
        case "suites":
            from .packages import suites as command
        case "targets":
            from . import targets as command
        case "record":
            from . import record as command
        case "coverage":
            from . import coverage as command
        case "saved":
            from . import saved as command
        case "templates":
            from . import templates as command
        case "small":
            from .fuzz import small as command
        case _:
            return run_fuzz(args)
    return command.main(args)


def _share_compiled_kernels() -> None:
    """The smallest kernels are worth keeping too, where a cache is configured."""
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def run_fuzz(args: argparse.Namespace) -> int:
    """Run seeded programs; print those that tell the libraries apart."""
    if args.way == "devices":
        from .fuzz.ways import two_devices

        two_devices()
    import torch

    torch.set_num_threads(1)
    if args.unfused:
        from .fuzz import unfused

        unfused.install()
    from .fuzz.programs import Kind
    from .fuzz.search import search
    from .saved_state import SavedState

    kind = Kind(args.rarity, frozenset(args.subject or SUBJECTS), 0 if args.swarm else None, args.way)
    subjects = " ".join(sorted(kind.subjects))
    about = f"{args.way}, rarity {args.rarity}, {subjects}, length {args.length}, from {args.seed}"
    about += ", swarm" * args.swarm + ", unfused" * args.unfused
    state = SavedState(args.state, about)
    found: dict[str, dict[str, str]] = state.rows
    began, refused = time.time(), Counter(state.counts)
    before = len(found)
    seeds = range(args.seed + before, args.seed + args.count)
    for seed, finding in zip(seeds, search(seeds, args.length, not args.no_shrink, kind, refused)):
        row = found[str(seed)] = {}
        if finding is not None:
            row.update(kind=finding.mismatch.kind, report=finding.report())
            bar.clear()
            print(f"\n{row['report']}", flush=True)
        state.keep(refused)
        bar.draw(len(found), args.count, sum(map(bool, found.values())), began=began, before=before)
    bar.clear()
    state.keep(refused, now=True)
    kinds = Counter(row["kind"] for row in found.values() if row)
    print(f"{args.count} programs in {time.time() - began:.0f} s, {kinds.total()} differ: {dict(kinds)}")
    for why, n in refused.most_common():
        print(f"{n:6} left out: {why}")
    if args.json:
        report = {"about": about, "refused": dict(refused), "programs": found}
        Path(args.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if kinds else 0
