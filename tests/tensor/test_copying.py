"""copy, deepcopy and pickle of tensors, weak references to them and to nodes; compared with torch."""

import copy
import gc
import pickle
import weakref

import pytest

import torchgrad_jax as tg
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def through_pickle(x):
    return pickle.loads(pickle.dumps(x))


WAYS = (copy.copy, copy.deepcopy, through_pickle)


@program
def values_and_flags(m):
    x = m.tensor([1.0, 2.0], requires_grad=True)
    x.grad = m.ones(2)
    made = [way(x) for way in WAYS]
    return made, [y._version for y in made], [y.grad for y in made], [y is x for y in made]


@program
def who_shares_storage(m):
    seen = []
    for way in WAYS:
        x = m.arange(4.0)
        y = way(x)
        y[0] = 9.0
        seen.append((x, y, x._version, y._version))
    return seen


@program
def several_on_one_storage(m):
    seen = []
    for way in (copy.deepcopy, through_pickle):
        x = m.arange(4.0)
        a, b, c = way((x, x[1:3], x.detach()))
        b[0] = 9.0
        seen.append((a, b, c, b._is_view(), b.storage_offset(), b.untyped_storage().nbytes()))
    return seen


@program
def the_same_tensor_twice(m):
    x = m.ones(1)
    return [a is b for a, b in (copy.deepcopy([x, x]), through_pickle([x, x]))]


@program
def strides(m):
    x = m.arange(6.0).reshape(2, 3)
    views = [x.t(), x[:, 1], x[::2], m.ones(1).expand(3), m.ones(())]
    return [(y.stride(), y.storage_offset(), y) for v in views for y in map(copy.deepcopy, [v])], [
        (y.stride(), y.storage_offset(), y) for y in map(through_pickle, views)
    ]


@program
def of_every_dtype(m):
    names = ("bool", "int8", "uint8", "int64", "float16", "bfloat16", "float64", "complex64")
    made = [m.ones(2, dtype=getattr(m, n)) for n in names]
    return [[way(x).dtype for x in made] for way in WAYS], [through_pickle(x) for x in made[:4]]


@program
def conjugates(m):
    x = m.tensor([1 + 2j]).conj()
    made = [way(x) for way in WAYS]
    return [y.is_conj() for y in made], [y.resolve_conj() for y in made]


@program
def non_leaves(m):
    y = m.ones(2, requires_grad=True) * 2
    made = [copy.copy(y), through_pickle(y)]
    try:
        copy.deepcopy(y)
    except RuntimeError as error:
        return made, str(error)


@program
def attributes(m):
    seen = []
    for way in WAYS:
        x = m.ones(1)
        x.note = ["a"]
        y = way(x)
        seen.append((y.note, y.note is x.note))
    return seen


@program
def hooks(m):
    x = m.ones(1, requires_grad=True)
    x.register_hook(lambda g: g)
    return copy.deepcopy(x)._backward_hooks


def named(g):
    return g


@program
def hooks_are_lost_with_a_warning(m):
    x = m.ones(1, requires_grad=True)
    x.register_hook(named)
    return through_pickle(x), copy.copy(x)


@program
def grads_are_copied_deeply(m):
    x = m.ones(2, requires_grad=True)
    x.grad = m.full((2,), 3.0)
    x.grad.note = 1
    y = copy.deepcopy(x)
    y.grad.add_(1)
    return x.grad, y.grad, y.grad.note


@program
def set_state(m):
    x = m.ones(1)
    x.__setstate__((True, None, None))
    attempts = [lambda: x.__setstate__(()), lambda: (x * 2).__setstate__(())]
    texts = []
    for attempt in attempts:
        try:
            attempt()
        except (ValueError, RuntimeError) as error:
            texts.append(str(error))
    return x, texts


@program.raises
def a_class_without_new_empty(m):
    class Mine(m.Tensor):
        pass

    return copy.deepcopy(Mine([1.0]))


@program
def a_class_with_new_empty(m):
    class Mine(m.Tensor):
        __torch_function__ = m._C._disabled_torch_function_impl

        def new_empty(self, *args, **kwargs):
            return super().new_empty(*args, **kwargs).as_subclass(Mine)

    x = Mine([1.0, 2.0])
    x.note = [1]
    y = copy.deepcopy(x)
    return type(y).__name__, y.note, y.note is x.note, y


