"""Tangents, and Hessians by forward over reverse mode, of functions that come with a backward pass and nothing else.

Each is compared with the same formula in plain operators, whose derivatives are JAX's own.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from tests.differential import agree
from tests.own_gradients import saving_input

X = np.array([0.3, 0.7])
Y = np.array([1.3, -0.7])


class Product(torch.autograd.Function):
    """Several arguments, one of them no tensor, and several results, one of them of whole numbers."""

    @staticmethod
    def forward(ctx, x, y, k):
        ctx.save_for_backward(x, y)
        ctx.k = k
        return x.sin() * y * k, (x * 3).long(), (x * y).sum()

    @staticmethod
    def backward(ctx, g, _, total):
        x, y = ctx.saved_tensors
        return (g * x.cos() * y * ctx.k + total * y, g * x.sin() * ctx.k + total * x, None)


def of_function(x, y):
    wave, _, total = Product.apply(x, y, 2)
    return wave.pow(2).sum() + total  # the second derivative goes through the values of the result


def plain(x, y):
    return (x.sin() * y * 2).pow(2).sum() + (x * y).sum()


def of_hook(x, y):
    wave = x.sin() * y * 2
    wave.register_hook(lambda g: g * 1.0)
    return wave.pow(2).sum() + (x * y).sum()


@jax.custom_vjp
def wave_of(x, y):
    return jnp.sin(x) * y * 2


wave_of.defvjp(
    lambda x, y: (jnp.sin(x) * y * 2, (x, y)),
    lambda kept, g: (g * jnp.cos(kept[0]) * kept[1] * 2, g * jnp.sin(kept[0]) * 2),
)
wave = torch.from_jax(wave_of)


def of_custom_vjp(x, y):
    return wave(x, y).pow(2).sum() + (x * y).sum()


@jax.custom_vjp
def cube_of(x):
    return x**3


cube_of.defvjp(lambda x: (cube_of(x), x), lambda x, g: (3 * x**2 * g,))


def repeated(f):
    """`f` twice, in a loop of JAX's: it takes derivatives of such a body piece by piece."""

    def g(x, y):
        def body(c, _):
            return f(c * x, y) * torch.full((2,), 0.1, dtype=torch.float64), None

        return jax.lax.scan(body, x, None, length=2)[0].sum()

    return g


TRANSFORMS = {
    "jvp": lambda f: lambda x, y: jax.jvp(f, (x, y), (y, x))[1],
    "hessian": lambda f: jax.jit(jax.hessian(f, argnums=(0, 1))),
    "forward over forward": lambda f: jax.jit(jax.jacfwd(jax.jacfwd(f, 0), 1)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f, 1), 0),
    "third order": lambda f: jax.jit(jax.jacfwd(jax.jacfwd(jax.jacrev(f)))),
    "linearize": lambda f: lambda x, y: jax.linearize(f, x, y)[1](y, x),
    "product with the Hessian": lambda f: lambda x, y: jax.jvp(jax.grad(f, (0, 1)), (x, y), (y, x)),
    "batch of Hessians": lambda f: lambda x, y: jax.jit(jax.vmap(jax.hessian(f), (0, None)))(jnp.stack([x, y]), y),
    "checkpoint": lambda f: jax.hessian(jax.checkpoint(f)),
    "scan, forward over reverse": lambda f: jax.jacfwd(jax.jacrev(repeated(f))),
    "scan, reverse over reverse": lambda f: jax.jacrev(jax.jacrev(repeated(f))),
}


CASES = [(name, f) for name in TRANSFORMS for f in (of_function, of_custom_vjp)]
# It is as that of a custom Function.
CASES += [(name, of_hook) for name in ("jvp", "hessian", "forward over forward")]


@pytest.mark.parametrize("name, f", CASES, ids=[f"{name}-{f.__name__}" for name, f in CASES])
def test_as_of_plain_operators(name, f):
    x, y = jnp.array(X), jnp.array(Y)
    transform = TRANSFORMS[name]
    if "scan" in name:
        x, y = torch.tensor(X), torch.tensor(Y)
        agree(transform(f)(x, y), transform(plain)(x, y))
    else:
        agree(transform(torch.to_jax(f))(x, y), transform(torch.to_jax(plain))(x, y))


Turned = saving_input(torch, "Turned", lambda x: x * x * 1j, lambda x, g: g * (2j * x).conj())


def turned_with_a_hook(x):
    y = x * x * 1j
    y.register_hook(lambda g: g * 1)
    return y


