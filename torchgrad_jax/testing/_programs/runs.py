"""Start a program under a library, watched, in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._observer.recording import Recording, load

_BOOT = Path(__file__).resolve().parent.parent / "_boot.py"
_PACKAGE = Path(__file__).resolve().parent.parent.parent
HERE, TORCH = "torchgrad_jax", "torch"


class ProgramFailed(RuntimeError):
    """A watched process left no recording."""


@dataclass(frozen=True)
class Run:
    """A program and how it runs.

    Attributes:
        program: a script, or a module where `module` says so.
        arguments: its arguments.
        module: whether `program` is the name of a module.
        library: "torchgrad_jax" or "torch".
        variant: "plain", "eager", "compiled", "exact", "float64" or "devices".
        devices: how many, for the last.
        platform: where tensors are made if nobody says, by JAX's name; "" leaves the choice to JAX.
        nudge: a number that picks the directions in which weights are nudged; 0 leaves them.
        seed: the seed of torch, NumPy and Python.
        steps: after how many optimizer steps the program is stopped; 0: it runs to its end.
        window: for which events single operators are recorded.
        python: the interpreter.
    """

    program: str
    arguments: tuple[str, ...] = ()
    module: bool = False
    library: str = HERE
    variant: str = "plain"
    equal_bits: bool = False
    devices: int = 1
    platform: str = ""
    nudge: int = 0
    seed: int = 0
    steps: int = 0
    window: tuple[int, int] = (0, 12)
    python: str = sys.executable

    def settings(self, out: str) -> dict[str, Any]:
        """What the watched process is told."""
        names = ("program", "arguments", "module", "library", "variant", "devices", "nudge", "seed", "steps")
        settings: dict[str, Any] = {k: getattr(self, k) for k in names}
        return settings | {"window": self.window, "out": out, "path": str(_PACKAGE.parent)}

    def environment(self) -> dict[str, str]:
        """The environment of the watched process."""
        env = os.environ | {"PYTHONHASHSEED": "0"}
        if self.platform:
            env["JAX_DEFAULT_DEVICE"] = self.platform
            env.pop("JAX_PLATFORMS", None)  # programs expect a CPU beside an accelerator
        if self.equal_bits:
            env["TORCHGRAD_JAX_EQUAL_BITS"] = "1"
        if self.variant == "devices":
            flag = f"--xla_force_host_platform_device_count={self.devices}"
            env["XLA_FLAGS"] = f"{env.get('XLA_FLAGS', '')} {flag}".strip()
        return env


def has_torch(python: str = sys.executable) -> bool:
    """Whether an interpreter has torch itself; another one is believed to."""
    if python != sys.executable:
        return True
    spec = importlib.util.find_spec("torch")
    return spec is not None and _PACKAGE.name not in str(spec.origin)


class _Process:
    """A watched process that is running."""

    def __init__(self, run: Run, folder: str, name: str) -> None:
        self.run, self.out = run, os.path.join(folder, f"{name}.npz")
        self.log = Path(folder, f"{name}.log")
        settings = Path(folder, f"{name}.json")
        settings.write_text(json.dumps(run.settings(self.out)))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [run.python, str(_BOOT), str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=run.environment(),
            )

    def recording(self) -> Recording:
        self.process.wait()
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
        if not os.path.exists(self.out):
            code = self.process.returncode
            raise ProgramFailed(f"{self.run.program} under {self.run.library} ended with {code}:\n{tail}")
        (found,) = load(self.out)
        found.facts["tail"] = tail
        return found


def record(runs: Sequence[Run], at_once: int = 2) -> list[Recording]:
    """Run programs, some at once, and return what was seen of each.

    Raises:
        ProgramFailed: when a process left no recording: it was killed, or could not start.
    """
    found: list[Recording] = []
    with tempfile.TemporaryDirectory(prefix="torchgrad_jax-compare-") as folder:
        running: list[_Process] = []
        try:
            for i, run in enumerate(runs):
                if len(running) - len(found) >= at_once:
                    found.append(running[len(found)].recording())
                running.append(_Process(run, folder, str(i)))
            found += [p.recording() for p in running[len(found) :]]
        finally:
            for p in running:
                if p.process.poll() is None:
                    p.process.kill()
                    p.process.wait()
    return found


def nudged(run: Run, count: int) -> list[Run]:
    """The same run with numbers that are moved by a rounding, in several directions."""
    return [replace(run, nudge=i + 1) for i in range(count)]