def _classes(m):
    class Plain(m.Tensor):
        pass

    class Slotted(m.Tensor):
        __slots__ = ("extra",)

    class Stateful(m.Tensor):
        def __setstate__(self, state):
            self.got = state

    for cls in (Plain, Slotted, Stateful):  # pickle finds them by name
        globals()[cls.__name__] = cls
        cls.__qualname__ = cls.__name__
    return Plain, Slotted, Stateful


@program
def classes_of_ones_own(m):
    plain, slotted, stateful = _classes(m)
    x, y, z = plain([1.0]), slotted([2.0]), stateful([3.0])
    x.note, y.extra, z.note = 1, 2, 3
    made = [way(t) for way in (copy.copy, through_pickle) for t in (x, y, z)]
    return [type(t).__name__ for t in made], [
        (getattr(t, "note", None), getattr(t, "extra", None), getattr(t, "got", None)) for t in made
    ]


@program
def every_protocol(m):
    x = m.tensor([[1.0, 2.0]], requires_grad=True)
    return [pickle.loads(pickle.dumps(x, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]


@program
def inference_tensors(m):
    with m.inference_mode():
        x = m.ones(1)
    return [way(x).is_inference() for way in WAYS]


@program
def names(m):
    x = m.autograd.Variable(m.ones(1), name="x")
    try:
        x.name = "y"
    except AttributeError as error:
        return x.name, (x + 1).name, m.ones(1).name, str(error)


# --- weak references ------------------------------------------------------------------------------


def simple(m, x):
    return (x * 2).exp().sum()


def with_hooks(m, x):
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_hook(lambda gi, go: None)
    y.grad_fn.register_prehook(lambda go: None)
    return y.exp().sum()


def with_retained_grad(m, x):
    y = x * 2
    y.retain_grad()
    return (y * y).sum()


def with_function(m, x):
    class Square(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x * x
            ctx.save_for_backward(x, out)
            ctx.note = "kept"
            return out

        @staticmethod
        def backward(ctx, g):
            x, _ = ctx.saved_tensors
            return 2 * x * g

    return Square.apply(x * 1).sum()


def with_views_and_writes(m, x):
    y = x * 1
    y[0].mul_(2)
    y.view(-1).add_(1)
    return y.sum()


def with_packed_tensors(m, x):
    with m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return (x * x).sum()


def with_grad_of_grad(m, x):
    (g,) = m.autograd.grad((x * x * x).sum(), x, create_graph=True)
    return g.sum()


def with_a_class(m, x):
    return (x.as_subclass(type("Mine", (m.Tensor,), {})) * 2).sum()


GRAPHS = (
    simple,
    with_hooks,
    with_retained_grad,
    with_function,
    with_views_and_writes,
    with_packed_tensors,
    with_grad_of_grad,
    with_a_class,
)


@pytest.mark.parametrize("run", [True, False], ids=["after-backward", "unused"])
@pytest.mark.parametrize("build", GRAPHS, ids=lambda f: f.__name__)
def test_graphs_die_without_the_collector(build, run):
    gc.collect()
    gc.disable()
    try:
        x = tg.tensor([1.0, 2.0], requires_grad=True)
        out = build(tg, x)
        refs = [weakref.ref(out), weakref.ref(out.grad_fn)]
        nodes = [n for n, _ in out.grad_fn.next_functions if n is not None]
        refs += [weakref.ref(n) for n in nodes]
        if run:
            out.backward()
        grad = x.grad
        del out, nodes
        assert [r() for r in refs if r() is not None] == []
        leaf = weakref.ref(x)
        del x
        assert leaf() is None
        assert (grad is not None) == run
    finally:
        gc.enable()


def test_nodes_are_alive_while_something_holds_them():
    x = tg.ones(1, requires_grad=True)
    y = x * 2
    node, edge = weakref.ref(y.grad_fn), tg.autograd.graph.get_gradient_edge(y)
    del y
    assert node() is edge.node
    del edge
    assert node() is None


def test_attributes_die_with_their_tensor():
    class Thing:
        pass

    x = tg.ones(1)
    x.thing = Thing()
    thing = weakref.ref(x.thing)
    del x
    assert thing() is None
