"""Loops and branches of JAX's and torch's over tensors: operators of the graph, eager and inside of `compile`."""

import copy
import functools
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from tests.own_gradients import saving_input
from torchgrad_jax import _higher_order_ops as hops, interop
from torchgrad_jax._bridge.jax_side import value_loops


def scanned(x, w):
    carry, ys = interop.scan(lambda c, r: (c * w + r, c.sin()), x[0], x)
    return carry.sum() + (ys * ys).sum()


def scanned_by_hand(x, w):
    c, total = x[0], 0
    for r in x:
        total = total + (c.sin() ** 2).sum()
        c = c * w + r
    return c.sum() + total


def looped(x, w):
    return interop.fori_loop(0, 3, lambda i, c: c * w + i, x).sum()


def looped_by_hand(x, w):
    for i in range(3):
        x = x * w + i
    return x.sum()


def until(x, w):
    return interop.while_loop(lambda c: c.abs().sum() < 100, lambda c: c * w + c.sign(), x).sum()


def until_by_hand(x, w):
    while x.abs().sum() < 100:
        x = x * w + x.sign()
    return x.sum()


def torch_until(x, w):
    def step(i, c):
        return i + 1, c * w

    return torch.while_loop(lambda i, c: i < 4, step, (torch.tensor(0), x))[1].sum()


def chosen(x, w):
    return interop.cond(x.sum() > 0, lambda x: (x * w).sum(), lambda x: (x * w * w).sum(), x)


def torch_chosen(x, w):
    return torch.cond(x.sum() > 0, lambda x: (x * w).sum(), lambda x: (x * w * w).sum(), (x,))


def chosen_by_hand(x, w):
    return (x * w if x.sum() > 0 else x * w * w).sum()


def switched(x, w):
    branches = [lambda x: x * 0, lambda x: x * w, lambda x: x.sin()]
    return interop.switch((x[0, 0] > 0) + 1, branches, x).sum()


class Sevenfold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 7


def multiplied(x):
    return functools.reduce(lambda rows, r: [*rows, rows[-1] * r], x[1:], [x[0]])


CASES = {
    "scan": (scanned, scanned_by_hand),
    "scan of torch": (
        lambda x, w: hops.scan(lambda c, r: (c * w, c * r), x[:, 0], x, dim=1, reverse=True)[1].sum(),
        lambda x, w: sum((x[:, 0] * w**k * x[:, -1 - k]).sum() for k in range(x.shape[1])),
    ),
    "map": (
        lambda x, w: interop.map(lambda r: (r * w).tanh().sum(), x).prod(),
        lambda x, w: (x * w).tanh().sum(1).prod(),
    ),
    "map of torch": (
        lambda x, w: hops.map(lambda r, w: (r * w).tanh().sum(), x, w).prod(),
        lambda x, w: (x * w).tanh().sum(1).prod(),
    ),
    "associative_scan": (
        lambda x, w: (interop.associative_scan(lambda a, b: a * b, x) * w).sum(),
        lambda x, w: (torch.stack(multiplied(x)) * w).sum(),
    ),
    "associative_scan of torch": (
        lambda x, w: hops.associative_scan(lambda a, b: a * b, x * w, 1, combine_mode="generic").sum(),
        lambda x, w: torch.stack(multiplied((x * w).T)).sum(),
    ),
    "fori_loop": (looped, looped_by_hand),
    "while_loop": (until, until_by_hand),
    "while_loop of torch": (torch_until, lambda x, w: (x * w**4).sum()),
    "cond": (chosen, chosen_by_hand),
    "cond of torch": (torch_chosen, chosen_by_hand),
    "switch": (switched, lambda x, w: (x * w if x[0, 0] <= 0 else x.sin()).sum()),
    "checkpoint": (
        lambda x, w: interop.checkpoint(lambda x, w: (x * w).sin().sum())(x, w),
        lambda x, w: (x * w).sin().sum(),
    ),
    "checkpoint with a closure": (
        lambda x, w: interop.checkpoint(lambda x: (x * w).sin().sum())(x),
        lambda x, w: (x * w).sin().sum(),
    ),
    "custom Function": (
        lambda x, w: interop.scan(lambda c, r: (c + Sevenfold.apply(w * r).sum(), None), x.sum(), x)[0],
        lambda x, w: x.sum() + Sevenfold.apply(w * x).sum(),
    ),
}


