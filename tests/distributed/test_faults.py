"""A process that is killed, raises, or never arrives ends the others with an error that names it."""

import json
import signal
import time

import pytest

from .processes import LIMIT
from .test_run import alive, start

LOST = {
    "killed": ("os.kill(os.getpid(), 9)", "rank 1 has closed its connection", 60),
    "raises": ("raise ValueError('mine')", "rank 1 has closed its connection", 60),
    "late": ("time.sleep(600)", "rank 1 did not take part within 3 seconds", 3),
}


@pytest.mark.parametrize("how", LOST)
def test_a_lost_process_is_named(how, tmp_path):
    end, said, seconds = LOST[how]
    text = f"""
import datetime, os, signal, time
import torchgrad_jax as torch, torchgrad_jax.distributed as d
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that rank 0 gets to say what it waits for
d.init_process_group("gloo", timeout=datetime.timedelta(seconds={seconds}))
open("pid" + os.environ["RANK"], "w").write(str(os.getpid()))
d.barrier()
if d.get_rank() == 1:
    {end}
d.all_reduce(torch.ones(2))
"""
    started = start(tmp_path, text, "--shutdown-timeout=4")
    errors = started.communicate(timeout=LIMIT)[1]
    assert started.returncode == 1
    assert said in errors
    assert not any(alive(int((tmp_path / f"pid{r}").read_text())) for r in (0, 1))


@pytest.mark.parametrize("others", ["d.barrier()", "print(placed.full_tensor())"])
def test_a_lost_process_of_a_mesh_ends_the_others_at_once(others, tmp_path):
    text = f"""
import os
import torchgrad_jax as torch, torchgrad_jax.distributed as d
from torchgrad_jax.distributed.device_mesh import init_device_mesh
from torchgrad_jax.distributed.tensor import Shard, distribute_tensor
d.init_process_group("xla")
open("pid" + os.environ["RANK"], "w").write(str(os.getpid()))
placed = distribute_tensor(torch.ones(4, 2), init_device_mesh("cpu", (2,)), [Shard(0)])
d.barrier()
if d.get_rank() == 1:
    raise ValueError("mine")
{others}
"""
    started = start(tmp_path, text, "--shutdown-timeout=4")
    errors = started.communicate(timeout=LIMIT)[1]  # JAX alone would wait for five minutes
    assert started.returncode == 1
    assert "ValueError: mine" in errors
    assert not any(alive(int((tmp_path / f"pid{r}").read_text())) for r in (0, 1))


def test_a_process_of_a_mesh_that_never_arrives_is_named(tmp_path):
    text = """
import datetime, os, time
import torchgrad_jax.distributed as d
if os.environ["RANK"] == "1":
    time.sleep(600)
d.init_process_group("xla", timeout=datetime.timedelta(seconds=1))
"""
    started = start(tmp_path, text, "--shutdown-timeout=1")
    errors = started.communicate(timeout=LIMIT)[1]
    assert started.returncode == 1
    assert "rank 1 of 2 did not arrive within 1 seconds" in errors


def test_what_needs_the_other_processes_of_a_mesh_is_refused(tmp_path):
    text = """
import os
os.environ["JAX_NUM_CPU_DEVICES"] = "2"  # with one device each, processes feed what they like
import torchgrad_jax as torch, torchgrad_jax.distributed as d
from torchgrad_jax.distributed.fsdp import fully_shard
d.init_process_group("xla")
torch.manual_seed(0)
model = fully_shard(torch.nn.Linear(4, 4))
try:
    model(torch.ones(3 + d.get_rank(), 4))
except ValueError as e:
    open("said" + str(d.get_rank()), "w").write(str(e))
weight = model.weight.detach()
for read in (weight.numpy, weight.tolist, lambda: torch.save(weight, "file")):
    try:
        read()
    except RuntimeError as e:
        open("cure" + str(d.get_rank()), "a").write(str(e))
"""
    started = start(tmp_path, text)
    errors = started.communicate(timeout=LIMIT)[1]
    assert started.returncode == 0, errors
    for rank in (0, 1):
        assert "not rank 0: 3, rank 1: 4" in (tmp_path / f"said{rank}").read_text()
        assert (tmp_path / f"cure{rank}").read_text().count("use full_tensor() in all of them") == 3


def test_sigterm_to_the_launcher_ends_its_processes(tmp_path):
    text = "import os, time; open('pid' + os.environ['RANK'], 'w').write(str(os.getpid())); time.sleep(600)"
    started = start(tmp_path, text)
    files = [tmp_path / "pid0", tmp_path / "pid1"]
    while not all(f.exists() and f.read_text() for f in files):
        assert started.poll() is None
        time.sleep(0.02)
    started.send_signal(signal.SIGTERM)
    started.communicate(timeout=LIMIT)
    assert started.returncode
    assert not any(alive(int(f.read_text())) for f in files)


def test_files_of_output_and_errors_of_a_module(tmp_path):
    text = """
import os, sys
from torchgrad_jax.distributed.elastic.multiprocessing.errors import record
@record
def main():
    print("out", os.environ["RANK"], flush=True)
    print("err", os.environ["RANK"], file=sys.stderr, flush=True)
    if os.environ["RANK"] == "1":
        raise ValueError("mine")
main()
"""
    options = ("--log-dir=logs", "--redirects=2", "--tee=0:1", "-m")
    started = start(tmp_path, text, *options, program="program")
    out, errors = started.communicate(timeout=LIMIT)
    assert started.returncode == 1
    (folder,) = (tmp_path / "logs").glob("*/attempt_0")
    assert "[default0]:out 0" in out
    assert (folder / "0" / "stdout.log").read_text() == "out 0\n"
    assert (folder / "1" / "stderr.log").read_text().startswith("err 1\n")
    error = json.loads((folder / "1" / "error.json").read_text())
    assert "mine" in json.dumps(error)
    assert "mine" in errors
