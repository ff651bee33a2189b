"""Who computes a kernel, which its steps say when it is made or first called, and what it keeps."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import torchgrad_jax as tg
from torchgrad_jax._core.jax.caches import KERNELS
from torchgrad_jax._engine.run.kernel import traced_later

LARGE, SOME = np.ones((600, 500), np.float32), np.ones((300, 200), np.float32)
SMALL = np.ones((3, 2), np.float32)
WAYS = {
    "a few elements": (lambda x: x + 1, SMALL, "numpy"),
    "many elements": (lambda x: jnp.tan(x) + 1, LARGE, "xla"),
    "a few steps on many": (lambda x: abs(x) * 2, SOME, "numpy"),
    "another shape": (lambda x: x.reshape(-1), LARGE, "look"),
    "a large convolution": (
        lambda x: lax.conv(x.reshape(1, 60, 50, 20), jnp.ones((64, 60, 3, 3), x.dtype), (1, 1), "SAME"),
        SOME,
        "xla alone",
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_the_steps_say_who_computes(name):
    fn, x, by = WAYS[name]
    kernel = traced_later(fn, tg.device("cpu"))
    got, again = kernel(x), kernel(x)
    assert kernel.by == by
    assert kernel.in_numpy == (by in ("numpy", "look"))
    assert (kernel.joinable is not None) == (by in ("xla", "look"))
    np.testing.assert_array_equal(got, again)
    np.testing.assert_allclose(got, jax.jit(fn)(x), rtol=1e-4)
    np.testing.assert_array_equal(jax.jit(kernel)(x), jax.jit(fn)(x))


def test_kernels_that_differ_in_a_number_share_an_executable():
    first, second = (
        traced_later(lambda x, by=by: jnp.tan(x) * by, tg.device("cpu"), numbers=True) for by in (0.3, 0.7)
    )
    assert first(LARGE)[0, 0] != second(LARGE)[0, 0]
    assert first.joinable is first.shared is not None
    assert second.by == "xla"


def test_a_kernel_is_counted_when_it_is_compiled(monkeypatch):
    counted = []
    monkeypatch.setattr(KERNELS, "compiled", counted.append)
    kernel = traced_later(lambda x: jnp.tan(x) * 3, tg.device("cpu"))
    jax.eval_shape(kernel, LARGE)
    assert not counted
    for _ in range(3):
        kernel(LARGE)
    assert counted == [None]


@pytest.mark.parametrize("numbers", [False, True])
def test_a_kernel_of_xla_goes_at_once(numbers):
    gc.disable()
    try:
        kernel = traced_later(lambda x: jnp.tan(x) * 0.3, tg.device("cpu"), numbers=numbers)
        kernel(LARGE)
        gone = weakref.ref(kernel)
        del kernel
        assert gone() is None
    finally:
        gc.enable()


def test_a_forward_calls_the_compiled_function_from_its_first_call_on():
    plan = tg.ones(611, 511, requires_grad=True).tan().grad_fn.gp.plan
    assert plan.kernel.by == "xla"
    assert plan.fwd is plan.kernel.run is plan.kernel.valued


def test_a_forward_that_checks_numbers_is_called_with_its_checks():
    x = tg.ones(307, 211, requires_grad=True)
    for _ in range(2):
        plan = x.masked_fill(x > 0, 3.0).grad_fn.gp.plan
        assert plan.check is not None
        assert plan.fwd is not plan.kernel.run
    with pytest.raises(RuntimeError, match="cannot be converted"):
        x.masked_fill(x > 0, 1e300)
