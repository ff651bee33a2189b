"""Tensor code beside libraries for JAX: optax, flax (linen and nnx), equinox, orbax, and kernels of pallas.

They come with the extra `ecosystem`; without it these tests are skipped.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn

optax = pytest.importorskip("optax", reason="needs the ecosystem extra")
linen = pytest.importorskip("flax.linen", reason="needs the ecosystem extra")
nnx = pytest.importorskip("flax.nnx", reason="needs the ecosystem extra")
eqx = pytest.importorskip("equinox", reason="needs the ecosystem extra")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of these libraries
X = np.arange(12, dtype=np.float32).reshape(4, 3) / 10


@pytest.fixture(autouse=True)
def _promotion_as_these_libraries_want_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def of_linen():
    module = linen.Dense(2)
    return module.init(jax.random.key(0), jnp.asarray(X)), module.apply


def of_nnx():
    graph, state = nnx.split(nnx.Linear(3, 2, rngs=nnx.Rngs(0)))
    return state, lambda state, x: nnx.merge(graph, state)(x)


def of_equinox():
    params, static = eqx.partition(eqx.nn.Linear(3, 2, key=jax.random.key(0)), eqx.is_array)
    return params, lambda params, x: jax.vmap(eqx.combine(params, static))(x)


@pytest.mark.parametrize("make", [of_linen, of_nnx, of_equinox], ids=lambda f: f.__name__)
def test_their_modules_in_tensor_code(make):
    """Gradients reach their parameters and what is given to them, as with `jax.grad`."""
    params, f = make()
    want = jax.grad(lambda p, x: (f(p, x) ** 2).sum(), argnums=(0, 1))(params, jnp.asarray(X))
    tensors = jax.tree.map(lambda a: torch.as_tensor(a).requires_grad_(), params)
    x = torch.tensor(X, requires_grad=True)
    (torch.from_jax(f)(tensors, x) ** 2).sum().backward()
    leaves = jax.tree.leaves(tensors, is_leaf=lambda t: isinstance(t, torch.Tensor))
    for found, g in zip([*leaves, x], jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(found.grad), g, rtol=1e-5)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_training_step_through_their_module(compiled):
    params, f = of_linen()
    tensors = jax.tree.map(lambda a: nn.Parameter(torch.as_tensor(a)), params)
    leaves = jax.tree.leaves(tensors, is_leaf=lambda t: isinstance(t, torch.Tensor))
    optimizer = torch.optim.SGD(leaves, lr=0.1)
    module = torch.from_jax(f)
    x = torch.tensor(X)

    def step():
        optimizer.zero_grad()
        loss = (module(tensors, x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(step) if compiled else step
    losses = [run().item() for _ in range(5)]

    value = jax.value_and_grad(lambda p: (f(p, X) ** 2).mean())
    want = []
    for _ in range(5):
        loss, g = value(params)
        want.append(float(loss))
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, g)
    np.testing.assert_allclose(losses, want, rtol=1e-5)


def in_linen(pure):
    class Whole(linen.Module):
        @linen.compact
        def __call__(self, x):
            params = {k: self.param(k, lambda _, v=v: v) for k, v in pure.params.items()}
            return pure(params, x)

    module = Whole()
    return module.init(jax.random.key(0), X)["params"], lambda p, x: module.apply({"params": p}, x)


def in_nnx(pure):
    class Whole(nnx.Module):
        def __init__(self):
            self.kept = nnx.data({k: nnx.Param(v) for k, v in pure.params.items()})

        def __call__(self, x):
            return pure({k: v.get_value() for k, v in self.kept.items()}, x)

    graph, state = nnx.split(Whole())
    return state, lambda state, x: nnx.merge(graph, state)(x)


def in_equinox(pure):
    class Whole(eqx.Module):
        params: dict

        def __call__(self, x):
            return pure(self.params, x)

    return Whole(pure.params), lambda module, x: module(x)


@pytest.mark.parametrize("put", [in_linen, in_nnx, in_equinox], ids=lambda f: f.__name__)
def test_a_module_in_theirs(put):
    torch.manual_seed(0)
    net = nn.Linear(3, 2)
    params, f = put(torch.to_jax(net))
    found = jax.jit(jax.grad(lambda p: (f(p, X) ** 2).sum()))(params)
    net(torch.tensor(X)).pow(2).sum().backward()
    want = {tuple(p.shape): p.grad for p in net.parameters()}
    for g in jax.tree.leaves(found):
        np.testing.assert_allclose(g, np.asarray(want[g.shape]), rtol=1e-5)


def test_filtered_transforms_of_equinox_take_modules():
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))  # one of its buffers is an integer
    x = torch.tensor(X)

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(net, x):
        return net(x).pow(2).mean()

    value, g = loss(net, x)
    again = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    again.load_state_dict(net.state_dict())
    want = again(x).pow(2).mean()
    want.backward()
    torch.testing.assert_close(value.detach(), want.detach())
    torch.testing.assert_close(g[1].weight.detach(), again[1].weight.grad)


def test_optax_trains_a_module():
    torch.manual_seed(0)
    net, twin = nn.Linear(3, 1), nn.Linear(3, 1)
    twin.load_state_dict(net.state_dict())
    x, optimizer = torch.tensor(X), optax.adam(0.1)
    state = optimizer.init(net)

    @jax.jit
    def step(net, state):
        value, g = jax.value_and_grad(lambda net: net(x).pow(2).mean())(net)
        updates, state = optimizer.update(g, state, net)
        return optax.apply_updates(net, updates), state, value

    ours = torch.optim.Adam(twin.parameters(), lr=0.1)
    for _ in range(5):
        net, state, value = step(net, state)
        ours.zero_grad()
        loss = twin(x).pow(2).mean()
        loss.backward()
        ours.step()
        torch.testing.assert_close(value.detach(), loss.detach(), rtol=1e-4, atol=1e-6)


def _is_matrix(params):
    return jax.tree.map(lambda a: a.ndim > 1, params)


def _labels(params):
    return jax.tree.map(lambda a: "first" if a.ndim > 1 else "second", params)


OPTIMIZERS = {
    "masked": lambda: optax.masked(optax.adam(0.1), _is_matrix),
    "multi-transform": lambda: optax.multi_transform(
        {"first": optax.adam(0.1), "second": optax.sgd(0.1, 0.9)}, _labels
    ),
    "multi-steps": lambda: optax.MultiSteps(optax.adam(0.1), 2),
    "muon": lambda: optax.contrib.muon(0.1),
    "chain": lambda: optax.chain(optax.clip_by_global_norm(0.1), optax.adamw(0.1)),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_over_parts_of_a_tree(name, compiled):
    """Parameters with `.grad` tensors beside, and modules, take the steps that arrays take."""
    torch.manual_seed(0)
    net = nn.Linear(3, 2)
    net(torch.tensor(X)).square().mean().backward()
    parameters = dict(net.named_parameters())
    arrays = {k: jnp.asarray(p.detach()) for k, p in parameters.items()}
    slopes = {k: jnp.asarray(p.grad) for k, p in parameters.items()}
    module_slopes = jax.grad(lambda net: net(torch.tensor(X)).square().mean())(net)

    def trained(params, slopes):
        optimizer = OPTIMIZERS[name]()
        update = jax.jit(optimizer.update) if compiled else optimizer.update
        state = optimizer.init(params)
        for _ in range(3):
            updates, state = update(slopes, state, params)
            params = optax.apply_updates(params, updates)
        return params

    want = trained(arrays, slopes)
    grads = {k: p.grad for k, p in parameters.items()}
    if name == "multi-steps":  # calls `lax.cond`, which keeps no graph, and whose branches have to give equal classes
        with pytest.raises(TypeError if compiled else RuntimeError, match=r"Parameter'> but|no_grad"):
            trained(parameters, grads)
        grads = jax.tree.map(lambda _, g: g, parameters, grads)
    with torch.set_grad_enabled(name != "multi-steps"):
        of_parameters = trained(parameters, grads)
        of_module = dict(trained(net, module_slopes).named_parameters())
    for k in want:
        np.testing.assert_allclose(np.asarray(of_parameters[k].detach()), want[k], rtol=1e-4)
        np.testing.assert_allclose(np.asarray(of_module[k].detach()), want[k], rtol=1e-4)


def test_orbax_restores_on_another_mesh(tmp_path):
    ocp = pytest.importorskip("orbax.checkpoint")
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    net = nn.Linear(4, 2)
    saver = ocp.StandardCheckpointer()
    saver.save(tmp_path / "net", net.state_dict())
    saver.wait_until_finished()
    where = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("rows",)), PartitionSpec())
    with torch.device("meta"):
        empty = nn.Linear(4, 2)
    like = {k: jax.ShapeDtypeStruct(v.shape, jnp.float32, sharding=where) for k, v in empty.state_dict().items()}
    found = saver.restore(tmp_path / "net", like)
    empty.load_state_dict({k: torch.as_tensor(v) for k, v in found.items()}, assign=True)
    assert empty.weight.sharding == where
    torch.testing.assert_close(empty.weight, net.weight)


@jax.custom_vjp
def doubled(x):
    from jax.experimental import pallas as pl

    def kernel(x_ref, out_ref):
        out_ref[...] = x_ref[...] * 2

    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(kernel, out_shape=shape, interpret=True)(x)


doubled.defvjp(lambda x: (doubled(x), None), lambda _, g: (g * 2,))


def test_a_pallas_kernel_as_an_operator():
    f = torch.from_jax(doubled)
    x = torch.tensor(X, requires_grad=True)
    f(x).pow(2).sum().backward()
    np.testing.assert_allclose(np.asarray(x.grad), 8 * X, rtol=1e-6)
    per_row = torch.func.vmap(torch.func.grad(lambda row: f(row).sum()))(x.detach())
    assert per_row.tolist() == [[2.0] * 3] * 4
    assert torch.compile(lambda x: f(x).sum())(x).item() == pytest.approx(2 * X.sum())


def test_callbacks_of_jax():
    sine = torch.from_jax(lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    x = torch.tensor(X)
    for f in (sine, torch.compile(sine)):
        torch.testing.assert_close(f(x), x.sin())


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_debug_print(compiled, capfd):
    def f(x):
        jax.debug.print("sum {}", x.sum())
        return x * 2

    (torch.compile(f) if compiled else f)(torch.ones(2))
    jax.effects_barrier()
    assert "sum" in capfd.readouterr().out


def test_a_tensor_as_data_of_an_nnx_module():
    class Scaled(nnx.Module):
        def __init__(self):
            self.scale, self.factor = (nnx.data(torch.tensor([2.0, 3.0])), nnx.Param(jnp.ones(2, "float32")))

        def __call__(self, x):
            return self.factor[...] * jnp.asarray(self.scale) * x

    m, x = Scaled(), jnp.ones(2, "float32")
    again = nnx.merge(*nnx.split(m))
    assert isinstance(again.scale, torch.Tensor)
    for module in (m, again):
        assert nnx.jit(lambda m, x: m(x))(module, x).tolist() == [2.0, 3.0]
        assert nnx.grad(lambda m: m(x).sum())(module)["factor"][...].tolist() == [2.0, 3.0]
