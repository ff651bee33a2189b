"""Meshes of eight devices in one process. Each file of `eight/` runs in a process that has so many."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = sorted((Path(__file__).parent / "eight").glob("case_*.py"))


@pytest.mark.parametrize("file", CASES, ids=[file.stem.removeprefix("case_") for file in CASES])
def test_on_eight_devices(file: Path, request: pytest.FixtureRequest):
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")},
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
    }
    oracle = f"--oracle={request.config.getoption('--oracle')}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    run = subprocess.run([*command, oracle, str(file)], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-20000:]
