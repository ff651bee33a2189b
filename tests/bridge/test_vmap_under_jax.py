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


def along(f, x, tangent):
    """The derivative of `f` along a tangent."""
    return torch.func.jvp(f, (x,), (tangent,))[1]


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
    "detached-closure": (lambda x: vmap(lambda r: r * x.detach().sum())(x).sum(), lambda x: (x * stop(x).sum()).sum()),
    "unrecorded": (lambda x: vmap(lambda r: unrecorded(r) * r)(x).sum(), lambda x: (stop(x**2) * x).sum()),
    "unrecorded-result": (lambda x: vmap(unrecorded)(x).sum() + x.sum(), lambda x: x.sum()),
    "under-no-grad": (lambda x: under_no_grad(x) + x.sum(), lambda x: x.sum()),
    "nested": (lambda x: vmap(lambda r: vmap(lambda q: q * r * x.sum())(x).sum())(x).sum(), lambda x: x.sum() ** 3),
    "in-place": (lambda x: vmap(lambda r: (r * 1).mul_(r))(x).sum(), lambda x: (x**2).sum()),
    "chunks": (lambda x: vmap(lambda r: r**2, chunk_size=2)(x).sum(), lambda x: (x**2).sum()),
    "columns": (lambda x: vmap(lambda r: r.sum() ** 2, in_dims=1)(x[None]).sum(), lambda x: (x**2).sum()),
    "views": (lambda x: (vmap(lambda r: r.view(1))(x) * x[:, None]).sum(), lambda x: (x**2).sum()),
    "grad": (lambda x: vmap(torch.func.grad(lambda r: r**3))(x).sum(), lambda x: (3 * x**2).sum()),
    "jacrev": (lambda x: torch.func.jacrev(lambda y: y**3)(x).sum(), lambda x: (3 * x**2).sum()),
    "jacfwd": (lambda x: torch.func.jacfwd(lambda y: y**3)(x).sum(), lambda x: (3 * x**2).sum()),
    "hessian": (lambda x: torch.func.hessian(lambda y: (y**3).sum())(x).sum(), lambda x: (6 * x).sum()),
    "along": (lambda x: along(vmap(torch.sin), x, x * x).sum(), lambda x: (jnp.cos(x) * x * x).sum()),
    "along-alone": (
        lambda x: along(vmap(lambda r: r * r), numbers(), x).sum(),
        lambda x: (2 * jnp.arange(3, dtype=x.dtype) * x).sum(),
    ),
    "along-detached": (
        lambda x: along(vmap(lambda r: r.detach() * r), x, x * x).sum(),
        lambda x: (stop(x) * x * x).sum(),
    ),
    "jax-grad": (lambda x: vmap(lambda r: jax.grad(lambda q: q**3)(r))(x).sum(), lambda x: (3 * x**2).sum()),
}

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


# Derivatives by x, of which the code around is a function and JAX follows, and derivatives by `numbers()` inside.
INNER = {
    "vmap of grad": lambda u, f, x: u.vmap(u.grad(f), (0, None))(numbers(), x),
    "vmap of grad over all": lambda u, f, x: u.vmap(u.grad(lambda r: f(r, x)))(numbers()),
    "vmap of jacrev": lambda u, f, x: u.vmap(u.jacrev(f), (0, None))(numbers(), x),
    "vmap of jacfwd": lambda u, f, x: u.vmap(u.jacfwd(f), (0, None))(numbers(), x),
    "vmap of vjp": lambda u, f, x: u.vmap(lambda r: u.vjp(f, r, x)[1](torch.ones(()))[0])(numbers()),
    "jacrev": lambda u, f, x: u.jacrev(lambda r: torch.stack([f(q, x) for q in r]))(numbers()).diagonal(),
    "vmap of a pullback": lambda u, f, x: u.vmap(u.vjp(lambda r: f(r, x), torch.tensor(2.0))[1])(numbers())[0],
    "write to a part": lambda u, f, x: u.jacfwd(lambda r: _written(x, r))(numbers() + 1),
    "functional_call": lambda u, f, x: u.vmap(u.grad(lambda r: u.functional_call(Scaled(), {"w": x}, (r,))))(numbers()),
}


def _written(x, r):
    x = x.clone()
    x[1:].mul_(r[:2])
    return x


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(3))

    def forward(self, r):
        return (self.w * r).sin().sum()


@pytest.mark.parametrize("name", INNER)
def test_derivatives_by_what_no_transform_inside_differentiates(name):
    """`jax.grad` by parameters of a loss that holds derivatives by coordinates: parameters need no gradient there."""

    def f(r, x):
        return (x * r).sin().sum()

    def loss(x):
        return (INNER[name](torch.func, f, x) ** 2).sum()

    x = torch.tensor(X)
    for transform in (jax.grad, jax.jacfwd, lambda f: jax.jit(jax.grad(f))):
        np.testing.assert_allclose(transform(loss)(x), torch.func.grad(loss)(x), rtol=2e-4, atol=1e-5)