def gradients(f, x, w):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    out = f(x, w)
    out.backward()
    return [out.detach(), x.grad, torch.zeros(()) if w.grad is None else w.grad]


@pytest.mark.parametrize("sign", [1, -1], ids=["positive", "negative"])
@pytest.mark.parametrize("way", ["eager", "recorded", "step"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, way, sign):
    ours, by_hand = CASES[name]
    x, w = torch.linspace(0.5, 1.5, 6).reshape(3, 2) * sign, torch.tensor(1.25)
    want = gradients(by_hand, x, w)
    if way == "step":
        f = torch.compile(lambda x, w: gradients(ours, x, w))
        found = [f(x, w), f(x, w)][1]
    else:
        found = gradients(torch.compile(ours) if way == "recorded" else ours, x, w)
    torch.testing.assert_close(found, want)


def test_both_outcomes_are_one_program():
    step = torch.compile(lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, (x,)))
    assert step(torch.ones(2)).tolist() == [2.0, 2.0]
    assert step(-torch.ones(2)).tolist() == [1.0, 1.0]
    assert step.counts["traced"] == 1


@pytest.mark.parametrize("slots", [2, 64])
@pytest.mark.parametrize("n", [0, 1, 5, 17])
def test_a_loop_that_ends_by_its_values_keeps_some_of_them(monkeypatch, n, slots):
    monkeypatch.setattr(value_loops, "_SLOTS", slots)

    def f(x, w):
        body = lambda i, x: (i + 1, (x * w + i).sin())  # noqa: E731
        return torch.while_loop(lambda i, x: i < n, body, (torch.tensor(0), x))[1].sum()

    x, w = torch.linspace(0.1, 0.4, 3), torch.tensor(0.9)
    torch.testing.assert_close(gradients(torch.compile(f), x, w), gradients(f, x, w))


@pytest.mark.parametrize("n", [3, 9])
def test_second_derivatives_of_a_loop_that_ends_by_its_values(monkeypatch, n):
    monkeypatch.setattr(value_loops, "_SLOTS", 4)

    def twice(x, w, n):
        x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
        body = lambda i, x: (i + 1, (x * w + i).sin())  # noqa: E731
        out = torch.while_loop(lambda i, _: i < n, body, (torch.tensor(0), x))[1].sum()
        slopes = torch.autograd.grad(out, [x, w], create_graph=True)
        return torch.autograd.grad([g.square().sum() for g in slopes], [x, w])

    given = torch.linspace(0.1, 0.4, 3), torch.tensor(0.9), torch.tensor(n)
    torch.testing.assert_close(torch.compile(twice)(*given), twice(*given))


NOT_ALIKE = {
    "a loop's dtype": (
        lambda x: torch.while_loop(lambda i, _: i < 3, lambda i, n: (i + 1, n * 1.5), (x[0].long(), x[0].long())),
        r"is given int64 \(\), int64 \(\) and returns int64 \(\), float32 \(\)",
    ),
    "a loop's shape": (
        lambda x: torch.while_loop(lambda x: x.sum() < 9, lambda x: torch.cat([x, x]), (x,)),
        r"is given float32 \(2,\) and returns float32 \(4,\)",
    ),
    "a loop's count": (
        lambda x: torch.while_loop(lambda x: x.sum() < 9, lambda x: (x, x), (x,)),
        "body_fn should return the same number of values as it takes, 1, but returned 2",
    ),
    "branches": (
        lambda x: torch.cond(x.sum() > 0, lambda x: x[0], lambda x: x, (x,)),
        r"the false branch returns float32\[2\] and the true branch returns float32\[\]",
    ),
    "branches by number": (
        lambda x: interop.switch(x[0].long(), [torch.sin, torch.cos, lambda x: x.double()], x),
        r"branch 0 returns float32\[2\] and branch 2 returns float64\[2\]",
    ),
    "a condition": (
        lambda x: torch.cond(x > 0, torch.sin, torch.cos, (x,)),
        "Expected pred to be bool or single-element tensor",
    ),
    "a loop's condition": (
        lambda x: torch.while_loop(lambda x: x > 0, lambda x: x * 2, (x,)),
        "Boolean value of Tensor with more than one value is ambiguous",
    ),
    "no branch": (
        lambda x: torch.cond(x.sum() > 0, torch.sin, x, (x,)),  # type: ignore[arg-type]
        "both branches to be callable",
    ),
    "operands": (lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, x), "operands to be a tuple"),
}


