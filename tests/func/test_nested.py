"""Transforms of transforms: what is left of the inner ones' variables, and derivatives of derivatives of operators."""

from __future__ import annotations

import itertools
import warnings

import jax
import pytest

import torchgrad_jax
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _numbers(m):
    return m.tensor([0.1, 0.2, 0.3]), m.tensor([0.4, 0.5, 0.7])


def _f(a, b):
    return (a.sin() * b).sum()


def _squares(m, f, **settings):
    return lambda a, b: m.func.grad(f, **settings)(a, b).pow(2).sum()


def _seen(t):
    return t.requires_grad, t.grad_fn is None, t.detach()


@program
def levels_over_different_arguments(m):
    """What an inner level differentiated is constant for the outer one, and for what is outside of both."""
    a, b = _numbers(m)
    both = m.func.jacrev(m.func.jacrev(_f, argnums=0), argnums=1)
    product = m.func.grad(_squares(m, _f), 1)
    batch = m.stack([b, b * 2])
    return [
        _seen(t)
        for t in (
            both(a, b),
            product(a, b),
            m.func.grad(_squares(m, _squares(m, _f), argnums=1))(a, b),
            *[m.func.vmap(fn, (None, 0))(a, batch) for fn in (both, product)],
            m.func.jacrev(m.func.jacfwd(_f, 0), 1)(a, b),
            m.func.jacfwd(m.func.jacrev(_f, 0), 1)(a, b),
        )
    ]


@program
def levels_over_a_tensor_that_requires_grad(m):
    a, b = _numbers(m)
    w = m.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = m.func.grad(_squares(m, lambda a, b: (a.sin() * b * w).sum()), 1)(a, b)
    return _seen(out), m.autograd.grad(out.sum(), w)


@program
def pulled_inside_of_another_level(m):
    """A product of an earlier or an inner level, differentiated by the cotangent."""
    a, b = _numbers(m)

    def inner(a, b):
        return m.func.vjp(lambda a: a.sin() * b, a)[1](b)[0].pow(2).sum()

    pull = m.func.vjp(m.sin, a)[1]
    cubes = m.func.grad(lambda b: pull(b)[0].pow(3).sum())
    product = m.func.grad(lambda b: (cubes(b) * b).sum())
    return [_seen(t) for t in (m.func.grad(inner, 1)(a, b), cubes(b), product(b))]


