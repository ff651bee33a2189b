"""Tensors on the meta device, which have shapes and no data; compared with torch."""

import copy
import io
import pickle

import pytest

import torchgrad_jax as tg
from tests.own_gradients import saving_input
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def told(t):
    """Everything about a tensor that does not take data."""
    node = None if t.grad_fn is None else type(t.grad_fn).__name__
    return [list(t.shape), str(t.dtype), list(t.stride()), str(t.device), t.requires_grad, node, t._version]


@program
def moved_there_with_their_strides(m):
    x = m.ones(2, 3, 4)
    views = [x, x.permute(2, 0, 1), x[:, ::2], x[:, :1].expand(2, 5, 4), x.mT, x[..., 0]]
    return [told(move(v)) for v in views for move in (lambda v: v.to("meta"), lambda v: v.to("meta", m.float64))]


@program
def made_inside_of_operators(m):
    square, vector = m.ones(2, 2, device="meta"), m.ones(4, device="meta")
    return [
        *[told(m.linalg.matrix_power(square, n)) for n in (0, 1, 2)],
        told(m.nn.functional.one_hot(vector.long(), 3)),
        told(m.vander(vector)),
        told(m.nn.functional.layer_norm(square, (2,))),
        told(m.block_diag(square, vector)),
        told(m.cumulative_trapezoid(square)),
    ]


@program
def made_by_every_factory(m):
    make = [
        m.empty(2, 3, device="meta"),
        m.zeros(2, device="meta", dtype=m.int64),
        m.ones((), device="meta"),
        m.full((2,), 3, device="meta"),
        m.rand(2, device="meta"),
        m.randn(2, device="meta"),
        m.randint(5, (2,), device="meta"),
        m.arange(5, device="meta"),
        m.linspace(0, 1, 5, device="meta"),
        m.eye(3, device="meta"),
        m.randperm(4, device="meta"),
        m.tensor([1, 2.0], device="meta"),
        m.empty_strided((2, 3), (1, 2), device="meta"),
        m.scalar_tensor(3, device="meta"),
        m.zeros_like(m.ones(2, 3).t(), device="meta"),
        m.ones(2).new_empty(3, device="meta"),
        m.empty(10**5, 10**6, device="meta"),
    ]
    return [told(t) for t in make]


@program
def printed(m):
    x = m.empty(3, device="meta", requires_grad=True)
    parts = [m.empty(2, 3, device="meta"), m.empty(0, device="meta", dtype=m.int8), x, x * 2]
    return [repr(t) for t in parts] + [f"{x.sum()}", repr(m.nn.Parameter(m.empty(2, device="meta")))]


@program
def attributes(m):
    x = m.empty(2, 3, device="meta")
    plain = m.ones(1)
    return [
        x.is_meta,
        x.is_cpu,
        plain.is_meta,
        x.get_device(),
        x.element_size(),
        x.nelement(),
        x.data_ptr(),
        len(x),
        x.untyped_storage().nbytes(),
        x.t().is_contiguous(),
        x[1].storage_offset(),
        str(x.untyped_storage().device),
    ]


@program
def nothing_is_computed_but_shapes(m):
    x = m.empty(10**5, 10**4, device="meta", requires_grad=True)
    w = m.empty(10**4, 10**5, device="meta", requires_grad=True)
    y = (x @ w).relu().softmax(-1)
    loss = y.sum()
    loss.backward()
    return [told(t) for t in (y, loss, x.grad, w.grad)]


@program
def operators(m):
    x = m.empty(2, 3, 4, device="meta")
    i = m.empty(2, dtype=m.int64, device="meta")
    flat = m.empty(3, 4, device="meta")
    return [
        told(t)
        for t in (
            x + 1, x.permute(2, 0, 1) * 2, x.sum(1), x.mean(), x > 0, x.argmax(1), x.to(m.float16), x.long(),
            *x.sort(), *x.topk(2), m.einsum("bij,bkj->bik", x, x), m.cat([x, x], 1), m.stack([x, x]), x[:, ::2],
            flat[i], flat[:, [0, 1]], flat.gather(1, flat[:, :2].long()), flat.index_add(0, i, flat[:2]),
            m.where(flat > 0, flat, 0.0), *flat.split(2, 1), *m.linalg.eigh(m.empty(3, 3, device="meta")),
            m.fft.fft(x), x.view(6, 4), x.expand(5, 2, 3, 4), x.cumsum(0), m.nn.functional.gelu(x), 2 - x, x.mT @ x,
        )
    ]  # fmt: skip


