"""`torch.func` inside of functions that JAX derives: the derivative goes on through it, and ends where torch's does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch

vmap = torch.func.vmap
X = np.array([0.3, -0.7, 1.2], np.float32)
stop = jax.lax.stop_gradient


@jax.custom_vjp
def cube(x):
    return x**3


cube.defvjp(lambda x: (x**3, x), lambda x, g: (3 * g * x**2,))


def unrecorded(r):
    with torch.no_grad():
        return r * r


def under_no_grad(x):
    with torch.no_grad():
        return vmap(lambda r: r * r)(x).sum()


def numbers():
    return torch.arange(3.0)


# The tensor code, and the same by hand.
CASES = {
    "example": (lambda x: vmap(lambda r: r.sin())(x).sum(), lambda x: jnp.sin(x).sum()),
    "jax-function": (lambda x: vmap(torch.from_jax(jnp.sin))(x).sum(), lambda x: jnp.sin(x).sum()),
    "custom-vjp": (lambda x: vmap(torch.from_jax(cube))(x).sum(), lambda x: (x**3).sum()),
    "closure": (lambda x: vmap(lambda i: (x * x).sum() * i)(numbers()).sum(), lambda x: 3 * (x * x).sum()),
    "both": (lambda x: vmap(lambda r: (x * r).sin().sum())(x).sum(), lambda x: jnp.sin(jnp.outer(x, x)).sum()),
    "detached": (lambda x: vmap(lambda r: r.detach() * r)(x).sum(), lambda x: (stop(x) * x).sum()),
    "detached-closure": (
        lambda x: vmap(lambda r: r * x.detach().sum())(x).sum(),
        lambda x: (x * stop(x).sum()).sum(),
    ),
    "unrecorded": (lambda x: vmap(lambda r: unrecorded(r) * r)(x).sum(), lambda x: (stop(x**2) * x).sum()),
    "unrecorded-result": (lambda x: vmap(unrecorded)(x).sum() + x.sum(), lambda x: x.sum()),
    "under-no-grad": (lambda x: under_no_grad(x) + x.sum(), lambda x: x.sum()),
    "nested": (
        lambda x: vmap(lambda r: vmap(lambda q: q * r * x.sum())(x).sum())(x).sum(),
        lambda x: x.sum() ** 3,
    ),
    "in-place": (lambda x: vmap(lambda r: (r * 1).mul_(r))(x).sum(), lambda x: (x**2).sum()),
    "chunks": (lambda x: vmap(lambda r: r**2, chunk_size=2)(x).sum(), lambda x: (x**2).sum()),
    "columns": (lambda x: vmap(lambda r: r.sum() ** 2, in_dims=1)(x[None]).sum(), lambda x: (x**2).sum()),
    "views": (lambda x: (vmap(lambda r: r.view(1))(x) * x[:, None]).sum(), lambda x: (x**2).sum()),
    "grad": (lambda x: vmap(torch.func.grad(lambda r: r**3))(x).sum(), lambda x: (3 * x**2).sum()),
    "jacrev": (lambda x: torch.func.jacrev(lambda y: y**3)(x).sum(), lambda x: (3 * x**2).sum()),
    "jacfwd": (lambda x: torch.func.jacfwd(lambda y: y**3)(x).sum(), lambda x: (3 * x**2).sum()),
    "hessian": (lambda x: torch.func.hessian(lambda y: (y**3).sum())(x).sum(), lambda x: (6 * x).sum()),
    "jax-grad": (lambda x: vmap(lambda r: jax.grad(lambda q: q**3)(r))(x).sum(), lambda x: (3 * x**2).sum()),
}  # fmt: skip

TRANSFORMS = {
    "grad": jax.grad,
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,))[1],
    "jit-of-grad": lambda f: jax.jit(jax.grad(f)),
    "second": lambda f: jax.grad(lambda x: (jax.grad(f)(x) ** 2).sum()),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_go_on(name, transform):
    f, by_hand = CASES[name]
    derive = TRANSFORMS[transform]
    with jax.numpy_rank_promotion("allow"):
        want = derive(by_hand)(jnp.asarray(X))
        found = [derive(f)(torch.tensor(X, requires_grad=r)) for r in (False, True)]
        pure = derive(torch.to_jax(f))(jnp.asarray(X))
    for got in (*[t.detach().numpy() for t in found], pure):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_graph_does_not_begin_where_jax_derives():
    """What the user sees of tensors is not changed by it."""
    seen = []

    def f(x):
        out = vmap(lambda r: r * 2)(x)
        seen.append((x.requires_grad, out.requires_grad, out.grad_fn))
        return out.sum()

    assert jax.grad(f)(torch.tensor(X)).tolist() == [2, 2, 2]
    assert seen == [(False, False, None)]
