"""The engine takes its short ways again as soon as none of JAX's transforms runs."""

import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import pytest

import torchgrad_jax as tg
from torchgrad_jax._core.jax import running_transforms
from torchgrad_jax._core.state import MODES, UNDER_JAX
from torchgrad_jax._engine.memory.tensor import wrap_array

TRANSFORMS = {
    "jit": jax.jit,
    "grad": jax.grad,
    "jit of grad": lambda f: jax.jit(jax.grad(f)),
    "vmap": lambda f: jax.vmap(f, axis_size=2, in_axes=None),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "scan": lambda f: lambda x: jax.lax.scan(lambda s, _: (f(x), None), x, None, 2),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_transform_is_over_when_it_returns(transform):
    """JAX keeps the traces of functions with derivatives of their own, as `abs` is, while a kernel lives."""
    inside = []

    def f(x):
        inside.append(MODES.bits & UNDER_JAX)
        return tg.abs(wrap_array(x)).relu()._st.array

    run = TRANSFORMS[transform](f)
    run(jnp.asarray(2.0))
    assert all(inside)
    assert inside
    assert not MODES.bits & UNDER_JAX
    assert run is not None


def fails(x):
    raise LookupError


ERRORS = []


@tg.compile
def compiled(t):
    """A function in which a transform fails, and which keeps the error."""
    made = t.new_zeros(2)
    try:
        jax.grad(fails)(jnp.asarray(2.0))
    except LookupError as error:
        ERRORS.append(error)
    return made.add_(t)


HELD = {
    **{f"by the error of {name}": lambda f, t=t: t(lambda x: fails(f(x))) for name, t in TRANSFORMS.items()},
    "by an error in a compiled function": lambda f: lambda x: compiled(tg.ones(2)),
    "by a jaxpr that a checkpoint keeps": lambda f: jax.grad(jax.checkpoint(f)),
}


@pytest.mark.parametrize("by", HELD)
def test_a_finished_trace_is_over_although_it_is_held(by):
    held = [HELD[by](lambda x: tg.abs(wrap_array(x)).relu()._st.array)]
    try:
        held[0](jnp.asarray(2.0))
    except LookupError as error:
        held.append(error)
    assert not MODES.bits & UNDER_JAX


def test_a_trace_is_over_in_a_program_without_modules():
    program = """
        import jax, torchgrad_jax as tg
        from torchgrad_jax._core.state import MODES, UNDER_JAX

        def f(x):
            raise LookupError

        try:
            jax.jit(f)(1.0)
        except LookupError as error:
            held = error
        assert not MODES.bits & UNDER_JAX
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)


def test_a_trace_may_end_while_another_one_is_looked_for(monkeypatch):
    """Python collects garbage between any two steps, and with it a trace that JAX has dropped."""

    class EndsTheRest(dict):
        def __contains__(self, number):
            MODES.open_traces.intersection_update([number])
            return super().__contains__(number)

    def f(x):
        monkeypatch.setattr(running_transforms, "_OUTERMOST", EndsTheRest())
        for _ in range(3):
            MODES.open_traces.add(len(MODES.open_traces))
        try:
            return x * float(running_transforms.running_watch() is None)
        finally:
            monkeypatch.undo()

    assert jax.grad(f)(1.0) == 1.0
    assert not MODES.bits & UNDER_JAX


def test_kernels_that_are_made_meanwhile_leave_tensors_inside_of_their_transform():
    """The mark of a write counts once inside of a transform, also where operators are called there first."""
    versions = []

    class Doubled(tg.autograd.Function):
        @staticmethod
        def forward(x):
            return x.mul_(2)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(*inputs)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def f(x):
        y = x.sinh().atanh()
        Doubled.apply(y)
        versions.append(y._version)
        return y.sum()

    tg.clear_caches()
    for _ in range(2):
        tg.func.grad(f)(tg.linspace(0.1, 0.5, 11))
    assert versions == [1, 1]
