"""Tests of an accelerator beside the host, with a device of the CPU backend in its place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


SUBJECTS = [
    ("devices", "gpu", 1),
    ("streams", "gpu", 1),
    ("training", "gpu", 1),
    ("training", "tpu", 1),
    ("many_accelerators", "gpu", 4),
    ("attention_kernel.py::test_what_a_program_allows", "gpu", 1),
]


@pytest.mark.parametrize("subject, kind, count", SUBJECTS, ids=lambda x: str(x))
def test_with_a_stand_in(subject, kind, count, dev):
    if dev.type != "cpu":
        pytest.skip("there is a real one")
    command = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.accelerator.stand_in",
        "-p",
        "no:cacheprovider",
        f"tests/accelerator/test_{subject if '::' in subject else f'{subject}.py'}",
    ]
    env = {**os.environ, "STAND_IN": kind, "STAND_IN_DEVICES": str(count)}
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout
