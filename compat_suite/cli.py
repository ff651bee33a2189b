"""The command line."""

from __future__ import annotations

import argparse
import time
from collections import Counter


def main(argv: list[str] | None = None) -> int:
    """Parse and run a subcommand."""
    parser = argparse.ArgumentParser(prog="python -m compat_suite", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    fuzz = commands.add_parser("fuzz", help="compare random programs with live torch")
    fuzz.add_argument("count", type=int, nargs="?", default=200)
    fuzz.add_argument("--seed", type=int, default=0, help="the first seed")
    fuzz.add_argument("--length", type=int, default=14, help="lines of a program")
    fuzz.add_argument("--no-shrink", action="store_true")

    opinfo = commands.add_parser("opinfo", help="torch's own operator samples, on both libraries")
    opinfo.add_argument("--samples", type=int, default=4, help="per operator and dtype")
    opinfo.add_argument("--op", action="append", help="only this operator (repeatable); the state file is left alone")
    opinfo.add_argument("--checks", nargs="*", help="only these checks")
    opinfo.add_argument("--seed", type=int, default=0)
    opinfo.add_argument("--state", default="build/opinfo.json")
    opinfo.add_argument("--redo", action="store_true", help="judge again what the state file has")

    args = parser.parse_args(argv)
    if args.command == "fuzz":
        return run_fuzz(args)
    from . import opinfo as runner

    return runner.main(args)


def run_fuzz(args: argparse.Namespace) -> int:
    """Run seeded programs; print those that tell the libraries apart."""
    import torch

    torch.set_num_threads(1)
    from .fuzz.search import search

    began = time.time()
    kinds: Counter[str] = Counter()
    seeds = range(args.seed, args.seed + args.count)
    for finding in search(seeds, args.length, not args.no_shrink):
        if finding is not None:
            kinds[finding.mismatch.kind] += 1
            print(f"\n{finding.report()}", flush=True)
    print(f"{args.count} programs in {time.time() - began:.0f} s, {kinds.total()} differ: {dict(kinds)}")
    return 1 if kinds else 0
