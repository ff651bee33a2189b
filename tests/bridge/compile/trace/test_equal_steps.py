"""Steps of compiled programs that were equal are taken once."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import torchgrad_jax as tg
from torchgrad_jax._bridge.compile.trace.equal_steps import evaluate_equal_steps_once
from torchgrad_jax._bridge.compile.trace.traced_program import trace_program


def _program(run: Any) -> Any:
    program, _ = trace_program(lambda: (run(), None), [])
    return program


def _again(program: Any) -> str:
    """The steps of a program, taken once each."""
    values = [s.array([]) for s in program.sources]
    traced = jax.make_jaxpr(lambda *xs: evaluate_equal_steps_once(program.jaxpr, xs, program.consts))(*values)
    return str(traced)


def test_a_backward_pass_shares_the_steps_of_the_forward_pass():
    x = tg.randn(3, 4, requires_grad=True)

    def run() -> list[Any]:
        y = tg.nn.functional.gelu(x)
        return [y, *tg.autograd.grad(y.sum(), x)]

    program = _program(run)
    assert _again(program).count("= erf ") == 1
    values = [s.array([]) for s in program.sources]
    once = evaluate_equal_steps_once(program.jaxpr, values, program.consts)
    for a, b in zip(once, program.run(values)):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def _evaluated(f: Any, *args: Any) -> tuple[str, list[Any]]:
    closed = jax.make_jaxpr(f)(*args)
    assert not closed.jaxpr.invars, "constants only"
    run = functools.partial(evaluate_equal_steps_once, closed.jaxpr, (), closed.consts)
    return str(jax.make_jaxpr(run)()), run()


def test_numbers_that_only_look_equal_are_told_apart():
    x = jnp.arange(3.0)

    @jax.jit
    def zeros() -> Any:
        return jnp.copysign(1.0, x * 0.0), jnp.copysign(1.0, x * -0.0), x * 0.0 + (x * 0.0)

    text, (plus, minus, _) = _evaluated(zeros)
    assert plus.tolist() == [1.0] * 3
    assert minus.tolist() == [-1.0] * 3
    assert text.count("= mul ") == 2


def test_what_has_effects_or_options_is_left_alone(capfd):
    x = jnp.arange(3.0)

    def shown() -> Any:
        jax.debug.print("here")
        jax.debug.print("here")
        return x + 1

    closed = jax.make_jaxpr(shown)()
    jax.block_until_ready(jax.jit(lambda: evaluate_equal_steps_once(closed.jaxpr, (), closed.consts))())
    jax.effects_barrier()
    assert capfd.readouterr().out.count("here") == 2
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    placed = jax.jit(lambda x: x * 2, out_shardings=here)
    text, _ = _evaluated(lambda: (placed(x), jax.jit(lambda x: x * 3)(x)))
    assert text.count("jit[") == 1
    assert "SingleDeviceSharding" in text