@pytest.mark.parametrize("name", NOT_ALIKE)
def test_what_cannot_be_one_program_is_an_error_that_says_so(name):
    f, text = NOT_ALIKE[name]
    with pytest.raises((RuntimeError, TypeError), match=text):
        torch.compile(f)(torch.ones(2))


WRITING = {
    "a branch": lambda x: torch.cond(x.sum() > 0, lambda x: x.add_(1), torch.sin, (x,)),
    "a branch, to a part": lambda x: torch.cond(x.sum() > 0, torch.sin, lambda x: x[0].add_(1) + x, (x,)),
    "a branch by number": lambda x: interop.switch(x[0].long(), [torch.sin, lambda x: x.mul_(2)], x),
    "a loop": lambda x: torch.while_loop(lambda x: x.sum() < 9, lambda x: (x.mul_(2),), (x,)),
    "a loop's condition": lambda x: torch.while_loop(lambda x: x.mul_(2).sum() < 9, lambda x: (x * 2,), (x,)),
}


@pytest.mark.parametrize("name", WRITING)
def test_a_write_to_what_a_branch_or_a_loop_is_given_is_refused(name):
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="writes to a tensor that it is given"):
        torch.compile(WRITING[name])(x)
    assert (x.tolist(), x._version) == ([1.0, 1.0], 0)


def test_arrays_stay_arrays_and_tensors_tensors():
    carry, ys = interop.scan(lambda c, r: ((c[0] + 1, c[1] + r), r), (jnp.int32(0), torch.zeros(2)), torch.ones(3, 2))
    assert isinstance(carry[0], jax.Array)
    assert int(carry[0]) == 3
    assert isinstance(carry[1], torch.Tensor)
    assert isinstance(ys, torch.Tensor)
    assert isinstance(interop.scan(lambda c, r: (c + r, c), 0.0, jnp.ones(3))[0], jax.Array)


def test_a_function_is_traced_once():
    calls = []

    def body(c, r):
        calls.append(1)
        return c * r, c

    for k in range(4):
        carry, _ = interop.scan(body, torch.tensor(1.0 + k), torch.ones(3))
        assert carry.item() == 1.0 + k
    n = len(calls)
    interop.scan(body, torch.tensor(1.0), torch.ones(3))
    assert len(calls) == n


def test_second_derivatives():
    w = torch.tensor(2.0, requires_grad=True)
    out = interop.scan(lambda c, r: (c * r * w, None), torch.ones(()), torch.tensor([1.0, 2.0, 3.0]))[0]
    (g,) = torch.autograd.grad(out, w, create_graph=True)
    assert torch.autograd.grad(g, w)[0].item() == 72.0


def test_examples_of_a_batch_choose_for_themselves():
    xs = torch.tensor([[1.0], [-1.0]])
    f = lambda x: torch.cond(x.sum() > 0, lambda x: (x * 2).sum(), lambda x: -x.sum(), (x,))  # noqa: E731
    assert torch.vmap(f)(xs).tolist() == [2.0, 1.0]
    assert torch.vmap(torch.func.grad(f))(xs).tolist() == [[2.0], [-1.0]]


