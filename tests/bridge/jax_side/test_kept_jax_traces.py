"""JAX functions that close over tensors, used more than once: what JAX keeps of them is of no other run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import torchgrad_jax as torch

ONES = torch.ones(2, dtype=torch.float64)


class Holder:
    """What a function finds its tensor in."""

    def __init__(self):
        self.w = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)


def jitted(holder):
    return jax.jit(lambda x: x * holder.w)


def of_gradient(holder):
    return jax.grad(jax.jit(lambda x: (torch.as_tensor(x) * holder.w).sum()))


def scanned(holder):
    def body(carry, _):
        return jnp.asarray(carry * holder.w), None

    return lambda x: jax.lax.scan(body, x, None, length=1)[0]


def rematerialised(holder):
    return jax.checkpoint(lambda x: x * holder.w)


def nested(holder):
    inner = jitted(holder)
    return jax.jit(lambda x: inner(x))


FORMS = [jitted, of_gradient, scanned, rematerialised, nested]
forms = pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)


def checked(run, holder):
    """A call, with the values and the gradient that it must have."""
    holder.w.grad = None
    out = run(ONES)
    assert out.tolist() == holder.w.tolist()
    out.sum().backward()
    assert holder.w.grad.tolist() == [1.0, 1.0]


@forms
def test_several_operators_of_one_function(form):
    holder = Holder()
    f = form(holder)
    plain, more = torch.from_jax(f), torch.from_jax(lambda x: f(x) + 0)
    for run in (plain, more, torch.from_jax(f), lambda x: more(x) - 0):
        checked(run, holder)


@pytest.mark.parametrize("form", [jitted, rematerialised, nested], ids=lambda f: f.__name__)
def test_after_calls_by_jax(form):
    """JAX keeps the tensor's values as constants; an operator reads them again."""
    holder = Holder()
    f = form(holder)
    with torch.no_grad():
        assert f(jnp.ones(2)).tolist() == [1.0, 2.0]
    operator = torch.from_jax(f)
    checked(operator, holder)
    with torch.no_grad():
        holder.w.fill_(5.0)
    checked(operator, holder)
    assert torch.compile(lambda x: operator(x) * 2)(ONES).tolist() == [10.0, 10.0]


@forms
def test_another_tensor(form):
    holder = Holder()
    operator = torch.from_jax(form(holder))
    for value in (1.0, 2.0, 3.0):
        holder.w = torch.full((2,), value, dtype=torch.float64, requires_grad=True)
        checked(operator, holder)


def test_another_parameter_of_a_module():
    net = torch.nn.Linear(2, 1, bias=False)
    operator = torch.from_jax(jax.jit(lambda x: net(torch.as_tensor(x))))
    for value in (1.0, 2.0):
        net.weight = torch.nn.Parameter(torch.full((1, 2), value))
        out = operator(torch.ones(2))
        out.backward()
        assert (out.tolist(), net.weight.grad.tolist()) == ([2 * value], [[1.0, 1.0]])


def test_programs_for_two_shapes():
    holder = Holder()
    f = jitted(holder)
    step = torch.compile(lambda x, y: f(x) + y.sum())
    for n in (1, 2, 1):
        assert step(ONES, torch.ones(n)).tolist() == [1.0 + n, 2.0 + n]
    with torch.no_grad():
        holder.w.fill_(7.0)
    assert step(ONES, torch.ones(2)).tolist() == [9.0, 9.0]
