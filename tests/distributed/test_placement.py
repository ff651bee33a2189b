"""Placement over several devices belongs to the storage: whatever is written to a tensor is spread as before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .processes import environment

COUNT = """
import os, re
import torchgrad_jax as torch
torch.ones(8).sum().item()
print(sum("python" in open(f"/proc/self/task/{t}/comm").read() for t in os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.parametrize("how", ["flag", "setting"])
def test_xla_has_threads_left_where_eight_devices_wait_for_each_other(how: str):
    """Fifteen may be blocked at once; with as many as devices, ordinary training hung now and then."""
    there = {
        "flag": {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"},
        "setting": {"JAX_NUM_CPU_DEVICES": "8"},
    }
    env = environment(**there[how])
    env.pop("PJRT_NPROC", None)
    run = subprocess.run([sys.executable, "-c", COUNT], env=env, capture_output=True, text=True)
    assert int(run.stdout) > 2 * 2 * 8, run.stderr  # XLA has two pools of one size


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
