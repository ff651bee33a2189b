"""JAX's transforms applied to functions over tensors as they are: derivatives are torch's."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from tests.differential import agree
from tests.own_gradients import saving_input

ROOT = Path(__file__).resolve().parents[3]


def point():
    return torch.tensor([1.0, 2.0, 3.0])


def test_tensors_without_data_after_a_transform():
    jax.jit(lambda x: (x * 2).sum())(point())
    layer = torch.nn.Linear(3, 2, device="meta")
    layer(torch.ones(4, 3, device="meta")).sum().backward()
    assert layer.weight.grad.detach().shape == (2, 3)


# --- which transforms -----------------------------------------------------------------------------


def energy(x):
    return (x.sin() * x**2).sum()


def test_grad_takes_and_gives_tensors():
    g = jax.grad(energy)(point())
    assert type(g) is torch.Tensor
    agree(g, torch.func.grad(energy)(point()))
    value, g = jax.value_and_grad(energy)(point())
    assert value.shape == ()
    (value, extra), g = jax.value_and_grad(lambda x: (energy(x), x * 2), has_aux=True)(point())
    assert extra.tolist() == [2.0, 4.0, 6.0]
    both = jax.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(point(), point())
    assert [t.tolist() for t in both] == [[1.0, 2.0, 3.0]] * 2
    tree = jax.grad(lambda p: (p["w"] * point() + p["b"]).sum())({"w": point(), "b": point()})
    assert tree["w"].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: jax.jit(jax.grad(f)),
        lambda f: jax.grad(jax.jit(f)),
        lambda f: jax.grad(jax.checkpoint(f)),
        lambda f: jax.jacrev(f),
        lambda f: jax.jacfwd(f),
        lambda f: jax.grad(torch.compile(f)),
        lambda f: torch.compile(jax.grad(f)),
        lambda f: lambda x: jax.vjp(f, x)[1](torch.tensor(1.0))[0],
        lambda f: jax.grad(lambda x: jax.lax.scan(lambda c, _: (c + f(x), None), 0.0, None, 1)[0]),
    ],
    ids=["jit-grad", "grad-jit", "checkpoint", "jacrev", "jacfwd", "of-compiled", "compiled", "vjp", "scan"],
)
def test_derivatives(transformed):
    g = transformed(energy)(point())
    assert isinstance(g, torch.Tensor)
    agree(g, torch.func.grad(energy)(point()))


def test_jacobians_and_hessians_are_tensors():
    j = jax.jacrev(lambda x: x**2)(point())
    assert j.shape == (3, 3)
    agree(j + 1, np.diag([2.0, 4.0, 6.0]) + 1)
    agree(jax.jit(jax.hessian(energy))(point()), torch.func.hessian(energy)(point()))
    trees = jax.jacfwd(lambda p: {"y": p["a"] * p["b"]})({"a": point(), "b": point()})
    agree(trees["y"]["a"], np.diag([1.0, 2.0, 3.0]))


def test_vmap_jvp_and_control_flow():
    agree(jax.vmap(jax.grad(energy))(torch.ones(2, 3)), torch.func.grad(energy)(torch.ones(2, 3)))
    _, slope = jax.jvp(energy, (point(),), (torch.ones(3),))
    agree(slope, torch.func.grad(energy)(point()).sum())
    carry, ys = jax.lax.scan(lambda c, x: (c + x, c * x), torch.zeros(3), torch.ones(4, 3))
    assert carry.tolist() == [4.0] * 3
    assert ys.shape == (4, 3)
    assert jax.lax.cond(True, lambda x: x + 1, lambda x: x - 1, point()).tolist() == [2.0, 3.0, 4.0]
    rolled = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, a: a * 2 + x[i], x))(point())
    assert rolled.tolist() == [19.0, 27.0, 35.0]
    loop = torch.interop.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (jnp.int32(0), point()))
    assert loop[1].tolist() == [8.0, 16.0, 24.0]


def test_what_jax_says_to_misuse():
    with pytest.raises(TypeError, match=r"scalar-output functions. Output had shape: \(3,\)"):
        jax.grad(lambda x: x * 2)(point())
    with pytest.raises(TypeError, match="grad requires real- or complex-valued inputs"):
        jax.grad(lambda x: x.sum())(torch.arange(3))
    with pytest.raises(RuntimeError, match="values of this tensor are needed"):
        jax.jit(lambda x: x if x.sum() > 0 else -x)(point())


def test_functions_of_jax_take_tensors():
    x: Any = point()
    agree(jax.lax.sin(x), np.sin([1.0, 2.0, 3.0]))
    agree(jnp.where(x > 1, x, 0.0), [0.0, 2.0, 3.0])
    agree(jax.nn.softmax(x), torch.softmax(x, 0))
    assert jnp.asarray(x).shape == (3,)
    assert point()[jnp.array([0, 2])].tolist() == [1.0, 3.0]
    assert point()[jnp.array(1)].item() == 2.0
    shape = jax.eval_shape(lambda x: x @ x.t(), torch.ones(2, 3))
    assert shape.shape == (2, 2)
    assert shape.dtype is torch.float32
    assert "ShapeDtypeStruct" in repr(shape)


# --- where torch's derivative ends ----------------------------------------------------------------


def _detach(x):
    return (x * x.detach()).sum()


def _no_grad(x):
    with torch.no_grad():
        y = x * 3
        z = x[1:]
    return (y * x).sum() + (z * x[1:]).sum()


def _modes(x):
    with torch.no_grad():
        with torch.enable_grad():
            a = x * 2
        b = x * 3
        with torch.set_grad_enabled(False):
            c = x * 5
        d = x * 7
    with torch.inference_mode():
        e = x * 11
    return (a + b * x + c * x + d * x + e.clone() * x + x * 13).sum()


def _written_without_recording(x):
    y = x * 1
    with torch.no_grad():
        y.mul_(3)
        y[0] = 5.0
    return (y * y).sum()


def _written_through_data(x):
    y = x * 1
    y.data.mul_(3)
    z = y + y
    d = y.detach()
    d.add_(1)
    return (z * 3).sum() + y.sum() + (d * x).sum()


def _written(x):
    y = x.clone()
    y[1:] *= x[:-1]
    return (y * x).sum()


ENDS = [_detach, _no_grad, _modes, _written_without_recording, _written_through_data, _written]


@pytest.mark.parametrize("f", ENDS, ids=lambda f: f.__name__.strip("_"))
def test_ends_are_those_of_the_graph(f):
    x = point().requires_grad_()
    f(x).backward()
    agree(jax.grad(f)(point()), x.grad)
    agree(jax.jit(jax.grad(f))(point()), x.grad)
    array = jnp.array([1.0, 2.0, 3.0], jnp.float32)
    agree(jax.grad(torch.to_jax(f))(array), x.grad)
    agree(jax.grad(jax.jit(torch.to_jax(f)))(array), x.grad)


def test_recording_turned_off_outside_does_not_matter():
    with torch.no_grad():
        assert jax.grad(lambda x: (x * x).sum())(point()).tolist() == [2.0, 4.0, 6.0]
        assert jax.grad(_detach)(point()).tolist() == [1.0, 2.0, 3.0]
    assert torch.is_grad_enabled()


def test_an_exception_leaves_nothing_behind():
    def f(x):
        with torch.no_grad():
            raise KeyError

    with pytest.raises(KeyError):
        jax.grad(f)(point())
    with torch.no_grad():
        assert (point() * 2).tolist() == [2.0, 4.0, 6.0]
    x = point().requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


# --- gradients of one's own -----------------------------------------------------------------------


TenfoldCube = saving_input(torch, "TenfoldCube", lambda x: x**3, lambda x, g: g * x**2 * 30)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n, y):
        ctx.save_for_backward(x, y)
        ctx.n = n
        return x * y * n, "label"

    @staticmethod
    def backward(ctx, g, _):
        x, y = ctx.saved_tensors
        return g * y * 100, None, g * x * 1000


def _hooked(x):
    y = x.sin()
    y.register_hook(lambda g: g * 7)
    return (y * x).sum()


def test_custom_functions_keep_their_gradients():
    def f(x):
        return TenfoldCube.apply(x).sum()

    array = jnp.array([1.0, 2.0, 3.0], jnp.float32)
    want = [30.0, 120.0, 270.0]
    agree(jax.grad(f)(point()), want)
    agree(jax.grad(torch.to_jax(f))(array), want)
    agree(jax.vmap(jax.grad(f))(torch.ones(2, 3)), np.full((2, 3), 30.0))
    agree(jax.jacrev(jax.grad(f))(point()), np.diag([60.0, 120.0, 180.0]))
    agree(jax.jacrev(jax.grad(torch.to_jax(f)))(array), np.diag([60.0, 120.0, 180.0]))
    assert jax.jvp(f, (point(),), (point(),))[1].item() == 30.0 + 240.0 + 810.0


def test_custom_functions_of_several_arguments():
    labels = []

    def f(x, y):
        out, label = Scaled.apply(x, 3, y)
        labels.append(label)
        return out.sum()

    gx, gy = jax.jit(jax.grad(f, argnums=(0, 1)))(point(), point())
    assert (gx.tolist(), gy.tolist()) == ([100.0, 200.0, 300.0], [1000.0, 2000.0, 3000.0])
    assert labels == ["label"]


def test_hooks_keep_their_gradients_in_to_jax():
    x = point().requires_grad_()
    (g,) = torch.autograd.grad(_hooked(x), x, create_graph=True)
    rows = [torch.autograd.grad(g[i], x, retain_graph=True)[0].tolist() for i in range(3)]
    array = jnp.array([1.0, 2.0, 3.0], jnp.float32)
    agree(jax.grad(torch.to_jax(_hooked))(array), g.detach())
    agree(jax.jacrev(jax.grad(torch.to_jax(_hooked)))(array), rows)

    def on_the_argument(x):
        x.register_hook(lambda g: g * 7)
        return (x * x).sum()

    agree(jax.grad(torch.to_jax(on_the_argument))(array), 14 * array)


def test_transforms_of_both_sides_nest():
    array = jnp.array([1.0, 2.0, 3.0], jnp.float32)
    for f in (
        lambda x: torch.func.grad(lambda y: (y.detach() * y * y).sum())(x).sum(),
        lambda x: jax.grad(lambda y: (y.detach() * y * y).sum())(x).sum(),
        lambda x: jax.jit(lambda y: y.detach() * y)(x).sum() * 2,
    ):
        agree(jax.grad(f)(point()), 2 * array)
        agree(jax.grad(torch.to_jax(f))(array), 2 * array)
    assert torch.func.vmap(jax.jit(energy))(torch.ones(2, 3)).shape == (2,)
    assert jax.vmap(torch.func.vmap(energy))(torch.ones(2, 2, 3)).shape == (2, 2)


def test_random_numbers_are_not_frozen():
    for f in (lambda x: x + torch.rand(3), lambda x: torch.nn.functional.dropout(x)):
        with pytest.raises(RuntimeError, match="would give the same numbers each time"):
            jax.jit(f)(point())
        with pytest.raises(RuntimeError, match="would give the same numbers each time"):
            torch.to_jax(f)(jnp.ones(3, jnp.float32))
    assert jax.grad(lambda x: (x * torch.rand(3)).sum())(point()).shape == (3,)


# --- trees ----------------------------------------------------------------------------------------


def test_parameters_are_trees_from_the_start():
    code = "import jax, torchgrad_jax as t; assert len(jax.tree.leaves(t.nn.Linear(2, 2).weight)) == 1;"
    code += "assert 'Parameter' in str(jax.tree.structure(t.nn.Linear(2, 2).weight))"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_subclasses_are_trees():
    class Marked(torch.Tensor):
        pass

    x = point().as_subclass(Marked)
    assert type(jax.tree.map(lambda a: a + 1, x)) is Marked
    assert type(jax.jit(lambda x: x.clone())(x)) is Marked


def test_a_step_in_the_manner_of_optax():
    """State trees of tensors, mapped and updated as optimizer libraries for JAX do it."""
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2)
    params = dict(net.named_parameters())
    trace = jax.tree.map(jnp.zeros_like, params)
    x, y = torch.randn(4, 3), torch.randn(4, 2)

    def loss(params, x, y):
        return torch.nn.functional.mse_loss(torch.func.functional_call(net, params, (x,)), y)

    @jax.jit
    def step(params, trace, x, y):
        value, g = jax.value_and_grad(loss)(params, x, y)
        trace = jax.tree.map(lambda m, g: 0.9 * m + g, trace, g)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, trace), trace, value

    got = []
    for _ in range(3):
        params, trace, value = step(params, trace, x, y)
        got.append(value)
    assert isinstance(params["weight"], torch.nn.Parameter)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    want = []
    for _ in range(3):
        opt.zero_grad()
        value = torch.nn.functional.mse_loss(net(x), y)
        value.backward()
        opt.step()
        want.append(value)
    agree(got, want)
    agree(params["weight"].detach(), net.weight.detach())


def test_constants_survive_donation():
    jax.jit(lambda x: x * 2, donate_argnums=0)(torch.ones(3))
    assert torch.ones(3).tolist() == [1.0] * 3


def test_modules_with_buffers():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    x = jax.random.normal(jax.random.key(0), (4, 3), jnp.float32)
    f = torch.to_jax(net)
    assert set(f.params) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    g = jax.jit(jax.grad(lambda p: (f(p, x) ** 3).sum()))(f.params)
    assert net[1].num_batches_tracked.item() == 0
    _, held = jax.jit(torch.to_jax(net, buffers=True))({**f.params, **f.buffers}, x)
    (net(torch.tensor(x)) ** 3).sum().backward()
    for name, p in net.named_parameters():
        np.testing.assert_allclose(g[name], p.grad.numpy(), rtol=1e-3, atol=1e-4)
    agree(held["1.running_mean"], net[1].running_mean)
    assert int(held["1.num_batches_tracked"]) == 1


def summed(t):
    return (t * t).sum()


BOUNDARIES = {
    "jit": jax.jit(summed),
    "grad": jax.grad(summed),
    "value_and_grad": jax.value_and_grad(summed),
    "jacfwd": jax.jacfwd(summed),
    "jacrev": jax.jacrev(summed),
    "hessian": jax.hessian(summed),
    "vmap": jax.vmap(lambda a: a * 2),
    "linearize": lambda t: jax.linearize(summed, t),
    "grad inside of vmap": lambda t: jax.vmap(lambda a: a * jax.grad(summed)(t))(jnp.ones((3, 2), jnp.float32)),
    "a function with a derivative of its own": jax.nn.relu,
    "another one": jax.nn.relu6,
    "jnp": jnp.sin,
}


@pytest.mark.parametrize("name", BOUNDARIES)
def test_a_tensor_with_a_graph_is_refused_by_functions_of_jax(name):
    """What they return would have no graph, and nobody would notice."""
    h = torch.tensor([1.0, 2.0], requires_grad=True) * 2
    with pytest.raises(RuntimeError, match=r"from_jax\(function\)\(tensor\)"):
        BOUNDARIES[name](h)
    assert BOUNDARIES[name](h.detach()) is not None
