"""Compiled functions and operators made of JAX functions notice when a value that Python code has read changes."""

import copy
import pickle
import re
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch

VALUES = ([1.0, 2.0, 3.0], [2.0, 4.0, 0.0], [1.0, 0.0, 1.0], [1.0, 2.0, 3.0])


def write(w, values):
    w.copy_(torch.tensor(values))


def replace(w, values):
    w.data = torch.tensor(values)


WAYS = pytest.mark.parametrize("change", [write, replace])

TOLD: dict[str, Any] = {
    "an element": lambda w, x: x * w[0].item(),
    "an element of a row": lambda w, x: x * w.view(1, 3)[0, 1].item(),
    "float": lambda w, x: x * float(w[1]),
    "a place": lambda w, x: x[int(w[0])] + x,
    "elements": lambda w, x: x * sum(float(v) for v in w),
    "a part": lambda w, x: x * w.split(1)[0].item(),
    "without a graph": lambda w, x: x * w.detach()[0].item(),
    "a list": lambda w, x: x * w[1:].tolist()[0],
    "an array": lambda w, x: x * float(w.numpy()[0]),
    "text": lambda w, x: x * len(repr(w[0])),
    "a copy": lambda w, x: x * copy.deepcopy(w)[0].item(),
}


@WAYS
@pytest.mark.parametrize("name", TOLD)
def test_compiled_functions(name, change):
    w, x = torch.zeros(3), torch.tensor([5.0, 6.0, 7.0])
    run = torch.compile(lambda x: TOLD[name](w, x))
    for values in VALUES:
        change(w, values)
        assert run(x).tolist() == TOLD[name](w, x).tolist()
    assert run.counts["eager"] == 0


@WAYS
def test_a_pickle_is_made_as_it_is_written(change):
    """Its code in C looks into objects, and nobody sees where."""
    w, x = torch.zeros(3), torch.tensor([5.0, 6.0, 7.0])
    run = torch.compile(lambda x: x * pickle.loads(pickle.dumps(w))[0].item())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for values in VALUES:
            change(w, values)
            assert run(x).tolist() == (x * values[0]).tolist()
    (text,) = [str(w.message) for w in told]
    assert re.search(r"pickle.dumps\(\) was called at .*test_values_looked_at.py", text)
    assert run.counts == {"traced": 0, "run": 0, "eager": len(VALUES)}


OPERATORS: dict[str, Any] = {
    "an element": lambda w: lambda a: a * w[0].item(),
    "a computed one": lambda w: lambda a: a * w.sum().item(),
    "a product": lambda w: lambda a: a * (w * 2).tolist()[1],
    "an array": lambda w: lambda a: a * np.asarray(w.detach()),
    "a branch": lambda w: lambda a: a * 2 if w.sum() > 5 else a * 3,
    "a place": lambda w: lambda a: a * a[int(w[0])],
    "the tensor, too": lambda w: lambda a: a * w * w[1].item(),
    "in a derivative": lambda w: jax.grad(lambda a: jnp.sum(w[0].item() * a**2)),
    "in a batch": lambda w: jax.vmap(lambda a: w[0].item() * a),
    "what is detached": lambda w: lambda a: a * w.detach(),
    "a view": lambda w: lambda a: a * w[1:].sum(),
}


@WAYS
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_jax_functions(name, change):
    w, x = torch.zeros(3), torch.tensor([0.5, 1.0, 1.5])
    operator = torch.from_jax(OPERATORS[name](w))
    for values in VALUES:
        change(w, values)
        assert operator(x).tolist() == torch.from_jax(OPERATORS[name](w))(x).tolist()
        assert operator(x).tolist() == pytest.approx(_by_hand(name, w, x), rel=1e-6)


def _by_hand(name, w, x):
    factors = {
        "an element": w[0],
        "a computed one": w.sum(),
        "a product": 2 * w[1],
        "an array": w,
        "a branch": 2 if w.sum() > 5 else 3,
        "a place": x[int(w[0])],
        "the tensor, too": w * w[1],
        "in a derivative": 2 * w[0],
        "in a batch": w[0],
        "what is detached": w,
        "a view": w[1:].sum(),
    }
    return (x * factors[name]).tolist()


@WAYS
@pytest.mark.parametrize("read", [lambda w: w[0].item(), lambda w: w.detach()[0]])
def test_operators_inside_of_compiled_functions(change, read):
    """A program depends on the values, too, that an operator was told before the program was made."""
    w, x = torch.ones(3), torch.tensor([0.5, 1.0, 1.5])
    operator = torch.from_jax(lambda a: a * read(w))
    operator(x)
    run = torch.compile(lambda x: operator(x))
    for values in VALUES:
        change(w, values)
        assert run(x).tolist() == [v * values[0] for v in x.tolist()]


@pytest.mark.parametrize("traced_once", [jax.jit, jax.checkpoint], ids=["jit", "checkpoint"])
def test_values_that_jax_would_keep_are_refused(traced_once):
    w = torch.ones(3)
    operator = torch.from_jax(traced_once(lambda a: a * w[0].item()))
    with pytest.raises(RuntimeError, match="from_jax: the values of a tensor are needed inside") as told:
        operator(torch.ones(3))
    assert "test_values_looked_at.py" in str(told.value)
