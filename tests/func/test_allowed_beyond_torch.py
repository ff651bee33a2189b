"""What transforms do here although torch refuses it, and what they refuse: values written down, no oracle."""

from typing import Any

import pytest

import torchgrad_jax
from torchgrad_jax.autograd import _passes

tg: Any = torchgrad_jax
vmap, grad = tg.func.vmap, tg.func.grad


def test_gradients_inside_vmap():
    def run(x):
        y = x.detach().clone()
        y.requires_grad = True
        return tg.autograd.grad((y**3).sum(), y)[0] * x

    assert vmap(run)(tg.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[3, 24], [81, 192]]


def test_one_value_written_by_a_mask_of_each_example():
    def run(x):
        y = x.clone()
        y[y > 1] = 0.0
        return y * x

    x = tg.tensor([[1.0, 2.0], [3.0, 0.5]])
    assert vmap(run)(x).tolist() == [[1, 0], [0, 0.25]]
    assert vmap(grad(lambda x: run(x).sum()))(x).tolist() == [[2, 0], [0, 1]]


def test_gradients_of_outside_tensors_inside_vmap():
    w = tg.tensor([1.0, 2.0], requires_grad=True)
    x = tg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    (out,) = vmap(lambda x: tg.autograd.grad((x * w).sum(), w))(x.detach())
    assert out.tolist() == [[1, 2], [3, 4]]
    (g,) = vmap(lambda x: tg.autograd.grad((x**2).sum(), x, create_graph=True))(x)
    assert g.tolist() == [[2, 4], [6, 8]]
    assert tg.autograd.grad(g.sum(), x)[0].tolist() == [[2, 2], [2, 2]]


def test_tensors_hide_that_they_require_grad():
    x = tg.ones(2, 3, requires_grad=True)
    seen = []
    vmap(lambda x: (seen.append((x * 2).requires_grad), x)[1])(x)

    def run(x):
        y = x.detach()
        y.requires_grad = True
        seen.append(y.requires_grad)
        return x

    vmap(run)(x)
    assert seen == [False, True]


def test_hook_on_what_only_the_outside_differentiates():
    def run(x):
        (x * 2).register_hook(lambda g: g * 10)
        return x

    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        vmap(run)(tg.ones(2, requires_grad=True))


def test_detached_in_a_level_and_batched():
    x = tg.tensor([1.0, 2.0])
    assert vmap(grad(lambda x: x.detach() * x))(x).tolist() == [1, 2]
    assert grad(lambda x: vmap(lambda y: y.detach() * y)(x).sum())(x).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="accessing `data` under vmap transform is not allowed"):
        grad(lambda x: vmap(lambda y: y.data * y)(x).sum())(x)


def test_dual_numbers_inside_vmap():
    fw = tg.autograd.forward_ad
    x = tg.tensor([1.0, 2.0])
    with fw.dual_level():
        out = vmap(lambda x, t: fw.unpack_dual(fw.make_dual(x, t) ** 2).tangent)(x, x)
    assert out.tolist() == [2, 8]
    assert vmap(lambda x: tg.func.linearize(lambda x: x**2, x)[1](x))(x).tolist() == [2, 8]


def test_linearize_inside_of_grad():
    """Gradients reach the tangents, and nothing of the inner derivative is left in the result."""
    x = tg.tensor([1.0, 2.0])
    for f, want in ((lambda x, push: push(x).sum(), [2.0, 4.0]), (lambda x, push: push(x + 1).dot(x), [6.0, 20.0])):
        g = grad(lambda x, f=f: f(x, tg.func.linearize(lambda x: x**2, x)[1]))(x)
        assert g.tolist() == want
        assert not g.requires_grad


def test_different_numbers_in_every_example_of_every_batch():
    tg.manual_seed(0)
    out = vmap(vmap(lambda x: tg.poisson(x), randomness="different"), randomness="different")(tg.full((20, 30), 4.0))
    assert len(set(out.flatten().tolist())) > 5
    assert out.mean().item() == pytest.approx(4.0, abs=0.3)
    assert out.var().item() == pytest.approx(4.0, abs=0.8)
    heads = vmap(lambda n, p: tg.binomial(n, p), randomness="different")(tg.full((500,), 10.0), tg.full((500,), 0.3))
    assert heads.mean().item() == pytest.approx(3.0, abs=0.25)
    assert heads.min().item() >= 0
    assert heads.max().item() <= 10


def test_drawn_anew_at_every_call():
    run = vmap(lambda x: tg.rand(2), randomness="different")
    x = tg.ones(3)
    assert run(x).tolist() != run(x).tolist()


def test_vmap_of_a_function_runs_python_each_time():
    seen = []
    run = vmap(lambda x: (seen.append(1), x * len(seen))[1])
    assert run(tg.ones(2)).tolist() == [1, 1]
    assert run(tg.ones(2)).tolist() == [2, 2]


def test_error_inside_leaves_no_state_behind():
    with pytest.raises(ZeroDivisionError):
        vmap(lambda x: grad(lambda y: y / 0 if False else 1 // 0)(x))(tg.ones(2))
    x = tg.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert tg.is_grad_enabled()


def test_rule_generated_for_a_function_with_tensor_attributes():
    class Scaled(tg.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.twice = inputs[0] * 2
            ctx.pair = [inputs[0], {"k": 5}]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.twice * ctx.pair[0] * ctx.pair[1]["k"]

    x = tg.tensor([1.0, 2.0], requires_grad=True)
    out = vmap(Scaled.apply)(x)
    assert out.tolist() == [3, 6]
    assert tg.autograd.grad(out.sum(), x)[0].tolist() == [10, 40]
    assert vmap(grad(Scaled.apply))(x.detach()).tolist() == [10, 40]


def test_gradients_undefined_for_a_generated_rule():
    class Two(tg.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 2, x * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g is None, h is None))
            return g * 2 if h is None else h * 3

    seen = []
    x = tg.ones(2, requires_grad=True)
    assert tg.autograd.grad(vmap(Two.apply)(x)[0].sum(), x)[0].tolist() == [2, 2]
    assert seen == [(False, True)]


def test_inputs_that_need_no_gradient_of_a_generated_rule():
    class Picky(tg.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return (g * y if ctx.needs_input_grad[0] else None), (g * x if ctx.needs_input_grad[1] else None)

    x, y = tg.tensor([1.0, 2.0]), tg.tensor([3.0, 4.0], requires_grad=True)
    assert tg.autograd.grad(vmap(Picky.apply)(x, y).sum(), y)[0].tolist() == [1, 2]


def test_nothing_traced_is_kept():
    """What the package keeps for later calls is made of arrays, also when it is first needed inside."""

    _passes._ONES.clear()  # what comes first is to come inside

    def seven(x):
        return tg.autograd.grad(x.expand(7).clone(), x, tg.ones(7))[0]

    x = tg.ones(2, requires_grad=True)
    vmap(lambda x: tg.func.vjp(lambda y: (y * tg.ones(7, dtype=tg.float64)).sum(), x)[1](x)[0])(
        tg.ones(2, dtype=tg.float64)
    )
    vmap(lambda x: grad(lambda y: y.double() * 2)(x))(x.detach())
    z = tg.ones((), dtype=tg.float64, requires_grad=True)
    (z * 2).backward()
    assert z.grad.item() == 2
    assert vmap(seven)(x.detach().requires_grad_()).tolist() == [7, 7]
