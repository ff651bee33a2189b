"""Planted faults: each is a wrong program that a comparison must find, or a right one it must accept.

The faults stand in a function that knows which library it runs under, so that it is right under
torch and wrong here.
"""

import collections
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as ours
from torchgrad_jax.testing import Differs, assert_close, assert_matches_jax, assert_matches_torch

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)


def here(torch):
    return "jax" in torch.__name__


def squares(torch, backward, x):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return backward(torch, ctx.saved_tensors[0], g)

    return Square.apply(x)


def right(torch, x, g):
    return 2 * x * g


def zeros_for_ones(torch, x, g):
    """Ignores a cotangent's differences: right for ones alone."""
    return 2 * x * (g.mean() if here(torch) else g)


def flipped(torch, x, g):
    return 2 * x * (g.flip(0) if here(torch) else g)


def zero(torch, x, g):
    """Zeros wherever the cotangent is not one."""
    return torch.where(g == 1, 2 * x * g, 0 * x) if here(torch) else 2 * x * g


def constant(torch, x, g):
    return 2 * (x.detach() if here(torch) else x) * g


def deaf_to_cotangent(torch, x, g):
    return 2 * x * (g.detach() if here(torch) else g)


@pytest.mark.parametrize(
    ("backward", "kind"),
    [
        (zeros_for_ones, "gradient"),
        (flipped, "gradient"),
        (zero, "gradient"),
        (constant, "second"),
        (deaf_to_cotangent, "second"),
    ],
)
def test_wrong_backward(backward, kind):
    pytest.importorskip("torch", exc_type=ImportError)
    with pytest.raises(Differs) as caught:
        assert_matches_torch(lambda torch, x: squares(torch, backward, x), [X])
    assert caught.value.difference.kind == kind
    assert assert_matches_torch(lambda torch, x: squares(torch, right, x), [X]).compared == [
        "value",
        "state",
        "gradient",
        "second",
    ]


def parameters(torch, x):
    layer = torch.nn.Linear(3, 2)
    weight = layer.weight * 1.0
    if here(torch):
        weight = weight + (weight - weight.detach())  # the same value, twice the gradient
    return x @ weight.t() + layer.bias


def misnamed(torch, x):
    layer = torch.nn.Linear(3, 2)
    layer.register_buffer("a" if here(torch) else "b", torch.ones(1))
    return layer(x)


def untouched_buffer(torch, x):
    norm = torch.nn.BatchNorm1d(3)
    out = norm(x)
    if here(torch):
        norm.running_mean.zero_()
    return out


def large_beside(torch, x):
    big = torch.tensor([1e6, 1.0, 1.0])
    return x.sin() * big * (torch.tensor([1.0, 10.0, 1.0]) if here(torch) else 1.0)


def wrong_tangent(torch, x):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(out := x.exp())
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def jvp(ctx, t):
            return ctx.saved_tensors[0] * (t.abs() if here(torch) else t)

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0] * g

    return Exp.apply(x)


