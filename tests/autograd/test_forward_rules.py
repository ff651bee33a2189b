"""Forward mode: what it refuses, names and dependence of tangents, Functions that write, compared with torch."""

import functools
import itertools

import pytest

import torchgrad_jax as tg
from tests.autograd.programs import attempt
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def out_is_refused_after_it_was_written(m):
    fw = m.autograd.forward_ad
    with fw.dual_level():
        d = fw.make_dual(m.tensor([1.0, 2.0]), m.tensor([3.0, 4.0]))
        out, second = m.empty(2), fw.make_dual(m.ones(2), m.tensor([5.0, 6.0]))
        answers = [
            attempt(m.add, d, 1, out=out),
            attempt(m.mul, m.ones(2), 2, out=second),
            attempt(m.cat, [d, d], out=m.empty(4)),
            attempt(m.sum, d, 0, out=m.empty(())),
            attempt(m.eq, d, d, out=m.empty(2, dtype=m.bool)),
            attempt(m.add, m.ones(2), 1, out=m.empty(2)),
        ]
        return answers, out, fw.unpack_dual(out), fw.unpack_dual(second)


@program
def another_storage_is_refused(m):
    fw = m.autograd.forward_ad
    with fw.dual_level():
        d = fw.make_dual(m.tensor([1.0, 2.0]), m.tensor([3.0, 4.0]))
        plain = m.zeros(2)
        return (attempt(plain.set_, d), attempt(d.set_, m.ones(2)), attempt(plain.set_, m.ones(2)))


@program
def which_tangents_require_a_gradient(m):
    fw = m.autograd.forward_ad
    x = m.tensor([1.0, 2.0], requires_grad=True)
    with fw.dual_level():
        d = fw.make_dual(x, m.tensor([1.0, 0.5]))
        outs = (d.max(0)[0], d.sort()[0], d.topk(1)[0], d.abs(), d * d, d * 2, d.sum(), d.exp())
        return [(t.tolist(), t.requires_grad) for t in (fw.unpack_dual(o).tangent for o in outs)]


@program
def names_of_recorded_tangents(m):
    fw = m.autograd.forward_ad
    x = m.tensor([1.0, 2.0], requires_grad=True)
    with fw.dual_level():
        d = fw.make_dual(x, m.tensor([1.0, 0.5]))
        tangents = [fw.unpack_dual(o).tangent for o in (d * d, d.exp(), d.sin(), d @ d)]
        return [t.grad_fn.name() for t in tangents]


