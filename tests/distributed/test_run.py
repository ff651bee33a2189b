"""Programs that `torch.distributed.run` starts: what they are told, and how they end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torchgrad_jax.distributed import run as launcher

from .processes import LIMIT, environment

RUN = [sys.executable, "-m", "torchgrad_jax.distributed.run", "--nproc-per-node=2"]


def start(folder: Path, text: str, *options: str, program: str = "program.py") -> "subprocess.Popen[str]":
    (folder / "program.py").write_text(text)
    env = environment(OMP_NUM_THREADS="1")
    return subprocess.Popen(
        [*RUN, *options, program], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_training_and_environment(tmp_path):
    text = """
import os, torch, torch.distributed as d
d.init_process_group("gloo")
x = torch.ones(2) * (d.get_rank() + 1)
d.all_reduce(x)
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")
open("out" + os.environ["RANK"], "w").write(str([x.tolist(), [os.environ[n] for n in names]]))
d.destroy_process_group()
"""
    started = start(tmp_path, text)
    said = started.communicate(timeout=LIMIT)
    assert started.returncode == 0, said
    found = [json.loads((tmp_path / f"out{r}").read_text().replace("'", '"')) for r in (0, 1)]
    assert found == [[[3.0, 3.0], [str(r), str(r), "2", "2", "0"]] for r in (0, 1)]


def test_a_failure_ends_the_others_after_restarts(tmp_path):
    text = """
import os, sys, time
open("attempts" + os.environ["RANK"], "a").write(os.environ["TORCHELASTIC_RESTART_COUNT"])
sys.exit(3) if os.environ["RANK"] == "1" else time.sleep(600)
"""
    started = start(tmp_path, text, "--max-restarts=1")
    said = started.communicate(timeout=LIMIT)[1]
    assert started.returncode == 1
    assert "rank      : 1 (local_rank: 1)\n  exitcode  : 3" in said
    assert (tmp_path / "attempts1").read_text() == "01"


def test_processes_end_when_the_launcher_is_killed(tmp_path):
    text = "import os, time; open('pid' + os.environ['RANK'], 'w').write(str(os.getpid())); time.sleep(600)"
    started = start(tmp_path, text)
    files = [tmp_path / "pid0", tmp_path / "pid1"]
    while not all(f.exists() and f.read_text() for f in files):
        assert started.poll() is None
        time.sleep(0.02)
    pids = [int(f.read_text()) for f in files]
    started.send_signal(signal.SIGKILL)
    started.communicate(timeout=LIMIT)  # until the last of them has closed its output
    deadline = time.monotonic() + LIMIT
    while any(alive(p) for p in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_the_process_that_failed_first_is_the_cause(tmp_path):
    text = """
import torch.distributed as d
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    d.init_process_group("gloo")
    if d.get_rank() == 1:
        raise ValueError("a bad batch")
    d.barrier()
main()
"""
    started = start(tmp_path, text)
    said = started.communicate(timeout=LIMIT)[1]
    cause = said.partition("Root Cause (first observed failure):")[2]
    assert "rank      : 1" in cause, said
    assert "ValueError: a bad batch" in cause


def test_the_older_command_line_tells_the_local_rank(tmp_path):
    text = """
import sys, torch.distributed as d
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (2,))
open("out" + str(d.get_rank()), "w").write(f"{sys.argv[1:]} {mesh.get_group().size()} {d.get_backend()}")
"""
    (tmp_path / "program.py").write_text(text)
    command = [RUN[0], "-m", "torchgrad_jax.distributed.launch", RUN[-1], "program.py", "x"]
    env = environment(OMP_NUM_THREADS="1")
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [(tmp_path / f"out{r}").read_text() for r in (0, 1)]
    assert found == [f"['--local-rank={r}', 'x'] 2 xla" for r in (0, 1)]


def test_no_process_at_all_is_refused():
    with pytest.raises(AssertionError, match="--nproc-per-node=0: must be >= 1"):
        launcher.main(["--nproc-per-node=0", "program.py"])
