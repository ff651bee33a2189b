"""Programs as torch's tutorials write them: a launcher starts them over 2 and 4 processes, with torch's losses.

`TORCHGRAD_RECORD=1` with torch installed writes again what torch prints.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.alias.test_programs import differences

from .processes import environment

FOLDER = Path(__file__).parent / "launched"
TORCH = "torch.distributed.run"
ABORTED = "terminate called without an active exception"  # now and then a process of torch's ends before gloo's threads
PROGRAMS = ["data_parallel", "fsdp2", "tensor_parallel"]
every = pytest.mark.parametrize(("program", "n"), [(p, n) for p in PROGRAMS for n in (2, 4)])


def printed(launcher: str, program: str, n: int) -> list[str]:
    """What the processes print, rank by rank."""
    command = [sys.executable, "-m", launcher, f"--nproc-per-node={n}", str(FOLDER / f"{program}.py")]
    for _ in range(3):
        done = subprocess.run(command, env=environment(), text=True, capture_output=True, timeout=240, check=False)
        if not (launcher == TORCH and ABORTED in done.stderr):
            break
    assert done.returncode == 0, done.stderr
    return sorted(line for line in done.stdout.splitlines() if line.startswith("rank"))


def record(program: str, n: int) -> Path:
    return FOLDER / f"{program}_over_{n}.txt"


@every
def test_a_program_under_a_launcher_prints_what_torch_prints(program, n):
    found = printed("torchgrad_jax.distributed.run", program, n)
    assert not differences(record(program, n).read_text().splitlines(), found)


@every
def test_the_record_is_what_torch_prints(program, n, oracle):
    if not oracle.distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    found = printed(TORCH, program, n)
    if os.environ.get("TORCHGRAD_RECORD") == "1":
        record(program, n).write_text("".join(f"{line}\n" for line in found))
    assert not differences(record(program, n).read_text().splitlines(), found)
