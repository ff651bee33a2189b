"""Tangents turned off around and inside of transforms that take them."""

from __future__ import annotations

import pytest

import torchgrad_jax
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def fg(m):
    return m.autograd.forward_ad._set_fwd_grad_enabled


@program
def around_jvp(m):
    with fg(m)(False):
        return m.func.jvp(lambda x: x.sin() * x, (m.arange(3.0),), (m.ones(3),))


@program
def inside_jvp(m):
    def f(x):
        with fg(m)(False):
            a = x.sin()
        return a * x, a

    return m.func.jvp(f, (m.arange(3.0),), (m.ones(3),))


@program
def inside_all(m):
    def f(x):
        with fg(m)(False):
            return x.sin()

    return m.func.jvp(f, (m.arange(3.0),), (m.ones(3),))


@program
def inside_view(m):
    def f(x):
        with fg(m)(False):
            a = x[1:]
            b = x.view(3, 1)
        return a * 2, b * 2

    return m.func.jvp(f, (m.arange(3.0),), (m.ones(3),))


@program
def inside_inplace(m):
    def f(x):
        y = x * 2
        with fg(m)(False):
            y.mul_(3)
        return y

    return m.func.jvp(f, (m.arange(3.0),), (m.ones(3),))


@program
def jacfwd_around(m):
    with fg(m)(False):
        return m.func.jacfwd(lambda x: x.sin())(m.arange(3.0))


@program
def jacfwd_inside(m):
    def f(x):
        with fg(m)(False):
            a = x.sin()
        return a * x

    return m.func.jacfwd(f)(m.arange(3.0))


@program
def hessian_around(m):
    with fg(m)(False):
        return m.func.hessian(lambda x: x.sin().sum())(m.arange(3.0))


@program
def hessian_inside(m):
    def f(x):
        with fg(m)(False):
            a = x.sin()
        return (a * x).sum()

    return m.func.hessian(f)(m.arange(3.0))


@program
def jvpjvp_inner_around(m):
    def f(x):
        with fg(m)(False):
            return m.func.jvp(lambda y: y.sin() * x, (x,), (m.ones(3),))

    return m.func.jvp(f, (m.arange(3.0),), (m.ones(3),))


@program
def jvpjvp_around(m):
    with fg(m)(False):
        return m.func.jvp(lambda x: m.func.jvp(lambda y: y.sin(), (x,), (m.ones(3),)), (m.arange(3.0),), (m.ones(3),))


@program
def is_enabled_inside(m):
    en = m.autograd.forward_ad._is_fwd_grad_enabled
    s = []

    def f(x):
        s.append(en())
        return x * 2

    with fg(m)(False):
        m.func.jvp(f, (m.ones(2),), (m.ones(2),))
        s.append(en())
    m.func.jvp(f, (m.ones(2),), (m.ones(2),))
    m.func.grad(lambda x: f(x).sum())(m.ones(2))
    with fg(m)(False):
        m.func.grad(lambda x: f(x).sum())(m.ones(2))
    return s


@program
def vmapjvp_inside(m):
    def f(x):
        with fg(m)(False):
            a = x.sin()
        return a * x

    return m.func.vmap(lambda x: m.func.jvp(f, (x,), (m.ones(()),)))(m.arange(3.0))


@program
def vmap_around(m):
    with fg(m)(False):
        return m.func.vmap(lambda x: m.func.jvp(lambda x: x.sin(), (x,), (m.ones(()),)))(m.arange(3.0))


@program.raises
def strict(m):
    def f(x):
        with fg(m)(False):
            return x.sin()

    return m.func.jvp(f, (m.arange(3.0),), (m.ones(3),), strict=True)


@program
def dual_grad(m):
    fa = m.autograd.forward_ad
    with fa.dual_level():
        x = fa.make_dual(m.arange(3.0), m.ones(3))
        with fg(m)(False):
            y = x.sin()
        z = m.func.grad(lambda x: x.sin().sum())(x)
        with fg(m)(False):
            w = m.func.grad(lambda x: x.sin().sum())(x)
        return fa.unpack_dual(y), fa.unpack_dual(z), fa.unpack_dual(w)


@program
def no_grad_jvp(m):
    def f(x):
        with m.no_grad():
            a = x.sin()
        return a * x

    return m.func.jvp(f, (m.arange(3.0),), (m.ones(3),))


@program
def jvp_around_vmap_inside(m):
    def f(x):
        with fg(m)(False):
            a = m.func.vmap(lambda y: y.sin())(x)
        return a * x

    return m.func.jvp(f, (m.arange(3.0),), (m.ones(3),))


@program
def inference_inside(m):
    def f(x):
        with m.inference_mode():
            a = x.sin()
        return a * x

    return m.func.jvp(f, (m.arange(3.0),), (m.ones(3),))


@program
def grad_in_jvp_off(m):
    def f(x):
        with fg(m)(False):
            return m.func.grad(lambda y: (y.sin() * x).sum())(x)

    return m.func.jvp(f, (m.arange(3.0),), (m.ones(3),))


@program
def jacrev_off(m):
    with fg(m)(False):
        return m.func.jacrev(lambda y: y.sin())(m.arange(3.0))


@program
def a_function(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, i, o):
            pass

        @staticmethod
        def jvp(ctx, t):
            return t * 7

    def f(x):
        with fg(m)(False):
            return F.apply(x)

    return m.func.jvp(f, (m.arange(3.0),), (m.ones(3),)), m.func.jvp(F.apply, (m.arange(3.0),), (m.ones(3),))


@pytest.mark.parametrize("name", ["jvp", "linearize"])
def test_where_they_cannot_be_turned_off(name):
    m = torchgrad_jax
    x = m.arange(3.0)

    def f(x):
        with fg(m)(False):
            return x.sin()

    def run():
        if name == "jvp":
            return m.func.jvp(lambda x: m.func.jvp(f, (x,), (x,)), (x,), (x,))
        return m.func.linearize(f, x)

    with pytest.raises(NotImplementedError, match="detach"):
        run()
    assert m.autograd.forward_ad._is_fwd_grad_enabled()


def test_linearize_takes_its_derivative_when_it_is_called():
    """In forward mode, as in torch, which warns besides."""
    m = torchgrad_jax
    x = m.arange(3.0)
    with fg(m)(False):
        _, none = m.func.linearize(m.sin, x)
    _, push = m.func.linearize(m.sin, x)
    with fg(m)(False):
        assert push(m.ones(3)).tolist() == pytest.approx(x.cos().tolist())
    assert none(m.ones(3)).tolist() == [0.0] * 3