OF_COMPLEX_NUMBERS = {
    "vjp": lambda f, x, v: jax.vjp(f, x)[1](v),
    "jvp": lambda f, x, v: jax.jvp(f, (x,), (v,)),
    "linearize": lambda f, x, v: jax.linearize(f, x)[1](v),
    "grad": lambda f, x, v: jax.grad(lambda x: jnp.abs(f(x) * v).sum())(x),
    "jvp of grad": lambda f, x, v: jax.jvp(jax.grad(lambda x: jnp.abs(f(x)).sum()), (x,), (v,)),
    "holomorphic": lambda f, x, v: jax.jacrev(f, holomorphic=True)(x),
}


@pytest.mark.parametrize("turned", [Turned.apply, turned_with_a_hook], ids=["Function", "hook"])
@pytest.mark.parametrize("name", OF_COMPLEX_NUMBERS)
def test_complex_numbers_follow_the_convention_of_jax(name, turned):
    """PyTorch's gradients of complex numbers are the conjugates of JAX's."""
    x = jnp.array([1 + 2j, 3 - 1j])
    found = torch.to_jax(lambda x: turned(x).sin() * (2 - 3j))
    for v in (x * (1 - 1j), jnp.ones_like(x)):
        take = OF_COMPLEX_NUMBERS[name]
        agree(take(found, x, v), take(lambda x: jnp.sin(x * x * 1j) * (2 - 3j), x, v))


@pytest.mark.usefixtures("jax_with_64_bits")
def test_transforms_of_torch_over_a_custom_vjp():
    x, y = torch.tensor(X), torch.tensor(Y)
    for transform in (torch.func.hessian, lambda f: torch.func.jacfwd(torch.func.jacfwd(f))):
        agree(transform(of_custom_vjp)(x, y), transform(plain)(x, y))


@pytest.mark.usefixtures("jax_with_64_bits")
def test_a_forward_rule_that_calls_the_function_itself():
    cube = torch.from_jax(cube_of)
    rows = jax.hessian(torch.to_jax(lambda x: cube(x).pow(2).sum()))(jnp.array(X))
    agree(rows, np.diag(30 * X**4))
    agree(torch.func.hessian(lambda x: cube(x).pow(2).sum())(torch.tensor(X)), np.diag(30 * X**4))


@jax.custom_vjp
def called_by_bwd(x):
    return jnp.exp(2 * x)


called_by_bwd.defvjp(lambda x: (jnp.exp(2 * x), x), lambda x, g: (2 * called_by_bwd(x) * g,))


@jax.custom_vjp
def kept_by_fwd(x):
    return jnp.exp(2 * x)


def _kept(x):
    y = kept_by_fwd(x)
    return y, y


kept_by_fwd.defvjp(_kept, lambda y, g: (2 * y * g,))
FORWARD, REVERSE = torch.func.jacfwd, torch.func.jacrev


@pytest.mark.usefixtures("jax_with_64_bits")
@pytest.mark.parametrize("f", [called_by_bwd, kept_by_fwd, cube_of], ids=["bwd", "kept", "fwd"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_functions_that_call_themselves_have_derivatives_of_every_mode(f, order):
    x = torch.tensor(0.3, dtype=torch.float64)
    want = (lambda x: x**3) if f is cube_of else (lambda x: (2 * x).exp())
    for _ in range(order):
        want = torch.func.grad(want)
    for modes in itertools.product((FORWARD, REVERSE), repeat=order):
        found = torch.from_jax(f)
        for mode in modes:
            found = mode(found)
        agree(found(x), want(x))
        agree(torch.compile(found)(x), want(x))


def test_a_backward_that_is_not_linear_is_taken_near_zero():
    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return (g * 3).clamp(-1, 1)

    x = jnp.array([0.5])
    _, slope = jax.jvp(torch.to_jax(Clipped.apply), (x,), (jnp.array([100.0]),))
    assert slope.tolist() == [300.0]


def test_effects_of_the_forward_happen(capfd):
    class Printed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            jax.debug.print("forward")
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * 3

    jax.jit(torch.to_jax(Printed.apply))(jnp.array([0.5]))
    jax.effects_barrier()
    assert "forward" in capfd.readouterr().out


def test_a_backward_that_may_be_taken_once_says_so():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    f = torch.to_jax(lambda x: Once.apply(x).sum())
    assert jax.grad(f)(jnp.array([3.0])).tolist() == [6.0]
    with pytest.raises(RuntimeError, match="differentiate twice"):
        jax.hessian(f)(jnp.array([3.0]))
    with pytest.raises(RuntimeError, match="differentiate twice"):
        jax.jacrev(jax.jacrev(f))(jnp.array([3.0]))
