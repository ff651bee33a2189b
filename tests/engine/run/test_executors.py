"""Who runs a kernel: NumPy, where the arrays are small and on the CPU, or XLA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as tg
from tests.engine.memory.test_strided import PATTERNS, SIZE
from torchgrad_jax._core.arrays import dtypes, shapes, transfer
from torchgrad_jax._core.arrays.devices import default_device
from torchgrad_jax._core.arrays.meta import meta
from torchgrad_jax._core.host import choice
from torchgrad_jax._core.jax import own_kernels
from torchgrad_jax._core.jax.caches import KERNELS
from torchgrad_jax._engine.graph.grad_plan import GradPlan
from torchgrad_jax._engine.memory import strided
from torchgrad_jax._engine.passes import segments
from torchgrad_jax._engine.run import executors
from torchgrad_jax._engine.run.kernel import traced_later


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
        read = executors.reading(store, m, conj, neg)
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


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 0, 1), (0, 2, 1), (1, 2, 0)])
def test_views_of_storages_in_any_order_compile_nothing(order):
    x = tg.arange(24.0).reshape(2, 3, 4)
    inverse = [order.index(d) for d in range(3)]
    stored = x.permute(order).clone(memory_format=tg.contiguous_format).permute(inverse).clone()
    assert not stored.is_contiguous()
    view = stored[:, 1:, ::2]
    kernel = strided._seldom_read(stored._st.meta, view._m, False, False)
    np.testing.assert_array_equal(view.numpy(), x[:, 1:, ::2].numpy())
    assert kernel.compiled.traced._cache_size() == 0
    stored[:, 1] = 7
    want = x.clone()
    want[:, 1] = 7
    np.testing.assert_array_equal(stored.numpy(), want.numpy())


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "int8", "float64"])
def test_dtypes(dtype):
    x = tg.tensor([[0, 1, 1], [1, 0, 0]]).to(getattr(tg, dtype))
    y = x.t()
    assert y.clone().dtype == x.dtype
    assert y.tolist() == [[0, 1], [1, 0], [1, 0]]
    x[:, 1] = y[0]
    assert x.tolist() == [[0, 0, 1], [1, 1, 0]]


def test_looking_at_a_small_view_compiles_nothing(store, memory):
    m = meta((5, 2), dtypes.complex64, default_device(), (7, 3))
    kernel = strided._seldom_read(store, m, False, True)
    want = -np.asarray(memory).reshape(-1)[1:36].reshape(5, 7)[:, [0, 3]]
    for array in [memory, np.asarray(memory)] * 10:
        np.testing.assert_array_equal(kernel.call(array, 1), want)
    assert kernel.compiled.traced._cache_size() == 0


def test_arrays_that_are_committed_or_traced_are_left_to_xla(memory, store):
    m = meta((3,), dtypes.complex64, default_device(), (2,))
    kernel = strided._seldom_read(store, m, True, False)
    placed = jax.device_put(memory, jax.devices()[0])
    assert kernel.call(placed, 1).committed
    np.testing.assert_array_equal(
        jax.jit(lambda a: kernel.call(a, 1))(memory), np.asarray(placed).reshape(-1)[1:7:2].conj()
    )


@pytest.fixture
def kernels():
    """The compiled functions of what is made from here on."""
    made = []
    jit = own_kernels.jax.jit

    def noting(fn, *args, **options):
        made.append(jit(fn, *args, **options))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_kernels.jax, "jit", noting)
        yield made


def _sizes(kernels):
    return [k._cache_size() for k in kernels]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64", "bool"])
def test_small_tensors_compile_nothing_however_often_they_come(kernels, dtype):
    tg.clear_caches()
    x = tg.arange(11).view(1, 11).to(getattr(tg, dtype))
    for _ in range(20):
        y = tg.where(x != 2, x, ~x if dtype == "bool" else -x)[:, 2:]
        assert y.sum().item() == (9 if dtype == "bool" else 50)
    assert _sizes(kernels) == [0] * len(kernels)


def test_gradients_of_small_tensors_compile_nothing(kernels):
    tg.clear_caches()
    for _ in range(10):
        x = tg.arange(11.0).view(1, 11).requires_grad_()
        tg.where(x > 2, x * 3, -x)[:, 2:].sum().backward()
        assert x.grad.tolist() == [[0, 0, -1, 3, 3, 3, 3, 3, 3, 3, 3]]
        (slope,) = tg.autograd.grad((x * x).sum(), x, create_graph=True)
        assert tg.autograd.grad(slope.sum(), x)[0].tolist() == [[2.0] * 11]
    assert _sizes(kernels) == [0] * len(kernels)


def test_large_tensors_are_xla_s_and_small_halves_are_numpy_s(kernels):
    tg.clear_caches()
    assert (tg.ones(11, dtype=tg.bfloat16) * 3)[0].item() == 3
    assert not any(_sizes(kernels))
    assert (tg.ones(choice.LARGEST) * 3)[0].item() == 3
    assert not any(_sizes(kernels))
    assert tg.ones(choice.LARGEST + 1).relu()[0].item() == 1
    assert any(_sizes(kernels))


def test_the_same_call_gives_the_same_bits_each_time():
    x = tg.linspace(-3, 3, 50)
    first = [f(x).numpy().tobytes() for f in (tg.exp, tg.tanh, tg.sum, tg.var, tg.sigmoid)]
    for _ in range(20):
        assert [f(x).numpy().tobytes() for f in (tg.exp, tg.tanh, tg.sum, tg.var, tg.sigmoid)] == first


TREES = {
    "arrays": (lambda x, y: x + y, (np.ones(3), np.ones(3))),
    "two results": (lambda x, y: (x + y, x - y), (np.ones(3), np.ones(3))),
    "lists": (lambda xs, ys: ([x + y for x, y in zip(xs, ys)], xs[0]), ([np.ones(3), np.ones(2)], [np.ones(1), 2.0])),
    "nothing in its place": (lambda x, y, z: [x + z, None], (np.ones(3), None, np.ones(3))),
    "no arrays": (lambda xs: [], ([],)),
}


@pytest.mark.parametrize("limit", [choice.LIMIT, 0.0], ids=["numpy", "xla"])
@pytest.mark.parametrize("name", TREES)
def test_functions_of_trees(name, limit):
    fn, args = TREES[name]
    run = traced_later(fn, tg.device("cpu"), limit=limit)
    want = jax.jit(fn)(*args)
    for given in (args, jax.tree.map(jnp.asarray, args), args):
        got = run(*given)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        jax.tree.map(np.testing.assert_array_equal, got, want)
    traced = jax.jit(lambda args: run(*args))(args)
    jax.tree.map(np.testing.assert_array_equal, traced, want)


def test_a_kernel_says_who_runs_it_when_that_is_known():
    kernel = traced_later(lambda x: x + 1, tg.device("cpu"))
    assert (kernel.by, kernel.run) == ("", None)
    assert jax.jit(kernel)(np.ones(3)).tolist() == [2, 2, 2]
    assert (kernel.by, kernel.run) == ("", None)
    assert kernel(np.ones(3)).tolist() == [2, 2, 2]
    assert kernel.by == "numpy"
    assert kernel.run is not None
    assert kernel.run(np.ones(3)).tolist() == [2, 2, 2]


def test_a_graph_whose_gradients_numpy_gives_is_not_compiled_whole(monkeypatch):
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


def test_a_guard_of_transfers_has_nothing_to_say():
    x = tg.arange(29.0).view(1, 29).mul(1)
    with jax.transfer_guard("disallow"):
        y = x * x + x
    assert y[0, :4].tolist() == [0.0, 2.0, 6.0, 12.0]
