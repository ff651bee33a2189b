"""Forward mode: tangents through ops, views, in-place writes and backward passes."""

import pytest

import torchgrad_jax
from tests.engine.helpers import Programs, leaf

PROGRAMS = Programs()

FUNCTIONS = {
    "mul": lambda m, x: x * x,
    "mul_constant": lambda m, x: x * m.ones(3),
    "add": lambda m, x: x + 1,
    "exp": lambda m, x: x.exp(),
    "matmul": lambda m, x: x @ x.t(),
    "sum": lambda m, x: x.sum(1),
    "softmax": lambda m, x: x.softmax(1),
    "max": lambda m, x: x.max(1)[0],
    "std": lambda m, x: x.std(1),
    "where": lambda m, x: m.where(x > 0, x * 2, x),
    "cat": lambda m, x: m.cat([x, m.zeros(1, 3)]),
    "stack": lambda m, x: m.stack([x, x * 2]),
    "index": lambda m, x: x[m.tensor([1, 0])],
    "norm": lambda m, x: x.norm(),
    "cumsum": lambda m, x: x.cumsum(1),
    "prod": lambda m, x: x.prod(1),
    "double": lambda m, x: x.double(),
    "relu": lambda m, x: x.relu(),
    "detach": lambda m, x: x.detach() * 1,
    "comparison": lambda m, x: (x > 0).float(),
    "view": lambda m, x: x.view(3, 2),
    "transposed": lambda m, x: x.t(),
    "row": lambda m, x: x[1],
    "step": lambda m, x: x[:, ::2],
    "expand": lambda m, x: x.unsqueeze(0).expand(2, 2, 3),
    "unbind": lambda m, x: x.unbind(1)[2],
    "diagonal": lambda m, x: x.diagonal(),
    "view_of_view": lambda m, x: x.t()[1:].t(),
    "reshape_copy": lambda m, x: x.t().reshape(6),
    "add_in_place": lambda m, x: x.clone().add_(x),
    "mul_in_place": lambda m, x: (x * 1).mul_(x),
    "exp_in_place": lambda m, x: (x * 1).exp_(),
    "fill": lambda m, x: (x * 1).fill_(3.0),
    "zero": lambda m, x: (x * 1).zero_(),
    "copy_from": lambda m, x: m.zeros(2, 3).copy_(x),
    "copy_over": lambda m, x: (x * 1).copy_(m.ones(2, 3)),
    "write_to_view": lambda m, x: (lambda y: (y[0].mul_(3), y)[1])(x * 1),
    "view_after_write": lambda m, x: (lambda y: (y[0], y.mul_(3))[0])(x * 1),
    "setitem": lambda m, x: (lambda y: (y.__setitem__(0, 5.0), y)[1])(x * 1),
    "setitem_from": lambda m, x: (lambda y: (y.__setitem__(0, x[1]), y)[1])(m.zeros(2, 3)),
    "write_into_a_plain_view": lambda m, x: (lambda y: (y[:, 1].add_(x[:, 0]), y)[1])(m.zeros(2, 3)),
}


test_same_as_torch = PROGRAMS.test()


def shown(pair):
    return [None if t is None else t.detach() for t in pair]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents(name, same):
    def run(m):
        fw = m.autograd.forward_ad
        with fw.dual_level():
            x = fw.make_dual(
                leaf(m, 2, 3, requires_grad=False), leaf(m, 2, 3, start=0.2, stop=1.2, requires_grad=False)
            )
            return shown(fw.unpack_dual(FUNCTIONS[name](m, x)))

    same(run, f"tangent_{name}")


@pytest.mark.parametrize("name", ["mul", "exp", "matmul", "view", "exp_in_place", "write_to_view", "where"])
def test_backward_through_tangents(name, same):
    """Reverse over forward: the tangent is part of the graph."""

    def run(m):
        fw = m.autograd.forward_ad
        p, t = leaf(m, 2, 3), leaf(m, 2, 3, start=0.2, stop=1.2)
        with fw.dual_level():
            out = fw.unpack_dual(FUNCTIONS[name](m, fw.make_dual(p, t)))
            return m.autograd.grad((out.primal.sum() + (out.tangent * out.tangent).sum()), [p, t])

    same(run, f"reverse_{name}")


