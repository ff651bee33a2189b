"""Tensors that meet arrays of JAX and NumPy, and JAX functions that close over tensors: nothing leaves the graph."""

import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch

FLOAT = ("add", "sub", "mul", "truediv", "pow", "mod", "floordiv", "matmul", "eq", "ne", "lt", "le", "gt", "ge")
WHOLE = ("and_", "or_", "xor", "lshift", "rshift")
INPLACE = ("iadd", "isub", "imul", "itruediv", "ipow", "imod", "ifloordiv")
VALUES = {"floats": ([1.5, 2.0, 3.0], [4.0, 0.5, 2.0]), "ints": ([1, 6, 3], [2, 1, 2])}


def leaf(values=(1.5, 2.0, 3.0), dtype=None):
    t = torch.tensor(values, dtype=dtype)
    return t.requires_grad_() if t.is_floating_point() else t


def array(values=(4.0, 0.5, 2.0), dtype=jnp.float32):
    with jax.enable_x64(True):
        return jnp.array(values, dtype)


def gradient(out, x, smooth=True):
    return torch.autograd.grad(out.sum(), x)[0].tolist() if out.requires_grad and smooth else None


def result_and_gradient(out, x, smooth=True):
    assert type(out) is torch.Tensor
    return out.dtype, out.tolist(), out.requires_grad, gradient(out, x, smooth)


@pytest.mark.parametrize("name", [*FLOAT, *WHOLE])
def test_operators(name):
    """What a tensor and an array give is what two tensors give, in both orders."""
    f = getattr(operator, name)
    x = leaf(VALUES["ints"][0]) if name in WHOLE else leaf()
    a = array(VALUES["ints"][1], jnp.int64) if name in WHOLE else array()
    t = torch.tensor(np.asarray(a))
    smooth = name != "floordiv"
    assert result_and_gradient(f(x, a), x, smooth) == result_and_gradient(f(x, t), x, smooth)
    for got, want in zip(result_and_gradient(f(a, x), x, smooth), result_and_gradient(f(t, x), x, smooth)):
        assert got == pytest.approx(want) if isinstance(want, list) else got == want


@pytest.mark.parametrize("name", INPLACE)
def test_operators_in_place(name):
    f = getattr(operator, name)
    x, a = leaf(), array()
    y = x * 1
    out = f(y, a)
    assert out is y
    assert y._version == 1
    smooth = name != "ifloordiv"
    assert result_and_gradient(out, x, smooth) == result_and_gradient(f(x * 1, torch.tensor(np.asarray(a))), x, smooth)
    mixed = f(array(), x)  # an array cannot be written to: a tensor takes its name
    assert type(mixed) is torch.Tensor
    assert mixed.requires_grad


@pytest.mark.parametrize(
    ("a", "dtype"),
    [
        (jnp.float32(2), torch.float16),
        (array([2.0], jnp.float64), torch.float64),
        (jnp.array([2], jnp.int32), torch.float16),
        (jnp.array(True), torch.float16),
        (jnp.array([2.0], jnp.bfloat16), torch.float32),
    ],
    ids=lambda v: str(getattr(v, "dtype", "")),
)
def test_dtypes_promote_as_between_tensors(a, dtype):
    x = leaf(dtype=torch.float16)
    assert (x * a).dtype is (a * x).dtype is dtype


KINDS = ("float32", "float64", "bfloat16", "complex64", "int32", "bool")


@pytest.mark.parametrize("name", ["mul", "truediv", "pow"])
@pytest.mark.parametrize("shapes", [((2,), (2,)), ((), (2,)), ((2,), ())], ids=str)
def test_every_pair_of_dtypes_gives_what_two_tensors_give(name, shapes):
    f = getattr(operator, name)
    for one in KINDS:
        for other in KINDS:
            x = torch.full(shapes[0], 3).to(getattr(torch, one))
            y = torch.full(shapes[1], 7).to(getattr(torch, other))
            a = array(np.full(shapes[1], 7), getattr(jnp, other))
            for order in ((x, y, x, a), (y, x, a, x)):
                want, got = ([k, str(v)] for k, v in (_attempt(f, *p) for p in (order[:2], order[2:])))
                assert got == want, (one, other)


