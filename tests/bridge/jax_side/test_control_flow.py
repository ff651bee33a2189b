"""Tensor code as JAX functions inside of JAX's control flow, checkpoints and maps over devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import torchgrad_jax as torch
from tests.own_gradients import saving_input

Septuple = saving_input(torch, "Septuple", lambda x: x * x, lambda x, grad: grad * x * 7)
"""A square with a gradient that nobody would derive."""


@jax.custom_vjp
def septuple(x):
    return x * x


septuple.defvjp(lambda x: (x * x, x), lambda x, g: (g * x * 7,))

X = jnp.linspace(-1.0, 2.0, 8, dtype=jnp.float32)
ROWS = jnp.linspace(0.5, 1.5, 24, dtype=jnp.float32).reshape(3, 8)
PAIRS = {
    "plain": (torch.to_jax(lambda x: (x.sin() * x).relu()), lambda x: jax.nn.relu(jnp.sin(x) * x)),
    "own gradient": (torch.to_jax(lambda x: Septuple.apply(x).tanh()), lambda x: jnp.tanh(septuple(x))),
}


def over_a_mesh(f):
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    spec = PartitionSpec("d")
    return jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)


USES = {
    "scan": lambda f: lambda x: jax.lax.scan(lambda c, row: (f(c) + row, f(row) * c), x, ROWS),
    "cond": lambda f: lambda x: jax.lax.cond(x.sum() > 0, f, lambda y: y, x),
    "switch": lambda f: lambda x: jax.lax.switch(1, [lambda y: y, f], x),
    "for": lambda f: lambda x: jax.lax.fori_loop(0, 3, lambda _, c: f(c) + x, x),
    "map": lambda f: lambda x: jax.lax.map(f, ROWS * x[None]),
    "checkpoint": lambda f: jax.checkpoint(f),
    "policy": lambda f: jax.checkpoint(f, policy=jax.checkpoint_policies.nothing_saveable),
    "vmap": lambda f: lambda x: jax.vmap(f, in_axes=1, out_axes=1)(ROWS * x[None]),
    "mesh": over_a_mesh,
    "scan of gradients": lambda f: (
        lambda x: jax.lax.scan(lambda c, _: (c - 0.1 * jax.grad(lambda y: f(y).sum())(c), f(c)), x, None, length=3)
    ),
}


# Second derivatives go through a result that was kept by the custom rule again in torch, and not in JAX.
@pytest.mark.parametrize(
    "name, use", [(n, u) for n in PAIRS for u in USES if (n, u) != ("own gradient", "scan of gradients")]
)
def test_values_and_gradients(name, use):
    ours, theirs = (USES[use](f) for f in PAIRS[name])
    for way in (lambda f: f, jax.jit):
        got, want = way(ours)(X), way(theirs)(X)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), got, want)

        def total(f):
            return lambda x: sum(leaf.sum() for leaf in jax.tree.leaves(f(x)))

        np.testing.assert_allclose(way(jax.grad(total(ours)))(X), way(jax.grad(total(theirs)))(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PAIRS)
def test_loops_that_end_by_their_values(name):
    def grown(f):
        return jax.lax.while_loop(lambda c: c.sum() < 50, lambda c: f(c) + c + 1, X)

    ours, theirs = map(grown, PAIRS[name])
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_second_derivatives_in_a_scan():
    def total(f):
        return lambda x: jax.lax.scan(lambda c, row: (f(c) * row, c.sum()), x, ROWS)[0].sum()

    ours, theirs = (jax.jacrev(jax.grad(total(f)))(X) for f in PAIRS["plain"])
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_second_derivatives_with_an_own_gradient_are_those_of_the_graph():
    f, step = PAIRS["own gradient"][0], jnp.array([0.5, 1.5], jnp.float32)
    scanned = jax.grad(jax.grad(lambda x: jax.lax.scan(lambda c, r: (f(c) * r, None), x, step)[0]))
    t = torch.tensor(0.7, requires_grad=True)
    y = t
    for r in (0.5, 1.5):
        y = Septuple.apply(y).tanh() * r
    (g,) = torch.autograd.grad(y, t, create_graph=True)
    (h,) = torch.autograd.grad(g, t)
    np.testing.assert_allclose(scanned(jnp.float32(0.7)), h.item(), rtol=1e-4)
    np.testing.assert_allclose(h.item(), 24.144556, rtol=1e-5)  # torch's


def over_mesh(f):
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    return jax.shard_map(f, mesh=mesh, in_specs=PartitionSpec("d"), out_specs=PartitionSpec("d"))


DERIVED = {
    "tangents": lambda f, over: jax.jvp(over(f), (X,), (X,)),
    "tangents inside": lambda f, over: over(lambda v: jax.jvp(f, (v,), (v,))[1])(X),
    "second derivatives": lambda f, over: jax.hessian(lambda v: over(f)(v).sum())(X),
    "of a batch": lambda f, over: jax.vmap(jax.grad(lambda v: over(f)(v).sum()))(jnp.stack([X, 2 * X])),
    "a batch inside": lambda f, over: jax.grad(lambda v: over(jax.vmap(f))(v).sum())(X.reshape(4, 2)),
}


@pytest.mark.parametrize("name", DERIVED)
def test_custom_gradients_over_a_mesh_are_derived_as_without_one(name):
    ours, _ = PAIRS["own gradient"]
    found, want = DERIVED[name](ours, over_mesh), DERIVED[name](ours, lambda f: f)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


WITH_PLACES = {
    "sort": lambda x: x.sort()[0] * x,
    "topk": lambda x: x.topk(3)[0],
    "max": lambda x: x.view(2, 4).max(1)[0],
    "cummax": lambda x: x.cummax(0)[0],
    "median": lambda x: x.view(2, 4).median(1)[0],
    "max_pool1d": lambda x: torch.nn.functional.max_pool1d(x[None], 2)[0],
}


@pytest.mark.parametrize("name", WITH_PLACES)
def test_ops_that_give_places_are_derived_over_a_mesh(name):
    """Integers have no tangent; JAX refused zeros in their place, which are the same on all devices."""
    f = WITH_PLACES[name]
    x = torch.tensor(np.asarray(X))
    over = over_mesh(f)
    np.testing.assert_allclose(
        jax.grad(lambda x: (over(x) ** 2).sum())(x), torch.func.grad(lambda x: (f(x) ** 2).sum())(x), rtol=1e-5
    )
    found, want = jax.jvp(over, (x,), (x * x,)), torch.func.jvp(f, (x,), (x * x,))
    np.testing.assert_allclose(found[1], want[1], rtol=1e-5)
