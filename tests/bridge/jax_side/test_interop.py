"""JAX functions as operators, tensor code as JAX functions."""

import json
import re
import zipfile
from typing import Any

import jax
import jax.export
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


def _called_back(a):
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(a.shape, a.dtype), a, vmap_method="sequential")


def _doubled_until_large(a):
    return jax.lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2, a)


@pytest.mark.parametrize("f", [_called_back, _doubled_until_large])
def test_a_missing_derivative_is_missed_where_it_is_asked_for(f):
    expected = np.asarray(f(jnp.ones(3)))
    operator = torch.from_jax(f)
    out = operator(torch.ones(3, requires_grad=True))
    assert out.requires_grad
    np.testing.assert_allclose(out.detach(), expected, rtol=1e-6)
    over_arrays = torch.to_jax(lambda x: operator(x) + 1)
    for run in (over_arrays, jax.jit(over_arrays)):
        np.testing.assert_allclose(run(jnp.ones(3)), expected + 1, rtol=1e-6)
    x = torch.ones(2, 3, requires_grad=True)
    np.testing.assert_allclose(torch.func.vmap(operator)(x).detach(), [expected] * 2, rtol=1e-6)
    (x * 3 + out.detach()).sum().backward()
    assert x.grad.tolist() == [[3.0] * 3] * 2
    with pytest.raises(ValueError, match=r"do(es)? not (support JVP|work for lax\.while_loop)"):
        out.sum().backward()


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
    with pytest.raises(RuntimeError, match="draws random numbers"):
        torch.interop.export(lambda x: x + torch.rand(2), torch.ones(2))
    with pytest.raises(RuntimeError, match="writes to its arguments"):
        torch.interop.export(lambda x: x.add_(1), torch.ones(2))


# --- exported files that mean harm ----------------------------------------------------------------


def _calling(target):
    """A program with a custom call, which JAX itself would export only if told to."""
    call = jax.ffi.ffi_call(target, jax.ShapeDtypeStruct((2,), jnp.float32))
    allowed = [jax.export.DisabledSafetyCheck.custom_call(target)]
    f = jax.jit(lambda state, arrays: [call(arrays[0]) + 1])
    return jax.export.export(f, disabled_checks=allowed)([], [jnp.ones(2, jnp.float32)])


def _written(path, source=None, **members):
    """A file with some of its members replaced."""
    facts = {"shapes": [[2]], "writes": [], "results": 1, "single": True, "state": 0}
    contents = {"told.json": json.dumps(facts), "dtypes.json": "[]"}
    if source is not None:
        with zipfile.ZipFile(source) as old:
            contents = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, data in {**contents, **members}.items():
            file.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "target",
    [
        "xla_ffi_python_cpu_callback",
        "xla_python_cpu_callback",
        "xla_ffi_partitioned_python_cpu_callback",
        "evil",
        "tf.call_tf_function",
        "tpu_custom_call",
        "mosaic_gpu_v2",
        "__gpu$xla.gpu.triton",
        "lapack_evil_ffi",
        "Sharding2",
    ],
)
def test_programs_that_call_unknown_code_are_refused_by_name(target, tmp_path):
    pytest.importorskip("flatbuffers")
    program = bytes(_calling(target).serialize())
    path = _written(tmp_path / "f", program=program)
    with pytest.raises(RuntimeError, match=f"the custom call '{re.escape(target)}'"):
        torch.interop.load_exported(path)


def test_calls_inside_of_loops_and_derivatives_are_seen(tmp_path):
    pytest.importorskip("flatbuffers")
    call = jax.ffi.ffi_call("evil", jax.ShapeDtypeStruct((2,), jnp.float32))
    allowed = [jax.export.DisabledSafetyCheck.custom_call("evil")]
    loop = jax.jit(lambda s, a: [jax.lax.while_loop(lambda x: x.sum() < 9, call, a[0])])

    @jax.custom_vjp
    def plain(x):
        return x + 1

    plain.defvjp(lambda x: (x + 1, None), lambda _, g: (call(g),))
    for f, order in ((loop, 0), (jax.jit(lambda s, a: [plain(a[0])]), 1)):
        made = jax.export.export(f, disabled_checks=allowed)([], [jnp.ones(2, jnp.float32)])
        path = _written(tmp_path / "f", program=bytes(made.serialize(vjp_order=order)))
        with pytest.raises(RuntimeError, match="the custom call 'evil'"):
            torch.interop.load_exported(path)


