"""Rules of derivatives that JAX calls when the function that they belong to has returned."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from torchgrad_jax._core.jax import own_kernels, x64
from torchgrad_jax._core.jax.evaluate import evaluate
from torchgrad_jax._core.jax.host_rules import with_rules_of_host


@pytest.fixture(autouse=True)
def guest(monkeypatch):
    """The process has the types that JAX is set to, and this package another setting around its calls."""
    monkeypatch.setattr(x64, "IS_GUEST", True)


def _functions(ran: list[Any]) -> tuple[Any, Any]:
    """A function with a backward pass and one with a forward rule, which note whether 64-bit types are on."""

    @jax.custom_vjp
    def square(v):
        return v * v

    def forward(v):
        ran.append(("forward", x64.X64.value))
        return square(v), v

    def backward(v, g):
        ran.append(("backward", x64.X64.value))
        return (2 * g * cube(v) / v**2,)

    square.defvjp(forward, backward)

    @jax.custom_jvp
    def cube(v):
        return v**3

    @cube.defjvp
    def rule(primals, tangents):
        ran.append(("rule", x64.X64.value))
        return cube(*primals), 3 * primals[0] ** 2 * tangents[0]

    return square, cube


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.checkpoint], ids=["itself", "jit", "checkpoint"])
def test_rules_run_with_the_setting_of_the_process(wrap):
    ran: list[Any] = []
    square, cube = _functions(ran)
    x = np.float32(0.5)
    closed = jax.make_jaxpr(wrap(lambda v: square(cube(v))))(x)
    steps = with_rules_of_host(closed.jaxpr)
    process = jax.config.jax_enable_x64
    slope = jax.grad(lambda v: evaluate(steps, [*closed.consts, v])[0])
    with jax.enable_x64(not process):
        assert slope(x) == pytest.approx(6 * 0.5**5)
        assert jax.grad(slope)(x) == pytest.approx(30 * 0.5**4)
    assert {which for which, _ in ran} == {"forward", "backward", "rule"}
    # From JAX 0.12 on a rule that a backward rule calls is the one exception: see `host_rules.py`.
    nested = {("rule", not process)} if jax.__version_info__ >= (0, 12) else set()
    assert {setting for note in ran if note not in nested for _, setting in [note]} == {process}


def test_kernels_of_the_package_keep_their_rules():
    ran: list[Any] = []
    square, _ = _functions(ran)
    kernel = own_kernels.jit(square).made
    closed = jax.make_jaxpr(lambda v: kernel(v) + jnp.sin(v))(np.float32(0.5))
    (step,) = [eqn for eqn in with_rules_of_host(closed.jaxpr).eqns if eqn.primitive.name == "jit"]
    assert any(step is eqn for eqn in closed.jaxpr.eqns)


def test_a_rule_for_kernels_has_64_bits_and_leaves_others_alone():
    apply = own_kernels._of_kernels_with_x64(lambda *_, **__: x64.X64.value)
    with jax.enable_x64(False):
        assert apply(name="torch.sin")
        assert not apply(name="sin")
        assert apply(0, SimpleNamespace(params={"name": "torch.sin"}))
        assert not apply(0, SimpleNamespace(params={"name": "sin"}))
        assert not x64.X64.value
