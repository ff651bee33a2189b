"""Tensors from data and by rule, compared with torch; what copies, what is shared, what is cached."""

import array

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as tg
from tests.expressions import exact, table
from torchgrad_jax._core.arrays import devices, transfer
from torchgrad_jax._functions import fresh

test_as_torch_does = table(__file__, "create.txt")

SIZES = (1, 3, 64, 5000)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool", "complex64", "float16"])
@pytest.mark.parametrize("make", ["tensor", "as_tensor", "asarray", "from_numpy"])
def test_later_writes_to_the_source_are_seen_where_memory_is_shared(make, dtype):
    for n in SIZES:
        source = np.ones(n, dtype)
        made = getattr(tg, make)(source)
        plus = made + made
        source[:] = 0
        assert made.tolist() == [int(make == "tensor")] * n
        assert bool((plus.numpy() != 0).all())


def test_constants_share_one_array_and_writes_stay_apart():
    a, b = tg.zeros(2, 3), tg.zeros(2, 3)
    assert a._st.array is b._st.array
    assert tg.full((3,), 2.5)._st.array is tg.full((3,), 2.5)._st.array
    assert tg.arange(5)._st.array is tg.arange(5)._st.array
    a[0, 0] = 7
    b.add_(1)
    assert tg.zeros(2, 3).tolist() == [[0.0] * 3] * 2
    assert (a.sum().item(), b.sum().item()) == (7.0, 6.0)


def test_constants_that_compare_equal_are_told_apart():
    assert [str(v) for v in (tg.full((1,), 0.0).item(), tg.full((1,), -0.0).item())] == ["0.0", "-0.0"]
    kinds = [tg.full((1,), v).dtype for v in (1, 1.0, True, 1 + 0j)]
    assert kinds == [tg.int64, tg.float32, tg.bool, tg.complex64]


def test_the_cache_of_constants_is_bounded():
    for i in range(2 * fresh._CACHED_ARRAYS):
        tg.full((2,), float(i + 1))
    assert len(fresh._CONSTANTS) <= fresh._CACHED_ARRAYS
    big = tg.zeros(fresh._CACHED_BYTES)
    assert all(a is not big._st.array for a in fresh._CONSTANTS.values())