VIEWS = {
    "transposed": (lambda x: torch.outer(x, x * x).t(), lambda x: jnp.outer(x, x * x).T),
    "strided": (lambda x: (x * x)[::2], lambda x: (x * x)[::2]),
    "of the input": (lambda x: x[1:], lambda x: x[1:]),
    "conjugated": (lambda x: torch.complex(x, x * x).conj(), lambda x: jnp.conj(jax.lax.complex(x, x * x))),
    "of func.jacfwd": (torch.func.jacfwd(lambda r: r.sum() * r**2), jax.jacfwd(lambda r: r.sum() * r**2)),
}


FORWARD = {
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x * 2,)),
    "jacfwd": jax.jacfwd,
    "jit-of-jvp": lambda f: jax.jit(lambda x: jax.jvp(f, (x,), (x,))[1]),
    "vmap-of-jvp": lambda f: lambda x: jax.vmap(lambda s: jax.jvp(f, (x * s,), (x,))[1])(x),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
}


@pytest.mark.parametrize("transform", FORWARD)
@pytest.mark.parametrize("name", VIEWS)
def test_views_are_results_of_forward_mode(name, transform):
    """JAX looks at the results of `jax.jvp` when it has left its trace."""
    tensors, arrays = VIEWS[name]
    derive = FORWARD[transform]
    got, want = (jax.tree.leaves(derive(tensors)(torch.tensor(X))), jax.tree.leaves(derive(arrays)(jnp.asarray(X))))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


class Sine(torch.autograd.Function):
    """`sin(x) * y` with its own derivatives, which are three times the true ones."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x.sin() * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return 3 * g * x.cos() * y, 3 * g * x.sin()

    @staticmethod
    def jvp(ctx, s, t):
        x, y = ctx.saved_tensors
        return 3 * (s * x.cos() * y + x.sin() * t)


class SineOfBatches(Sine):
    """The same with a rule for batches that the user wrote."""

    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (t.expand(info.batch_size, *t.shape) if d is None else t for t, d in zip((x, y), in_dims))
        return SineOfBatches.apply(x, y), 0


BETWEEN = {
    "grad": lambda f: torch.func.grad(lambda x, y: f(x, y).sum()),
    "vjp": lambda f: lambda x, y: torch.func.vjp(f, x, y)[1](y)[1],
    "jvp": lambda f: lambda x, y: torch.func.jvp(f, (x, y), (y, x))[1],
    "jacfwd": lambda f: torch.func.jacfwd(f, 1),
    "jacrev": torch.func.jacrev,
    "vmap": lambda f: lambda x, y: torch.func.vmap(f, (0, None))(torch.stack([x, x * y]), y),
    "vmap of grad": lambda f: lambda x, y: torch.func.vmap(torch.func.grad(f), (0, None))(x, y[0]),
    "jvp of vmap": lambda f: lambda x, y: torch.func.jvp(torch.func.vmap(f), (x, y), (y, x * x))[1],
}

OUTSIDE = {
    "grad": lambda u, f: u.grad(lambda x: f(x).sum()),
    "jvp": lambda u, f: lambda x: u.jvp(f, (x,), (x,))[1],
    "second": lambda u, f: u.grad(lambda x: (u.grad(lambda x: f(x).sum())(x) ** 2).sum()),
}


@pytest.mark.parametrize("transform", OUTSIDE)
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("function", [Sine, SineOfBatches])
def test_functions_inside_of_transforms_have_their_derivatives(function, between, transform):
    """JAX's derivative of a derivative of a Function was zero, and so was that of a `vmap` over one."""

    def f(x):
        return BETWEEN[between](function.apply)(x, x * 2)

    x = torch.tensor(X, dtype=torch.float64)
    jax_derivative, own = OUTSIDE[transform](jax, f)(x), OUTSIDE[transform](torch.func, f)(x)
    np.testing.assert_allclose(jax_derivative, own, rtol=1e-6)


def test_gradients_of_functions_inside_of_what_jax_derives():
    """A Function called with tensors that JAX traces is a step of the graph."""

    def f(x):
        x = x.detach().requires_grad_() if not x.requires_grad else x
        y = Sine.apply(x, x)
        return y.grad_fn is not None, torch.autograd.grad(y.sum(), x)[0]

    recorded, found = f(torch.tensor(X, requires_grad=True))
    again = []
    traced = jax.jit(lambda x: (again.append(f(x)), again[0][1])[1])(torch.tensor(X))
    assert (recorded, again[0][0]) == (True, True)
    np.testing.assert_allclose(traced, found, rtol=1e-6)