def test_module_in_a_scan_of_a_training_step():
    torch.manual_seed(0)
    cell = torch.nn.Linear(3, 3)
    xs = torch.randn(5, 3)

    def eager():
        h, total = torch.zeros(3), 0
        for x in xs:
            h = cell(x + h).tanh()
            total = total + h.sum()
        return total

    def with_scan():
        return interop.scan(lambda h, x: (cell(x + h).tanh(),) * 2, torch.zeros(3), xs)[1].sum()

    def step(f):
        cell.zero_grad()
        loss = f()
        loss.backward()
        return loss.detach(), cell.weight.grad

    want = [t.clone() for t in step(eager)]
    torch.testing.assert_close(list(step(with_scan)), want)
    torch.testing.assert_close(list(torch.compile(lambda: step(with_scan))()), want)


WRONG = {
    "init": lambda t, h: h.scan(lambda c, x: (c, x), [], t.ones(3)),
    "init is a number": lambda t, h: h.scan(lambda c, x: (c, x), 1.0, t.ones(3)),
    "no rows": lambda t, h: h.scan(lambda c, x: (c, x), t.ones(()), t.ones(0)),
    "not callable": lambda t, h: h.scan(1, t.ones(()), t.ones(3)),
    "dim": lambda t, h: h.scan(lambda c, x: (c, x), t.ones(()), t.ones(3), dim=2),
    "reverse": lambda t, h: h.scan(lambda c, x: (c, x), t.ones(()), t.ones(3), reverse=1),
    "associative: mode": lambda t, h: h.associative_scan(lambda a, b: a, t.ones(3), 0, combine_mode="x"),
}
TEXTS = {
    "init": "RuntimeError: scan() operator requires init leaves.",
    "init is a number": "RuntimeError: All init leaves must be a Tensor but got 1.0",
    "no rows": "RuntimeError: All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0",
    "not callable": "RuntimeError: Combine_fn must be a callable, but got 1",
    "dim": "IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 2)",
    "reverse": "RuntimeError: Reverse must be a bool, but got <class 'int'>",
    "associative: mode": "ValueError: Combine_mode must either 'pointwise' or 'generic', but got x",
}


def said(act, *modules):
    try:
        act(*modules)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return "nothing"


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_torchs(name):
    assert said(WRONG[name], torch, hops) == TEXTS[name]