def test_arrays_on_the_default_device_are_uncommitted():
    """Kernels would otherwise be compiled once for each mixture of committed and uncommitted arguments."""
    n = transfer.SMALL + 1  # smaller ones are NumPy's
    made = [tg.tensor([1.0] * n), tg.zeros(n), tg.rand(n), tg.arange(n), tg.from_numpy(np.ones(n)), tg.eye(n // 99)]
    assert not any(t._st.array.committed for t in made)


def test_without_jaxs_shortcut_arrays_arrive_as_well(monkeypatch):
    monkeypatch.setattr(transfer, "_direct", lambda *args: None)
    transfer._putter.cache_clear()
    try:
        assert np.asarray(transfer.put(np.arange(3.0), devices.CPU)).tolist() == [0.0, 1.0, 2.0]
    finally:
        transfer._putter.cache_clear()


def test_jax_arrays_are_taken_by_reference():
    array = jnp.arange(3.0)
    for make in (tg.tensor, tg.as_tensor, tg.asarray, tg.from_dlpack):
        t = make(array)
        assert t._st.array is array
        assert t.tolist() == [0.0, 1.0, 2.0]
    t.add_(1)
    assert array.tolist() == [0.0, 1.0, 2.0]


def test_dlpack_goes_both_ways():
    t = tg.arange(4.0)
    np.testing.assert_array_equal(np.from_dlpack(t), np.arange(4.0, dtype=np.float32))
    np.testing.assert_array_equal(jax.dlpack.from_dlpack(t), np.arange(4.0, dtype=np.float32))
    source = np.arange(4.0)
    shared = tg.from_dlpack(source)
    source[:] = 5
    assert shared.tolist() == [5.0] * 4
    assert tg.from_dlpack(tg.to_dlpack(t)).tolist() == t.tolist()
    alias = tg.from_dlpack(t)
    alias.fill_(9.0)
    assert t.tolist() == [9.0] * 4
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        tg.from_dlpack(tg.ones(2, requires_grad=True))


def test_torch_tensors_share_their_memory_through_dlpack(oracle):
    source = oracle.arange(4.0)
    shared = tg.from_dlpack(source)
    source.fill_(2)
    assert shared.tolist() == [2.0] * 4
    shared.add_(1)
    assert source.tolist() == [3.0] * 4
    back = oracle.from_dlpack(shared)
    back.zero_()
    assert shared.tolist() == source.tolist() == [0.0] * 4


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int16"])
def test_linspace_rounds_as_torch_does(oracle, dtype):
    rng = np.random.default_rng(0)
    for _ in range(60):
        steps = int(rng.integers(2, 70))
        ends = rng.uniform(-9, 9, 2) if "int" not in dtype else rng.integers(-99, 99, 2)
        a, b = (e.item() for e in ends)
        want = oracle.linspace(a, b, steps, dtype=getattr(oracle, dtype))
        assert exact(tg.linspace(a, b, steps, dtype=getattr(tg, dtype))) == exact(want), (a, b, steps)


def test_arange_has_torchs_length_and_values_to_a_rounding(oracle):
    rng = np.random.default_rng(0)
    for _ in range(100):
        start, step = rng.uniform(-9, 9), rng.uniform(0.01, 2) * rng.choice([-1, 1])
        end = start + step * rng.uniform(0, 40)
        for dtype in ("float32", "float64"):
            want = oracle.arange(start, end, step, dtype=getattr(oracle, dtype)).numpy()
            got = tg.arange(start, end, step, dtype=getattr(tg, dtype)).numpy()
            assert got.shape == want.shape
            rounding = float(np.finfo(dtype).eps) * max(abs(start), abs(end))
            np.testing.assert_allclose(got, want, rtol=0, atol=2 * rounding)


def test_tensors_nested_deeply_and_empty():
    data = [[[[1.0]]]] * 3
    assert tg.tensor(data).shape == (3, 1, 1, 1)
    assert tg.tensor([[], []]).shape == (2, 0)
    nested: list = [1.0]
    for _ in range(200):
        nested = [nested]
    with pytest.raises(ValueError, match="too many dimensions 'list'"):
        tg.tensor(nested)


def test_overlapping_strides_are_one_storage():
    t = tg.empty_strided((3, 2), (0, 1))
    assert (t.stride(), t.untyped_storage().nbytes(), t._is_view()) == ((0, 1), 8, False)
    rows = np.lib.stride_tricks.as_strided(np.arange(2.0), (3, 2), (0, 8))
    assert tg.from_numpy(rows).tolist() == [[0.0, 1.0]] * 3


@pytest.mark.parametrize(
    "name, given",
    [("zeros", [2]), ("tensor", [[1.0]]), ("rand", [2]), ("arange", [3.0]), ("empty_strided", [(2,), (1,)])],
)
def test_factories_make_inference_tensors_in_inference_mode(name, given):
    with tg.inference_mode():
        made = getattr(tg, name)(*given)
    assert made.is_inference()
    assert not getattr(tg, name)(*given).is_inference()


def test_a_device_block_decides_where_tensors_are_made():
    with tg.device("cpu"):
        assert tg.zeros(1).device == tg.device("cpu")
    with tg.device("meta"):
        assert tg.zeros(1).is_meta
    with pytest.raises(RuntimeError, match="JAX has no device for 'tpu:0'"):
        tg.zeros(1, device="tpu")


def test_buffers_are_read_as_the_dtype_that_is_asked_for():
    ints = array.array("i", [1, 2])
    assert tg.asarray(ints, dtype=tg.int32).tolist() == [1, 2]
    assert tg.asarray(ints).view(tg.int32).tolist() == [1, 2]  # float32, of the same bytes
    assert tg.asarray(array.array("d", [1.5]), dtype=tg.float64, copy=False).tolist() == [1.5]


def test_numpy_numbers_have_no_memory_to_share():
    with pytest.raises(RuntimeError, match="can't alias NumPy scalars"):
        tg.asarray(np.float32(3), copy=False)
    assert tg.asarray(np.float32(3), copy=None).item() == 3
