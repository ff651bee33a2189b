"""Packages that others built on torch's public API, run under both libraries.

Each program of programs/ uses one package, or a few, and prints numbers. It is run with live torch and with
`python -m torchgrad_jax`, and what it prints is compared line by line. A program about a package for JAX has no torch
to be compared with: by itself it uses JAX alone, and with `python -m torchgrad_jax` it does the same with tensors.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from .requirements import REQUIREMENTS, install, places

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "packages.md"
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")
TOLERANCE = 1e-3
"""Programs print three to six digits after several steps of an algorithm, each of which rounds."""


@dataclass(frozen=True)
class Verdict:
    """How a program went under both libraries."""

    name: str
    versions: dict[str, str]
    what: str
    lines: int
    differences: Sequence[str]
    seconds: float

    @property
    def result(self) -> str:
        """For the table."""
        if not self.differences:
            return f"same, {self.lines} lines"
        return f"**{len(self.differences)} of {self.lines} lines differ**: {self.differences[0]}"


def same(a: str, b: str) -> bool:
    """Whether two lines say the same: words exactly, numbers up to rounding."""
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(map(float, NUMBER.findall(a)), map(float, NUMBER.findall(b)))
    return all(math.isclose(x, y, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for x, y in pairs)


def differences(want: list[str], got: list[str]) -> list[str]:
    """The lines that tell two outputs apart."""
    if len(want) != len(got):
        return list(difflib.unified_diff(want, got, "torch", "here", n=0, lineterm=""))[3:]
    return [f"`{a}`, not `{b}`" for a, b in zip(want, got) if not same(a, b)]


def output(path: Path, sites: Sequence[Path], *start: str) -> list[str]:
    """What a program prints; its last words if it fails."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *sites])),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *start, str(path)], capture_output=True, text=True, env=env, check=False
    )
    lines = done.stdout.strip("\n").split("\n")
    if done.returncode:
        lines.append("failed: " + (done.stderr.strip().split("\n") or ["?"])[-1])
    return lines


def judge(name: str, site: Path) -> Verdict:
    """Run a program under both libraries."""
    path = HERE / "programs" / f"uses_{name}.py"
    sites = places(name, site)
    want = output(path, sites)
    began = time.time()
    got = output(path, sites, "-m", "torchgrad_jax")
    found = differences(want, got)
    if want[-1].startswith("failed: "):
        found.append(f"torch itself: {want[-1]}")
    return Verdict(name, versions(name, site), purpose(path), len(want), tuple(found), time.time() - began)


def versions(name: str, site: Path) -> dict[str, str]:
    """The installed versions of the packages that a program is about."""
    installed = metadata.distributions(path=[*map(str, places(name, site))])
    there = {_plain(d.metadata["Name"]): d.version for d in installed}
    return {p: there.get(_plain(p), "?") for p in REQUIREMENTS[name].packages}


def _plain(name: str) -> str:
    """The name of a package as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def purpose(path: Path) -> str:
    """The docstring of a program."""
    return path.read_text(encoding="utf-8").split('"""')[1].strip()


def page(verdicts: list[Verdict]) -> str:
    """docs/packages.md."""
    rows = [f"| {', '.join(f'{p} {v}' for p, v in v.versions.items())} | {v.what} | {v.result} |" for v in verdicts]
    return TEXT.format(rows="\n".join(rows))


TEXT = """\
# Packages built on PyTorch

These packages of others run unmodified under `python -m torchgrad_jax`. Each program of
`compat_suite/packages/programs/` runs once with torch and once here, from the same seed, and prints losses, gradients
and results. "Same, 7 lines" says that the two outputs agree in all of their 7 lines, numbers to rounding. Programs
about packages for JAX (equinox, flax, optax, orbax) run once in JAX alone, and once with tensors. The table is
written by

```sh
python -m compat_suite packages
```

which installs the packages into `build/packages` first. It needs a package index, and torch to compare with, so it is
not part of `make test`.

| package | what is run | result |
| --- | --- | --- |
{rows}
"""


def remembered(state: Path) -> dict[str, Any]:
    """The verdicts of runs before."""
    return json.loads(state.read_text(encoding="utf-8")) if state.exists() else {}


def remember(state: Path, known: dict[str, Any]) -> None:
    """Keep verdicts for later runs."""
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def main(args: argparse.Namespace) -> int:
    """Run the programs, print how they went, and write the page of all that were run, now or before."""
    names = args.name or sorted(REQUIREMENTS)
    site = Path(args.site)
    if not args.no_install:
        install(names, site)
    known = remembered(Path(args.state))
    verdicts = []
    for name in names:
        verdict = judge(name, site)
        verdicts.append(verdict)
        known[name] = asdict(verdict)
        remember(Path(args.state), known)
        print(f"{name}: {verdict.result}  ({verdict.seconds:.0f} s)", flush=True)
        for line in verdict.differences[1:] if args.verbose else ():
            print("   ", line)
    everything = [Verdict(**known[name]) for name in sorted(REQUIREMENTS) if name in known]
    PAGE.write_text(page(everything), encoding="utf-8")
    return 1 if any(v.differences for v in verdicts) else 0
