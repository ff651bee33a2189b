"""Tensors that a program makes before it begins a group: the processes of a launcher meet by then."""

import sys

import pytest

from .processes import finished, ranks

_PROGRAM = """
import os, subprocess, sys
import torchgrad_jax as torch
rank = int(os.environ["RANK"])
if rank in {first}:
    kept = torch.arange(4.0) * 2
import torchgrad_jax.distributed as dist
dist.init_process_group("gloo")
mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
x = torch.ones(2) * rank
dist.all_reduce(x)
print("SUM", x.tolist(), mesh.size())
child = "import torchgrad_jax as torch; print('CHILD', torch.ones(2).sum().item())"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, timeout=60).stdout)
print("LOADED", [len(b) for b in torch.utils.data.DataLoader(torch.arange(4.0), batch_size=2, num_workers=1)])
class Asking(torch.utils.data.Dataset):
    def __len__(self):
        return 1
    def __getitem__(self, i):
        try:
            dist.barrier()
        except RuntimeError as error:
            return dist.is_initialized(), dist.get_rank(), dist.get_world_size(), "communicate" in str(error)
print("ASKED", *torch.utils.data.DataLoader(Asking(), batch_size=None, num_workers=1))
dist.destroy_process_group()
dist.init_process_group("gloo")  # and once more
print("RANK", dist.get_rank())
"""


@pytest.mark.parametrize("first", [(0, 1), (0,), (1,)], ids=["both", "rank 0", "rank 1"])
def test_processes_meet_when_the_first_of_them_makes_a_tensor(first):
    command = [sys.executable, "-c", _PROGRAM.format(first=first)]
    started = ranks(command, 2)
    said = finished(started)
    assert [p.returncode for p in started] == [0, 0], said
    for rank, text in enumerate(said):
        for line in (
            "SUM [1.0, 1.0] 2",
            "CHILD 2.0",
            "LOADED [2, 2]",
            f"ASKED [True, {rank}, 2, True]",
            f"RANK {rank}",
        ):
            assert line in text, text


def test_a_process_that_never_makes_one_is_named():
    text = """
import datetime, os, time
import torchgrad_jax.distributed as dist
from torchgrad_jax.distributed import _beginning
_beginning.default_pg_timeout = datetime.timedelta(seconds=1)
if os.environ["RANK"] == "1":
    raise SystemExit
import torchgrad_jax as torch
torch.ones(2)
"""
    started = ranks([sys.executable, "-c", text], 2)
    said = finished(started)
    assert "rank 1 of 2 did not arrive" in said[0]
    assert started[0].returncode


_ALONE = """
import os, subprocess, sys
import torchgrad_jax as torch, torchgrad_jax.distributed as dist
import jax
{before}
child = "import torchgrad_jax as torch, jax; print('CHILD', torch.ones(2).sum().item(), jax.process_count())"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, timeout=60).stdout)
dist.init_process_group("gloo")
x = torch.ones(2)
dist.all_reduce(x)
print("SUM", x.tolist(), jax.process_count())
try:
    dist.device_mesh.init_device_mesh("cpu", (2,))
except RuntimeError as error:
    print("COMPLAINT", "JAX knows only the devices of this one" in str(error))
"""


@pytest.mark.parametrize(
    ("before", "environment", "count"),
    [("", {}, 2), ("", {"TORCHGRAD_JAX_DISTRIBUTED": "0"}, 1), ("if os.environ['RANK'] == '1': jax.devices()", {}, 1)],
    ids=["a child before the group", "told not to", "JAX's own array in one process"],
)
def test_jax_learns_of_all_processes_or_stays_as_it_is_in_all(before, environment, count):
    started = ranks([sys.executable, "-c", _ALONE.format(before=before)], 2, **environment)
    for text in finished(started):
        assert "CHILD 2.0 1" in text, text
        assert f"SUM [2.0, 2.0] {count}" in text, text
        assert ("COMPLAINT True" in text) == (count == 1), text


def test_one_rank_may_make_tensors_while_the_others_wait():
    text = """
import torchgrad_jax as torch, torchgrad_jax.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 0:
    print("SUM", torch.ones(2).sum().item())
dist.barrier()
"""
    said = finished(ranks([sys.executable, "-c", text], 2))
    assert "SUM 2.0" in said[0], said