@program
def writes(m):
    x = m.empty(2, 3, device="meta")
    x[0] = 1
    x[:, 1].mul_(2)
    x.zero_().fill_(2).normal_().add_(1)
    x[x > 0] = 1.0
    x.copy_(m.ones(2, 3))
    return [told(t) for t in (x, x[0], x.t())]


@program
def layers(m):
    with m.device("meta"):
        net = m.nn.Sequential(
            m.nn.Conv2d(3, 4, 3),
            m.nn.BatchNorm2d(4),
            m.nn.ReLU(),
            m.nn.MaxPool2d(2),
            m.nn.Flatten(),
            m.nn.Linear(36, 5),
        )
    y = net(m.empty(2, 3, 8, 8, device="meta"))
    m.nn.functional.cross_entropy(y, m.empty(2, dtype=m.int64, device="meta")).backward()
    return [
        told(y),
        *[told(p) for p in net.parameters()],
        *[told(p.grad) for p in net.parameters()],
        *[told(b)[:6] for b in net.buffers()],
    ]


@program
def no_random_numbers_are_drawn(m):
    m.manual_seed(3)
    before = m.rand(2)
    m.manual_seed(3)
    m.nn.Linear(3, 4, device="meta")
    m.empty(3, device="meta").uniform_()
    return before, m.rand(2)


@program
def steps_of_optimizers(m):
    seen = []
    for make in (lambda p: m.optim.Adam(p), lambda p: m.optim.SGD(p, lr=0.1, momentum=0.9)):
        net = m.nn.Linear(3, 4, device="meta")
        optimizer = make(net.parameters())
        net(m.empty(2, 3, device="meta")).sum().backward()
        norm = m.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        seen += [told(net.weight), told(norm)]
    return seen


@program
def modules_leave_and_enter(m):
    net = m.nn.Linear(3, 4)
    held = net.weight
    net.weight.grad = m.ones(4, 3)
    net.to("meta")
    gone = [told(net.weight), told(net.weight.grad), net.weight is held]
    net.to_empty(device="cpu")
    return gone, told(net.weight)[:4], net.weight.is_leaf, net.weight.requires_grad


@program
def skip_init_makes_modules(m):
    on_meta = m.nn.utils.skip_init(m.nn.Linear, 3, 4, device="meta")
    here = m.nn.utils.skip_init(m.nn.Linear, 3, 4)
    return told(on_meta.weight)[:5], list(here.weight.shape), str(here.weight.device)


@program
def states_are_assigned(m):
    m.manual_seed(0)
    net, state = m.nn.Linear(3, 4, device="meta"), m.nn.Linear(3, 4).state_dict()
    answer = str(net.load_state_dict(state, assign=True))
    return answer, net.weight, net.weight.requires_grad, isinstance(net.weight, m.nn.Parameter)


@program
def states_that_are_not_assigned_warn(m):
    net, state = m.nn.Linear(3, 4, device="meta"), m.nn.Linear(3, 4).state_dict()
    with pytest.warns(UserWarning, match="for weight: copying from a non-meta parameter .* is a no-op"):
        net.load_state_dict(state)
    return told(net.weight)


@program
def copies_and_files(m):
    x = m.empty(2, 3, device="meta").t()
    p = m.nn.Parameter(m.empty(2, device="meta"))
    file = io.BytesIO()
    m.save({"x": x, "y": m.ones(2)}, file)
    file.seek(0)
    loaded = m.load(file)
    file.seek(0)
    elsewhere = m.load(file, map_location="meta")
    ways = [copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.deepcopy(p), loaded["x"]]
    return ([told(t) for t in ways], loaded["y"], told(elsewhere["y"]), type(copy.deepcopy(p)).__name__)


@program
def moves(m):
    x = m.ones(2, 3, requires_grad=True).t()
    there = x.to("meta")
    return (told(there), told(there.to(m.float64)), there.to("meta") is there, complaint(there.sum().backward))


