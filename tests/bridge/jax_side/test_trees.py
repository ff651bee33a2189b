"""Tensors and parameters in JAX's trees: they match one another, and add nothing to the paths of leaves."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch

OPTIMIZERS = [
    "sgd",
    "adam",
    "adamw",
    "lion",
    "lamb",
    "rmsprop",
    "yogi",
    "sm3",
    "adabelief",
    "adagrad",
    "amsgrad",
    "nadam",
    "radam",
    "lars",
    "rprop",
    "adadelta",
    "adamax",
    "adafactor",
]


def trees():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2)
    net(torch.ones(4, 3)).square().sum().backward()
    params = dict(net.named_parameters())
    return params, {name: p.grad for name, p in params.items()}


def test_parameters_and_plain_tensors_match():
    params, grads = trees()
    new = jax.tree.map(lambda p, g: p - g, params, grads)
    assert all(type(p) is torch.nn.Parameter and p.requires_grad for p in new.values())
    back = jax.tree.map(lambda g, p: g + p, grads, params)
    assert all(type(g) is torch.Tensor and not g.requires_grad for g in back.values())
    arrays = jax.tree.map(lambda g, a: g + a, grads, {k: g.numpy() for k, g in grads.items()})
    np.testing.assert_array_equal(arrays["bias"].numpy(), 2 * grads["bias"].numpy())


def test_what_does_not_match_is_refused_still():
    params, grads = trees()
    with pytest.raises(ValueError, match="key"):
        jax.tree.map(lambda p, g: p, params, {"bias": grads["bias"]})
    with pytest.raises(ValueError, match="structure"):
        jax.tree.map(lambda p, g: p, [params["bias"], params["bias"]], (grads["bias"],))


def test_a_tensor_adds_nothing_to_key_paths():
    params, _ = trees()
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path({"a": [params]})]
    assert paths == ["['a'][0]['bias']", "['a'][0]['weight']"]
    named = jax.tree_util.tree_map_with_path(lambda path, a: a * len(path), params)
    assert type(named["bias"]) is torch.nn.Parameter
    assert jax.tree.leaves_with_path(torch.ones(2))[0][0] == ()


def test_tensors_that_a_mapped_function_returns():
    params, _ = trees()
    new = jax.tree.map(lambda a: torch.tensor(np.asarray(a)), params)
    assert type(new["weight"]) is torch.nn.Parameter
    assert all(isinstance(a, jax.Array) for a in jax.tree.leaves(new))
    (new["weight"] * 2).sum().backward()
    assert new["weight"].grad.tolist() == [[2.0] * 3] * 2
    own = torch.ones(2, requires_grad=True)
    assert jax.tree.map(lambda _: own, torch.zeros(2)) is own


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_of_optax_take_gradients_beside_parameters(name):
    optax = pytest.importorskip("optax", reason="needs the ecosystem extra")
    params, grads = trees()
    with jax.numpy_dtype_promotion("standard"):  # optax counts its steps in int32
        got, want = [
            _steps(getattr(optax, name)(0.1), optax, p, g)
            for p, g in [(params, grads), (_arrays(params), _arrays(grads))]
        ]
    assert all(type(p) is torch.nn.Parameter for p in got.values())
    for key, p in got.items():
        np.testing.assert_allclose(p.detach().numpy(), want[key], rtol=1e-6)


def _arrays(tree):
    return dict(zip(tree, [t.detach().__jax_array__() for t in tree.values()]))


def _steps(optimizer, optax, params, grads):
    state = optimizer.init(params)
    for _ in range(2):
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    return params


def test_orbax_saves_a_state_dict_as_arrays(tmp_path):
    ocp = pytest.importorskip("orbax.checkpoint", reason="needs the ecosystem extra")
    state = dict(torch.nn.Linear(3, 2).state_dict())
    with ocp.StandardCheckpointer() as saver:
        saver.save(tmp_path / "a", state)
        saver.wait_until_finished()
        found, as_before = saver.restore(tmp_path / "a"), saver.restore(tmp_path / "a", state)
    for name, t in state.items():
        np.testing.assert_array_equal(found[name], t.numpy())
        assert isinstance(as_before[name], torch.Tensor)
        assert torch.equal(as_before[name], t)


INDICES = {
    "scalar": (1,),
    "rows": ([0, 2],),
    "mask": ([True, False, True],),
    "two": ([0, 1], [2, 3]),
    "beside": (slice(None), 2),
}


@pytest.mark.parametrize("name", INDICES)
def test_an_index_of_tensors_is_refused_with_the_way_to_write_it(name):
    """JAX asks nobody whether something is an index, so it takes tensors only as arrays."""
    a = jnp.arange(12.0).reshape(3, 4)
    parts = INDICES[name]
    ours = tuple(i if isinstance(i, slice) else torch.tensor(i) for i in parts)
    theirs = tuple(i if isinstance(i, slice) else np.array(i) for i in parts)
    for use in (
        lambda i: a[i],
        lambda i: a.at[i].set(5.0),
        jax.jit(lambda i: a[i]) if name == "rows" else lambda i: a[i],
    ):
        with pytest.raises(IndexError, match=r"write array\[jnp.asarray\(index\)\]"):
            use(ours[0] if len(ours) == 1 else ours)
    as_arrays = tuple(i if isinstance(i, slice) else jnp.asarray(i) for i in ours)
    assert jnp.array_equal(a[as_arrays], a[theirs])
    assert torch.equal(torch.as_tensor(a)[ours], torch.as_tensor(a[theirs]))


def test_jax_is_taught_about_trees_when_it_first_takes_a_tensor_apart():
    code = """
import jax
first = jax.tree_util.PyTreeDef.flatten_up_to
import torchgrad_jax as torch
torch.ones(2, requires_grad=True).sum().backward()
{use}
print(jax.tree_util.PyTreeDef.flatten_up_to is first)
"""
    uses = {
        "torch.to_jax(torch.sin)(jax.numpy.ones(2))": "True",
        "jax.tree.map(lambda a: a, torch.ones(2))": "False",
        "jax.tree.flatten(torch.nn.ReLU())": "False",
    }
    for use, want in uses.items():
        run = subprocess.run([sys.executable, "-c", code.format(use=use)], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == want, use
