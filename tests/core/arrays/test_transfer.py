"""Arrays on their way from NumPy to JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as tg
from torchgrad_jax._core.arrays import transfer
from torchgrad_jax._core.jax.running_transforms import current_trace


def test_the_class_of_traces_when_nothing_is_traced_is_the_same_wherever_it_is_asked_first():
    transfer._evaluation.cache_clear()

    def inner(x):
        transfer._evaluation()
        return x * 2

    jax.jit(jax.grad(inner))(1.0)
    assert current_trace().__class__ is transfer._evaluation()

    transfer._evaluation.cache_clear()
    tg.func.vmap(tg.func.grad(lambda x: (transfer._evaluation(), x.sin())[1]))(tg.ones(3))
    assert current_trace().__class__ is transfer._evaluation()


@pytest.mark.parametrize("dtype", [tg.float32, tg.float64, tg.int64, tg.bool, tg.complex64])
def test_a_small_tensor_becomes_the_array_that_jax_would_make(dtype):
    t = tg.ones(2, 3).to(dtype)
    ours, of_jax = jnp.asarray(t), jnp.asarray(t.numpy())
    assert (ours.aval, ours.sharding) == (of_jax.aval, of_jax.sharding)
    assert ours.committed is of_jax.committed is False
    np.testing.assert_array_equal(ours, of_jax)


def test_a_later_write_to_the_tensor_leaves_the_array_of_jax_alone():
    t = tg.ones(4)
    array, memory = jnp.asarray(t), t.numpy()
    t.add_(1)
    memory[0] = 7.0
    assert [array.tolist(), t.tolist()] == [[1.0] * 4, [7.0, 2.0, 2.0, 2.0]]


def test_what_is_set_around_it_decides_what_jax_makes_of_a_tensor():
    t = tg.ones(4, dtype=tg.float64)
    for on, found in ((False, jnp.float32), (True, jnp.float64)):
        with jax.enable_x64(on):
            assert jnp.asarray(t).dtype == found
    mesh = jax.make_mesh((1,), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        assert jnp.asarray(t).aval == jnp.asarray(t.numpy()).aval
    assert isinstance(jax.jit(lambda: jnp.asarray(t) + 1)(), jax.Array)