KERNELS = {
    "prod": lambda x: x.prod(),
    "cumprod": lambda x: x.cumprod(0).sum(),
    "matrix_exp": lambda x: torch.linalg.matrix_exp(x.outer(x)).sum(),
    "det": lambda x: torch.linalg.det(x.outer(x) + torch.eye(3, dtype=x.dtype)),
    "pow": lambda x: (x**x).sum(),
    "scatter_reduce": lambda x: x.scatter_reduce(0, torch.tensor([0, 0, 1]), x, "prod").sum(),
    "logcumsumexp": lambda x: x.logcumsumexp(0).sum(),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_keep_the_control_flow_of_jax(name):
    """Inside of transforms, too, where a loop of the user's code is an operator."""
    x = torch.tensor([0.5, 1.5, 0.25], dtype=torch.float64)
    want = torch.autograd.functional.hessian(KERNELS[name], x)
    torch.testing.assert_close(torch.func.hessian(KERNELS[name])(x), want)
    compiled = torch.compile(torch.func.grad(KERNELS[name]))
    torch.testing.assert_close(compiled(x), torch.func.grad(KERNELS[name])(x))


def test_functions_of_arrays_keep_their_arrays():
    @torch.from_jax
    def cumulated(x):
        found = interop.scan(lambda c, r: (c + r, c + r), jnp.zeros((), x.dtype), x)[1]
        assert isinstance(found, jax.core.Tracer)
        return jnp.sin(interop.cond(True, lambda: found, lambda: -found))

    x = torch.ones(3, requires_grad=True)
    for f in (cumulated, torch.compile(cumulated)):
        torch.testing.assert_close(f(x), x.cumsum(0).sin())


class Scaled:
    def __init__(self, by):
        self.by = torch.tensor(float(by))

    def step(self, carry, row):
        return carry + row * self.by, carry

    def __call__(self, carry, row):
        return self.step(carry, row)


def summed(carry, row):
    return carry + row, carry


def doubled(scaled, copied):
    second = copied(scaled)
    second.by = torch.tensor(2.0)
    return second


MADE_ALIKE = {
    "bound methods of two objects": (Scaled(1).step, lambda _: Scaled(2).step, 6.0),
    "a bound method and its object": (Scaled(1).step, lambda f: f.__self__, 3.0),
    "functools.wraps": (summed, lambda f: functools.wraps(f)(lambda c, r: (c + 2 * r, c)), 6.0),
    "copy": (Scaled(1), lambda f: doubled(f, copy.copy), 6.0),
    "deepcopy": (Scaled(1), lambda f: doubled(f, copy.deepcopy), 6.0),
}


@pytest.mark.parametrize("name", MADE_ALIKE)
def test_each_function_has_its_own_operators(name):
    first, other, want = MADE_ALIKE[name]

    def run(f):
        return interop.scan(f, torch.zeros(()), torch.ones(3))[0].item()

    assert run(first) == 3.0
    assert run(other(first)) == want
    assert run(first) == 3.0


def test_a_module_that_was_checkpointed_is_copied_and_pickled():
    layer = torch.nn.Linear(2, 2)
    x = torch.ones(1, 2)
    want = interop.checkpoint(layer)(x)
    copied = copy.deepcopy(layer)
    loaded = pickle.loads(pickle.dumps(layer))
    with torch.no_grad():
        layer.weight.zero_()
    for m in (copied, loaded):
        torch.testing.assert_close(interop.checkpoint(m)(x), want)


def test_a_class_may_be_the_function():
    class Body:
        def __new__(cls, carry, row):
            return carry + row, carry

    assert interop.scan(Body, torch.zeros(()), torch.ones(3))[0].item() == 3.0


@pytest.mark.parametrize("static", [1, (1,), (-1,)], ids=str)
def test_static_arguments_of_a_checkpoint(static):
    x = torch.ones(2, requires_grad=True)
    f = interop.checkpoint(lambda x, n: x.sin() if n == "sin" else x * n, static_argnums=static)
    assert f(x, 3).tolist() == [3.0, 3.0]
    torch.testing.assert_close(f(x, "sin"), x.sin())
    torch.testing.assert_close(torch.autograd.grad(f(x, 5).sum(), x)[0], torch.full((2,), 5.0))


def test_each_policy_of_a_checkpoint_is_heeded():
    calls = []

    def policy(*_, **__):
        calls.append(1)
        return True

    x = torch.ones(2, requires_grad=True)
    f = lambda x: x.sin().sin()  # noqa: E731
    interop.checkpoint(f)(x).sum().backward()
    assert not calls
    interop.checkpoint(f, policy=policy)(x).sum().backward()
    assert calls


def double(x):
    return x * 2


def third(x):
    return x / 3


untyped: Any = interop
FORMS = {
    "positions": (lambda p, x: interop.cond(p, double, third, x), [3.0]),
    "operand=": (lambda p, x: interop.cond(p, double, third, operand=x), [3.0]),
    "the older form": (lambda p, x: untyped.cond(p, x, double, x, third), [3.0]),
    "names": (lambda p, x: interop.cond(pred=p, true_fun=lambda: x * 2, false_fun=lambda: x / 3), [3.0]),
    "both": (lambda p, x: untyped.cond(p, double, third, x, operand=x), TypeError),
    "unknown": (lambda p, x: untyped.cond(p, double, third, x, linear=()), TypeError),
    "switch": (lambda p, x: interop.switch(p * 0 + 7, [double, third], operand=x), [0.5]),
    "switch by a float": (lambda p, x: interop.switch(p * 1.5, [double, third], x), TypeError),
    "switch by a bool": (lambda p, x: interop.switch(p, [double, third], x), TypeError),
    "a loop to a float": (lambda p, x: interop.fori_loop(0, 2.5, lambda i, x: x + 1, x), TypeError),
    "no function": (lambda p, x: untyped.checkpoint(policy=None), TypeError),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", FORMS)
def test_forms_of_calls(name, compiled):
    """Those that JAX takes of arrays, and no others."""
    run, want = FORMS[name]
    p, x = torch.tensor(True), torch.tensor([1.5])
    f = torch.compile(run) if compiled else run
    if isinstance(want, list):
        assert f(p, x).tolist() == want
        arrays = jnp.asarray(p.numpy()), jnp.asarray(x.numpy())
        if name != "switch":  # JAX promotes no bool strictly
            assert run(*arrays).tolist() == want
        return
    with pytest.raises(want):
        f(p, x)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("which", ["cond", "switch"])
def test_branches_return_what_they_return(which, compiled):
    """What was given as an array and is returned as one is no tensor, compiled or not."""

    def step(x, count):
        branches = [lambda x, n: (x + 1, n), lambda x, n: (x * 2, n + 1)]
        if which == "cond":
            return interop.cond(count < 5, branches[1], branches[0], x, count)
        return interop.switch(count, branches, x, count)

    x, count = (jax.jit(step) if compiled else step)(torch.ones(2), jnp.asarray(1, jnp.int32))
    assert isinstance(x, torch.Tensor)
    assert x.tolist() == [2, 2]
    assert isinstance(count, jax.Array)
    assert int(count) == 2


# --- forward mode of a loop that ends by its values ------------------------------------------------


def doubling(x):
    return interop.while_loop(lambda c: c.sum() < 20.0, lambda c: c * 1.5 + x * x, x)


def counted(x: Any):
    """Integers are carried and read besides."""
    last: Any = torch.tensor(3) if isinstance(x, torch.Tensor) else jnp.asarray(3)
    step = lambda s: (s[0] + 1, s[1] * x)  # noqa: E731
    return interop.while_loop(lambda s: (s[0] < last) & (s[1].sum() < 1e6), step, (last * 0, x))[1]


FORWARD = {
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "jacfwd": jax.jacfwd,
    "jit of jacfwd": lambda f: jax.jit(jax.jacfwd(f)),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
    "vmap of jacfwd": lambda f: lambda x: jax.vmap(jax.jacfwd(f))(jax.tree.map(lambda a: jnp.stack([a, a / 9]), x)),
    "twice": lambda f: jax.jacfwd(jax.jacfwd(f)),
}


@pytest.mark.parametrize("f", [doubling, counted], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode_of_a_loop_that_ends_by_its_values(name, f):
    transform, x = FORWARD[name], np.array([0.5, 1.5, 2.0], np.float32)
    want = jax.tree.leaves(transform(f)(jnp.asarray(x)))  # JAX's own loop
    for got in (transform(torch.to_jax(f))(x), transform(f)(torch.tensor(x))):
        for a, b in zip(jax.tree.leaves(got), want, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4)


@pytest.mark.parametrize("f", [doubling, counted], ids=lambda f: f.__name__)
def test_both_modes_of_a_loop_that_ends_by_its_values(f):
    x = np.array([0.5, 1.5, 2.0], np.float32)
    want = jax.jacfwd(jax.jacfwd(lambda x: f(x).sum()))(jnp.asarray(x))
    pure = torch.to_jax(lambda x: f(x).sum())
    for got in (jax.hessian(pure)(x), jax.jacrev(jax.jacfwd(pure))(x)):
        np.testing.assert_allclose(got, want, rtol=1e-4)
    jacobian = torch.compile(lambda x: torch.func.jacfwd(f)(x))(torch.tensor(x))
    np.testing.assert_allclose(jacobian.numpy(), jax.jacfwd(f)(jnp.asarray(x)), rtol=1e-4)


class Switched(torch.nn.Module):
    """What it computes depends on its mode, an attribute and a parameter, all of which change between calls."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3,), 2.0))
        self.scale = 1.0

    def forward(self, x):
        return x * self.weight * self.scale if self.training else x * 0 + self.weight


CHANGES = [
    lambda net: net,
    lambda net: net.eval(),
    lambda net: net.train(),
    lambda net: setattr(net, "scale", 3.0),
    lambda net: setattr(net, "weight", torch.nn.Parameter(torch.full((3,), 5.0))),
]
ROWS = torch.arange(6.0).reshape(2, 3)


def of_method(net):
    return net.forward


def kept_function(net):
    return lambda x: net(x)


KEPT = {
    "checkpoint": interop.checkpoint,
    "scan": lambda f: lambda x, body=lambda c, r: (f(c) + r, None): interop.scan(body, x, ROWS)[0],
    "map": lambda f: lambda x: interop.map(f, ROWS * x),
    "fori": lambda f: lambda x, body=lambda i, c: f(c): interop.fori_loop(0, 2, body, x),
    "associative": lambda f: lambda x, add=lambda a, b: f(a) + b: interop.associative_scan(add, ROWS * x),
}
PLAIN = {
    "checkpoint": lambda f: f,
    "scan": lambda f: lambda x: f(f(x) + ROWS[0]) + ROWS[1],
    "map": lambda f: lambda x: torch.stack([f(r * x) for r in ROWS]),
    "fori": lambda f: lambda x: f(f(x)),
    "associative": lambda f: lambda x: torch.stack([ROWS[0] * x, f(ROWS[0] * x) + ROWS[1] * x]),
}


@pytest.mark.parametrize("take", [lambda net: net, of_method, kept_function], ids=["module", "method", "lambda"])
@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_with_a_function_knows_its_state(name, take):
    """Operators are made once for each function, and again when something that the function looks at has changed."""
    net = Switched()
    f = take(net)
    kept, plain = KEPT[name](f), PLAIN[name](f)
    x = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
    for change in (CHANGES[0], *CHANGES):
        change(net)
        pairs = []
        for g in (kept, plain):
            out = g(x)
            pairs.append((out, *torch.autograd.grad(out.sum(), [x, net.weight])))
        for found, want in zip(*pairs):
            torch.testing.assert_close(found, want)


def test_a_module_that_was_checkpointed_is_a_pytree_as_before():
    net = torch.nn.Linear(3, 3)
    before = jax.tree.structure(net)
    interop.checkpoint(net)(torch.ones(3, requires_grad=True)).sum().backward()
    assert jax.tree.structure(net) == before
    assert jax.eval_shape(lambda net, x: net(x), net, torch.ones(3)).shape == (3,)


Squared = saving_input(torch, "Squared", lambda x: x * x, lambda x, g: 2 * x * g)


def _hooked_square(x):
    y = x * x
    if y.requires_grad:
        y.register_hook(lambda g: g * 1)
    return y


PARTS = {
    "carry": lambda carry, ys: carry,
    "rows": lambda carry, ys: ys.sum(),
    "one row": lambda carry, ys: ys[1],
    "both": lambda carry, ys: carry + ys.sum(),
}


@pytest.mark.parametrize("square", [Squared.apply, _hooked_square], ids=["Function", "hook"])
@pytest.mark.parametrize("wrap", [lambda f: f, torch.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", PARTS)
def test_own_gradients_arrive_where_some_results_are_not_used(name, wrap, square):
    """The pass that asks for them records nothing, and the function is looked at again there."""

    def loss(square):
        def f(x):
            start = torch.zeros((), dtype=x.dtype)
            return PARTS[name](*interop.scan(lambda c, r: (c + r, square(r) + c), start, x))

        return wrap(f)

    for dtype in (torch.float32, torch.complex64):
        x = torch.tensor([1.0, 3.0, -2.0], dtype=dtype, requires_grad=True)
        found, want = (
            torch.autograd.grad(loss(of)(x).abs(), x)[0] for of in (lambda r: square(r.conj()).conj(), lambda r: r * r)
        )
        torch.testing.assert_close(found, want)
        with torch.no_grad():
            found = torch.from_jax(torch.to_jax(loss(square)))
        torch.testing.assert_close(torch.autograd.grad(found(x).abs(), x)[0], want)


def test_a_loop_is_unrolled_as_often_as_it_was_told():
    def loop(x):
        return interop.fori_loop(0, 4, lambda i, c: c * 2, x, unroll=2)

    assert "unroll=2" in str(jax.make_jaxpr(loop)(torch.ones(2)))
