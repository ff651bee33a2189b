"""Placement over several devices belongs to the storage: whatever is written to a tensor is spread as before."""

import os
import subprocess
import sys
from pathlib import Path


def test_writes_keep_the_placement():
    """A process of its own, with 8 virtual devices, compares each write with the one-device run."""
    env = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    script = Path(__file__).with_name("placed_writes.py")
    run = subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    page = (Path(__file__).parents[2] / "docs/distributed.md").read_text(encoding="utf-8")
    picture = page.partition("```\n┌")[2].partition("```")[0]
    assert run.stdout == "┌" + picture
