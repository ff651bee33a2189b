"""Runs of vmap: which programs are compiled once, what JAX code may do inside, what is looked at afterwards."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import torchgrad_jax as torch
from torchgrad_jax._bridge import vmap as bridge
from torchgrad_jax.func import grad, hessian, jacrev, vmap
from torchgrad_jax.interop import from_jax

A = torch.arange(6.0).reshape(2, 3)


@pytest.fixture
def programs(monkeypatch):
    calls = {}
    monkeypatch.setattr(bridge, "_CALLS", calls)
    monkeypatch.setattr(bridge, "_MET", {})
    return calls


def test_the_same_steps_are_one_program(programs):
    known = 0
    for k in range(8):
        out = vmap(grad(lambda x: (x.sin() * x).sum()))(A + k)
        np.testing.assert_allclose(out.numpy(), (A + k).cos() * (A + k) + (A + k).sin(), rtol=1e-6)
        known = len(programs) if k < 4 else known  # a pass is compiled whole once it comes again
    assert len(programs) == known <= 2


def test_other_steps_are_another(programs):
    vmap(lambda x: x.sin())(A)
    vmap(lambda x: x.cos())(A)
    vmap(lambda x: x.sin())(A.double())
    vmap(lambda x: x.sin(), in_dims=1)(A)
    assert len(programs) == 4


def test_a_program_that_comes_with_ever_other_numbers_takes_them_as_arguments(programs):
    for k in range(12):
        out = vmap(lambda x, k=k: (x * (0.5 + k)).sum() + x[k % 3])(A)
        expected = (A.numpy() * np.float32(0.5 + k)).sum(1) + A.numpy()[:, k % 3]
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)
    assert len(programs) == bridge._FIXED + 1


def test_gradients_of_a_program_that_takes_numbers(programs):
    for k in range(6):
        w = A.clone().requires_grad_()
        vmap(lambda x, k=k: (x * k).sin().sum())(w).sum().backward()
        np.testing.assert_allclose(w.grad.numpy(), (A * k).cos() * k, rtol=1e-5)


def test_a_value_does_not_outlive_its_run():
    kept = []
    vmap(lambda x: (kept.append(x.sin()), x)[1])(A)
    with pytest.raises(RuntimeError, match="may have escaped from inside a function being vmapped"):
        kept[0] + 1


def test_jax_code_inside():
    @jax.custom_vjp
    def halved(x):
        return jnp.sin(x)

    halved.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x) / 2,))

    @jax.custom_jvp
    def tripled(x):
        return x**2

    tripled.defjvp(lambda p, t: (p[0] ** 2, 3 * p[0] * t[0]))

    def scanned(x):
        return lax.scan(lambda c, v: (c + v * v, c * v), 0.0, x)[0]

    def branched(x):
        return lax.cond(x.sum() > 5, lambda v: v * 2, lambda v: -v, x)

    for fn in (jnp.cumsum, jax.jit(jnp.tanh), halved, tripled, scanned, branched, jax.nn.relu):
        out = vmap(from_jax(fn))(A)
        np.testing.assert_allclose(out.numpy(), jax.vmap(fn)(jnp.asarray(A.numpy())), rtol=1e-6)
        slope = vmap(grad(lambda x, fn=fn: from_jax(fn)(x).sum()))(A)
        expected = jax.vmap(jax.grad(lambda x, fn=fn: fn(x).sum()))(jnp.asarray(A.numpy()))
        np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-6)


def test_transforms_of_jax_inside():
    def f(x):
        inner = jax.vmap(lambda a: jnp.sin(2 * a))
        return from_jax(lambda v: jax.grad(lambda u: (u**3).sum())(v))(x) + from_jax(inner)(x)

    expected = 3 * A**2 + (2 * A).sin()
    np.testing.assert_allclose(vmap(f)(A).numpy(), expected.numpy(), rtol=1e-6)


def test_values_wanted_while_tracing():
    def f(x):
        with jax.ensure_compile_time_eval():
            table = jnp.arange(3.0) * 2
            assert not isinstance(table, jax.core.Tracer)
        return x * torch.tensor(np.asarray(table))

    assert vmap(f)(A).tolist() == [[0.0, 2.0, 8.0], [0.0, 8.0, 20.0]]


def test_writes_without_recording_keep_the_history():
    def f(x):
        y = x * 1
        with torch.no_grad():
            y.mul_(2)
        return (y * y).sum()

    assert vmap(grad(f))(A).tolist() == (4 * A).tolist()


def test_inside_of_a_compiled_function():
    f = torch.compile(lambda x: vmap(lambda a: a.sin().sum() * x[0, 1])(x))
    np.testing.assert_allclose(f(A).numpy(), A.sin().sum(1), rtol=1e-6)
    np.testing.assert_allclose(f(2 * A).numpy(), (2 * A).sin().sum(1) * 2, rtol=1e-6)


# --- values that are looked at when the run is over -------------------------------------------------

W = torch.arange(5.0)
ZERO_SECOND = torch.stack([torch.eye(2), torch.zeros(2, 2)])
FAILING = {
    "an index": (IndexError, lambda: vmap(lambda i: W[i])(torch.tensor([1, 7]))),
    "a negative index": (IndexError, lambda: vmap(lambda i: W[i])(torch.tensor([-6, 4]))),
    "an index that all share": (IndexError, lambda: vmap(lambda a: a[torch.tensor([7])])(A)),
    "an index in two levels": (IndexError, lambda: vmap(vmap(lambda i: W[i]))(torch.tensor([[1, 0], [0, 9]]))),
    "gather": (RuntimeError, lambda: vmap(lambda a, i: a.gather(0, i))(A, torch.tensor([[0], [3]]))),
    "a class": (IndexError, lambda: vmap(torch.nn.functional.cross_entropy)(A, torch.tensor([1, 5]))),
    "a class under grad": (IndexError, lambda: vmap(grad(torch.nn.functional.cross_entropy))(A, torch.tensor([1, -2]))),
    "division by zero": (RuntimeError, lambda: vmap(lambda a, b: a // b)(torch.tensor([3, 4]), torch.tensor([1, 0]))),
    "a probability": (
        RuntimeError,
        lambda: vmap(torch.nn.functional.binary_cross_entropy)(
            torch.tensor([[0.5, 0.5], [0.5, 2.0]]), torch.ones(2, 2)
        ),
    ),
    "no inverse": (torch.linalg.LinAlgError, lambda: vmap(torch.linalg.inv)(ZERO_SECOND)),
    "no inverse in two levels": (
        torch.linalg.LinAlgError,
        lambda: vmap(vmap(torch.linalg.inv))(ZERO_SECOND.expand(2, 2, 2, 2)),
    ),
    "not definite": (torch.linalg.LinAlgError, lambda: vmap(torch.linalg.cholesky)(ZERO_SECOND - 0.5)),
    "a row of a jacobian": (IndexError, lambda: jacrev(lambda a: a[torch.tensor([0, 3])])(A[0])),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_wrong_value_raises(name):
    kind, run = FAILING[name]
    with pytest.raises(kind):
        run()


def test_right_values_pass():
    assert vmap(lambda i: W[i])(torch.tensor([1, 4])).tolist() == [1.0, 4.0]
    assert vmap(lambda a, i: a.gather(0, i))(A, torch.tensor([[0], [2]])).tolist() == [[0.0], [5.0]]
    assert vmap(vmap(lambda i: W[i]))(torch.tensor([[1, 0], [0, 4]])).tolist() == [[1, 0], [0, 4]]
    out = vmap(torch.nn.functional.cross_entropy)(A, torch.tensor([1, 2]))
    np.testing.assert_allclose(out.numpy(), [1.4076059, 0.4076059], rtol=1e-6)
    assert vmap(torch.linalg.inv)(torch.eye(2).expand(2, 2, 2) * 2)[1].tolist() == [[0.5, 0], [0, 0.5]]


def test_the_element_of_the_batch_is_named():
    with pytest.raises(torch.linalg.LinAlgError, match=r"^linalg.inv: \(Batch element 1\): The diagonal element 1"):
        vmap(torch.linalg.inv)(ZERO_SECOND)


# --- rules of Functions, lists of captured tensors, versions ----------------------------------------


class Product(torch.autograd.Function):
    seen: list = []

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    @staticmethod
    def vmap(info, in_dims, x, y):
        Product.seen.append((in_dims, tuple(x.shape), tuple(y.shape)))
        x, y = (t if d is None else t.movedim(d, 0) for t, d in zip((x, y), in_dims))
        return Product.apply(x, y), 0


def test_a_rule_gets_arguments_as_they_were_given():
    Product.seen.clear()
    out = vmap(Product.apply, in_dims=(1, None))(A, torch.tensor([1.0, 2.0]))
    assert out.tolist() == [[0.0, 6.0], [1.0, 8.0], [2.0, 10.0]]
    assert Product.seen == [((1, None), (2, 3), (2,))]


def test_a_rule_gets_what_was_computed_with_examples_in_front():
    Product.seen.clear()
    vmap(lambda a, b: Product.apply(a, b * b), in_dims=(1, 1))(A, A)
    assert Product.seen == [((1, 0), (2, 3), (3, 2))]


def test_a_rule_in_two_levels():
    Product.seen.clear()
    x = torch.arange(24.0).reshape(2, 3, 4)
    out = vmap(vmap(Product.apply, in_dims=(1, None)), in_dims=(2, None))(x, torch.ones(2))
    assert Product.seen == [((1, None), (2, 3), (2,)), ((0, None), (4, 3, 2), (2,))]
    assert out.tolist() == x.permute(2, 1, 0).tolist()


def test_gradients_through_a_rule():
    w = A.clone().requires_grad_()
    vmap(Product.apply, in_dims=(1, 1))(w, A).sum().backward()
    assert w.grad.tolist() == A.tolist()


def test_lists_of_captured_tensors_are_written_to_unseen():
    w = torch.zeros(3)

    def f(a):
        torch._foreach_add_([w], [a])
        torch._foreach_mul_([w], 2.0)
        return w.sum()

    assert grad(f)(A[1]).tolist() == [0.0, 0.0, 0.0]
    assert w.tolist() == [6.0, 8.0, 10.0]


def test_lists_of_own_tensors_are_written_to_as_usual():
    def f(a):
        b = a * 2
        torch._foreach_mul_([b], 2.0)
        return b.sum()

    assert grad(f)(A[0]).tolist() == [4.0, 4.0, 4.0]


def test_versions_of_results():
    def f(x):
        y = x.clone()
        y.add_(1).mul_(2)
        return y, x

    assert [t._version for t in vmap(f)(A)] == [2, 0]
    assert hessian(lambda x: (x**3).sum())(A[0])._version == 0


def test_a_sum_of_gradients_is_the_same_step_each_time(programs):
    def loss(x):
        y = x * x
        y.register_hook(lambda g: 2 * g)
        return (y.sin() + y.cos() + x).sum()

    def run(k):
        x = A.numpy() + k
        expected = 4 * x * (np.cos(x * x) - np.sin(x * x)) + 1
        np.testing.assert_allclose(vmap(grad(loss))(A + k).numpy(), expected, rtol=1e-4, atol=1e-4)

    for k in range(8):  # what comes before the hook and after it is compiled once it comes again
        run(k)
    programs.clear()
    for k in range(4):
        run(k)
    assert len(programs) == 1
