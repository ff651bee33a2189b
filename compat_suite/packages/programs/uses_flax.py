"""Modules of flax, linen and nnx, trained by a torch loop; beside them the same in flax and optax alone."""

import sys

import flax.linen as linen
import jax
import numpy as np
import optax
from flax import nnx

WITH_TENSORS = "torchgrad_jax" in sys.modules
STEPS = 20


class Convolutions(linen.Module):
    @linen.compact
    def __call__(self, x, train: bool):
        x = linen.relu(linen.BatchNorm(use_running_average=not train)(linen.Conv(4, (3, 3), use_bias=False)(x)))
        x = linen.LayerNorm()(x.mean((1, 2)))
        return linen.Dense(3)(x)[:, 0]


class Gated(nnx.Module):
    def __init__(self, rngs):
        self.first, self.gate = nnx.Linear(6, 16, rngs=rngs), nnx.Linear(6, 16, rngs=rngs)
        self.norm, self.last = nnx.BatchNorm(16, rngs=rngs), nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(self.norm(self.first(x) * nnx.sigmoid(self.gate(x))))[:, 0]


rng = np.random.RandomState(0)
images, numbers = rng.randn(32, 8, 8, 2).astype(np.float32), rng.randn(64, 6).astype(np.float32)
of_images, of_numbers = images.sum((1, 2, 3)) / 10, numbers[:, 0] * numbers[:, 1]
variables = Convolutions().init(jax.random.key(0), images, train=False)
gated = Gated(nnx.Rngs(0))


def linen_alone():
    params, stats = variables["params"], variables["batch_stats"]
    optimizer = optax.adam(0.01)
    state = optimizer.init(params)

    @jax.jit
    def step(params, stats, state):
        def loss(params):
            given = {"params": params, "batch_stats": stats}
            out, changed = Convolutions().apply(given, images, train=True, mutable=["batch_stats"])
            return ((out - of_images) ** 2).mean(), changed["batch_stats"]

        (value, stats), g = jax.value_and_grad(loss, has_aux=True)(params)
        updates, state = optimizer.update(g, state)
        return optax.apply_updates(params, updates), stats, state, value

    for _ in range(STEPS):
        params, stats, state, value = step(params, stats, state)
        yield value
    out = Convolutions().apply({"params": params, "batch_stats": stats}, images, train=False)
    yield from (out.sum(), stats["BatchNorm_0"]["mean"].sum(), params["Conv_0"]["kernel"].std())


def nnx_alone():
    optimizer = nnx.Optimizer(gated, optax.sgd(0.05, momentum=0.9), wrt=nnx.Param)
    gated.train()
    for _ in range(STEPS):
        value, g = nnx.value_and_grad(lambda net: ((net(numbers) - of_numbers) ** 2).mean())(gated)
        optimizer.update(gated, g)
        yield value
    gated.eval()
    yield from (gated(numbers).sum(), gated.norm.var[...].sum(), gated.first.kernel[...].std())


def linen_here():
    import torch

    from torchgrad_jax import interop

    x, y = torch.as_tensor(images), torch.as_tensor(of_images)
    net = interop.module(Convolutions(), x, variables=variables)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        yield loss
    after = net.original()
    yield from (net.eval()(x).sum(), after["batch_stats"]["BatchNorm_0"]["mean"].sum())
    yield after["params"]["Conv_0"]["kernel"].std()


def nnx_here():
    import torch

    from torchgrad_jax import interop

    x, y = torch.as_tensor(numbers), torch.as_tensor(of_numbers)
    net = interop.module(gated)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    @torch.compile
    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(STEPS):
        yield step()
    yield from (net.eval()(x).sum(), net.original().norm.var[...].sum(), net.first.kernel.detach().numpy().std())


for name, alone, here in (("linen", linen_alone, linen_here), ("nnx", nnx_alone, nnx_here)):
    for value in here() if WITH_TENSORS else alone():
        print(f"{name} {float(value):.4f}")
