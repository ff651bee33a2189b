"""Arrays and keys of JAX that compiled functions take and return: inputs and results of one program."""

from collections import namedtuple
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch

X = torch.tensor([1.0, 2.0, 3.0])
Pair = namedtuple("Pair", ["key", "scale"])


def _array(i, dtype: Any = jnp.float32) -> Any:
    return jnp.arange(3, dtype=dtype) + i


def _draw(key):
    return torch.tensor(jax.random.normal(key, (3,), jnp.float32))


FORMS = {
    "plain": lambda x, a, k: (x * a, a + 1, jax.random.split(k)),
    "key-handed-back": lambda x, a, k: (k, x + _draw(k)),
    "in-a-dict": lambda x, a, k: {"a": jnp.cumsum(a), "k": {"next": jax.random.fold_in(k, 1)}},
    "twice": lambda x, a, k: (y := a * 2, y, x),
    "named": lambda x, a, k: Pair(jax.random.split(k, 3)[2], x.sum()),
    "integers": lambda x, a, k: (x[jnp.argmax(a)], jnp.argsort(a), a > 1),
    "new": lambda x, a, k: (x + 1, jnp.ones(3) * 2.0 + a, {"n": jnp.arange(3), "k": jax.random.fold_in(k, 1)}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_call_reads_its_own_arrays(form):
    """Two calls with other values run one program, and give what the eager function gives."""
    f = FORMS[form]
    compiled = torch.compile(f)
    for i in range(2):
        given = X, _array(i), jax.random.key(i)
        _same(compiled(*given), f(*given))
    assert compiled.counts == {"traced": 1, "run": 2, "eager": 0}
    given = X, _array(1, jnp.float16), jax.random.key(1, impl="rbg")
    _same(compiled(*given), f(*given))
    assert compiled.counts["traced"] == 2


def _same(got, want):
    leaves, spec = jax.tree.flatten(got)
    expected, wanted_spec = jax.tree.flatten(want)
    assert spec == wanted_spec
    for a, b in zip(leaves, expected):
        assert type(a) is type(b)
        assert a.dtype == b.dtype
        if jnp.issubdtype(b.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)


def test_gradients_go_through_the_tensors():
    @torch.compile
    def f(w, a):
        return (w * a).sum(), a.sum()

    w = X.clone().requires_grad_()
    for i in range(2):
        y, total = f(w, _array(i))
        assert torch.autograd.grad(y, w)[0].tolist() == _array(i).tolist()
        assert total == 3 + 3 * i
    assert f.counts["traced"] == 1


def test_arrays_in_containers_stay_there():
    """A list that holds an array is the same list afterwards, with the same array."""

    @torch.compile
    def f(x, held):
        return x * held["arrays"][0] + held["more"].key

    one, two = _array(0), _array(5)
    arrays = [one]
    for a in (one, two):
        arrays[0] = a
        assert f(X, {"arrays": arrays, "more": Pair(a, 2)}).tolist() == (X * a + a).tolist()
        assert arrays[0] is a
    assert f.counts == {"traced": 1, "run": 2, "eager": 0}


def test_a_container_that_cannot_be_filled_anew():
    """The arrays of such a list are constants of a program, one for each."""

    class Arrays(list):
        pass

    f = torch.compile(lambda x, arrays: x * arrays[0])
    for i in range(2):
        assert f(X, Arrays([_array(i)])).tolist() == (X * _array(i)).tolist()


def test_a_shape_decides_and_a_value_does_not():
    f = torch.compile(lambda x, a: x if a.shape[0] > 3 else x * a)
    assert f(X, _array(1)).tolist() == [1.0, 4.0, 9.0]
    with pytest.raises(jax.errors.TracerBoolConversionError):
        torch.compile(lambda x, a: x if a.sum() > 3 else x * a)(X, _array(1))
    assert f(X, _array(2)).tolist() == [2.0, 6.0, 12.0]


@pytest.mark.parametrize("argument", [lambda i: jax.random.key(i), float], ids=["key", "number"])
def test_a_call_that_fails_makes_no_constants(argument):
    """After an error of the function's own, keys and numbers are inputs of its program as before."""
    f = torch.compile(lambda x, given: (x @ torch.ones(3, 2), given))
    f(torch.ones(1, 3), argument(0))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        f(torch.ones(1, 4), argument(0))
    for i in range(1, 4):
        f(torch.ones(1, 3), argument(i))
    assert f.counts == {"traced": 1, "run": 4, "eager": 0}


def test_an_array_kept_outside_is_no_tracer():
    """A function that keeps a computed array runs eagerly, and says so; nothing of its trace is left."""

    class Noise:
        def __init__(self):
            self.key = jax.random.key(0)
            self.drawn = []

        def __call__(self, x):
            self.key, own = jax.random.split(self.key)
            self.drawn.append(jax.random.normal(own, (3,), jnp.float32))
            return x + torch.tensor(self.drawn[-1])

    noise, plain = Noise(), Noise()
    step = torch.compile(lambda x: noise(x))
    with pytest.warns(UserWarning, match="keeps an array of JAX outside"):
        _same(step(X), plain(X))
    _same(step(X), plain(X))
    _same([noise.key, *noise.drawn], [plain.key, *plain.drawn])


def test_many_steps_take_a_row_of_each_array():
    def f(x, a, key):
        return x * a + _draw(key), a.sum(), jax.random.fold_in(key, 7)

    rows, keys = (jnp.arange(12.0, dtype=jnp.float32).reshape(4, 3), jax.random.split(jax.random.key(0), 4))
    got = torch.compile(f).many(X.expand(4, 3), rows, keys)
    each = [f(X, a, k) for a, k in zip(rows, keys)]
    _same(got, (torch.stack([r[0] for r in each]), *(jnp.stack(x) for x in list(zip(*each))[1:])))
    with pytest.raises(ValueError, match="a row for each step"):
        torch.compile(f).many(X.expand(4, 3), rows[:2], keys)
