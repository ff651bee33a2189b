"""Backward passes to leaves that got other memory, another shape or another dtype since: as torch does it."""

import json

import numpy as np
import pytest

import torchgrad_jax as tg
from tests.differential import describe, difference
from tests.programs import complaint

RECORDED = {"product": lambda x: (x * 2).sum(), "exponential": lambda x: x.exp().sum(), "index": lambda x: x[0] * 2}


def _set(make):
    def run(m, x):
        with m.no_grad():
            x.set_(*make(m))

    return run


def _data(make):
    def run(m, x):
        x.data = make(m)

    return run


def _resize(size):
    def run(m, x):
        with m.no_grad():
            x.resize_(size)

    return run


def _swap(make):
    def run(m, x):
        m.utils.swap_tensors(x, make(m))

    return run


CHANGES = {
    "set_ to nothing": _set(lambda m: ()),
    "set_ to another shape": _set(lambda m: (m.ones(5),)),
    "set_ to the same shape": _set(lambda m: (m.ones(3),)),
    "set_ to a storage": _set(lambda m: (m.ones(3).untyped_storage(), 0, (2,), (1,))),
    "data of the same shape": _data(lambda m: m.ones(3)),
    "data of another shape": _data(lambda m: m.ones(5)),
    "data of more dimensions": _data(lambda m: m.ones(3, 3)),
    "data of one element": _data(lambda m: m.ones(1)),
    "data of no dimensions": _data(lambda m: m.tensor(2.0)),
    "data of another dtype": _data(lambda m: m.full((3,), 1.5, dtype=m.float64)),
    "complex data": _data(lambda m: m.ones(3, dtype=m.complex64)),
    "resize_ to less": _resize(2),
    "swapped": _swap(lambda m: m.ones(5, requires_grad=True)),
    "swapped with a constant": _swap(lambda m: m.ones(3)),
}


def _backward(x, z, **options):
    z.backward(**options)
    return (x.grad,)


PASSES = {
    "grad": lambda m, x, z: m.autograd.grad(z, x),
    "grad, recorded": lambda m, x, z: m.autograd.grad(z, x, create_graph=True),
    "grad, unused allowed": lambda m, x, z: m.autograd.grad(z, x, allow_unused=True, materialize_grads=True),
    "backward": lambda m, x, z: _backward(x, z),
    "backward, recorded": lambda m, x, z: [g.detach() for g in _backward(x, z, create_graph=True)],
    "backward to inputs": lambda m, x, z: _backward(x, z, inputs=[x]),
    "grad of a new graph": lambda m, x, z: m.autograd.grad((x * 1).sum(), x),
}


def _shown(m, change, record, run):
    x = m.ones(3, requires_grad=True)
    z = record(x)
    found = []

    def all_of_it():
        change(m, x)
        found.extend(
            None if g is None else (str(g.dtype).split(".")[-1], tuple(g.shape), g.tolist()) for g in run(m, x, z)
        )

    return [complaint(all_of_it), found]


@pytest.mark.oracle
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.filterwarnings("ignore:Using backward")
def test_same_as_torch(change, oracle):
    differ = []
    for recorded, record in RECORDED.items():
        for name, run in PASSES.items():
            pair = [_shown(m, CHANGES[change], record, run) for m in (oracle, tg)]
            if difference(*[json.loads(json.dumps(describe(shown))) for shown in pair]):
                differ.append((recorded, name, *pair))
    assert differ == []


SAVED = {
    "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / y,
    "power": lambda x, y: x**2 * y,
    "sine": lambda x, y: x.sin() * y,
    "larger": lambda x, y: x.maximum(y),
    "chain": lambda x, y: sum((x * y).sin() for _ in range(30)),
}
DATA = {
    "float64": lambda m: m.tensor([5.0, 6.0], dtype=m.float64),
    "float16": lambda m: m.tensor([5.0, 6.0], dtype=m.float16),
    "one element": lambda m: m.tensor([3.0]),
    "no dimensions": lambda m: m.tensor(3.0),
    "one element of float64": lambda m: m.tensor([3.0], dtype=m.float64),
}


def _gradients(m, formula, data, recorded):
    x, y = (m.tensor(v, requires_grad=True) for v in ([1.5, 2.5], [3.0, 4.0]))
    z = formula(x, y).sum()
    x.data = data(m)
    z.backward(create_graph=recorded)
    return [(str(t.grad.dtype).split(".")[-1], t.grad.detach()) for t in (x, y)]


@pytest.mark.oracle
@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("formula", SAVED)
@pytest.mark.filterwarnings("ignore:Using backward")
def test_formulas_read_the_new_data_of_what_they_saved(formula, data, recorded, oracle):
    def run(m):
        return complaint_or(lambda: _gradients(m, SAVED[formula], DATA[data], recorded))

    want, got = run(oracle), run(tg)
    assert [w[0] for w in want] == [g[0] for g in got]
    tolerance = 2e-3 if data == "float16" else 1e-5
    for w, g in zip(want, got):
        assert g[1] == w[1] or np.allclose(g[1], w[1], rtol=tolerance)


def complaint_or(run):
    """What a call gives, as lists, or what it raises."""
    try:
        return [(kind, t.tolist()) for kind, t in run()]
    except RuntimeError as error:
        return [("RuntimeError", str(error))]


@pytest.mark.parametrize("data", [tg.ones(3), tg.ones(2, 2), tg.ones(2, dtype=tg.complex64)])
def test_formulas_refuse_data_that_does_not_fit(data):
    x = tg.tensor([1.5, 2.5], requires_grad=True)
    z = (x * tg.ones(2, requires_grad=True)).sum()
    x.data = data
    with pytest.raises(RuntimeError, match=r"must match|does not expand|became complex"):
        z.backward()
    assert x.grad is None


SHAPES = [(1,), (3,), (), (2, 3), (3, 1), (0,), (4,)]


def _second_gradient(m, old, new, hooked):
    """What becomes of a leaf's gradient when another comes after its data got another shape."""
    x = m.ones(old, requires_grad=True)
    if hooked:
        x.register_hook(lambda g: g * 1)
    x.sum().backward()
    x.data = m.full(new, 2.0)
    refused = complaint(lambda: (x * x).sum().backward())
    assert x.grad is not None
    return refused, tuple(x.grad.shape), x.grad.tolist()


@pytest.mark.oracle
@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.filterwarnings("ignore:grad and param do not obey")
def test_a_gradient_of_another_shape_is_added_where_it_fits(hooked, oracle):
    for old in SHAPES:
        for new in SHAPES:
            given = _second_gradient(tg, old, new, hooked)
            assert given == _second_gradient(oracle, old, new, hooked), (old, new)
