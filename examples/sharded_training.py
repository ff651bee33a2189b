"""One training step over eight devices: by annotations, with parameters split, and with `shard_map`.

JAX's sharding works on arrays, and tensors hold arrays: nothing of a model has to change. Where JAX has 32-bit types,
it makes int32 of labels, and `y.long()` makes them int64 again. Eight CPU devices stand in for accelerators here; set
XLA_FLAGS yourself to use others.

    python examples/sharded_training.py
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import torchgrad_jax as torch

functional = torch.nn.functional


def network():
    """Two layers; the same numbers each time."""
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def one_device(x, y, steps):
    """Ordinary training: the losses to compare with."""
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.5)
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        loss = functional.cross_entropy(net(torch.tensor(x)), torch.tensor(y))
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def tensors_on_many(x, y, steps, mesh):
    """The same training loop, compiled: parameters split over `model`, the batch over `data`."""
    net = network()
    split = {"0.weight": P("model", None), "0.bias": P("model"), "2.weight": P(None, "model")}
    for name, p in net.named_parameters():
        there = NamedSharding(mesh, split.get(name, P()))
        p.data = torch.as_tensor(jax.device_put(jax.numpy.asarray(p.detach()), there))
    opt = torch.optim.SGD(net.parameters(), lr=0.5)
    rows = NamedSharding(mesh, P("data"))
    inputs, targets = (torch.as_tensor(jax.device_put(a, rows)) for a in (x, y))

    @torch.compile
    def step():
        opt.zero_grad()
        loss = functional.cross_entropy(net(inputs), targets.long())
        loss.backward()
        opt.step()
        return loss

    losses = [step().item() for _ in range(steps)]
    assert jax.numpy.asarray(net[0].weight.detach()).sharding.spec[0] == "model"
    return losses


def arrays_on_many(x, y, steps, mesh):
    """The network as a JAX function of its parameters, in a step written for JAX."""
    forward = torch.to_jax(network())
    entropy = torch.to_jax(lambda out, y: functional.cross_entropy(out, y.long()))

    @jax.jit
    def step(params, x, y):
        loss, g = jax.value_and_grad(lambda p: entropy(forward(p, x), y))(params)
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, g), loss

    params = jax.device_put(forward.params, NamedSharding(mesh, P()))
    x, y = (jax.device_put(a, NamedSharding(mesh, P("data"))) for a in (x, y))
    losses = []
    for _ in range(steps):
        params, loss = step(params, x, y)
        losses.append(float(loss))
    return losses


def shards_on_many(x, y, steps, mesh):
    """What each device does, spelled out: `shard_map` over the batch, directly on tensors."""
    net = network()

    def loss_of(params, x, y):
        out = torch.func.functional_call(net, params, (x,))
        loss = functional.cross_entropy(out, y.long())
        return jax.lax.pmean(jax.numpy.asarray(loss), ("data", "model"))

    batch = P(("data", "model"))
    local = jax.shard_map(jax.value_and_grad(loss_of), mesh=mesh, in_specs=(P(), batch, batch), out_specs=P())

    @jax.jit
    def step(params, x, y):
        loss, g = local(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, g), loss

    params = dict(net.named_parameters())
    losses = []
    for _ in range(steps):
        params, loss = step(params, torch.tensor(x), torch.tensor(y))
        losses.append(float(loss))
    return losses


def main():
    """Train in each way and compare."""
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, 2), ("data", "model"))
    print(f"{devices.size} devices, {dict(mesh.shape)}")
    draws = np.random.RandomState(0)
    x, y = draws.randn(16, 8).astype(np.float32), draws.randint(0, 4, 16)
    want = one_device(x, y, 4)
    for way in (tensors_on_many, arrays_on_many, shards_on_many):
        agrees = np.allclose(way(x, y, 4, mesh), want, rtol=1e-4)
        print(f"as on one device: {agrees}")


if __name__ == "__main__":
    main()
