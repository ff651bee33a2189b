"""The walk: order, accumulation into `.grad`, retained, recorded and restricted passes, big graphs."""

import gc
import itertools
import sys

import pytest

import torchgrad_jax
from tests.differential import laid_out
from tests.engine.graphs import GRAPHS
from tests.engine.helpers import Programs, attempt, leaf

PROGRAMS = Programs()
each_graph = pytest.mark.parametrize("name", GRAPHS)


@each_graph
def test_what_backward_leaves_in_grad(name, same):
    def run(m):
        roots, grads, leaves = GRAPHS[name](m)
        m.autograd.backward(roots, grads)
        return [laid_out(x.grad) for x in leaves]

    same(run, f"backward_{name}")


def test_the_order_in_which_leaves_are_complete(same):
    def run(m):
        found = []
        xs = [m.ones(2, requires_grad=True) for _ in range(4)]
        for i, x in enumerate(xs):
            x.register_hook(lambda g, i=i: found.append(i))
        a, b, c, d = xs
        for y in (a * b, a * b + c * d, b * a + d, (a + b) * (c + d) * a):
            y.sum().backward()
            found.append("|")
        return found

    same(run, "order_of_leaves")


@each_graph
def test_what_grad_returns(name, same):
    def run(m):
        roots, grads, leaves = GRAPHS[name](m)
        found = m.autograd.grad(roots, leaves, grads)
        return found, [x.grad for x in leaves]

    same(run, f"grad_{name}")


@each_graph
def test_second_accumulation(name, same):
    def run(m):
        roots, grads, leaves = GRAPHS[name](m)
        m.autograd.backward(roots, grads, retain_graph=True)
        first = [x.grad for x in leaves]
        m.autograd.backward(roots, grads)
        return [x.grad is g for x, g in zip(leaves, first)], [laid_out(x.grad) for x in leaves]

    same(run, f"twice_{name}")


@each_graph
def test_recorded_pass(name, same):
    def run(m):
        roots, grads, leaves = GRAPHS[name](m)
        found = m.autograd.grad(roots, leaves, grads, create_graph=True)
        sums = [(g * g).sum() for g in found if g.requires_grad]
        second = m.autograd.grad(sum(sums), leaves, allow_unused=True) if sums else None
        # Not the graph of the gradients: torch records its formulas' own steps there
        values = second and [g if g is None else g.detach() for g in second]
        return [g.detach() for g in found], [g.requires_grad for g in found], values

    same(run, f"recorded_{name}")


test_same_as_torch = PROGRAMS.test()


@PROGRAMS
def order_is_last_recorded_first(m):
    seen = []
    x = leaf(m, 3)
    a = x * 2
    b = x.exp()
    c = a + b
    d = b * a
    out = (c * d).sum()
    for name, t in {"x": x, "a": a, "b": b, "c": c, "d": d, "out": out}.items():
        t.register_hook(lambda g, name=name: seen.append(name))
    out.backward()
    return seen


@PROGRAMS
def leaves_are_served_as_soon_as_they_are_ready(m):
    seen = []
    x, y = leaf(m, 3), leaf(m, 3)
    a = x * 2
    b = (a * y).sin()
    for name, t in {"x": x, "y": y, "a": a, "b": b}.items():
        t.register_hook(lambda g, name=name: seen.append(name))
    b.sum().backward()
    return seen


@PROGRAMS
def grad_keeps_being_the_same_object(m):
    x = leaf(m, 3)
    seen = []
    for _ in range(3):
        (x * x).sum().backward()
        seen.append(x.grad)
    return len({id(g) for g in seen}), seen[0], x.grad


@PROGRAMS
def grad_is_replaced_in_a_recorded_pass(m):
    x = leaf(m, 3)
    (x * x).sum().backward()
    first = x.grad
    (x * x * x).sum().backward(create_graph=True)
    return x.grad is first, first, x.grad.requires_grad, x.grad.tolist()


@PROGRAMS
def grad_given_by_the_user_is_added_to(m):
    x = leaf(m, 3)
    mine = m.ones(3)
    x.grad = mine
    view = mine[1:]
    (x * 2).sum().backward()
    return x.grad is mine, mine, view, mine._version


@PROGRAMS
def gradient_tensor_is_not_changed(m):
    x = leaf(m, 3)
    g = m.ones(3)
    y = x + x
    y.backward(g, retain_graph=True)
    x.grad.add_(5)
    y.backward(g)
    return g, g._version, laid_out(x.grad)


@PROGRAMS
def gradient_tensor_as_grad(m):
    x = leaf(m, 3)
    g = m.ones(3)
    x.backward(g)
    g.add_(1)
    return x.grad is g, x.grad, laid_out(x.grad)


FREED = {
    "mul": lambda m, x: (x * x).sum(),
    "exp": lambda m, x: x.exp().sum(),
    "add": lambda m, x: (x + x).sum(),
    "view": lambda m, x: x.view(3, 1).sum(),
    "matmul": lambda m, x: x @ x,
    "mul_number": lambda m, x: (x * 2).sum(),
    "add_then_mul": lambda m, x: (x + x) @ m.ones(3),
    "mul_then_add": lambda m, x: (x * x + 1).sum(),
    "max": lambda m, x: x.max(),
    "select": lambda m, x: x[0],
    "cat": lambda m, x: m.cat([x, x]).sum(),
    "pow": lambda m, x: x.pow(2).sum(),
}


