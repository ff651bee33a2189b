"""The files that the README of the engine lists are the files that run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import torchgrad_jax

PACKAGE = Path(torchgrad_jax.__file__).parent
VISITS = """
import sys
import torchgrad_jax as torch

x, y = (torch.tensor([[1.0, 2.0], [3.0, 4.0]]) for _ in range(2))
x.requires_grad_()


def run():
    (x * y).sum().backward()
    return x.grad


for _ in range(5):
    run()
    x.grad = None
files = {}


def visit(frame, event, argument):
    file = frame.f_code.co_filename
    if event == "call" and "torchgrad_jax/" in file:
        files.setdefault(file.rpartition("torchgrad_jax/")[2].split(":")[0])


sys.setprofile(visit)
run()
sys.setprofile(None)
print(*files, sep="\\n")
"""


def test_the_readme_lists_the_files_of_a_product_and_its_gradient_in_order():
    said = (PACKAGE / "_engine" / "README.md").read_text()
    rows = re.findall(r"^\| (`[^|]*\.py`(?:, `[^|]*\.py`)*) \|", said.split("## The wings")[0], re.MULTILINE)
    listed = [file for row in rows for file in re.findall(r"`([^`]*)`", row)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("TORCHGRAD_JAX_")}
    done = subprocess.run([sys.executable, "-c", VISITS], capture_output=True, text=True, check=True, env=env)
    assert listed == done.stdout.split()