def _attempt(f, x, y):
    try:
        out = f(x, y)
    except (RuntimeError, NotImplementedError) as error:
        return type(error).__name__, ""
    return str(out.dtype), out.tolist()


def test_assignment_and_indices():
    x, a = leaf(), array()
    y = x * 1
    y[0] = a[1]
    y[jnp.array([1, 2])] = a[:2]
    assert y.tolist() == [0.5, 4.0, 0.5]
    assert gradient(y, x) == [0.0] * 3
    y = x * 1
    y[a > 1] = jnp.float32(7)
    assert y.tolist() == [7.0, 2.0, 7.0]


@pytest.mark.parametrize("name", ["add", "mul", "sub", "matmul", "pow", "lt"])
def test_operators_inside_of_transforms(name):
    f = getattr(operator, name)
    x, a = torch.tensor([1.5, 2.0, 3.0]), array()
    want = f(x, torch.tensor(np.asarray(a)))
    assert np.allclose(jax.jit(lambda a: f(x, a))(a), want)
    assert np.allclose(jax.jit(lambda a: f(a, a * 0 + x))(x.detach() + 0).tolist(), f(x, x))
    if name != "lt":
        slope = jax.grad(lambda a: f(x, a).sum())(a)
        t = torch.tensor(np.asarray(a), requires_grad=True)
        f(x, t).sum().backward()
        assert np.allclose(slope, t.grad.tolist())
        assert np.allclose(
            jax.grad(torch.to_jax(lambda t: f(x, jnp.sin(t)).sum()))(a),
            jax.grad(lambda a: f(jnp.asarray(x), jnp.sin(a)).sum())(a),
            atol=1e-4,
        )


def test_numpy_arrays_compare_as_in_torch():
    x, n = torch.tensor([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 3.0])
    assert (x == n).tolist() == (n == x).tolist() == [True, False, True]
    assert (leaf() == n).dtype is torch.bool


@pytest.mark.parametrize(
    "f",
    [jax.lax.sin, jnp.asarray, lambda x: jnp.stack([x, x]), jnp.arcsinh],
    ids=["lax", "asarray", "stack", "compiled"],
)
def test_functions_of_jax_refuse_what_requires_grad(f):
    x: Any = leaf()
    with pytest.raises(RuntimeError, match="from_jax"):
        f(x)
    with torch.no_grad():
        f(x)
    f(x.detach())
    jax.grad(lambda x: f(x).sum())(x)
    jax.jit(lambda y: f(x).sum() + y)(x)
    assert torch.from_jax(f)(x).requires_grad


# --- functions that close over tensors -------------------------------------------------------------

GLOBAL: Any = torch.ones(3)


class Scale:
    def __init__(self, w: Any):
        self.w = w

    def __call__(self, x):
        return jnp.sin(x) * self.w


def by_closure(w):
    return lambda x: jnp.sin(x) * w


def by_jax_function(w):
    return lambda x: jnp.multiply(w, jnp.sin(x))


def by_inner_function(w):
    def f(x):
        def g(y):
            return y * w

        return jax.jit(g)(jnp.sin(x))

    return f


def by_default(w):
    def f(x, w=w):
        return jnp.sin(x) * w

    return lambda x: f(x)


def by_attribute(w):
    return Scale(w)


def by_partial(w):
    return functools.partial(lambda w, x: jnp.sin(x) * w, w)


def by_container(w):
    held = {"w": [w]}
    return lambda x: jnp.sin(x) * held["w"][0]


def by_global(w):
    global GLOBAL
    GLOBAL = w
    return lambda x: jnp.sin(x) * GLOBAL


def by_operation(w):
    """What is computed of the tensor alone is part of the graph as well."""
    return lambda x: jnp.sin(x) * (w * 2) * 0.5


def by_view(w):
    return lambda x: jnp.sin(x) * w.view(3)


def by_scan(w):
    def f(x):
        total, _ = jax.lax.scan(lambda c, y: (c + jnp.asarray(y * w), None), x * 0, jnp.sin(x)[None])
        return total

    return f


