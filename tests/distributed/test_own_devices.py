"""After `jax.distributed.initialize` a process's tensors live on its own devices, on every rank."""

import json
import sys

from .processes import finished, free_port, ranks

_TRAIN = """
import os, sys, json, jax
rank = int(os.environ["RANK"])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"localhost:{os.environ['JAX_PORT']}", 2, rank)
import torchgrad_jax as torch
from torchgrad_jax._engine.memory.strided import read
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
x = torch.randn(200, 3)
losses = {}
for name in ("SGD", "AdamW"):
    made = getattr(torch.optim, name)(net.parameters(), lr=0.1)
    for step in range(3):
        made.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        made.step()
    losses[name] = loss.item()
big = torch.ones(600, 600).to("cpu") * 2  # too large to stay with NumPy
half = torch.zeros(3, dtype=torch.bfloat16)
step = torch.compile(lambda x: (x @ x).sum())
where = {d.process_index for t in (big @ big, half) for d in jax.numpy.asarray(read(t)).devices()}
print("FOUND", json.dumps([losses, step(big).item(), sorted(where), jax.process_count()]))
"""


def test_training_on_every_rank():
    """Rank 1 trains as rank 0 does, which put its tensors on rank 0's device once."""
    started = ranks([sys.executable, "-c", _TRAIN], 2, JAX_PORT=str(free_port()))
    said = finished(started)
    assert [p.returncode for p in started] == [0, 0], said
    found = [json.loads(s.partition("FOUND ")[2].splitlines()[0]) for s in said]
    assert found[0][:2] == found[1][:2]
    assert [f[2:] for f in found] == [[[0], 2], [[1], 2]]
