"""Scripts that load data, each run as a program of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def output(name: str, *how: str) -> tuple[str, str]:
    """What a script writes, and its complaints."""
    command = [sys.executable, *how, str(HERE / "scripts" / f"{name}.py")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_script_without_a_guard() -> None:
    out, complaints = output("without_a_guard", "-m", "torchgrad_jax")
    assert complaints == "once\n"
    assert out.splitlines() == [
        "[True, True] [[0.0, 0.0], [9.0, 9.0]]",
        "[True, True] [0, 1] True",
        "[True, True] [[18.0, 18.0], [27.0, 27.0]]",
        "[True, True] [2, 3] True",
        "[[8.0, 'Tensor'], [125000.0, 'Tensor']] True",
        "0",
        "5 False",
    ]


def test_an_alias_for_some_packages_holds_in_workers() -> None:
    assert output("torch_of_some") == ("[[[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0]]]\n" * 2, "")


@pytest.mark.oracle
@pytest.mark.skipif(importlib.util.find_spec("torchdata") is None, reason="torchdata is not installed")
def test_a_loader_that_keeps_its_place() -> None:
    assert output("stateful", "-m", "torchgrad_jax") == output("stateful")
