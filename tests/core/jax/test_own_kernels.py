"""A kernel gives the same bits wherever JAX calls it, and leaves the programs around it as JAX makes them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import interop
from torchgrad_jax._core.jax import own_kernels

X = np.linspace(-40, 40, 400_000, dtype=np.float32)
"""So many elements that XLA has the eager operator, too, and not NumPy."""
CURVES: dict[str, tuple[Any, Any]] = {
    "sin": (torch.sin, jnp.sin),
    "cos": (torch.cos, jnp.cos),
    "tan": (torch.tan, jnp.tan),
    "asin": (torch.asin, jnp.arcsin),
    "acos": (torch.acos, jnp.arccos),
    "atan": (torch.atan, jnp.arctan),
    "rsqrt": (torch.rsqrt, jax.lax.rsqrt),
    "lgamma": (torch.lgamma, jax.scipy.special.gammaln),
    "sinc": (torch.special.sinc, jnp.sinc),  # jnp.sinc is a function of JAX's that both programs call
}
WAYS: dict[str, Any] = {
    "compiled": lambda fn: lambda x: torch.compile(fn)(torch.from_numpy(x)).numpy(),
    "under jit": lambda fn: jax.jit(interop.to_jax(fn)),
    "under checkpoint": lambda fn: jax.jit(jax.checkpoint(interop.to_jax(fn))),
    "under vmap": lambda fn: lambda x: jax.jit(jax.vmap(interop.to_jax(fn)))(x.reshape(1_000, 400)).reshape(-1),
    "in a scan": lambda fn: (
        lambda x: jax.jit(lambda x: jax.lax.scan(lambda c, a: (c, interop.to_jax(fn)(a)), 0, x))(np.stack([x, x]))[1][0]
    ),
}


def bits(x: Any) -> np.ndarray:
    return np.asarray(x).view(np.int32)


def eager(fn: Any) -> np.ndarray:
    return fn(torch.from_numpy(X)).numpy()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CURVES)
def test_a_kernel_has_the_bits_of_the_eager_operator(name, way):
    ours, _ = CURVES[name]
    np.testing.assert_array_equal(bits(WAYS[way](ours)(X)), bits(eager(ours)))


@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("name", CURVES)
def test_a_kernel_and_a_function_of_jax_do_not_mix_in_one_program(name, ours_first):
    ours, theirs = CURVES[name]
    inside = interop.to_jax(ours)
    alone = jax.jit(lambda x: theirs(x))(X)
    both = jax.jit(lambda x: (inside(x), theirs(x)) if ours_first else (theirs(x), inside(x))[::-1])(X)
    np.testing.assert_array_equal(bits(both[0]), bits(eager(ours)))
    np.testing.assert_array_equal(bits(both[1]), bits(alone))


def slope(fn: Any) -> Any:
    return jax.jit(jax.grad(lambda x: fn(x).sum()))


@pytest.mark.parametrize("name", ["sin", "tan", "lgamma"])
def test_a_gradient_of_jax_has_the_bits_of_the_backward_pass(name):
    ours, _ = CURVES[name]
    x = torch.from_numpy(X).requires_grad_()
    ours(x).sum().backward()
    for fn in (interop.to_jax(ours), jax.checkpoint(interop.to_jax(ours))):
        np.testing.assert_array_equal(bits(slope(fn)(X)), bits(x.grad.numpy()))


def outside(jaxpr: Any) -> set[str]:
    """The steps of a program that are in no kernel of ours."""
    found = set()
    for eqn in jaxpr.eqns:
        if str(eqn.params.get("name", "")).startswith(own_kernels.PREFIX):
            continue
        inner = [p for p in jax.tree.leaves(eqn.params, is_leaf=lambda p: hasattr(p, "eqns")) if hasattr(p, "eqns")]
        found |= set().union(*map(outside, inner)) if inner else {eqn.primitive.name}
    return found


PROGRAMS: dict[str, Any] = {
    "operators": lambda x: torch.sin(x) * torch.lgamma(x) + torch.special.sinc(x),
    "composed functions": lambda x: torch.nn.functional.gelu(x).norm() + torch.logsumexp(x, 0),
    "a compiled function": torch.compile(lambda x: torch.atan2(x, x + 1).cos()),
    "a gradient inside": lambda x: torch.func.grad(lambda y: y.sin().sum())(x),
    "a transform inside": lambda x: torch.vmap(lambda y: y.sin() * y.cos().sum())(x.reshape(10, 10)),
    "views and writes": lambda x: x.clone().reshape(10, 10).t().add_(1).sin_(),
}
KERNELS = {"sin", "cos", "tan", "asin", "acos", "atan", "atan2", "rsqrt", "log", "log1p", "rem", "lgamma"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_to_jax_leaves_in_a_program_stands_in_kernels(name):
    x = jnp.linspace(0.1, 1, 100, dtype=jnp.float32)
    fn = interop.to_jax(PROGRAMS[name])
    for traced, given in ((fn, x), (jax.grad(lambda x: fn(x).sum()), x), (jax.vmap(fn), jnp.stack([x, x]))):
        assert not outside(jax.make_jaxpr(traced)(given).jaxpr) & KERNELS


def test_a_kernel_is_named_after_its_function():
    def softer(x: Any) -> Any:
        return x + 1

    kernel = own_kernels.jit(softer)
    assert "module @jit_torch.softer " in kernel.lower(1.0).as_text()
    assert own_kernels.names_kernel("jit(torch.softer)")
    assert not own_kernels.names_kernel("jit(softer)")
