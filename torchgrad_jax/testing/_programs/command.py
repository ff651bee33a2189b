"""`python -m torchgrad_jax compare train.py`: where a program parts from itself under torch."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .compare import ProgramReport, compare_program, record_program
from .runs import HERE, TORCH
from .text import facts

USAGE = "python -m torchgrad_jax compare [options] (SCRIPT | -m MODULE) [ARGUMENT ...]"


def parser() -> argparse.ArgumentParser:
    """The options; what follows the program is the program's."""
    p = argparse.ArgumentParser("python -m torchgrad_jax compare", USAGE, description=__doc__)
    p.add_argument(
        "--against",
        default=TORCH,
        metavar="WHAT",
        help="torch (the default), a FILE that --record wrote, or this package itself: eager, compiled, exact, "
        "float64, devices=N, platform=NAME, here",
    )
    p.add_argument("--reference", metavar="SCRIPT", help="another program in the reference's place")
    p.add_argument("--record", metavar="FILE", help="only run the reference, and keep what it did")
    p.add_argument(
        "--steps", type=int, default=0, help="stop after so many optimizer steps (without optimizers: backward passes)"
    )
    p.add_argument("--seed", type=int, default=0, help="of torch, NumPy and Python")
    p.add_argument("--nudges", type=int, default=2, help="runs with numbers nudged by a rounding (2)")
    p.add_argument("--operators", type=int, default=12, help="record operators for so many passes and steps (12)")
    p.add_argument("--factor", type=float, default=1.0, help="widen what is allowed")
    p.add_argument("--python", help="the interpreter that has torch")
    p.add_argument("--html", metavar="FILE", help="write a page with curves and tables")
    p.add_argument("--json", metavar="FILE", help="write where they part as data")
    p.add_argument("-m", dest="module", metavar="MODULE", help="the program is a module")
    p.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return p


def main(argv: Sequence[str]) -> int:
    """0 when the runs agree, 1 when they part, 2 when there is nothing to compare."""
    p = parser()
    args = p.parse_args(argv)
    program, arguments = (args.module, args.rest) if args.module else (args.rest[:1], args.rest[1:])
    if not program:
        p.error("which program?")
    program = program if args.module else program[0]
    if args.record and (wrong := _unused(args)):
        p.error(f"--record only runs the reference, and has no use for {wrong}")
    try:
        return _run(args, program, arguments)
    except (RuntimeError, ValueError, OSError) as e:
        sys.stderr.write(f"{e}\n")
        return 2


def _unused(args: argparse.Namespace) -> str:
    """An option that says something about a comparison."""
    if args.against not in (TORCH, "here"):
        return f"--against {args.against}"
    given = {"--reference": args.reference, "--html": args.html, "--json": args.json}
    return next((name for name, value in given.items() if value is not None), "")


def _run(args: argparse.Namespace, program: str, arguments: list[str]) -> int:
    common = {k: getattr(args, k) for k in ("steps", "seed", "nudges", "operators", "python")}
    common["module"] = args.module is not None
    if args.record:
        library = HERE if args.against == "here" else TORCH
        record_program(program, arguments, args.record, library=library, **common)
        sys.stdout.write(f"recorded {program} under {library} in {args.record}\n")
        return 0
    report = compare_program(
        program, arguments, against=args.against, reference=args.reference, factor=args.factor, **common
    )
    sys.stdout.write(f"{report}\n")
    if args.html:
        Path(args.html).write_text(report.html(), encoding="utf-8")
    if args.json:
        Path(args.json).write_text(json.dumps(as_data(report), indent=1) + "\n", encoding="utf-8")
    return 0 if report.agrees else 1


def as_data(report: ProgramReport) -> dict[str, object]:
    """A report as JSON has it."""
    found = report.parting
    return {
        "program": report.program,
        "judged": report.names[0],
        "reference": report.names[1],
        "agrees": report.agrees,
        "step": None if found is None else found.step,
        "where": None if found is None else found.about["where"],
        "parting": {} if found is None else dict(facts(found)),
        "losses": [{"step": p.step, "judged": p.loss[0], "reference": p.loss[1]} for p in report.curve if p.loss],
        "notes": report.notes,
    }
