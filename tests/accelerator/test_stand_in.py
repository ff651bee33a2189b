"""Tests of an accelerator beside the host, with a device of the CPU backend in its place."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("subject", ["devices", "streams"])
def test_with_a_stand_in(subject, dev):
    if dev.type != "cpu":
        pytest.skip("there is a real one")
    command = [
        "-m", "pytest", "-q", "-p", "tests.accelerator.stand_in", "-p", "no:cacheprovider",
        f"tests/accelerator/test_{subject}.py",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout
