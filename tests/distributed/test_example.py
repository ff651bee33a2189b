"""examples/ddp.py, which trains in two processes, prints what it prints under torch."""

import subprocess
import sys

import pytest

from tests.alias.test_programs import differences

from .processes import ROOT, environment

SMALL = ["--epochs", "2", "--examples", "64", "--batch-size", "16", "--width", "16", "--layers", "1"]
RUN = ["-m", "torch.distributed.run", "--nproc-per-node=2", "examples/ddp.py", *SMALL]
TORCH = ["epoch 1: loss 2.41660, accuracy 0.1289", "epoch 2: loss 2.38227, accuracy 0.1328"]
"""What torch's torchrun printed."""


def printed(*start: str, more: tuple[str, ...] = ()) -> list[str]:
    env = environment()
    done = subprocess.run(
        [sys.executable, *start, *RUN, *more],
        cwd=ROOT,
        env=env,
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_example():
    assert not differences(TORCH, printed("-m", "torchgrad_jax"))


def test_example_with_split_parameters():
    found = printed("-m", "torchgrad_jax", more=("--fsdp",))
    assert not differences(TORCH, [line for line in found if line.startswith("epoch")])


def test_the_record_is_what_torch_prints(oracle):
    if not oracle.distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    assert not differences(TORCH, printed())
