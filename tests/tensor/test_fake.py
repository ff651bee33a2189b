"""Fake tensors: programs that run on shapes, dtypes and devices alone; compared with torch."""

import copy
import gc

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint
from torchgrad_jax._subclasses import fake_tensor

program = Programs()
test_same_as_torch = program.test()


def mode(m, **options):
    return m._subclasses.FakeTensorMode(**options)


def told(t):
    node = None if t.grad_fn is None else type(t.grad_fn).__name__
    return [repr(t), list(t.stride()), str(t.device), t.is_meta, t.requires_grad, node, t._version]


@program
def factories_say_the_devices_they_were_asked_for(m):
    with mode(m):
        made = [
            m.empty(2, 3),
            m.zeros(2, dtype=m.int64),
            m.tensor([1, 2]),
            m.arange(5),
            m.rand(3, device="meta"),
            m.rand(2, device="cuda"),
            m.rand(2, device="cuda:1").new_zeros(3),
            m.empty(10**6, 10**7),
            m.ones(2, requires_grad=True),
            m.ones(2).to("cpu"),
            m.ones(2).to(m.float16),
            m.ones(3, 2).t(),
        ]
    return [told(t) for t in made] + [told(m.ones(2) + 1)]


@program
def layers_and_backward(m):
    nn = m.nn
    out = []
    with mode(m):
        layers = [
            (nn.Linear(10**5, 10**6), (2, 10**5)),
            (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)), (2, 3, 9, 9)),
            (nn.LSTM(3, 4), (2, 5, 3)),
            (nn.TransformerEncoderLayer(8, 2, 16), (2, 5, 8)),
        ]
        for layer, shape in layers:
            y = layer(m.randn(*shape))
            y = y[0] if isinstance(y, tuple) else y
            y.sum().backward()
            first = next(layer.parameters())
            out += [told(y), repr(first), repr(first.grad), isinstance(first, nn.Parameter)]
    return out


@program
def a_step_of_an_optimizer(m):
    with mode(m):
        model = m.nn.Linear(3, 4)
        optimizer = m.optim.AdamW(model.parameters())
        loss = m.nn.functional.cross_entropy(model(m.randn(5, 3)), m.randint(4, (5,)))
        loss.backward()
        total = m.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        state = optimizer.state[model.weight]
        return [repr(loss), repr(total), repr(model.weight), repr(state)]


@program
def values_are_not_there(m):
    with mode(m):
        x = m.ones(2, 3)
        asked = [
            lambda: x.sum().item(),
            lambda: bool(x.sum() > 0),
            lambda: float(x.sum()),
            lambda: x.tolist(),
            lambda: x.numpy(),
            lambda: m.nonzero(x),
            lambda: x[x > 0],
            lambda: m.unique(x),
            lambda: m.equal(x, x),
            lambda: m.allclose(x, x),
            lambda: x[0, 0].is_nonzero(),
            lambda: m.masked_select(x, x > 0),
        ]
        return [complaint(fn) for fn in asked]


@program
def devices_that_do_not_meet(m):
    with mode(m):
        a, b = m.ones(3, device="cuda"), m.ones(3)
        return [complaint(lambda: a + b), repr(a * m.tensor(2.0)), repr(m.ones_like(a))]


@program
def outside_of_the_mode(m):
    with mode(m) as fake:
        x = m.ones(2, 3)
    y = x.t() * 2
    mixed = complaint(lambda: x[0] + m.ones(3))
    copies = [complaint(fn)[0] for fn in (lambda: x.copy_(m.ones(3)), lambda: m.ones(2, 3).copy_(x))]
    return [
        told(y),
        x.fake_mode is fake,
        str(x.fake_device),
        hasattr(m.ones(2), "fake_mode"),
        copies,
        mixed[0],
        mixed[1].split(" Found")[0],
        x.untyped_storage().nbytes(),
        repr(x.to("cpu")),
    ]


@program
def taken_from_tensors(m):
    fake = mode(m)
    x, v = m.ones(3), m.ones(4, 4).t()[1:]
    p, g = m.nn.Parameter(m.ones(2)), m.ones(2, requires_grad=True) * 2
    seen, computed = fake.from_tensor(v), fake.from_tensor(g)
    return [
        told(fake.from_tensor(x)),
        fake.from_tensor(x) is fake.from_tensor(x),
        told(seen),
        seen.storage_offset(),
        seen._is_view(),
        repr(fake.from_tensor(p)),
        isinstance(fake.from_tensor(p), m.nn.Parameter),
        computed.requires_grad,
        computed.is_leaf,
    ]


@program
def tensors_with_data_inside(m):
    real = m.ones(3)
    with mode(m):
        refused = [
            complaint(fn)
            for fn in (lambda: real + 1, lambda: real[0], lambda: m.zeros_like(real), lambda: real.add_(1))
        ]
    with mode(m, allow_non_fake_inputs=True):
        out = [repr(real + 1), repr(real[1:]), repr(m.zeros(3) + real)]
    return [out, [(kind, text.split(" Found")[0]) for kind, text in refused]]


@program
def questions_about_tensors(m):
    tools = m._subclasses.fake_tensor
    fake = mode(m)
    x, real = fake.from_tensor(m.ones(2)), m.ones(2)
    with fake:
        with tools.unset_fake_temporarily():
            inside = repr(m.ones(2))
        after = repr(m.ones(2))
    elem = m.empty(2, 3, device="meta")
    made = tools.FakeTensor(fake, elem, m.device("cpu"))
    return [
        tools.is_fake(x),
        tools.is_fake(real),
        tools.maybe_get_fake_mode(x) is fake,
        tools.maybe_get_fake_mode(real),
        inside,
        after,
        repr(made),
        isinstance(x, tools.FakeTensor),
        isinstance(x, m.Tensor),
        isinstance(real, tools.FakeTensor),
        complaint(lambda: tools.FakeTensor(fake, real, m.device("cpu"))),
    ]


def test_an_exception_ends_the_mode():
    with pytest.raises(ZeroDivisionError), mode(tg):
        _ = 1 // 0
    assert tg.ones(2).tolist() == [1, 1]


def test_tensors_of_two_modes_do_not_meet():
    one, other = mode(tg), mode(tg)
    x = tg.ones(2)
    with pytest.raises(AssertionError, match="Mixing fake modes NYI"):
        one.from_tensor(x) + other.from_tensor(x)


def test_a_tensor_outlives_its_mode():
    x = mode(tg).from_tensor(tg.ones(2))
    gc.collect()
    found = x.fake_mode
    assert found is x.fake_mode
    assert found.from_tensor(x) is x


def test_copies_are_fake():
    x = mode(tg).from_tensor(tg.ones(2).as_strided((2, 2), (0, 1)))
    y = copy.deepcopy(x)
    assert (repr(y), y.stride(), y.fake_mode is x.fake_mode) == (repr(x), (0, 1), True)


def test_symbolic_shapes_are_refused():
    with pytest.raises(NotImplementedError, match="shape_env"):
        fake_tensor.FakeTensorMode(shape_env=object())
    with pytest.raises(NotImplementedError, match="static_shapes=False"):
        mode(tg).from_tensor(tg.ones(2), static_shapes=False)
