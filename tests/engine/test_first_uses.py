"""What NumPy does for views and kernels that are used a few times; those that come again are compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as tg
from torchgrad_jax._core import dtypes, shapes, transfer
from torchgrad_jax._core.caches import KERNELS
from torchgrad_jax._core.devices import default_device
from torchgrad_jax._core.meta import meta
from torchgrad_jax._engine import first_uses, strided, trace
from torchgrad_jax._engine.grad_plan import GradPlan
from torchgrad_jax._engine.passes import segments

from .test_strided import PATTERNS, SIZE


@pytest.fixture
def store():
    return meta((4, SIZE // 4), dtypes.complex64, default_device())


@pytest.fixture
def memory():
    real = np.arange(SIZE, dtype=np.float32) - 9
    return jnp.asarray((real + 1j * real[::-1]).astype(np.complex64).reshape(4, -1))


@pytest.mark.parametrize("conj,neg", [(False, False), (True, False), (True, True)])
def test_both_read_the_same(store, memory, conj, neg):
    for shape, strides, offset in PATTERNS:
        if 0 in shape:
            continue
        m = meta(shape, dtypes.complex64, default_device(), strides)
        read = first_uses.reading(m, conj, neg)
        want = strided.reader(store, m, conj, neg)(memory, offset)
        np.testing.assert_array_equal(read(np.asarray(memory), offset), want)


def test_both_write_the_same(store, memory):
    for shape, strides, offset in PATTERNS[:24]:
        if 0 in shape or shapes.has_overlap(shape, strides):
            continue
        m = meta(shape, dtypes.complex64, default_device(), strides)
        write = strided._writer(store, m, True, False)
        value = jnp.full(shape, 3 + 2j, jnp.complex64)
        before = np.array(memory)
        got = write.call(memory, offset, value)
        np.testing.assert_array_equal(got, write.compiled(memory, offset, value))
        np.testing.assert_array_equal(memory, before)


def test_the_first_look_compiles_nothing(store, memory):
    m = meta((5, 2), dtypes.complex64, default_device(), (7, 3))
    kernel = strided._seldom_read(store, m, False, True)
    want = -np.asarray(memory).reshape(-1)[1:36].reshape(5, 7)[:, [0, 3]]
    for _ in range(3):
        np.testing.assert_array_equal(kernel.call(memory, 1), want)
    assert kernel.compiled._cache_size() == 0


def test_views_that_come_again_are_compiled_and_stay_right():
    x = tg.arange(60.0).view(20, 3).mul(1)
    for i in range(20):
        x[i] += 1
        assert x[i].tolist() == [3.0 * i + 1, 3.0 * i + 2, 3.0 * i + 3]
    kernel = strided._seldom_read(x._st.meta, x[0]._m, False, False)
    assert kernel.call is kernel.compiled


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "int8", "float64"])
def test_dtypes(dtype):
    x = tg.tensor([[0, 1, 1], [1, 0, 0]]).to(getattr(tg, dtype))
    y = x.t()
    assert y.clone().dtype == x.dtype
    assert y.tolist() == [[0, 1], [1, 0], [1, 0]]
    x[:, 1] = y[0]
    assert x.tolist() == [[0, 0, 1], [1, 1, 0]]


def test_arrays_that_are_committed_or_traced_are_left_to_xla(memory, store):
    m = meta((3,), dtypes.complex64, default_device(), (2,))
    kernel = strided._seldom_read(store, m, True, False)
    left = kernel._left
    placed = jax.device_put(memory, jax.devices()[0])
    assert kernel.call(placed, 1).committed
    np.testing.assert_array_equal(
        jax.jit(lambda a: kernel.call(a, 1))(memory), np.asarray(placed).reshape(-1)[1:7:2].conj()
    )
    assert kernel._left == left


@pytest.fixture
def fresh_kernels():
    """Plans made from here on, with their kernels."""
    made = []
    early = first_uses.early

    def noting(kernel, *more):
        made.append(early(kernel, *more))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_uses, "early", noting)
        yield made


def test_kernels_that_are_used_a_few_times_are_not_compiled(fresh_kernels):
    x = tg.arange(11.0).view(1, 11).requires_grad_()
    for _ in range(3):
        y = tg.where(x > 2, x * 3, -x)[:, 2:]
        x.grad = None
        y.sum().backward()
        assert x.grad.tolist() == [[0, 0, -1, 3, 3, 3, 3, 3, 3, 3, 3]]
    assert len(fresh_kernels) > 3
    assert [k.kernel._cache_size() for k in fresh_kernels] == [0] * len(fresh_kernels)


def test_kernels_that_come_again_are_compiled_and_stay_right(fresh_kernels):
    x = tg.arange(13.0).view(1, 13)
    for n in range(20):
        assert (x * 3).tolist() == [[3.0 * i for i in range(13)]], n
    (early,) = fresh_kernels
    assert early.kernel._cache_size() == 1
    plans = [p for cache in list(trace._PLAN_CACHES) for p in cache.young.values()]
    assert any(early.kernel in (p.fwd, *p.kernel) for p in plans)  # no detour


def test_a_graph_whose_gradients_numpy_gives_is_not_compiled_whole(fresh_kernels, monkeypatch):
    monkeypatch.setattr(segments, "_COMPILED", KERNELS.cache())

    def once(n, last):
        x = tg.arange(float(n)).requires_grad_()
        last((x * 2 - 1).view(1, n).t().neg()).backward(tg.ones(n, 1))
        return x.grad.tolist()

    assert once(31, tg.abs) == [2.0 if i else -2.0 for i in range(31)]
    assert not segments._COMPILED
    monkeypatch.setattr(GradPlan, "in_numpy", lambda self: False)
    assert once(37, tg.abs) == [2.0 if i else -2.0 for i in range(37)]
    assert len(segments._COMPILED) == 1  # as if each of its nodes needed a kernel


def test_small_arrays_of_one_value_take_no_kernel(monkeypatch):
    m = tg.ones(3, 2)._m
    with monkeypatch.context() as patch:
        patch.setattr(transfer.jnp, "full", None)
        assert transfer.filled(m, 2).tolist() == [[2.0, 2.0]] * 3
    assert "broadcast_in_dim" in str(jax.make_jaxpr(lambda: transfer.filled(m, 2))())


def test_what_numpy_cannot_do_is_compiled_at_once(fresh_kernels):
    x = tg.arange(17.0).view(1, 17)
    x.exp()
    (early,) = fresh_kernels
    assert early.kernel._cache_size() == 1


def test_values_that_numpy_leaves_open_are_compiled(fresh_kernels):
    tiny = tg.full((1, 19), 1e-40)
    fresh_kernels.clear()
    assert (tiny * 2).tolist() == [[0.0] * 19]  # flushed, as by the compiled kernel
    (early,) = fresh_kernels
    assert early.kernel._cache_size() == 1
    assert (tg.ones(1, 19) * 2).tolist() == [[2.0] * 19]


def test_a_guard_of_transfers_has_nothing_to_say():
    x = tg.arange(29.0).view(1, 29).mul(1)
    with jax.transfer_guard("disallow"):
        y = x * x + x
    assert y[0, :4].tolist() == [0.0, 2.0, 6.0, 12.0]


def test_jax_debug_nans_is_heard(fresh_kernels):
    zero = tg.zeros(1, 23)
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        zero / zero
