"""Transforms of JAX's called on tensors whose gradient somebody wants: it arrives, or the call is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from tests.own_gradients import saving_input
from torchgrad_jax import interop

X = np.arange(6.0).reshape(2, 3) + 0.5
vmap, grad = torch.func.vmap, torch.func.grad


def cubes(x):
    return (x**3).sum()


def scanned(x):
    return interop.scan(lambda c, e: (c * e + c, c), x.sum(), x[0])[0]


# The tensor code, and the same by hand.
FOLLOWED = {
    "vmap": (lambda x: vmap(lambda r: jax.vmap(lambda e: e**3)(r).sum())(x).sum(), cubes),
    "jit": (lambda x: vmap(lambda r: jax.jit(lambda e: e**3)(r).sum())(x).sum(), cubes),
    "closure": (
        lambda x: vmap(lambda r: jax.vmap(lambda e: e**3 * r)(torch.ones(2, 3)).sum())(x).sum(),
        lambda x: 2 * x.sum(),
    ),
    "an outer example": (
        lambda x: vmap(lambda r: vmap(lambda s: jax.vmap(lambda e: e * s)(r))(r))(x).sum(),
        lambda x: (x[:, :, None] * x[:, None, :]).sum(),
    ),
    "an outer example alone": (
        lambda x: vmap(lambda r: vmap(lambda s: jax.jit(lambda e: e**3)(r).sum())(r))(x).sum(),
        lambda x: 3 * cubes(x),
    ),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_gradients_arrive_through_vmap(name):
    f, by_hand = FOLLOWED[name]
    with jax.numpy_rank_promotion("allow"):
        want = jax.grad(by_hand)(jnp.asarray(X, np.float32))
        pure = jax.grad(torch.to_jax(f))(jnp.asarray(X, np.float32))
    x = torch.tensor(X, dtype=torch.float32, requires_grad=True)
    f(x).backward()
    for got in (pure, x.grad.numpy(), grad(f)(x.detach()).numpy()):
        np.testing.assert_allclose(got, want, rtol=1e-4)


def test_a_loop_inside_of_grad_has_gradients_where_jax_traces():
    x = torch.tensor(X)
    want = jax.grad(scanned)(jnp.asarray(X))
    np.testing.assert_allclose(jax.jit(grad(scanned))(x).numpy(), want, rtol=1e-6)


def ones():
    return torch.ones(2, 3, dtype=torch.float64)


# Functions whose derivative would be zero, or lack a part.
CUT_OFF = {
    "vmap": lambda x: jax.vmap(lambda e: e**3)(x * 1).sum() + x.sum(),
    "jit": lambda x: jax.jit(lambda e: e**3)(x * 1).sum() + x.sum(),
    "grad": lambda x: jax.grad(lambda e: (e**3).sum())(x * 1).sum() + x.sum(),
    "a view": lambda x: jax.vmap(lambda e: e**3)(x.t()).sum() + x.sum(),
}
CLOSURES = {
    "vmap": lambda x: jax.vmap(lambda e: e**3 * x[0])(ones()).sum(),
    "jit": lambda x: jax.jit(lambda e: e**3 * x)(ones()).sum(),
    "grad": lambda x: jax.grad(lambda e: (e**3 * x).sum())(ones()).sum(),
}
WAYS = {
    "backward": lambda f, x: f(x.requires_grad_()).backward(),
    "grad": lambda f, x: grad(f)(x),
    "vmap of grad": lambda f, x: vmap(grad(f))(torch.stack([x, x])),
    "grad where JAX traces": lambda f, x: jax.jit(grad(f))(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)),
    "compiled": lambda f, x: torch.compile(lambda x: f(x * 1).backward())(x.requires_grad_()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CUT_OFF)
def test_what_would_cut_a_gradient_off_is_refused(name, way):
    with pytest.raises(RuntimeError, match="cut off from the graph"):
        WAYS[way](CUT_OFF[name], torch.tensor(X))


@pytest.mark.parametrize("way", ["grad", "vmap of grad", "jvp"])
@pytest.mark.parametrize("name", CLOSURES)
def test_so_is_a_closure_inside_of_a_transform(name, way):
    with pytest.raises(RuntimeError, match="cut off from the graph"):
        WAYS[way](CLOSURES[name], torch.tensor(X))


def test_what_needs_no_gradient_is_given():
    x = torch.tensor(X, requires_grad=True)
    with torch.no_grad():
        assert jax.vmap(lambda e: e * 2)(x * 1).shape == (2, 3)
    assert jax.jit(lambda e: e * 2)((x * 1).detach()).shape == (2, 3)
    # Parameters are differentiated by JAX.
    assert jax.grad(lambda e: (e**3).sum())(x).shape == (2, 3)
    assert grad(lambda r: (r * jax.jit(lambda e: e * 2)(ones())).sum())(x.detach()).tolist() == [[2.0] * 3] * 2


Cube = saving_input(torch, "Cube", lambda x: x**3, lambda x, g: 3 * x**2 * g)


def hooked_cube(x):
    y = x**3
    if y.requires_grad:
        y.register_hook(lambda g: g * 1)
    return y


FORWARD = {
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "jacfwd": jax.jacfwd,
    "hessian": jax.hessian,
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f)),
    "reverse over reverse": lambda f: jax.jacrev(jax.jacrev(f)),
    "product with the Hessian": lambda f: lambda x: jax.jvp(jax.grad(f), (x,), (x,)),
    "third order": lambda f: jax.jacfwd(jax.hessian(f)),
    "batch": lambda f: lambda x: jax.vmap(jax.hessian(f))(torch.stack([x, 2 * x])),
    "checkpoint": lambda f: jax.hessian(jax.checkpoint(f, policy=jax.checkpoint_policies.dots_saveable)),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
}


@pytest.mark.usefixtures("jax_with_64_bits")
@pytest.mark.parametrize("cube", [lambda x: x**3, Cube.apply, hooked_cube], ids=["plain", "Function", "hook"])
@pytest.mark.parametrize("name", FORWARD)
def test_transforms_inside_of_compiled_functions(name, cube):
    """JAX looks at the results of forward mode after it has left the trace."""
    x = torch.tensor([0.3, -0.7, 1.2], dtype=torch.float64)
    w = torch.arange(9.0, dtype=torch.float64).reshape(3, 3)

    def f(x):
        return ((w @ cube(x)).tanh() * x).sum()

    take = FORWARD[name](f)
    compiled = torch.compile(take)
    for at in (x, x * 0.5):
        for found, want in zip(jax.tree.leaves(compiled(at)), jax.tree.leaves(take(at))):
            np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12)


# --- an array of JAX's that becomes a tensor ----------------------------------------------------------

TENSORS_OF_ARRAYS = {"as_tensor": torch.as_tensor, "asarray": torch.asarray, "from_dlpack": torch.from_dlpack}


def _written_to(array):
    t = torch.as_tensor(array)
    t.mul_(1.0)
    return t


@pytest.mark.parametrize("make", [*TENSORS_OF_ARRAYS.values(), _written_to], ids=[*TENSORS_OF_ARRAYS, "written to"])
def test_a_tensor_of_an_array_goes_on_with_its_derivative(make):
    x = np.array([0.5, 1.0], np.float32)

    def mixed(a):
        return (make(jnp.sin(a)) * 2).sum() + a.sum()

    np.testing.assert_allclose(jax.grad(torch.to_jax(mixed))(x), 2 * np.cos(x) + 1, rtol=1e-6)
    t = torch.tensor(x, requires_grad=True)
    torch.from_jax(lambda a: make(jnp.sin(a)) * 2)(t).sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), 2 * np.cos(x), rtol=1e-6)


def _without_recording(array):
    with torch.no_grad():
        return torch.as_tensor(array) * 1.0


@pytest.mark.parametrize("make", [lambda array: torch.as_tensor(array).detach(), torch.tensor, _without_recording])
def test_what_ends_gradients_ends_them_there_too(make):
    x = np.array([0.5, 1.0], np.float32)

    def mixed(a):
        return (make(jnp.sin(a)) * 2).sum() + a.sum()

    np.testing.assert_array_equal(jax.grad(torch.to_jax(mixed))(x), 1.0)


@pytest.mark.parametrize("wrap", [lambda f: f, torch.compile], ids=["eager", "compiled"])
def test_a_function_of_jax_that_would_drop_a_gradient_is_refused(wrap):
    @wrap
    def step(t):
        return torch.as_tensor(jnp.sin(t * 1.0)).sum() + t.sum()

    t = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="cut off from the graph"):
        step(t)
    with torch.no_grad():
        assert step(t).item() == pytest.approx(2 * np.sin(1) + 2)