@program
def what_needs_data_raises(m):
    one, two = m.empty((), device="meta"), m.empty(2, device="meta")
    return [
        complaint(fn)
        for fn in (
            one.item,
            lambda: float(one),
            lambda: bool(one),
            lambda: bool(two),
            two.item,
            two.tolist,
            two.cpu,
            two.numpy,
            lambda: two.to("cpu"),
            lambda: m.ones(2).copy_(two),
            lambda: 3.0 in two,
            lambda: m.nn.Linear(2, 2, device="meta").to("cpu"),
            lambda: m.Generator(device="meta"),
            lambda: two.set_data(1) if hasattr(two, "set_data") else None,
        )
    ]


@program
def what_is_found_in_data_raises(m):
    x = m.empty(5, device="meta")
    calls = (lambda: x[x > 0], lambda: m.nonzero(x), lambda: m.masked_select(x, x > 0), lambda: m.unique(x))
    return [complaint(fn)[0] for fn in calls]


@program
def devices_do_not_mix(m):
    x, y = m.empty(2, device="meta"), m.ones(2)
    mixed = [complaint(fn) for fn in (lambda: x + y, lambda: y * x, lambda: x[0] + y, lambda: m.cat([x, y]))]
    x.requires_grad_()

    def assign():
        x.grad = y

    return mixed, complaint(assign), [told(t) for t in (x + y[0], y.sum() * x)]


@program
def data_may_not_be_exchanged(m):
    x, y = m.empty(2, device="meta"), m.ones(2)

    def exchange(a, b):
        a.data = b

    return complaint(lambda: exchange(x, y)), complaint(lambda: exchange(y, x))


@program
def transforms(m):
    x = m.empty(3, 4, device="meta")
    return [
        told(t)[:6]
        for t in (
            m.func.vmap(lambda r: r.sum() * 2)(x),
            m.func.jacrev(lambda a: (a * a).sum())(x),
            m.func.jvp(lambda a: a.sin(), (x,), (x,))[1],
            m.autograd.functional.jacobian(lambda a: a * a, x[0]),
        )
    ]


@program
def functions_hooks_and_checkpoints(m):
    Twice = saving_input(m, "Twice", lambda a: a * 2, lambda a, g: g * a)

    seen = []
    x = m.empty(3, device="meta", requires_grad=True)
    x.register_hook(lambda g: seen.append(told(g.detach())))
    y = m.utils.checkpoint.checkpoint(lambda a: Twice.apply(a).sin(), x, use_reentrant=False)
    y.sum().backward()
    (g,) = m.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return seen, told(y), told(x.grad), told(g.detach()), told(h)


@program
def as_default(m):
    m.set_default_device("meta")
    try:
        x = m.ones(2)
        where = str(m.get_default_device())
    finally:
        m.set_default_device(None)
    with m.device("meta"):
        y = m.tensor([1, 2])
        z = m.zeros(2, device="cpu")
    return where, told(x), told(y), z


def test_gradients_meet_whatever_is_real_inside_hooks():
    x = tg.empty(3, device="meta", requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append((tg.ones(2) * 3).sum().item()))
    (x * 2).sum().backward()
    assert seen == [6.0]


def test_large_tensors_take_no_memory():
    x = tg.empty(2**20, 2**20, device="meta", requires_grad=True)
    (x.t() @ x).tanh().mean().backward()
    assert x.grad.shape == x.shape
    assert x.grad.is_meta


CHECKED = {
    "nll_loss": lambda x, i: tg.nn.functional.nll_loss(x, i),
    "embedding": lambda x, i: tg.nn.functional.embedding(i, x),
    "gather": lambda x, i: x.gather(1, i[:, None]),
    "index_select": lambda x, i: x.index_select(0, i),
    "an index": lambda x, i: x[i],
    "index_add_": lambda x, i: (x * 1).index_add_(0, i, x),
    "scatter_": lambda x, i: (x * 1).scatter_(1, i[:, None], 1.0),
    "index_put_": lambda x, i: (x * 1).index_put_((i,), x),
}


@pytest.mark.parametrize("name", CHECKED)
def test_values_that_are_not_there_are_not_checked_however_often(name):
    x, i = tg.empty(3, 5, device="meta", requires_grad=True), tg.empty(3, dtype=tg.int64, device="meta")
    for _ in range(4):
        out = CHECKED[name](x, i)
        assert out.is_meta
        out.sum().backward()
