"""torch.autograd.backward and grad, compared with torch."""

from typing import Any

import pytest

import torchgrad_jax
from tests.autograd.programs import leaf
from tests.programs import Programs

tg: Any = torchgrad_jax

program = Programs()
test_same_as_torch = program.test()


@program.raises
def vector_without_gradient(m):
    (leaf(m, 1.0, 2.0) * 2).backward()


@program
def one_element_vector(m):
    x = leaf(m, 3.0)
    (x * x).backward()
    return x


@program
def with_gradient(m):
    x = leaf(m, 1.0, 2.0)
    (x * x).backward(m.tensor([1.0, 10.0]))
    return x


def test_wrong_shape_of_a_later_gradient():
    """torch compares tensors while it looks for the index, and stumbles; here the message is right."""
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"grad_output\[1\] has a shape of torch.Size\(\[1, 2\]\)"):
        tg.autograd.backward([x * 1, x * 2], [tg.ones(2), tg.ones(1, 2)])


@program.raises
def too_few_gradients(m):
    x = leaf(m, 1.0)
    m.autograd.backward([x * 2, x * 3], [m.ones(1)])


@program.raises
def no_graph_with_gradient(m):
    m.autograd.backward([leaf(m, 1.0), m.tensor([1.0])], [None, m.ones(1)])


@program
def inputs_single(m):
    x, y = leaf(m, 1.0), leaf(m, 2.0)
    (x * y).backward(inputs=y)
    return x, y


@program
def inputs_non_leaf(m):
    x = leaf(m, 2.0)
    y = x * 3
    (y * y).backward(inputs=[y])
    return x, y, y.retains_grad


@program
def inputs_leaf_and_non_leaf(m):
    x = leaf(m, 2.0)
    y = x * 3
    (y * y).backward(inputs=[y, x])
    return x, y


@program
def inputs_unused(m):
    y = leaf(m, 1.0)
    (leaf(m, 2.0) * 3).backward(inputs=[y])
    return y


@program
def grad_dict(m):
    x, y = leaf(m, 1.0), leaf(m, 2.0)
    return m.autograd.grad(x * y, {"x": x, "y": y})


@program
def inputs_is_output(m):
    x = leaf(m, 2.0)
    y = x * 3
    y.backward(inputs=[y])
    return x, y


@program
def grad_basic(m):
    x, y = leaf(m, 1.0), leaf(m, 2.0)
    return m.autograd.grad(x * y, (x, y))


@program
def grad_of_itself(m):
    x = leaf(m, 3.0)
    y = x * 2
    return m.autograd.grad(y, [y, x]), m.autograd.grad(x, x)


@program
def grad_does_not_accumulate(m):
    x = leaf(m, 3.0)
    m.autograd.grad(x * 2, x)
    return x.grad


@program
def grad_twice_retained(m):
    x = leaf(m, 3.0)
    y = (x * x).exp()
    return m.autograd.grad(y, x, retain_graph=True), m.autograd.grad(y, x)


@program
def grad_create_graph(m):
    x = leaf(m, 3.0)
    (g,) = m.autograd.grad(x**3, x, create_graph=True)
    (h,) = m.autograd.grad(g, x, create_graph=True)
    return [t.tolist() for t in (g, h)], h.requires_grad, m.autograd.grad(h, x)


@program.raises
def create_graph_not_retained(m):
    x = leaf(m, 3.0)
    y = x.exp()
    m.autograd.grad(y, x, create_graph=True, retain_graph=False)
    m.autograd.grad(y, x)


@program
def second_gradient_unused(m):
    x, y = leaf(m, 3.0), leaf(m, 2.0)
    (g,) = m.autograd.grad((x * y).sum(), x, create_graph=True)
    return m.autograd.grad(g, [x, y], allow_unused=True)


@program
def through_gradient_outputs(m):
    x, v = leaf(m, 3.0), leaf(m, 1.0)
    (g,) = m.autograd.grad(x * x, x, v, create_graph=True)
    return m.autograd.grad(g, [x, v])


@program
def several_outputs(m):
    x = leaf(m, 1.0, 2.0)
    return m.autograd.grad([x * 2, (x * x).sum()], x, [m.ones(2), None])


@program
def same_leaf_twice(m):
    x, v = leaf(m, 1.0, 2.0), leaf(m, 3.0)
    twice = m.autograd.grad([x, x], x, [m.ones(2), m.ones(2) * 2])
    beside = m.autograd.grad([x, v, x * 2, x], [v, x], [m.ones(n) for n in (2, 1, 2, 2)])
    m.autograd.backward([v, v], [m.ones(1), m.ones(1) * 4])
    return twice, beside, v.grad


@program
def accumulates_create_graph(m):
    x = leaf(m, 3.0)
    (x * x).backward(create_graph=True)
    before = x.grad
    (x * x).backward(create_graph=True)
    return x.grad.requires_grad, x.grad is before, x.grad.tolist(), x.grad.grad_fn.name()


@program
def gradient_is_retained_for_no_graph_roots(m):
    x = leaf(m, 3.0)
    y = x * 2
    y.retain_grad()
    y.backward()
    return y


def edge(m, t):
    return m.autograd.graph.get_gradient_edge(t)


@program
def edge_as_input(m):
    x = leaf(m, 2.0)
    y = x * 3
    e = edge(m, y)
    return m.autograd.grad(y * y, [e, x])


@program
def edge_as_leaf_input(m):
    x = leaf(m, 2.0)
    return m.autograd.grad(x * x, edge(m, x))


@program
def edge_backward(m):
    x = leaf(m, 2.0)
    m.autograd.backward(edge(m, x * x))
    return x


@program
def edge_backward_inputs_non_leaf(m):
    x = leaf(m, 2.0)
    y = x * 3
    m.autograd.backward(y * y, inputs=[edge(m, y)])
    return x, y


@program.raises
def edge_of_edge(m):
    y = leaf(m, 2.0) * 3
    return edge(m, edge(m, y)).node is y.grad_fn


@program
def batched_several(m):
    x, w = leaf(m, 1.0, 2.0), leaf(m, 3.0, 4.0)
    y, z = x * w, (x * x).sum()
    grads = [m.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]), m.tensor([1.0, 2.0, 3.0])]
    return m.autograd.grad([y, z], [x, w], grads, is_grads_batched=True)


@program
def backward_under_no_grad(m):
    x = leaf(m, 2.0)
    y = x * x
    with m.no_grad():
        y.backward()
    return x


@program
def grad_mode_after_error(m):
    x = leaf(m, 2.0)
    try:
        (x * 2).backward(m.ones(3), create_graph=True)
    except RuntimeError:
        pass
    return m.is_grad_enabled(), x * 2


@program
def tensor_backward_arguments(m):
    x = leaf(m, 2.0)
    y = x * x
    y.backward(gradient=m.ones(1), retain_graph=True, create_graph=False, inputs=None)
    y.backward(m.ones(1) * 2)
    return x