@program
def a_function_that_writes_must_write_to_the_tangent(m):
    fw = m.autograd.forward_ad
    answers = []
    for rule in (
        lambda t: t,
        lambda t: t.clone(),
        lambda t: t.mul_(2),
        lambda t: None,
        lambda t: (t.add_(1), t)[1],
        lambda t: t.view(-1),
    ):

        class F(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.add_(1)

            @staticmethod
            def jvp(ctx, t, rule=rule):
                return rule(t)

            @staticmethod
            def backward(ctx, g):
                return g

        with fw.dual_level():
            d = fw.make_dual(m.ones(2), m.ones(2))
            answers.append((attempt(F.apply, d), fw.unpack_dual(d)))
    return answers


@program
def a_rule_for_batches_is_no_rule_for_tangents(m):
    class Twice(m.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def vmap(info, in_dims, x):
            return x * 2, in_dims[0]

    x = m.arange(3.0)
    batch = m.vmap(Twice.apply)(m.ones(2, 3))
    return batch, attempt(m.func.hessian(lambda t: Twice.apply(t).sin().sum()), x)


# --- writes of several values into one place -------------------------------------------------------

PLACES = [1, 3, 1, 1]
WRITES_OVER_ONE_ANOTHER = {
    "set": lambda x, v, i: x.index_put_((i,), v),
    "set in a view": lambda x, v, i: x.view(5, 1).index_put_((i,), v.view(4, 1)),
    "set alike": lambda x, v, i: x.index_put_((i,), v[0]),
    "copy": lambda x, v, i: x.index_copy_(0, i, v),
    "scatter": lambda x, v, i: x.scatter_(0, i, v),
    "put": lambda x, v, i: x.put_(i, v),
    "columns": lambda x, v, i: (x[:, None] * v)[:, : len(i)].index_copy(1, i % 2, x[:, None] * v * v),
    "rows": lambda x, v, i: (x[:, None] * v).index_put((i,), x[:4, None] * v * v),
    "cells": lambda x, v, i: (x[:, None] * v).index_put((i, i - 1), v * v),
    "scattered rows": lambda x, v, i: (x[:, None] * v).scatter(0, i.view(2, 2), v.view(2, 2) ** 2),
}


def _written_over_one_another(m, write):
    def written(x, v):
        y = x.clone()
        out = write(y, v, m.tensor(PLACES))
        return y if out._base is y else out

    return written


def _tangents(m, f, x, v):
    fw, u = m.autograd.forward_ad, m.func
    with fw.dual_level():
        dual = fw.unpack_dual(f(fw.make_dual(x, x.cos()), fw.make_dual(v, v.exp())))
    return [
        dual.primal,
        dual.tangent,
        u.jvp(lambda v: f(x, v), (v,), (v.exp(),)),
        u.jacfwd(f, (0, 1))(x, v),
        u.vmap(lambda t: u.jvp(lambda v: f(x, v), (v,), (t,))[1])(m.stack([v, v * 2])),
    ]


def _gradients(m, f, x, v):
    """torch's backward gives a value that was overwritten the gradient of its place."""
    u = m.func

    def total(x, v):
        return f(x, v).pow(3).sum()

    return [
        u.grad(total, (0, 1))(x, v),
        u.hessian(total, 1)(x, v),
        u.jacrev(u.jacrev(total, 1), 1)(x, v),
        u.jacrev(u.jacfwd(total, 1), 1)(x, v),
        u.vmap(u.grad(total, 1), (None, 0))(x, m.stack([v, v * 2])),
    ]


@program
def the_tangent_of_the_value_that_stays(m):
    x, v = m.arange(5.0), m.arange(4.0) / 4 + 0.5
    writes = WRITES_OVER_ONE_ANOTHER.values()
    return [_tangents(m, _written_over_one_another(m, write), x, v) for write in writes]


@program
def gradients_of_every_value_and_tangents_of_them(m):
    x, v = m.arange(5.0), m.arange(4.0) / 4 + 0.5
    writes = WRITES_OVER_ONE_ANOTHER.values()
    return [attempt(lambda w=w: _gradients(m, _written_over_one_another(m, w), x, v))[0] for w in writes]


# --- torch's formulas of forward mode that are no transposes of its backward --------------------------


@program
def extremes_among_new_values_alone(m):
    """An old value that does not count takes no part of a tangent; of a gradient it does, in torch's backward."""
    x, i = m.tensor([1.0, 2.0, 2.0, 0.0, -1.0]), m.tensor([0, 2, 0, 1, 2])
    values = x.flip(0), m.zeros(5), m.tensor([2.0, float("nan"), 1.0, 0.0, 1.0])
    seen = []
    for reduce, kept in itertools.product(("amax", "amin"), (True, False)):
        f = functools.partial(_reduced, "scatter_reduce", i, reduce, kept)
        seen += [[*_tangents(m, f, x, v), *_gradients(m, f, x, v)] for v in values]
    return seen


def _reduced(name, i, reduce, kept, x, v):
    return getattr(x, name)(0, i, v, reduce, include_self=kept)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("kept", [True, False])
def test_slices_are_reduced_along_tangents_as_cells_are(reduce, kept):
    """torch's `index_reduce` has no forward mode."""
    x, i = tg.tensor([1.0, 2.0, 2.0, 0.0, -1.0]), tg.tensor([0, 2, 0, 1, 2])
    a, b = (
        _tangents(tg, functools.partial(_reduced, name, i, reduce, kept), x, x.flip(0))[1]
        for name in ("scatter_reduce", "index_reduce")
    )
    assert tg.equal(a, b)


@program
def sums_without_what_is_missing(m):
    """What is missing has tangents that are missing, too."""
    x, v = m.tensor([0.0, 1.0, 0.0, -2.0, 3.0]), m.arange(5.0)
    functions = (m.nansum, m.nanmean, lambda x: m.nansum(x.view(5, 1), 1))
    return [_tangents(m, lambda x, v, f=f: f(x / x * v), x, v) for f in functions]


@program
def logit_where_it_is_level(m):
    """Second derivatives are 0 along tangents and NaN in a second backward pass where the true slope is infinite."""
    x, v = m.tensor([0.0, 1.0, 0.05, 0.3, 2.0]), m.arange(5.0)

    def f(x, v):
        return x.logit(0.1) * v

    u = m.func
    total = u.grad(lambda x: f(x, v).sum())
    return _tangents(m, f, x, v), u.jvp(total, (x,), (v + 1,)), u.grad(lambda x: total(x).sum())(x)
