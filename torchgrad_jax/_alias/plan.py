"""`python -m torchgrad_jax plan`: what a script's step needs on hardware that is not here.

The script runs once for each target, in a process of its own, with that hardware in the place of this machine's: its
model and its batches are shapes. It stops where it calls a compiled function the second time, or reads a value after
the first call; that function is the step which is planned.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_CHILD = "--into"
_CUDNN = " Attention in half precision on NVIDIA's GPUs is compiled by cuDNN, which jax[cuda12] brings"


def main(argv: Sequence[str]) -> int:
    """The command line."""
    own, arguments = _apart([*argv])
    given = _parser().parse_args(own)
    if given.into is not None:
        return _plan_into(given, [given.script, *arguments])
    if given.by_layers and given.cache is not None:
        sys.stderr.write("--cache wants the program of the whole model, and --by-layers compiles none\n")
        return 2
    options = [name for name, on in (("--largest-batch", given.largest_batch), ("--by-layers", given.by_layers)) if on]
    options += ["--cache", str(Path(given.cache).resolve())] if given.cache is not None else []
    found, failed = [], []
    for target in given.on or ["v5e:2x2"]:
        sys.stderr.write(f"planning {given.script} on {target} ...\n")
        plan = _in_a_process(target, given.script, arguments, options)
        if plan is None:
            failed.append(target)
        else:
            found.append(plan)
    if not found:
        return 1
    from .._bridge.compile.plans.plan import Plan, report

    plans = [Plan.from_json(text) for text in found]
    sys.stdout.write("\n".join(report(plans)) + "\n")
    if given.json is not None:
        Path(given.json).write_text(json.dumps([json.loads(text) for text in found], indent=2) + "\n")
    if given.html is not None:
        from .._bridge.compile.plans.page import page

        Path(given.html).write_text(page(given.script, plans))
    if failed:
        sys.stderr.write(f"there is no plan for {', '.join(failed)}; what is said above is why\n")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torchgrad_jax plan",
        description="Say what the compiled step of a script needs on hardware that is not here: memory, arithmetic, "
        "the least time that it takes, exchanges between devices.",
        usage="%(prog)s [-h] [--on TARGET] [--largest-batch] [--by-layers] [--cache FOLDER] [--json FILE] "
        "[--html FILE] SCRIPT [-- ARGUMENT ...]",
    )
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument(
        "--on", metavar="TARGET", action="append", help="v5e:2x2, v4:2x2x1, h100, h100:8 and others; several times"
    )
    parser.add_argument(
        "--largest-batch", action="store_true", help="find with how many samples the step fits; it is compiled thrice"
    )
    parser.add_argument(
        "--by-layers",
        action="store_true",
        help="of many equal layers compile 2, and then 4; the plan of the whole model follows from these, and says so",
    )
    parser.add_argument(
        "--cache",
        metavar="FOLDER",
        help="write the compiled programs there; with TORCHGRAD_JAX_CACHE=FOLDER the step starts without compiling",
    )
    parser.add_argument("--json", metavar="FILE", help="write the plans as JSON")
    parser.add_argument("--html", metavar="FILE", help="write a page with a picture")
    parser.add_argument(_CHILD, metavar="FILE", help=argparse.SUPPRESS)
    return parser


def _apart(argv: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and those of the script behind `--`."""
    at = argv.index("--") if "--" in argv else len(argv)
    return argv[:at], argv[at + 1 :]


def _in_a_process(target: str, script: str, arguments: Sequence[str], options: Sequence[str] = ()) -> str | None:
    """The plan for one target as JSON, or None after an error, which was printed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.json"
        command = [sys.executable, "-m", "torchgrad_jax", "plan", script, "--on", target, *options]
        command += [_CHILD, str(file)]
        done = subprocess.run([*command, *(["--", *arguments] if arguments else [])], check=False, stdout=sys.stderr)
        return file.read_text() if done.returncode == 0 and file.exists() else None


class _Stop(BaseException):
    """Ends the script: its step is known."""


class _Steps:
    """The compiled functions that a script calls."""

    def __init__(self) -> None:
        self.last: tuple[Any, Any, Any] | None = None
        """The last one, with its arguments."""
        self._called: set[int] = set()

    def __call__(self, compiled: Any, args: Any, kwargs: Any) -> None:
        self.last = compiled, args, kwargs
        if id(compiled) in self._called:
            raise _Stop
        self._called.add(id(compiled))


def _plan_into(options: argparse.Namespace, command: list[str]) -> int:
    """Plan for one target, in this process, and write the plan to a file."""
    name = options.on[0]
    from .finder import install_as_torch
    from .start import have_64_bits, run, script, tell_children

    install_as_torch()
    tell_children()
    have_64_bits()
    from .._bridge.compile.plans.batches import batch_of, largest_batch, plans_of
    from .._bridge.compile.plans.layers import plans_by_layers
    from .._bridge.compile.plans.plan import plan_of
    from .._bridge.compile.travel import write_to_cache
    from .._core.arrays.devices import resolve
    from .._core.jax.target import Target
    from .._core.state import MODES

    try:
        target = Target(name)
    except (RuntimeError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    with target:
        target.called = steps = _Steps()
        MODES.default_device = resolve("xla")
        code = _run_until_known(run, script(command[0]), command[1:], steps)
        if steps.last is None:
            if code == 0:
                sys.stderr.write(
                    f"{command[0]} calls no compiled function, so that no step is known: put @torch.compile before the "
                    "function that is one step of training, with backward() and the optimizer's step() in it\n"
                )
            return code or 1
        target.called = None
        compiled, args, kwargs = steps.last
        try:
            given = args, kwargs
            if options.by_layers:
                plan_with = plans_by_layers(target, compiled)
                plan = plan_with(given)
            else:
                plan_with, low = plans_of(target, compiled.lower), compiled.lower(*args, **kwargs)
                plan = plan_of(target, low)
                if options.cache is not None:
                    write_to_cache(low, options.cache)
            if options.largest_batch:
                most = largest_batch(plan_with, given, plan)
                plan = dataclasses.replace(plan, batch=batch_of(given), largest_batch=most)
        except RuntimeError as error:
            text = str(error)
            more = _CUDNN if "cuDNN not found" in text and target.platform == "cuda" else ""
            sys.stderr.write(f"XLA makes no program for {name}: {text}{more}\n")
            return 1
    Path(options.into).write_text(plan.to_json())
    return 0


def _run_until_known(run: Any, start: Any, arguments: list[str], steps: _Steps) -> int:
    """Run a script until its step is known; what it raises after the first call does not matter."""
    hook = sys.excepthook

    def shown(kind: Any, error: BaseException, traceback: Any) -> None:
        if steps.last is None:
            hook(kind, error, traceback)

    sys.excepthook = shown
    try:
        return int(run(start, arguments))
    except SystemExit as end:
        return int(end.code) if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.excepthook = hook


__all__ = ["main"]
