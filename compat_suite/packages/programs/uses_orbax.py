"""Checkpoints of orbax: training stops, a new network is given what was saved, and goes on; beside it JAX alone."""

import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

WITH_TENSORS = "torchgrad_jax" in sys.modules
STEPS = 6
rng = np.random.RandomState(0)
x = rng.randn(64, 4).astype(np.float32)
y = np.sin(x[:, :1] * 2).astype(np.float32)
NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")
weights = [rng.randn(*shape).astype(np.float32) / 2 for shape in ((16, 4), (16,), (1, 16), (1,))]


def restored(manager, like):
    """What a manager of checkpoints has of the last step."""
    manager.wait_until_finished()
    return manager.restore(manager.latest_step(), args=ocp.args.StandardRestore(like))


def alone(manager):
    def loss(held):
        a, b, c, d = (held[name] for name in NAMES)
        return ((jnp.tanh(x @ a.T + b) @ c.T + d - y) ** 2).mean()

    optimizer = optax.adam(0.02)
    net = {name: jnp.asarray(w) for name, w in zip(NAMES, weights)}
    state = optimizer.init(net)
    for step in range(3 * STEPS):
        if step and step % STEPS == 0:
            zeros = jax.tree.map(jnp.zeros_like, {"net": net, "state": state})
            found = restored(manager, zeros)
            net, state = found["net"], found["state"]
        value, g = jax.value_and_grad(loss)(net)
        updates, state = optimizer.update(g, state)
        net = optax.apply_updates(net, updates)
        manager.save(step, args=ocp.args.StandardSave({"net": net, "state": state}))
        yield value
    yield from (net[name].sum() for name in NAMES)


def here(manager):
    import torch

    def made():
        net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        return net, torch.optim.Adam(net.parameters(), lr=0.02)

    def states(net, optimizer):
        return {"net": dict(net.state_dict()), "state": {str(k): v for k, v in optimizer.state_dict()["state"].items()}}

    net, optimizer = made()
    net.load_state_dict({name: torch.as_tensor(w) for name, w in zip(NAMES, weights)})
    for step in range(3 * STEPS):
        if step and step % STEPS == 0:
            like = states(net, optimizer)
            net, optimizer = made()
            found = restored(manager, jax.tree.map(jnp.zeros_like, like))
            net.load_state_dict({k: torch.as_tensor(v) for k, v in found["net"].items()})
            state = {int(k): {n: torch.as_tensor(v) for n, v in of.items()} for k, of in found["state"].items()}
            optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(torch.as_tensor(x)), torch.as_tensor(y))
        loss.backward()
        optimizer.step()
        manager.save(step, args=ocp.args.StandardSave(states(net, optimizer)))
        yield loss
    yield from (p.detach().sum() for p in net.parameters())


with tempfile.TemporaryDirectory() as folder:
    options = ocp.CheckpointManagerOptions(max_to_keep=2)
    with ocp.CheckpointManager(Path(folder, "checkpoints"), options=options) as manager:
        for value in (here if WITH_TENSORS else alone)(manager):
            print(f"{float(value):.4f}")