def test_programs_of_libraries_and_state_of_every_dtype_are_read(tmp_path):
    pytest.importorskip("flatbuffers")
    for name in ("float32", "bfloat16", "float64", "int64", "bool", "complex64", "float8_e4m3fn"):
        w = torch.ones(2, 3).to(getattr(torch, name))

        def f(x, w=w):
            return w.real.to(x.dtype) + x

        torch.interop.export(f, torch.ones(3)).save(tmp_path / "f")
        again = torch.interop.load_exported(tmp_path / "f")
        assert [a.dtype.name for a in again.state] == [name]
        assert again(torch.ones(3)).tolist() == [[2.0] * 3] * 2
    torch.interop.export(lambda x: torch.linalg.cholesky(x) + torch.linalg.eigvalsh(x), torch.eye(2)).save(
        tmp_path / "f"
    )
    assert torch.interop.load_exported(tmp_path / "f")(torch.eye(2)).tolist() == [[2.0, 1.0], [1.0, 2.0]]


def _npy(shape, dtype: Any = "<f4", data=b"\0" * 8):
    head = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + data


def _told(**changes):
    facts = {"shapes": [[2]], "writes": [[0, 1]], "results": 1, "single": True, "state": 1}
    return {"told.json": json.dumps({**facts, **changes})}


DAMAGED = {
    "huge": {"state/0.npy": _npy((2**40,))},
    "overflow": {"state/0.npy": _npy((2**62, 2**62))},
    "negative": {"state/0.npy": _npy((-2,))},
    "objects": {"state/0.npy": _npy((1,), "|O")},
    "fields": {"state/0.npy": _npy((2,), [("a", "<f4")])},
    "another-dtype": {"state/0.npy": _npy((2,), "<i4")},
    "another-shape": {"state/0.npy": _npy((1,), data=b"\0" * 4)},
    "format": {"state/0.npy": _npy((2,)).replace(b"\1\0", b"\3\0", 1)},
    "no-array": {"state/0.npy": b"abc"},
    "dtype-name": {"dtypes.json": '["object"]'},
    "dtype-nested": {"dtypes.json": "[" * 100_000},
    "dtypes": {"dtypes.json": "[]"},
    "shapes": _told(shapes=[[3]]),
    "shapes-nested": _told(shapes=[[[2]]]),
    "more-shapes": _told(shapes=[[2], [2]]),
    "writes": _told(writes=[[1, 0]]),
    "writes-negative": _told(writes=[[-1, 0]]),
    "writes-beyond": _told(writes=[[0, 9]]),
    "results": _told(results=-1),
    "results-beyond": _told(results=9),
    "single": _told(single="yes"),
    "state": _told(state=10**9),
    "missing": {"told.json": "{}"},
    "no-json": {"told.json": "{"},
    "program": {"program": b"abc"},
    "empty-program": {"program": b""},
}


@pytest.fixture(scope="module")
def with_state(tmp_path_factory):
    pytest.importorskip("flatbuffers")
    path, w = tmp_path_factory.mktemp("exported") / "f", torch.ones(2)

    def step(x):
        w.add_(x)
        return w * 2

    torch.interop.export(step, torch.ones(2)).save(path)
    return path


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_exports_are_refused(name, with_state, tmp_path):
    assert torch.interop.load_exported(with_state)(torch.ones(2)).tolist() == [4.0, 4.0]
    with pytest.raises(RuntimeError):
        torch.interop.load_exported(_written(tmp_path / "f", with_state, **DAMAGED[name]))


def test_damaged_archives_of_exports_are_refused(with_state, tmp_path):
    data = with_state.read_bytes()
    for i, bad in enumerate((b"", data[:100], data[:-5], data + b"x")):
        (tmp_path / str(i)).write_bytes(bad)
        with pytest.raises(RuntimeError, match="load_exported failed reading zip archive"):
            torch.interop.load_exported(tmp_path / str(i))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_an_operator_inside_of_another_has_its_gradient(compiled):
    square = torch.from_jax(lambda x: x * x)
    doubled = torch.from_jax(lambda x: square(x) * 2)
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (torch.compile(doubled) if compiled else doubled)(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 8.0, 12.0]
    assert torch.func.hessian(lambda x: doubled(x).sum())(x.detach()).diagonal().tolist() == [4.0] * 3


def test_params_and_buffers_of_a_module_are_arrays_of_jax():
    """Small parameters are NumPy's inside; these have `at`, and stay what they were when the module is trained."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    f = torch.to_jax(net)
    given = {**f.params, **f.buffers}
    assert {type(array) for array in given.values()} == {type(jnp.ones(1))}
    before = {name: np.array(array) for name, array in given.items()}
    with torch.no_grad():
        for t in (*net.parameters(), *net.buffers()):
            t.add_(1)
    assert all((array == before[name]).all() for name, array in given.items())
    zeroed = {**f.params, "0.weight": f.params["0.weight"].at[:].set(0.0)}
    out = f(zeroed, jnp.ones((3, 2), jnp.float32))
    np.testing.assert_allclose(
        np.asarray(out), np.broadcast_to(np.asarray(net[1].bias.detach()) - 1, (3, 2)), atol=1e-6
    )
