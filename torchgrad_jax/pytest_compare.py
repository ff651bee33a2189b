"""A pytest plug-in: each test also runs under a reference, and fails where the two part.

    pytest -p torchgrad_jax.pytest_compare --compare-with torch tests/

The tests of a project that is written for torch run here, with torchgrad_jax as torch. A second pytest has run
them under the reference before: torch, or this package without compiling (`jax`: here each module that a test
calls is one program of JAX). What they computed is watched in both, as `python -m torchgrad_jax compare` does it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ._alias.finder import install_as_torch
from .testing._observer.changes import change_of
from .testing._observer.recording import Recording, load, save
from .testing._observer.watch import Watch
from .testing._programs.compare import report_of
from .testing._programs.runs import HERE, TORCH, has_torch

_CHILD = "TORCHGRAD_JAX_COMPARE_CHILD"
"""In a pytest that runs the reference: "LIBRARY,NUDGE,FOLDER"."""


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("torchgrad_jax")
    group.addoption("--compare-with", metavar="WHAT", help="torch, jax, or a folder that --compare-record wrote")
    group.addoption(
        "--compare-record",
        metavar="FOLDER",
        help="run the tests under torch, keep what they computed, and compare with it",
    )


class _Comparison:
    """What this process does around each test."""

    def __init__(self, library: str, variant: str, nudge: int, folder: str, judge: bool) -> None:
        self.library, self.variant, self.nudge = library, variant, nudge
        self.folder, self.judge = Path(folder), judge

    def file(self, item: Any, nudge: int) -> Path:
        """Where the recording of a test is."""
        name = os.path.relpath(item.path) + item.nodeid.partition("::")[2]
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}-{nudge}.npz"

    def watched(self) -> Watch:
        """A watch for one test, with the random numbers of a seed."""
        import torch

        settings = {"library": self.library, "variant": self.variant, "nudge": self.nudge}
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002 - tests may use NumPy's global generator
        random.seed(0)
        skip = tuple(os.path.dirname(os.path.realpath(str(m.__file__))) + os.sep for m in (torch, pytest))
        skip += (os.path.dirname(os.path.realpath(__file__)) + os.sep,)
        return Watch(torch, change_of(torch, settings), (0, 1 << 30), 0, skip)

    def seen(self, item: Any, recording: Recording, error: str) -> str | None:
        """Keep what a test computed, or compare it: the text of a failure."""
        recording.facts |= {"status": 0, "error": error, "variant": self.variant, "library": self.library}
        if not self.judge:
            self.folder.mkdir(parents=True, exist_ok=True)
            save([recording], str(self.file(item, self.nudge)))
            return None
        files = [self.file(item, n) for n in (0, 1)]
        if not files[0].exists():
            return "the reference has no recording of this test"
        if error:
            return None  # the failure of the test itself says more
        recordings = [recording, *(load(str(f))[0] for f in files if f.exists())]
        reference = recordings[1].facts["error"]
        if reference:
            return f"the reference raised {reference}"
        if len(recording.events) <= 1 and not recording.entries:
            return None  # nothing was computed
        report = report_of(item.nodeid, ("torchgrad_jax", "the reference"), recordings)
        return None if report.agrees else str(report)


_COMPARISON = pytest.StashKey[_Comparison]()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any, parser: Any, args: list[str]) -> None:
    """Choose what torch is before any test is imported; run the references first."""
    child = os.environ.get(_CHILD)
    if child:
        library, nudge, folder = child.split(",", 2)
        if library == HERE:
            install_as_torch()
        early_config.stash[_COMPARISON] = _Comparison(library, "plain", int(nudge), folder, False)
        return
    options = early_config.known_args_namespace
    what, kept = options.compare_with, options.compare_record
    if what is None and kept is None:
        return
    if getattr(options, "numprocesses", None):
        raise pytest.UsageError("--compare-with runs in one process; leave out -n")
    folder = str(kept or what)
    if kept is None and what in ("torch", "jax"):
        folder = tempfile.mkdtemp(prefix="torchgrad_jax-")
        early_config.add_cleanup(functools.partial(shutil.rmtree, folder, ignore_errors=True))
    library = HERE if what == "jax" else TORCH
    if kept or what in ("torch", "jax"):
        if library == TORCH and not has_torch():
            raise pytest.UsageError("torch is not installed here: compare with jax, or with a recording")
        for nudge in (0, 1):
            _reference(list(early_config.invocation_params.args), library, nudge, folder)
    elif not os.path.isdir(folder):
        raise pytest.UsageError(f"--compare-with {what}: no such folder")
    install_as_torch()
    variant = "compiled" if what == "jax" else "plain"
    early_config.stash[_COMPARISON] = _Comparison(HERE, variant, 0, folder, True)


def _reference(args: list[Any], library: str, nudge: int, folder: str) -> None:
    """Run the same tests under the reference, and keep what they compute."""
    env = os.environ | {_CHILD: f"{library},{nudge},{folder}"}
    command = [sys.executable, "-m", "pytest", *map(str, args), "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode not in (0, 1):  # 1: a test failed, which its recording says
        raise pytest.UsageError(f"the reference could not run the tests:\n{done.stdout}{done.stderr}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Generator[None, Any, Any]:
    """Watch a test, and let it fail where it parts from the reference."""
    comparison = item.config.stash.get(_COMPARISON, None)
    if comparison is None:
        return (yield)
    watch = comparison.watched()
    error = ""
    try:
        with watch:
            return (yield)
    except pytest.skip.Exception:
        raise
    except BaseException as e:
        error = type(e).__name__
        raise
    finally:
        failure = comparison.seen(item, watch.finish(), error)
        if failure is not None and not error:
            pytest.fail(failure, pytrace=False)


def pytest_report_header(config: Any) -> str | None:
    comparison = config.stash.get(_COMPARISON, None)
    return f"torch: torchgrad_jax, compared with {comparison.folder}" if comparison and comparison.judge else None