@program
def transforms_in_a_backward(m):
    """A level that begins while the gradients of another one are computed."""

    class Double(m.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return m.func.grad(lambda y: (y.sin() * g).sum())(ctx.saved_tensors[0])

    a, b = _numbers(m)
    inner = m.func.grad(lambda y, x: (Double.apply(y) * x).sum())
    return _seen(m.func.grad(lambda x: inner(b, x).sum())(a))


def _second_derivatives(m, f, x):
    t = m.ones_like(x)
    return [
        m.func.hessian(f)(x),
        m.func.jvp(m.func.grad(f), (x,), (t,))[1],
        m.func.jacrev(m.func.jacfwd(f))(x),
        m.func.jacfwd(m.func.jacfwd(f))(x),
    ]


@program
def logcumsumexp_along_tangents(m):
    x = m.tensor([0.5, -1.0, 2.0, 0.25], dtype=m.float64)
    functions = (lambda x: x.logcumsumexp(0).sum(), lambda x: x.logcumsumexp(0).pow(2).sum())
    return [d for f in functions for d in _second_derivatives(m, f, x)]


@program
def logcumsumexp_of_what_is_not_finite(m):
    inf, nan = float("inf"), float("nan")
    points = ([0.5, inf, 1.0], [-inf, 1.0, -inf], [-inf, -inf, 1.0], [nan, 1.0, 2.0], [1.0, nan, inf], [1.0, 2.0, inf])
    tangents = ([1.0, 1.0, 1.0], [-1.0, 2.0, -1.0], [-1.0, 0.0, nan], [0.0, inf, 1.0])
    return [
        m.func.jvp(lambda x: x.logcumsumexp(0), (m.tensor(x),), (m.tensor(t),))[1] for x in points for t in tangents
    ]


def _of_scattered(m, f, s):
    def total(s):
        return f(s).sum()

    def along(s):
        return m.func.jvp(f, (s,), (s,))[1]

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*GraphModule")
        push = m.func.linearize(f, s)[1]
    return [
        push(s),
        m.func.jvp(along, (s,), (s + 1,))[1],
        m.func.jacfwd(m.func.jacfwd(f))(s),
        complaint(lambda: m.func.grad(total)(s)),
        complaint(lambda: m.func.jvp(m.func.grad(total), (s,), (s,))),
    ]


@program
def scattered_from_more_than_is_read(m):
    """A gradient that torch refuses for its shape has nothing to do with derivatives along tangents."""
    x, index = m.zeros(3, 2), m.tensor([[1, 0]])
    s = m.arange(6.0).view(3, 2)
    seen = []
    for name in ("scatter", "scatter_add"):
        seen += _of_scattered(m, lambda s, name=name: getattr(x, name)(0, index, s * s), s)
    return seen


# --- no_grad in what is differentiated along tangents -----------------------------------------------


def _unrecorded(m, f, x):
    with m.no_grad():
        return f(x)


def _written(m, x):
    y = x.clone()
    with m.no_grad():
        y.mul_(x)
    return y


UNRECORDED = {
    "value": lambda m, x: _unrecorded(m, m.sin, x) * x,
    "of a value": lambda m, x: _unrecorded(m, m.sin, x.cos()) * x,
    "and detached": lambda m, x: _unrecorded(m, m.sin, x) * x.detach() * x,
    "write": lambda m, x: _written(m, x) * x,
    "switched": lambda m, x: m.set_grad_enabled(True)(m.set_grad_enabled(False)(m.sin))(x) * x,
    "recorded inside": lambda m, x: _unrecorded(m, lambda x: m.enable_grad()(m.sin)(x), x) * x.cos(),
    "with a gradient inside": lambda m, x: _unrecorded(m, m.func.grad(lambda x: x.sin().sum()), x) * x,
}


def _along(m):
    """Transforms whose derivatives go along tangents."""
    u = m.func
    return {
        "jvp": lambda f: lambda x: u.jvp(f, (x,), (x.cos(),))[1],
        "jacfwd": u.jacfwd,
        "linearize": lambda f: lambda x: u.linearize(f, x)[1](x.cos()),
    }


@program
def tangents_go_through_no_grad(m):
    x = m.tensor([0.3, 0.7], dtype=m.float64)
    found = []
    for f in UNRECORDED.values():
        along = _along(m)
        found += [t(lambda x, f=f: f(m, x))(x) for t in along.values()]
        del along["linearize"]
        for outer in along.values():
            found += [outer(t(lambda x, f=f: f(m, x)))(x) for t in along.values()]
        found.append(m.func.jacfwd(m.func.vmap(m.func.jacfwd(lambda x, f=f: f(m, x))))(m.stack([x, x * 2])))
        found.append(m.func.jacfwd(m.func.jacfwd(m.func.jacfwd(lambda x, f=f: f(m, x))))(x))
    return found


@program
def grad_mode_within_no_grad_of_nested_transforms(m):
    seen = []

    def f(x):
        seen.append(m.is_grad_enabled())
        with m.no_grad():
            seen.append(m.is_grad_enabled())
            with m.enable_grad():
                seen.append(m.is_grad_enabled())
            with m.no_grad():
                pass
            seen.append(m.is_grad_enabled())
        seen.append(m.is_grad_enabled())
        return x.sin()

    m.func.jvp(lambda x: m.func.jvp(f, (x,), (x,))[1], (m.ones(2),), (m.ones(2),))
    m.func.linearize(f, m.ones(2))
    return sorted(set(itertools.pairwise(seen))), m.is_grad_enabled()


def test_gradients_and_tangents_through_no_grad_are_refused():
    """A derivative along tangents goes through what `no_grad` computes, and a gradient does not."""
    m = torchgrad_jax
    u = m.func

    def f(x):
        return _unrecorded(m, m.sin, x) * x

    def total(f):
        return lambda x: f(x).sum()

    x = m.tensor([0.3, 0.7], dtype=m.float64)
    leaf = x.clone().requires_grad_()
    for refused in (
        lambda: u.linearize(u.grad(total(f)), x),
        lambda: u.jacfwd(u.jacfwd(u.jacrev(f)))(x),
        lambda: u.jacfwd(u.jacrev(u.jacfwd(f)))(x),
        lambda: u.grad(total(u.jacfwd(u.jacfwd(f))))(x),
        lambda: u.jacfwd(u.jacfwd(f))(leaf),
        lambda: u.jacfwd(u.jacfwd(lambda x: _unrecorded(m, m.sin, x * leaf) * x))(x),
        lambda: jax.grad(total(u.jacfwd(u.jacfwd(f))))(x),
    ):
        with pytest.raises(NotImplementedError, match="no_grad"):
            refused()
    apart = u.jacfwd(u.jacfwd(lambda x: _unrecorded(m, m.sin, m.ones(2)) * x * x * leaf))(x)
    assert apart.requires_grad


# --- `.data` and `detach_()` inside of several levels -------------------------------------------------


def _cut_in_place(x):
    y = x * 2
    return y.detach_() * x


CUTS = {
    "data": lambda x: (x * x).data * x,
    "data of an argument": lambda x: x.data * x,
    "write through data": lambda x: _written_through_data(x) * x,
    "detach_": _cut_in_place,
}


def _written_through_data(x):
    y = x.clone()
    y.data.add_(x)
    return y


def _sum(f):
    return lambda x: f(x).sum()


SEVERAL = {
    "grad of grad": lambda u, f, x: u.grad(_sum(u.grad(_sum(f))))(x),
    "jvp of grad": lambda u, f, x: u.jvp(u.grad(_sum(f)), (x,), (x,)),
    "grad of jvp": lambda u, f, x: u.grad(_sum(lambda x: u.jvp(f, (x,), (x,))[1]))(x),
    "jvp of jvp": lambda u, f, x: u.jvp(lambda x: u.jvp(f, (x,), (x,))[1], (x,), (x,)),
    "graph around": lambda u, f, x: u.grad(_sum(f))(x.clone().requires_grad_()),
}


@pytest.mark.parametrize("levels", SEVERAL)
@pytest.mark.parametrize("cut", CUTS)
def test_what_ends_more_derivatives_than_in_torch_says_so(cut, levels):
    x = torchgrad_jax.tensor([0.3, 0.7], dtype=torchgrad_jax.float64)
    with pytest.warns(UserWarning, match="ends the derivatives of every level"):
        SEVERAL[levels](torchgrad_jax.func, CUTS[cut], x)


@pytest.mark.parametrize("cut", CUTS)
def test_what_ends_the_derivative_of_the_only_level_says_nothing(cut):
    m = torchgrad_jax
    x = m.tensor([0.3, 0.7], dtype=m.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m.func.grad(_sum(CUTS[cut]))(x)
        m.func.jvp(CUTS[cut], (x,), (x,))
        m.func.grad(_sum(lambda x: m.func.grad(_sum(m.sin))(x).detach() * x))(x)