WAYS = [
    by_closure,
    by_jax_function,
    by_inner_function,
    by_default,
    by_attribute,
    by_partial,
    by_container,
    by_global,
    by_operation,
    by_view,
    by_scan,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
def test_tensors_that_a_jax_function_reads_are_inputs(way):
    w, x = leaf([1.0, 2.0, 3.0]), leaf([0.5, 1.0, 1.5])
    f = torch.from_jax(way(w))
    for _ in range(2):
        out = f(x)
        want = x.sin() * w
        assert torch.allclose(out, want)
        found = torch.autograd.grad((out**2).sum(), [x, w])
        for g, h in zip(found, torch.autograd.grad((want**2).sum(), [x, w])):
            assert torch.allclose(g, h, atol=1e-5)
        with torch.no_grad():  # an optimizer's step is seen by the next call
            w -= 0.5
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    assert torch.allclose(torch.autograd.grad(g.sum(), w)[0], x.cos())
    assert torch.allclose(torch.func.vmap(f)(torch.stack([x, x])), (x.sin() * w).expand(2, 3))


def test_what_is_exchanged_is_seen():
    scale = Scale(leaf([1.0, 2.0, 3.0]))
    f, x = torch.from_jax(scale), torch.ones(3)
    f(x)
    scale.w = leaf([5.0, 5.0, 5.0])
    assert torch.allclose(f(x), x.sin() * 5)
    scale.w.data = torch.tensor([2.0])
    assert torch.allclose(f(x), x.sin() * 2)
    scale.w.requires_grad_(False)
    assert not f(x).requires_grad


def test_modules_are_trained_through_a_jax_function():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())
    f = torch.from_jax(lambda x: jnp.tanh(net(torch.as_tensor(x)) * 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = f(torch.ones(2, 3)).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > losses[1] > losses[2]


def test_compiled_steps_see_what_the_function_reads():
    w, f = leaf([1.0, 2.0, 3.0]), None
    f = torch.from_jax(by_closure(w))
    step = torch.compile(lambda x: f(x).sum())
    x = torch.ones(3)
    for _ in range(3):
        assert step(x).item() == pytest.approx((x.sin() * w).sum().item(), rel=1e-5)
        with torch.no_grad():
            w.mul_(2)


def test_rules_that_read_tensors_refuse():
    w, x = leaf([1.0, 2.0, 3.0]), leaf()

    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (jnp.asarray(g * w),))
    with pytest.raises(RuntimeError, match="pass the tensor to the function as an argument"):
        torch.from_jax(f)(x)

    @jax.custom_vjp
    def h(x, w):
        return jnp.sin(x) * w

    h.defvjp(lambda x, w: (jnp.sin(x) * w, (x, w)), lambda s, g: (g * 10 * s[1], g * 100))
    out = torch.from_jax(lambda x: h(x, jnp.asarray(w)))(x)
    assert [g.tolist() for g in torch.autograd.grad(out.sum(), [x, w])] == [[10.0, 20.0, 30.0], [100.0] * 3]


FUNCTIONS = {
    "add": lambda x, a: torch.add(x, a),
    "first": lambda x, a: torch.add(a, x),
    "method": lambda x, a: x.add(a),
    "in place": lambda x, a: (x * 1).add_(a),
    "one": lambda x, a: torch.sin(a),
    "list": lambda x, a: torch.cat([x, a]),
    "overloads": lambda x, a: torch.where(a > 1, x, a),
    "clamp": lambda x, a: torch.clamp(x, a),
    "composed": lambda x, a: torch.nn.functional.mse_loss(x, a),
    "layer": lambda x, a: torch.nn.Linear(3, 2)(a),
    "einsum": lambda x, a: torch.einsum("i,i->", x, a),
    "linalg": lambda x, a: torch.linalg.norm(a),
    "indices": lambda x, a: x.gather(0, a.astype(int)),
    "gradient": lambda x, a: (x * 1).backward(a),
    "out": lambda x, a: torch.mul(x.detach(), 2, out=a),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_say_what_makes_a_tensor_of_an_array(name):
    """Operators take arrays, since JAX would otherwise; functions take tensors, and say so."""
    with pytest.raises(TypeError, match=r"jax\.Array \(torch\.as_tensor makes it a Tensor\)"):
        FUNCTIONS[name](leaf(), array())
