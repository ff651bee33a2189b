"""Placement over several devices belongs to the storage: whatever is written to a tensor is spread as before."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from torchgrad_jax import nn
from torchgrad_jax.distributed.device_mesh import DeviceMesh, init_device_mesh
from torchgrad_jax.distributed.fsdp import FullyShardedDataParallel, fully_shard

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
    there = {"flag": {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}, "setting": {"JAX_NUM_CPU_DEVICES": "8"}}
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
    run = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    page = (Path(__file__).parents[2] / "docs/many_devices.md").read_text(encoding="utf-8")
    picture = page.partition("```\n┌")[2].partition("```")[0]
    assert run.stdout == "┌" + picture


@pytest.mark.parametrize("name", ["XLA_FLAGS", "JAX_NUM_CPU_DEVICES"])
def test_devices_that_are_asked_for_too_late_are_missed(name: str, monkeypatch: pytest.MonkeyPatch):
    """A program that sets them itself, after the first tensor, is told so by whatever makes a mesh."""
    has = jax.device_count()
    monkeypatch.setenv("PJRT_NPROC", "64")  # the program's own, which nobody changes
    value = "64" if name == "JAX_NUM_CPU_DEVICES" else "--xla_force_host_platform_device_count=64"
    monkeypatch.setenv(name, value)
    layer = nn.Linear(64, 64)
    for make in (
        lambda: init_device_mesh("cpu", (8, 8)),
        lambda: DeviceMesh("cpu", list(range(64))),
        lambda: fully_shard(layer),
        lambda: FullyShardedDataParallel(layer),
    ):
        with pytest.raises(RuntimeError, match=f"asks for 64 devices .*, and JAX has {has}: .* before"):
            make()
    assert fully_shard(layer, mesh=init_device_mesh("cpu", (1,))) is layer
