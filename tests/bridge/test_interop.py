"""JAX functions as operators, tensor code as JAX functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch


def same(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)


def test_a_jax_function_is_an_operator():
    f = torch.from_jax(lambda x, k=1: {"a": jnp.logaddexp(x * k, 0.0), "b": (x**2).sum()})
    x = torch.arange(3.0).requires_grad_()
    out = f(x, k=2)
    (out["a"].sum() + out["b"]).backward()
    same(x.grad, 2 * jax.nn.sigmoid(2 * jnp.arange(3.0)) + 2 * jnp.arange(3.0))
    assert f(x, k=1)["a"].tolist() != out["a"].tolist()


def test_gradients_of_gradients_and_forward_mode():
    f = torch.from_jax(jnp.sin)
    x = torch.arange(3.0).requires_grad_()
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    same(h, -np.sin(np.arange(3.0)))
    _, slope = torch.func.jvp(f, (x.detach(),), (torch.ones(3),))
    same(slope, np.cos(np.arange(3.0)))


def test_custom_rules_are_kept():
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * 100.0,))
    x = torch.zeros(2).requires_grad_()
    torch.from_jax(f)(x).sum().backward()
    assert x.grad.tolist() == [100.0, 100.0]


def test_arrays_and_tensors_mix():
    f = torch.from_jax(lambda x, y: x + y)
    assert f(torch.ones(2), jnp.ones(2, jnp.float32)).tolist() == [2.0, 2.0]
    assert f(torch.ones(2), np.ones(2, np.float32)).dtype is torch.float32


def test_tensor_code_is_a_jax_function():
    f = torch.to_jax(lambda x, w: ((x.detach() * w) + (x @ w)).sum())
    a = jnp.arange(3.0, dtype=jnp.float32)
    same(jax.grad(f)(a, a), 3 * a)  # only through x @ w
    same(jax.jit(f)(a, a), 5 + 3 * 5)
    same(jax.vmap(f, (0, None))(jnp.ones((2, 3), jnp.float32), a), [12.0, 12.0])
    cube = torch.to_jax(lambda x: (x**3).sum())
    same(jax.hessian(cube)(a), np.diag(6 * np.arange(3.0)))


def test_trees_go_through():
    f = torch.to_jax(lambda p, x: {"y": x @ p["w"] + p["b"]})
    p = {"w": jnp.eye(2, dtype=jnp.float32), "b": jnp.ones(2, jnp.float32)}
    same(f(p, jnp.ones(2, jnp.float32))["y"], [2.0, 2.0])
    g = jax.grad(lambda p: f(p, jnp.ones(2, jnp.float32))["y"].sum())(p)
    same(g["b"], [1.0, 1.0])


def test_tensors_are_pytrees():
    x = torch.arange(3.0)
    out = jax.jit(lambda t: {"y": (t * t).sum()})({"a": x}["a"])
    assert isinstance(out["y"], torch.Tensor)
    assert out["y"].item() == 5.0
    assert jax.vmap(lambda t: t * 2)(x).tolist() == [0.0, 2.0, 4.0]
    assert jax.tree.map(lambda a: a + 1, [x])[0].tolist() == [1.0, 2.0, 3.0]
    assert jax.tree.leaves(x)[0] is x.__jax_array__()
    p = jax.tree.map(lambda a: a, torch.nn.Parameter(x))
    assert isinstance(p, torch.nn.Parameter)
    assert p.requires_grad


def test_the_jaxpr_of_a_graph():
    x = torch.ones(2, requires_grad=True)
    text = str(torch.autograd.graph.to_jaxpr((x.sin() * 2).sum()))
    assert "cos" in text
    x.register_hook(lambda g: g)
    with pytest.raises(RuntimeError, match="not one JAX function"):
        torch.autograd.graph.to_jaxpr(x.sin().sum())
    with pytest.raises(RuntimeError, match="no graph"):
        torch.autograd.graph.to_jaxpr(torch.ones(2))


def test_export(tmp_path):
    pytest.importorskip("flatbuffers")
    w = torch.ones(2)

    def step(x):
        w.add_(x)
        return w * 2, x.sum()

    exported = torch.interop.export(step, torch.ones(2))
    assert exported(torch.ones(2))[0].tolist() == [4.0, 4.0]
    assert exported(torch.ones(2))[0].tolist() == [6.0, 6.0]
    assert w.tolist() == [1.0, 1.0]
    assert "stablehlo" in exported.mlir
    exported.save(tmp_path / "step.zip")
    again = torch.interop.load_exported(tmp_path / "step.zip")
    assert again(torch.ones(2))[0].tolist() == [8.0, 8.0]
    with pytest.raises(RuntimeError, match="exported for arguments of shapes"):
        again(torch.ones(3))


def test_what_cannot_be_exported():
    with pytest.raises(RuntimeError, match="random draws"):
        torch.interop.export(lambda x: x + torch.rand(2), torch.ones(2))
    with pytest.raises(RuntimeError, match="writes to its arguments"):
        torch.interop.export(lambda x: x.add_(1), torch.ones(2))