@pytest.mark.parametrize("name", ["mul", "exp", "matmul", "sum", "where", "view"])
def test_tangents_of_gradients(name, same):
    """Forward over reverse: a Hessian-vector product."""

    def run(m):
        fw = m.autograd.forward_ad
        with fw.dual_level():
            p = leaf(m, 2, 3)
            x = fw.make_dual(p, leaf(m, 2, 3, start=0.2, stop=1.2, requires_grad=False))
            y = FUNCTIONS[name](m, x)
            (g,) = m.autograd.grad((y * y).sum(), x, create_graph=True)
            return shown(fw.unpack_dual(g))

    same(run, f"forward_over_reverse_{name}")


@pytest.mark.parametrize("name", ["mul", "exp", "exp_in_place", "matmul", "view"])
def test_tangents_of_gradients_that_are_not_recorded(name, same):
    def run(m):
        fw = m.autograd.forward_ad
        with fw.dual_level():
            x = fw.make_dual(leaf(m, 2, 3), leaf(m, 2, 3, start=0.2, stop=1.2, requires_grad=False))
            y = FUNCTIONS[name](m, x)
            (g,) = m.autograd.grad((y * y).sum(), x)
            return shown(fw.unpack_dual(g))

    same(run, f"not_recorded_{name}")


@PROGRAMS
def saved_self_that_was_overwritten(m):
    fw = m.autograd.forward_ad
    p, t = leaf(m, 2, 3), leaf(m, 2, 3, start=0.2, stop=1.2)
    with fw.dual_level():
        x = fw.make_dual(p, t)
        out = fw.unpack_dual((x * 1).mul_(x))
        return m.autograd.grad(out.tangent.sum(), [p, t], retain_graph=True), m.autograd.grad(out.primal.sum(), p)


def test_tangents_accumulate_in_grad():
    """torch keeps only the last pass's tangent here; a sum of gradients has the sum of their tangents."""
    fw = torchgrad_jax.autograd.forward_ad
    q = torchgrad_jax.ones(2, requires_grad=True)
    with fw.dual_level():
        x = fw.make_dual(torchgrad_jax.tensor([2.0, 3.0]), torchgrad_jax.tensor([1.0, 10.0]))
        for n in (1, 2):
            (q * x * x).sum().backward()
            gradient = q.grad
            assert gradient is not None
            assert gradient.tolist() == [4.0 * n, 9.0 * n]
            assert fw.unpack_dual(gradient).tangent.tolist() == [4.0 * n, 60.0 * n]


def test_dual_tensors_leave_no_mode_behind():
    fw = torchgrad_jax.autograd.forward_ad
    with pytest.raises(ZeroDivisionError), fw.dual_level():
        fw.make_dual(torchgrad_jax.ones(2), torchgrad_jax.ones(2)) * (1 / 0)
    with fw.dual_level():
        x = fw.make_dual(torchgrad_jax.ones(2), torchgrad_jax.ones(2))
        assert fw.unpack_dual(x + 1).tangent.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["var", "std", "norm", "prod", "logsumexp", "mean", "amax", "nansum"])
def test_tangents_of_reductions_in_half_precision(name, dtype):
    """They are those of float32, rounded."""
    torch = torchgrad_jax
    fw = torch.autograd.forward_ad
    x = torch.tensor([[1.5, 2.0, 0.5], [3.0, 1.25, 2.5]])
    t = torch.tensor([[1.0, -2.0, 0.5], [0.25, 1.0, -1.0]])

    def tangent(kind):
        with fw.dual_level():
            dual = fw.make_dual(x.to(kind), t.to(kind))
            out = dual.norm() if name == "norm" else getattr(dual, name)(1)
            return fw.unpack_dual(out).tangent

    found = tangent(getattr(torch, dtype))
    assert found.dtype is getattr(torch, dtype)
    torch.testing.assert_close(found.float(), tangent(torch.float32), rtol=2e-2, atol=1e-2)
