"""What functions given to `from_jax` read of Python, as it is at each call: closures, globals, attributes, lists."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch

X = torch.tensor([1.0, 2.0])
SCALE = 2.0
ARRAYS = [jnp.ones(2, jnp.float32)]


class _Holder:
    limit = 1.0

    def __init__(self):
        self.scale, self.weights = 2.0, {"w": jnp.ones(2, jnp.float32)}

    def __call__(self, x):
        return x * self.weights["w"] * self.scale + self.limit


def _closure():
    scale = jnp.float32(2.0)

    def change():
        nonlocal scale
        scale = jnp.float32(5.0)

    return lambda x: x * scale, change


def _attribute():
    holder = _Holder()
    return holder, lambda: setattr(holder, "scale", 3.0)


def _entry():
    holder = _Holder()
    return lambda x: holder(x), lambda: holder.weights.update(w=jnp.zeros(2, jnp.float32))


def _attribute_of_a_class():
    class Held(_Holder):
        pass

    return Held(), lambda: setattr(Held, "limit", 9.0)


def _global():
    def change():
        global SCALE
        SCALE += 1

    return lambda x: x * SCALE, change


def _list():
    def change():
        ARRAYS[0] = ARRAYS[0] + 1

    return lambda x: x * ARRAYS[0], change


def _numpys_memory():
    held = np.ones(2, np.float32)
    return lambda x: x * held, lambda: held.fill(4.0)


def _a_function_that_it_calls():
    helper: Any = functools.partial(jnp.multiply, 2.0)

    def change():
        nonlocal helper
        helper = jnp.sin

    return lambda x: helper(x), change


CHANGES = {
    f.__name__.strip("_"): f
    for f in (
        _closure,
        _attribute,
        _entry,
        _attribute_of_a_class,
        _global,
        _list,
        _numpys_memory,
        _a_function_that_it_calls,
    )
}


@pytest.mark.parametrize("where", ["eager", "compiled"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_call_sees_what_changed_since(name, where):
    f, change = CHANGES[name]()
    operator = torch.from_jax(f)
    call = operator if where == "eager" else torch.compile(lambda x: operator(x))
    for _ in range(2):
        np.testing.assert_allclose(call(X).numpy(), f(jnp.asarray(X.numpy())), rtol=1e-6)
    before = call(X)
    for _ in range(2):
        change()
        np.testing.assert_allclose(call(X).numpy(), f(jnp.asarray(X.numpy())), rtol=1e-6)
    assert not torch.equal(call(X), before)


def test_gradients_are_those_of_the_new_values():
    f, change = _attribute()
    x = X.clone().requires_grad_()
    operator = torch.from_jax(f)
    for scale in (2.0, 3.0):
        (g,) = torch.autograd.grad(operator(x).sum(), x)
        assert g.tolist() == [scale, scale]
        change()


def test_a_function_of_its_arguments_alone_is_traced_once():
    traces = []

    def f(x):
        traces.append(1)
        return jnp.sin(x) * np.float32(2) + jax.nn.relu(x)

    operator = torch.from_jax(f)
    traced = []
    for _ in range(4):
        operator(X)
        traced.append(len(traces))
    assert traced[1:] == [traced[1]] * 3


def test_modules_of_flax_and_equinox():
    """What is assigned to a module shows, and random keys are inputs."""
    nnx, linen = pytest.importorskip("flax.nnx"), pytest.importorskip("flax.linen")
    module = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    operator = torch.from_jax(lambda x: module(x))
    step = torch.compile(lambda x: operator(x) * 1)
    for _ in range(2):
        want = module(jnp.asarray(X.numpy()))
        for call in (operator, step):
            np.testing.assert_allclose(call(X).numpy(), want, rtol=1e-6)
        module.kernel[...] = module.kernel[...] * 2
    assert step.counts["traced"] == 2

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dropout(0.5, deterministic=False)(linen.Dense(3)(x))

    net = Net()
    params = net.init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, jnp.ones(2, jnp.float32))
    tensors = jax.tree.map(torch.as_tensor, params)
    apply = torch.from_jax(lambda p, x, key: net.apply(p, x, rngs={"dropout": key}))
    step = torch.compile(lambda x, key: apply(tensors, x, key))
    for i in range(3):
        key = jax.random.key(i)
        want = net.apply(params, jnp.asarray(X.numpy()), rngs={"dropout": key})
        np.testing.assert_allclose(step(X, key).numpy(), want, rtol=1e-5)


def test_a_zero_of_the_other_sign_is_another_argument():
    signed = torch.from_jax(lambda x, k: jnp.copysign(x, k))
    fixed = torch.interop.checkpoint(lambda x, k: jnp.copysign(x, k), static_argnums=1)
    for f in (signed, fixed):
        assert [f(torch.ones(()), k).item() for k in (0.0, -0.0, 0.0)] == [1.0, -1.0, 1.0]


W = torch.randn(4, 4)


class _Product(torch.nn.Module):
    def forward(self, x):
        return (x @ W).float()


def _under_autocast():
    """Functions of the package that keep what they have traced, each over a product."""

    def rows(h, row):
        return (h @ W).float(), row

    product = torch.from_jax(lambda x: (torch.as_tensor(x) @ W).float())
    again = torch.interop.checkpoint(lambda x: (x @ W).float())
    return {
        "from_jax": product,
        "checkpoint": again,
        "scan": lambda x: torch.interop.scan(rows, x, torch.ones(3))[0],
        "fori_loop": lambda x: torch.interop.fori_loop(0, 2, lambda i, h: (h @ W).float(), x),
        "map": lambda x: torch.interop.map(again, x),
        "scan_layers": torch.scan_layers([_Product(), _Product()]),
    }


@pytest.mark.parametrize("name", _under_autocast())
def test_what_was_traced_is_kept_for_one_setting_of_autocast(name):
    f, x = _under_autocast()[name], torch.randn(2, 4, requires_grad=True)

    def values(dtype):
        with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
            out = f(x)
        return [*out.detach().flatten().tolist(), *torch.autograd.grad(out.sum(), x)[0].flatten().tolist()]

    exact, rough, finer = values(None), values(torch.bfloat16), values(torch.float16)
    assert values(None) == exact != rough
    assert values(torch.bfloat16) == rough != finer


class _Doubling(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **kwargs or {})
        return out * 2 if getattr(func, "__name__", "") == "sin" else out


def test_a_function_mode_of_the_user_is_heeded_in_each_call():
    rows = torch.ones(2)
    sines = lambda: torch.interop.scan(lambda h, _: (h, torch.sin(h)), torch.ones(()), rows)[1][0].item()  # noqa: E731
    kept = torch.from_jax(lambda x: torch.sin(torch.as_tensor(x)))
    for f in (sines, lambda: kept(torch.ones(())).item()):
        plain = f()
        with _Doubling():
            doubled = f()
        assert doubled == pytest.approx(2 * plain)
        assert f() == plain