@pytest.mark.parametrize("name", FREED)
def test_second_time_through_a_graph(name, same):
    def run(m):
        x = leaf(m, 3)
        y = FREED[name](m, x)
        y.backward()
        return attempt(y.backward), attempt(lambda: m.autograd.grad(y, x)), x.grad.tolist()

    same(run, f"freed_{name}")


@PROGRAMS
def freed_values_cannot_be_looked_at(m):
    x = leaf(m, 3)
    y = (x * x).sum()
    node = y.grad_fn.next_functions[0][0]
    seen = node._saved_self
    y.backward()
    return seen, attempt(lambda: node._saved_self)


@PROGRAMS
def retained_graph(m):
    x = leaf(m, 3)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    return laid_out(x.grad), attempt(y.backward)


@PROGRAMS
def shared_part_is_freed_by_the_first_root(m):
    x = leaf(m, 3)
    h = x.exp() * x
    a, b = h.sum(), (h * 2).sum()
    a.backward()
    return attempt(b.backward), laid_out(x.grad)


@PROGRAMS
def inputs_restrict_the_pass(m):
    x, y = leaf(m, 3), leaf(m, 3)
    h = x * y
    out = (h * y).sum()
    out.backward(inputs=[x], retain_graph=True)
    first = [x.grad, y.grad]
    out.backward(inputs=[h, y], retain_graph=True)
    return first, laid_out(x.grad), laid_out(y.grad), h.grad


@PROGRAMS
def inputs_free_only_what_ran(m):
    x, y = leaf(m, 3), leaf(m, 3)
    out = (x * 2).exp().sum() + (y * y).sum()
    out.backward(inputs=[x])
    return (attempt(lambda: out.backward(inputs=[y])), attempt(lambda: out.backward(inputs=[x])), x.grad, y.grad)


@PROGRAMS
def gradient_with_respect_to_the_inside(m):
    x = leaf(m, 3)
    a = x * 2
    b = a.exp()
    g = m.autograd.grad(b.sum(), [a, x, b], retain_graph=True)
    return g, x.grad, a.grad_fn.name()


@PROGRAMS
def gradient_with_respect_to_a_view_and_its_base(m):
    y = leaf(m, 4) * 1
    v = y[1:3]
    return m.autograd.grad((v * v).sum(), [v, y])


@PROGRAMS
def pass_inside_a_hook(m):
    x, z = leaf(m, 3), leaf(m, 3)

    def hook(g):
        with m.enable_grad():
            (z * g).sum().backward()
        return g * 2

    y = x * x
    y.register_hook(hook)
    y.sum().backward()
    return laid_out(x.grad), laid_out(z.grad)


# --- big graphs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fan", [10_000])
def test_fan_out(fan):
    x = torchgrad_jax.ones(2, requires_grad=True)
    total = x * 1
    parts = [total * 1.0 for _ in range(fan)]
    out = parts[0]
    for p in parts[1:]:
        out = out + p
    del parts, p
    out.sum().backward()
    assert x.grad.tolist() == [fan, fan]


def test_fan_in():
    xs = [torchgrad_jax.tensor(float(i), requires_grad=True) for i in range(8)]
    torchgrad_jax.stack(xs * 8).sum().backward()
    assert [x.grad.item() for x in xs] == [8] * 8


def test_many_roots():
    x = torchgrad_jax.ones(2, requires_grad=True)
    h = x * 3
    roots = [h * float(i) for i in range(1000)]
    torchgrad_jax.autograd.backward(roots, [torchgrad_jax.ones(2)] * 1000)
    assert x.grad.tolist() == [3 * 499_500.0] * 2


def test_long_chain_is_built_run_and_deleted_without_recursion():
    assert sys.getrecursionlimit() <= 10_000
    n = 100_000
    x = torchgrad_jax.ones(2, requires_grad=True)
    y = x
    for _ in range(n):
        y = y * 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]
    del y
    gc.collect()
    z = x
    for _ in range(n):
        z = z + 1.0
    del z  # never run


def test_long_chain_through_the_general_walk():
    n = 20_000
    x = torchgrad_jax.ones(2, requires_grad=True)
    y = x * 1.0
    seen = []
    y.register_hook(lambda g: seen.append(1))  # somebody looks: nothing is compiled whole
    for _ in range(n):
        y = y * 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]
    assert seen == [1]


def test_work_is_linear_in_the_length():
    def steps(n):
        """How many lines a pass runs, the turns of loops among them."""
        x = torchgrad_jax.ones(2, requires_grad=True)
        y = x
        for _ in range(n):
            y = y * 1.0
        total, count = y.sum(), itertools.count()

        def step(*_):
            next(count)
            return step

        sys.settrace(step)
        try:
            total.backward()
        finally:
            sys.settrace(before)
        return next(count)

    before = sys.gettrace()
    steps(2_000)  # compiles what the passes run
    assert steps(16_000) < 10 * steps(2_000)  # a quadratic walk runs 64 times as many


def test_chain_of_views_and_writes_is_deleted_without_recursion():
    x = torchgrad_jax.ones(4, requires_grad=True)
    y = x * 1
    for _ in range(5_000):
        y[1:].mul_(1.0)
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 1]
    del y
