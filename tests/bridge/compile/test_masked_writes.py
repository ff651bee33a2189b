"""A write by a mask inside of compiled code, where what is written does not depend on how many elements it selects."""

import pytest

import torchgrad_jax as tg


def rows(x):
    y = x.clone()
    y[x[:, 0] < 2] = 7
    return y


def elements(x):
    y = x * 1
    y[y < 2] = tg.tensor(7, dtype=tg.int64)
    return y.sqrt()


def after_a_slice(x):
    y = x.clone()
    y[:, x[0] < 2] = tg.tensor([[5.0], [6.0]])
    return y


def a_row_for_each(x):
    y = x.clone()
    y[x[:, 1] > 3] = tg.tensor([1.0, 2.0, 3.0])
    return y


def column(x):
    y = x.clone()
    y[x[:, 0] < 2, 1:] = x.sum()
    return y


def small(x):
    norms = x.square().sum(-1)
    norms[norms < 6.0] = 6.0
    return norms.sqrt()


def whole_dimensions(x):
    y = x.clone().reshape(1, 2, 3, 1)
    y[:, (x > 1) & (x < 5)] = x.new_full((1, 1, 1), 9.0)
    return y


PROGRAMS = [rows, elements, after_a_slice, a_row_for_each, column, small, whole_dimensions]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_values_gradients_and_versions(fn):
    made = tg.compile(fn, fullgraph=True)
    for shift in (0.0, 1.0, -9.0):  # other numbers of elements, by the same compiled code
        x = (tg.arange(6.0).reshape(2, 3) + shift).requires_grad_()
        want, got = fn(x.abs()), made(x.abs())
        tg.testing.assert_close(got, want)
        (g,), (h,) = (tg.autograd.grad(y.sum(), x) for y in (want, got))
        tg.testing.assert_close(h, g)
    assert made.counts["traced"] == 1


def test_a_write_to_an_argument():
    def f(x):
        x[x > 1] = 0

    a, b = tg.arange(4.0), tg.arange(4.0)
    f(a)
    tg.compile(f)(b)
    assert a.tolist() == b.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert a._version == b._version


def test_values_counted_by_the_mask_are_refused():
    def f(x, v):
        y = x.clone()
        y[x > 1] = v
        return y

    with pytest.raises(RuntimeError, match="the values of a tensor are needed here"):
        tg.compile(f, fullgraph=True)(tg.arange(4.0), tg.ones(2))


def test_dtypes_that_do_not_match_are_not_cast():
    def f(x, v):
        y = x.clone()
        y[x[:, 0] > 1] = v
        return y

    with pytest.raises(RuntimeError):
        tg.compile(f, fullgraph=True)(tg.ones(2, 3), tg.ones(3, dtype=tg.float64))