FAULTS = {
    "keys": (lambda torch, x: {"a" if here(torch) else "b": x.sin()}, "value", "output['a']"),
    "number": (lambda torch, x: 1.0 if here(torch) else 2.0, "value", "output"),
    "number beside": (lambda torch, x: (x, 1.0 if here(torch) else 2.0), "value", "output[1]"),
    "int for float": (lambda torch, x: 1 if here(torch) else 1.0, "value", "output"),
    "list for tuple": (lambda torch, x: [x] if here(torch) else (x,), "value", "output"),
    "text": (lambda torch, x: "a" if here(torch) else "b", "value", "output"),
    "none": (lambda torch, x: None if here(torch) else x, "value", "output"),
    "dtype": (lambda torch, x: x.double() if here(torch) else x * 1, "value", "output"),
    "stride": (lambda torch, x: x.t() if here(torch) else x.t().contiguous(), "value", "output"),
    "detached": (lambda torch, x: x.detach() if here(torch) else x * 1, "value", "output"),
    "parameter": (parameters, "gradient", "module 0 (Linear): parameter 'weight'"),
    "name of a buffer": (misnamed, "state", None),
    "buffer": (untouched_buffer, "state", "module 0 (BatchNorm1d): buffer 'running_mean'"),
    "large beside": (large_beside, "value", "output"),
    "tangent": (wrong_tangent, "forward", "output"),
    "input": (lambda torch, x: x.mul_(1 if here(torch) else 2).sum() * 0, "state", "input 0"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault(name):
    pytest.importorskip("torch", exc_type=ImportError)
    fault, kind, where = FAULTS[name]
    with pytest.raises(Differs) as caught:
        assert_matches_torch(fault, [X])
    found = caught.value.difference
    assert found.kind == kind
    assert where is None or found.name.startswith(where)


def test_a_difference_tells_where_it_is():
    pytest.importorskip("torch", exc_type=ImportError)
    with pytest.raises(Differs, match=r"output\['a'\]\[0\]: 1 of 3 elements differ") as caught:
        assert_matches_torch(
            lambda torch, x: {"a": [x + (torch.arange(3) == 1) * (1 if here(torch) else 2)]}, [np.zeros(3, np.float32)]
        )
    found = caught.value.difference
    assert (found.index, found.got, found.want) == ((1,), 1.0, 2.0)


def test_module_made_beside():
    pytest.importorskip("torch", exc_type=ImportError)

    def make(torch):
        return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh())

    report = assert_matches_torch(lambda torch, m, x: m(x), [X], module=make)
    assert report.compared == ["value", "state", "gradient", "frozen", "forward", "second"]
    with pytest.raises(Differs, match=r"gradient of parameter '0\.weight'"):
        assert_matches_torch(
            lambda torch, m, x: m(x) + ((w := m[0].weight) - w.detach()).sum() * here(torch), [X], module=make
        )


def test_exceptions_are_failures_unless_expected():
    pytest.importorskip("torch", exc_type=ImportError)
    with pytest.raises(Differs, match=r"torchgrad_jax raised AttributeError.*say raises="):
        assert_matches_torch(lambda torch, x: torch.sine(x), [X])
    report = assert_matches_torch(lambda torch, x: x @ x, [X], raises=RuntimeError)
    assert report.compared == ["exception"]
    with pytest.raises(Differs, match="raised nothing"):
        assert_matches_torch(lambda torch, x: x, [X], raises=RuntimeError)
    with pytest.raises(Differs, match="expected was"):
        assert_matches_torch(lambda torch, x: x @ x, [X], raises=ValueError)


Pair = collections.namedtuple("Pair", "a b")


def cancellation(torch, x):
    return ((x + 1e4) - x.mean()).sum(0) - 2e4


def dropped(torch, x):
    return torch.nn.functional.dropout(x, 0.5)


ACCEPTED = {
    "in place": (lambda torch, x: x.mul_(2).sin(), [X]),
    "containers": (lambda torch, p, d: {"s": p.a + d["x"], "n": Pair(p.b, 3)}, [Pair(X, X), {"x": X}]),
    "long sums": (lambda torch, x: (x.sum(), (x - x.mean()).mean()), [np.sin(np.arange(10000, dtype=np.float32))]),
    "cancellation": (cancellation, [X]),
    "random numbers": (dropped, [X]),
    "own backward": (lambda torch, x: (x.sin().sum().backward(), x.grad)[1], [X]),
    "complex": (lambda torch, x: (x * x.conj()).real.sum() + (x * x), [X.astype(np.complex64)]),
    "whole numbers": (lambda torch, i, x: x[:, i], [np.array([0, 2]), X]),
    "lists": (lambda torch, x: torch.relu(x) * 2, [[1.0, -1.0]]),
    "bfloat16": (lambda torch, x: (x @ x.t()).sin(), [ours.tensor(X).bfloat16()]),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    pytest.importorskip("torch", exc_type=ImportError)
    fn, inputs = ACCEPTED[name]
    report = assert_matches_torch(fn, inputs)
    assert "gradient" in report.compared


@jax.custom_vjp
def clipped(x):
    return jnp.sin(x)


clipped.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (jnp.cos(x) * g,))


class Sine(ours.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        return gs[0] * ctx.saved_tensors[0].cos()


@pytest.mark.parametrize(
    ("tensor_fn", "jax_fn", "side"),
    [(ours.sin, clipped, "jax"), (Sine.apply, jnp.sin, "torchgrad_jax"), (Sine.apply, clipped, "")],
)
def test_functions_with_reverse_mode_alone(tensor_fn, jax_fn, side):
    report = assert_matches_jax(tensor_fn, jax_fn, [X])
    assert {"float32: gradient", "float64: second"} <= set(report.compared)
    assert report.skipped["float64: forward"].startswith(side)


def jax_linear(p, x):
    return {"y": x @ p["weight"].T + p["bias"][None]}


def test_modules_and_dicts_beside_jax():
    layer = ours.nn.Linear(3, 2)

    class Named(ours.nn.Linear):
        def forward(self, input):
            return {"y": super().forward(input)}

    named = Named(3, 2)
    assert_matches_jax(named, jax_linear, [X], params=lambda s: s)
    with pytest.raises(Differs, match="gradient of parameter 'bias'"):
        assert_matches_jax(
            named,
            lambda p, x: jax_linear({**p, "bias": 2 * p["bias"] - jax.lax.stop_gradient(p["bias"])}, x),
            [X],
            params=lambda s: s,
        )
    # A module in a closure keeps its dtype: the report says that float64 was not tried.
    w, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    report = assert_matches_jax(lambda d: {"y": layer(d["x"])}, lambda d: {"y": d["x"] @ w.T + b[None]}, [{"x": X}])
    assert "raised RuntimeError" in report.skipped["float64"]


@pytest.mark.parametrize(
    ("tensor_fn", "jax_fn", "text"),
    [
        (lambda x: x * ours.tensor([1e6, 10, 1]), lambda x: x * jnp.array([[1e6, 1, 1]], x.dtype), "output"),
        (lambda x: {"a": x}, lambda x: {"b": x}, "output"),
        (lambda x: x, lambda x: jnp.sine(x), ".* jax raised AttributeError"),
        (lambda x: ours.sine(x), lambda x: jnp.sine(x), "torchgrad_jax raised AttributeError"),
        (lambda x: x.sin(), lambda x: jax.lax.stop_gradient(jnp.sin(x)), "gradient of input 0"),
        (lambda x: x.sum(), lambda x: x.sum().astype("float16"), "output: dtype"),
    ],
)
def test_planted_faults_beside_jax(tensor_fn, jax_fn, text):
    with pytest.raises(Differs, match=f"float32: {text}"):
        assert_matches_jax(tensor_fn, jax_fn, [X])


def run(program):
    return subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, check=False)


FACTOR = 3.0


def scaled(x):
    return x * FACTOR


@pytest.mark.parametrize("against", ["torch", "jax"])
def test_the_snippet_of_a_failure_fails_alike(against):
    if against == "torch":
        pytest.importorskip("torch", exc_type=ImportError)
        large = np.linspace(0, 1, 600, dtype=np.float32)
        with pytest.raises(Differs) as caught:
            assert_matches_torch(lambda torch, x, y: (scaled(x) * (1 + here(torch)), y), [X, large])
    else:
        with pytest.raises(Differs) as caught:
            assert_matches_jax(lambda x: scaled(x), lambda x: jnp.where(x > 1, 0, x * 3), [X])
    text, _, program = str(caught.value).partition("to see it again:\n")
    lines = "\n".join(line.removeprefix("    ") for line in program.splitlines())
    result = run(lines)
    assert result.returncode == 1
    assert text.strip() in result.stderr


def test_close_takes_tensors_and_arrays_of_both_kinds():
    values = [ours.ones(3), np.ones(3, np.float32), jnp.ones(3, "float32")]
    for a in values:
        for b in values:
            assert_close(a, b)
            assert_close({"x": [a]}, {"x": [b]})
            with pytest.raises(AssertionError, match="not close"):
                assert_close(a, b * 2)
            with pytest.raises(AssertionError, match="dtype"):
                assert_close(a, np.ones(3))


STATE = {"kernel": "weight", "bias": "bias"}


def linear(p, x):
    return x @ p["kernel"].T + p["bias"][None]


def as_linear(state):
    return {k: state[v] for k, v in STATE.items()}


def adam(parameters, **options):
    return ours.optim.Adam(parameters, 0.01, **options)


def test_optimizer_steps_beside_optax():
    optax = pytest.importorskip("optax")
    layer = ours.nn.Linear(3, 2)
    given = {"params": as_linear, "dtypes": ["float32"]}
    report = assert_matches_jax(layer, linear, [X], optimizers=(adam, optax.adam(0.01)), **given)
    assert "float32: steps" in report.compared
    report = assert_matches_jax(ours.tanh, jnp.tanh, [X], dtypes=["float64"], optimizers=(adam, optax.adam(0.01)))
    assert "float64: steps" in report.compared
    for wrong in (optax.adam(0.02), optax.sgd(0.01), optax.adam(0.01, eps=1e-3)):
        with pytest.raises(Differs) as caught:
            assert_matches_jax(layer, linear, [X], optimizers=(adam, wrong), **given)
        assert caught.value.difference.kind == "steps"
        assert caught.value.difference.name.startswith("parameter '")


def test_steps_that_agree_once_and_then_part():
    optax = pytest.importorskip("optax")
    pair = (lambda p: ours.optim.SGD(p, 0.1, momentum=0.9), optax.sgd(0.1))
    layer = ours.nn.Linear(3, 2)
    assert_matches_jax(layer, linear, [X], params=as_linear, dtypes=["float32"], optimizers=pair, steps=1)
    with pytest.raises(Differs):
        assert_matches_jax(layer, linear, [X], params=as_linear, dtypes=["float32"], optimizers=pair, steps=2)


def test_modules_of_flax_and_equinox():
    flax, eqx = pytest.importorskip("flax.linen"), pytest.importorskip("equinox")
    layer = ours.nn.Linear(3, 2)
    dense = flax.Dense(2)

    def to_flax(state):
        return {"params": {"kernel": state["weight"].T, "bias": state["bias"]}}

    report = assert_matches_jax(layer, dense.apply, [X], params=to_flax, dtypes=["float32"])
    assert {"float32: gradient", "float32: second"} <= {*report.compared}
    with jax.numpy_dtype_promotion("standard"):
        other = eqx.nn.Linear(3, 2, key=jax.random.key(0))

    def to_equinox(state):
        return eqx.tree_at(lambda m: (m.weight, m.bias), other, (state["weight"], state["bias"]))

    assert_matches_jax(layer, lambda m, x: jax.vmap(m)(x), [X], params=to_equinox, dtypes=["float32"])
    with pytest.raises(Differs):
        assert_matches_jax(layer, lambda m, x: 2 * jax.vmap(m)(x), [X], params=to_equinox, dtypes=["float32"])


def test_jaxprs_of_modules_that_hold_functions():
    eqx = pytest.importorskip("equinox")
    layers = ours.nn.Sequential(ours.nn.Linear(3, 2), ours.nn.Tanh())
    with jax.numpy_dtype_promotion("standard"):
        other = eqx.nn.MLP(3, 2, 2, 0, final_activation=jnp.tanh, key=jax.random.key(0))

    def to_equinox(state):
        return eqx.tree_at(
            lambda m: (m.layers[0].weight, m.layers[0].bias), other, (state["0.weight"], state["0.bias"])
        )

    with pytest.raises(Differs) as caught:
        assert_matches_jax(layers, lambda m, x: 2 * jax.vmap(m)(x), [X], params=to_equinox, dtypes=["float32"])
    shown = str(caught.value).partition("what they compute:")[2].partition("to see it again:")[0]
    assert shown.count("tanh") >= 2
    assert "none: " not in shown


def test_failing_input_is_shrunk_and_jaxprs_are_shown():
    pytest.importorskip("hypothesis")
    x = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
    with pytest.raises(Differs) as caught:
        assert_matches_jax(
            lambda x: (x @ x.t()).clamp(0),
            lambda x: jnp.where(x @ x.T > 1.5, 0.0, jnp.maximum(x @ x.T, 0.0)),
            [x],
            shrink=True,
            dtypes=["float32"],
        )
    text = str(caught.value)
    small = text.partition("inputs = ")[2].partition("\n")[0]
    assert small.count(",") < 8, small
    shown, _, program = text.partition("what they compute:")[2].partition("to see it again:")
    assert "dot_general" in shown
    assert "clamp" in shown
    assert "assert_matches_jax(tensor_fn, jax_fn, inputs" in program


def test_shrinking_keeps_what_it_cannot_make_smaller():
    pytest.importorskip("hypothesis")
    with pytest.raises(Differs) as caught:
        assert_matches_jax(
            lambda x: x.reshape(2, 3) * 2, lambda x: x.reshape(2, 3) * 3, [X], shrink=True, dtypes=["float32"]
        )
    assert "[[1.0, 2.0, 1.0], [2.0, 1.0, 2.0]]" in str(caught.value)
