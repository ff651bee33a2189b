"""Transformations of optax as optimizers, and optimizers as transformations: the same steps on both sides."""

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import interop, nn

optax: Any = pytest.importorskip("optax", reason="needs the ecosystem extra")

TRANSFORMATIONS = {
    "sgd": lambda: optax.sgd(0.1, momentum=0.9),
    "adamw": lambda: optax.adamw(0.05),
    "lamb": lambda: optax.lamb(0.05),
    "a schedule": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(0.1, 10))),
    "noise": lambda: optax.noisy_sgd(0.1, key=jax.random.key(0)),
}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


X = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("wrap", [lambda f: f, torch.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_a_transformation_trains_a_module(name, wrap):
    transformation, net = TRANSFORMATIONS[name](), network()
    optimizer = interop.Optax(net.parameters(), transformation)

    @wrap
    def step(x):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    f = torch.to_jax(network())
    params = f.params  # type: ignore[attr-defined]
    names = [n for n, _ in net.named_parameters()]
    state = transformation.init([params[n] for n in names])
    for _ in range(3):
        step(X)
        g = jax.grad(lambda p: (f(p, jnp.asarray(X)) ** 2).mean())(params)
        with jax.numpy_dtype_promotion("standard"):
            updates, state = transformation.update([g[n] for n in names], state, [params[n] for n in names])
        params = {n: params[n] + u for n, u in zip(names, updates)}
    for n, p in net.named_parameters():
        np.testing.assert_allclose(p.detach(), params[n], rtol=2e-5, atol=1e-6)


def test_its_state_is_saved_and_loaded():
    def steps(net, optimizer, n):
        for _ in range(n):
            optimizer.zero_grad()
            net(X).square().mean().backward()
            optimizer.step()

    net = network()
    optimizer = interop.Optax(net.parameters(), optax.adam(0.1))
    steps(net, optimizer, 2)
    saved = copy.deepcopy((optimizer.state_dict(), net.state_dict()))
    assert optimizer.state["optax"]["0"].dtype is torch.int32
    other = network()
    loaded = interop.Optax(other.parameters(), optax.adam(0.1))
    loaded.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    steps(net, optimizer, 2)
    steps(other, loaded, 2)
    for a, b in zip(net.parameters(), other.parameters()):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_what_optax_cannot_do_is_refused():
    net = network()
    optimizer = interop.Optax(net.parameters(), optax.sgd(0.1))
    net[0](X).sum().backward()
    with pytest.raises(RuntimeError, match=r"parameters \[2, 3\] have no gradient"):
        optimizer.step()
    with pytest.raises(ValueError, match="a group has lr, which optax does not know"):
        interop.Optax([{"params": net.parameters(), "lr": 0.1}], optax.sgd(0.1))
    with pytest.raises(TypeError, match="as_optax takes a class of optim"):
        interop.as_optax(torch.optim.LBFGS)
    sgd = interop.as_optax(torch.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match="update needs the parameters"):
        sgd.update([jnp.ones(2)], sgd.init([jnp.ones(2)]))


OPTIMIZERS: dict[str, Any] = {
    "SGD": {"momentum": 0.9, "nesterov": True}, "Adam": {"amsgrad": True}, "AdamW": {}, "RMSprop": {"centered": True},
    "Adagrad": {}, "Adadelta": {}, "Adamax": {}, "NAdam": {}, "RAdam": {}, "Rprop": {}, "ASGD": {}, "Adafactor": {},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_is_a_transformation(name):
    cls, options = getattr(torch.optim, name), {"lr": 0.1, **OPTIMIZERS[name]}
    params = {"w": jnp.arange(3.0, dtype=jnp.float32), "b": [jnp.ones((2, 2), jnp.float32)]}
    tensors = [nn.Parameter(torch.as_tensor(np.array(a))) for a in jax.tree.leaves(params)]
    own, transformation = cls(tensors, **options), interop.as_optax(cls, **options)
    chained = optax.chain(transformation, optax.identity())
    state = chained.init(params)

    @jax.jit
    def step(params, state):
        updates, state = chained.update(jax.tree.map(lambda a: a * 0.3 + 1, params), state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(3):
        params, state = step(params, state)
        for t in tensors:
            t.grad = (t * 0.3 + 1).detach()
        own.step()
    for t, a in zip(tensors, jax.tree.leaves(params)):
        np.testing.assert_allclose(t.detach(), a, rtol=1e-5, atol=1e-6)
