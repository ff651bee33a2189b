"""How many programs a step starts on an accelerator, by line: `torch.profiler.profile_launches`."""

import os
import subprocess
import sys

import pytest

import torchgrad_jax as torch

PROGRAM = """
import torchgrad_jax as torch
from torchgrad_jax.profiler import profile_launches

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(30, 30), torch.nn.Linear(30, 3)

    def forward(self, x):
        h = self.a(x).tanh()
        return self.b(h).exp()

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)

def step(x):
    opt.zero_grad()
    y = net(x)
    loss = y.square().mean()
    loss.backward()
    opt.step()
    return loss.detach()

def twice(f):
    return f(torch.ones(2)) + f(torch.ones(2)).log()

x = torch.randn(5, 30)
for found in (profile_launches(step, x), profile_launches(torch.compile(step), x), profile_launches(twice, torch.exp)):
    print("total", found.total)
    for (function, _, line), times, launched in found.lines():
        print(function, line, times, *sorted({row.program for row in launched}))
print(profile_launches(step, x))
"""


def run(*command):
    variables = {**os.environ, "TORCHGRAD_JAX_EXECUTOR": "xla"}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True, env=variables).stdout


def test_starts_are_counted_by_the_line_of_the_user(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    eager, compiled, twice = run(str(script)).split("total ")[1:]
    total, *lines = eager.splitlines()
    assert sorted(lines) == [
        "forward 11 3 addmm read_view tanh",  # the view is the transposed weight
        "forward 12 3 addmm exp read_view",
        "step 20 2 mean pow_const",  # after the call of forward: of the line that goes on
        "step 21 1 backward_pass",
        "step 22 1 _step",
    ]
    assert total == "10"
    assert compiled.splitlines() == ["1", "<module> 29 1 compiled_step"]
    number, line, *table = twice.splitlines()
    assert int(number) == int(line.split()[2]) >= 4
    assert {"exp", "log", "add"} <= {*line.split()}
    assert "     3  forward train.py:11  read_view, addmm, tanh" in table
    assert "        h = self.a(x).tanh()" in table
    assert table[-1] == "    10  in all"


def test_the_table_of_the_pairs():
    assert run("-m", "benchmarks", "launches", "mlp").splitlines() == ["| mlp | 9 | 1 | mlp.py:26, 7 |"]


def test_where_numpy_computes_nothing_is_counted(monkeypatch):
    monkeypatch.delenv("TORCHGRAD_JAX_EXECUTOR", raising=False)
    called = []
    with pytest.raises(RuntimeError, match="With TORCHGRAD_JAX_EXECUTOR=xla in the environment"):
        torch.profiler.profile_launches(called.append, 1)
    assert not called
