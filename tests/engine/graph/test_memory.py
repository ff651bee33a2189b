"""Reference counting alone frees tensors and nodes: nothing here makes cycles."""

import gc
import weakref

import pytest

import torchgrad_jax as tg
from torchgrad_jax._engine.graph import saved
from torchgrad_jax._engine.passes import segments


@pytest.fixture(autouse=True, scope="module")
def no_collector():
    """Off for all of this file: a collection takes as long as many of these tests."""
    gc.disable()
    yield
    gc.enable()


def leaf(*shape):
    return tg.ones(shape or (3,), requires_grad=True)


def nodes(root):
    """Weak references to every node that a tensor's graph reaches."""
    seen, stack = {}, [root.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and id(node) not in seen:
            seen[id(node)] = weakref.ref(node)
            stack.extend(n for n, _ in node.next_functions)
    return list(seen.values())


def _multi():
    x = leaf(4, 2)
    a, b = x.exp().unbind(1)
    return x, (a * b).sum()


def _in_place():
    x = leaf()
    y = x * 1
    y.mul_(2).exp_()
    return x, y.sum()


def _copy_slices():
    x = leaf(4)
    y = x * 1
    v = y[1:]
    v.mul_(3)
    return x, (y.sum() + v.sum())


def _setitem():
    x = leaf(4)
    y = tg.zeros(4)
    y[1:3] = x[:2] * 2
    return x, y.sum()


def _index():
    x = leaf(4)
    return x, (x[tg.tensor([0, 0, 1])] * x[0]).sum()


def _hooked():
    x = leaf()
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_hook(lambda gi, go: None)
    y.retain_grad()
    x.register_hook(lambda g: None)
    return x, y.sum()


def _packed():
    x = leaf()
    with tg.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        return x, (x * x).exp().sum()


def _custom():
    class Double(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf()
    return x, Double.apply(x).sum()


BUILDERS = {
    "chain": lambda: (lambda x: (x, (x * 2).exp().sin().sum()))(leaf()),
    "saved_result": lambda: (lambda x: (x, x.tanh().sum()))(leaf()),
    "diamond": lambda: (lambda x: (x, (lambda h: (h * h + h).sum())(x.exp())))(leaf()),
    "views": lambda: (lambda x: (x, x.view(2, 2).t()[0].unsqueeze(0).sum()))(leaf(4)),
    "matmul": lambda: (lambda x: (x, (x @ x.t()).sum()))(leaf(2, 3)),
    "several_outputs": lambda: (lambda x: (x, x.max(0)[0].sum()))(leaf(3, 2)),
    "multi_view": _multi,
    "in_place": _in_place,
    "copy_slices": _copy_slices,
    "setitem": _setitem,
    "index": _index,
    "hooks": _hooked,
    "packed": _packed,
    "custom_function": _custom,
}
each = pytest.mark.parametrize("name", BUILDERS)


def alive(refs):
    return [r() for r in refs if r() is not None]


@each
def test_dropped_before_backward(name):
    x, out = BUILDERS[name]()
    refs = [weakref.ref(out), *nodes(out)]
    assert len(alive(refs)) == len(refs) > 2
    del out
    assert alive(refs) == []
    ref = weakref.ref(x)
    del x
    assert ref() is None


@each
@pytest.mark.parametrize("walk", ["joined", "node by node"])
def test_dropped_after_backward(name, walk, monkeypatch):
    monkeypatch.setattr(segments, "WALKS", 0 if walk == "joined" else 1 << 40)
    monkeypatch.setattr(segments, "NODE_COST", 0)
    x, out = BUILDERS[name]()
    refs = [weakref.ref(out), *nodes(out)]
    out.backward()
    del out
    assert alive(refs) == []
    refs = [weakref.ref(x), weakref.ref(x.grad)]
    del x
    assert alive(refs) == []


@each
def test_dropped_after_a_retained_and_a_recorded_pass(name):
    x, out = BUILDERS[name]()
    refs = [weakref.ref(out), *nodes(out)]
    out.backward(retain_graph=True)
    if name not in ("custom_function", "packed"):
        (g,) = tg.autograd.grad(out, x, create_graph=True)
        refs.append(weakref.ref(g))
        if g.requires_grad:
            refs += nodes(g)
        del g
    del out
    assert alive(refs) == []


@pytest.mark.parametrize(
    "step", [lambda x: x.exp(), lambda x: x.sin(), lambda x: x * x.detach()], ids=["exp", "sin", "mul"]
)
def test_backward_frees_what_was_saved(step):
    x = leaf(3)
    h = x * 1
    out = step(h)
    saved = weakref.ref(h._st)
    del h
    if step(tg.ones(3, requires_grad=True)).grad_fn.name() != "ExpBackward0":
        assert saved() is not None
    root = out.sum()
    del out
    root.backward()
    assert saved() is None
    assert root.grad_fn is not None


@pytest.mark.parametrize(
    "step,kept",
    [
        (lambda h: h + 1, False),
        (lambda h: h.exp(), False),
        (lambda h: h.sum(), False),
        (lambda h: h * 2, False),
        (lambda h: -h, False),
        (lambda h: h.view(1, 3), True),
        (lambda h: h.sin(), True),
        (lambda h: h * h, True),
        (lambda h: h.relu(), False),
        (lambda h: h.sigmoid(), False),
    ],
    ids=["add", "exp", "sum", "scale", "neg", "view", "sin", "square", "relu", "sigmoid"],
)
def test_a_node_pins_only_what_it_needs(step, kept):
    h = leaf(3) * 1
    ref = weakref.ref(h._st)
    out = step(h)
    del h
    assert (ref() is not None) == kept
    del out
    assert ref() is None


def test_a_leaf_does_not_hold_its_accumulator_nor_its_graph():
    x = leaf()
    y = x * 2
    acc = weakref.ref(y.grad_fn.next_functions[0][0])
    assert acc().variable is x
    del y
    assert acc() is None
    assert (x * 2).grad_fn.next_functions[0][0] is not None


def test_views_hold_their_base_and_not_the_reverse():
    y = leaf(4) * 1
    v = y[1:]
    base, view = weakref.ref(y), weakref.ref(v)
    del y
    assert base() is not None
    del v
    assert base() is None
    assert view() is None


def test_detached_and_data_hold_no_graph():
    y = leaf(4).exp()
    d, raw = y.detach(), y.data
    refs = [weakref.ref(y), *nodes(y)]
    del y
    assert alive(refs) == []
    assert d.tolist() == raw.tolist()


def test_errors_leave_nothing_behind():
    x = leaf()
    y = x * 2
    y.register_hook(lambda g: 1 / 0)
    out = y.sum()
    refs = [weakref.ref(y), weakref.ref(out), *nodes(out)]
    try:
        out.backward()
    except ZeroDivisionError:
        pass
    del y, out
    assert alive(refs) == []


def test_a_failing_operation_leaves_nothing_behind():
    a, b = leaf(2), leaf(3)
    refs = [weakref.ref(a), weakref.ref(b)]
    try:
        a + b
    except RuntimeError:
        pass
    del a, b
    assert alive(refs) == []


def test_gradient_of_a_parameter_is_freed_when_set_to_none():
    x = leaf()
    (x * x).sum().backward()
    ref = weakref.ref(x.grad)
    x.grad = None
    assert ref() is None


def test_writes_to_parts_that_save_their_results_leave_nothing_behind():
    def build():
        x = leaf()
        b = x * 1
        part = b[0:2]
        for _ in range(3):
            part.tanh_()
            part.mul_(2.0)
        return [weakref.ref(b), *nodes(b)]

    assert alive(build()) == []


PARTS = {
    "row": lambda b: b[0],
    "row of rows": lambda b: b[0:2][1],
    "column of the transpose": lambda b: b.t()[:, 0],
    "flat": lambda b: b.view(-1)[0:3],
    "all of it": lambda b: b.view_as(b),
    "narrow": lambda b: b.narrow(0, 1, 1).squeeze(0),
}
SAVE_THEIR_RESULTS = ("exp_", "exp2_", "expm1_", "sigmoid_", "tanh_", "sqrt_", "rsqrt_", "reciprocal_", "tan_", "relu_",
                      "sgn_", "elu", "selu", "celu", "leaky_relu", "rrelu", "hardtanh")  # fmt: skip


class _Hook:
    def __call__(self, *args):
        return None


def _written(write, part):
    base = tg.full((3, 3), 0.3).requires_grad_().clone()
    v = part(base)
    if write.endswith("_"):
        getattr(v, write)()
    else:
        getattr(tg.nn.functional, write)(v, inplace=True)
    return base, v


@pytest.mark.parametrize("write", SAVE_THEIR_RESULTS)
def test_hooks_on_nodes_of_parts_that_save_their_results_are_freed(write):
    left = []
    for name, part in PARTS.items():
        for on, register in (("part", "register_hook"), ("base", "register_hook"), ("base", "register_prehook")):
            base, v = _written(write, part)
            hook = _Hook()
            ref = weakref.ref(hook)
            getattr((base if on == "base" else v).grad_fn, register)(hook)
            del base, v, hook
            if ref() is not None:
                left.append((name, on, register))
    assert left == []


def test_refused_gradients_keep_nothing_alive():
    x = leaf() * 1
    y = x.clone().acosh_()
    ref = weakref.ref(y.grad_fn)
    with pytest.raises(NotImplementedError, match="acosh"):
        y.sum().backward()
    del y
    assert ref() is None


def test_tensors_detached_in_place_leave_nothing_behind():
    x = leaf()
    for _ in range(3):
        h = (x * 2).exp()
        h.detach_()
    key = id(h)
    assert key in saved.ALTERED
    del h
    assert key not in saved.ALTERED
