"""The kernels that read and write strided views, against numpy on random patterns."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from torchgrad_jax._core.arrays import dtypes, shapes
from torchgrad_jax._core.arrays.devices import default_device
from torchgrad_jax._core.arrays.meta import meta
from torchgrad_jax._engine.memory import strided

SIZE = 48


def span(shape, strides):
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else 0


def _random_patterns(count):
    """Slices, transposes, steps, diagonals, expansions and overlaps, as (shape, strides, offset)."""
    dice = random.Random(7)
    found = []
    while len(found) < count:
        n = dice.choice([0, 1, 1, 2, 2, 3, 4])
        shape = tuple(dice.choice([1, 1, 2, 3, 4]) for _ in range(n))
        strides = tuple(dice.choice([0, 1, 1, 2, 3, 4, 5, 6, 8, 12]) for _ in range(n))
        room = SIZE - span(shape, strides)
        if room >= 0:
            found.append((shape, strides, dice.randint(0, room)))
    return found


PATTERNS = [
    ((2, 3), (3, 1), 0),
    ((3, 2), (1, 3), 5),
    ((2, 0, 3), (3, 3, 1), 0),
    ((), (), 7),
    ((SIZE,), (1,), 0),
    ((4,), (5,), 3),
    ((4, 12), (12, 1), 0),
    ((12, 4), (1, 12), 0),
    ((3, 3), (1, 1), 2),
    ((2, 3), (0, 1), 4),
    ((2, 1, 3), (0, 9, 0), 1),
    *_random_patterns(40),
]
each = pytest.mark.parametrize("shape,strides,offset", PATTERNS, ids=str)


def window(flat, shape, strides, offset):
    return as_strided(flat[offset:], shape, [s * flat.itemsize for s in strides])


def places(shape, strides, offset):
    return window(np.arange(SIZE), shape, strides, offset) if 0 not in shape else np.zeros(shape, int)


@each
def test_gather(shape, strides, offset):
    flat = np.arange(SIZE, dtype=np.float32)
    read = jax.jit(lambda x, at: strided.gather(x, shape, strides, at))
    want = window(flat, shape, strides, offset) if 0 not in shape else np.zeros(shape, np.float32)
    np.testing.assert_array_equal(read(flat, offset), want)


@each
def test_scatter(shape, strides, offset):
    at = places(shape, strides, offset)
    if len(np.unique(at)) != at.size:
        pytest.skip("several elements share a place; which one wins is nobody's business")
    flat = np.arange(SIZE, dtype=np.float32)
    value = -np.arange(1, at.size + 1, dtype=np.float32).reshape(shape)
    write = jax.jit(lambda x, o, v: strided.scatter(x, shape, strides, o, v))
    want = flat.copy()
    want[at.reshape(-1)] = value.reshape(-1)
    np.testing.assert_array_equal(write(flat, offset, value), want)


@each
def test_scatter_add_is_the_transpose_of_gather(shape, strides, offset):
    at = places(shape, strides, offset)
    flat = np.arange(SIZE, dtype=np.float32)
    value = np.arange(1, at.size + 1, dtype=np.float32).reshape(shape)
    put = jax.jit(lambda x, o, v: strided.scatter(x, shape, strides, o, v, add=True))
    want = flat.copy()
    if 0 not in shape:
        np.add.at(want, at.reshape(-1), value.reshape(-1))
    np.testing.assert_array_equal(put(flat, offset, value), want)


@pytest.mark.parametrize(
    "shape,strides",
    [
        ((2, 3), None),
        ((3, 2), (1, 3)),
        ((2, 3, 4), (4, 8, 1)),
        ((2, 1, 3), (3, 99, 1)),
        ((4, 1), (1, 1)),
        ((2, 3), (6, 2)),
        ((0, 3), None),
        ((), None),
        ((5,), (2,)),
    ],
    ids=str,
)
def test_memory_order_and_back(shape, strides):
    m = meta(shape, dtypes.float32, default_device(), strides)
    x = np.arange(m.numel, dtype=np.float32).reshape(shape)
    flat = strided.to_flat(jnp.asarray(x), m)
    assert flat.shape == (span(shape, m.strides),)
    if 0 not in shape:
        laid = window(np.asarray(flat), shape, m.strides, 0)
        np.testing.assert_array_equal(laid, x)
    np.testing.assert_array_equal(strided.from_flat(flat, m), x)


@pytest.mark.parametrize(
    "source,target",
    [
        ("float32", "int32"),
        ("float64", "float32"),
        ("int16", "int64"),
        ("complex64", "float32"),
        ("float32", "complex64"),
        ("bool", "uint8"),
        ("uint8", "bool"),
        ("complex128", "int8"),
    ],
)
def test_reinterpret_keeps_the_bytes(source, target):
    bits = np.arange(32, dtype=np.uint8)
    flat = (bits % 2).view(source) if "bool" in (source, target) else bits.view(source)
    with jax.enable_x64(True):
        got = np.asarray(strided.reinterpret(jnp.asarray(flat), np.dtype(target)))
        back = np.asarray(strided.reinterpret(jnp.asarray(got), np.dtype(source)))
    np.testing.assert_array_equal(got.view(np.uint8), flat.view(target).view(np.uint8))
    np.testing.assert_array_equal(back.view(np.uint8), flat.view(np.uint8))


@pytest.mark.parametrize(
    "shape,strides,fits",
    [
        ((2, 3), (3, 1), True),
        ((3, 2), (1, 3), True),
        ((2, 2), (4, 2), True),
        ((3, 3), (1, 1), False),
        ((2, 3), (2, 1), False),
        ((2, 3), (0, 1), True),
        ((3,), (4,), True),
        ((2, 3), (7, 3), True),
    ],
    ids=str,
)
def test_which_patterns_nest(shape, strides, fits):
    assert (strided._nested(shape, strides) is not None) == fits


@pytest.mark.parametrize("shape,strides", [p[:2] for p in PATTERNS if 0 not in p[0]], ids=str)
def test_extent(shape, strides):
    assert shapes.storage_extent(shape, strides) == span(shape, strides)


def test_parts_of_rows_are_slices_in_traced_programs() -> None:
    rows = meta((4, 6), dtypes.float32, default_device())
    x = np.arange(24, dtype=np.float32)
    for m, offset in (
        (meta((4, 2), dtypes.float32, rows.device, (6, 1)), 2),
        (meta((2, 4), dtypes.float32, rows.device, (1, 6)), 4),
        (meta((2, 3), dtypes.float32, rows.device, (12, 2)), 7),
    ):
        read = strided._reader_at(rows, m, False, False, offset)
        seen = as_strided(x[offset:], m.shape, [4 * s for s in m.strides])
        np.testing.assert_array_equal(read(jnp.asarray(x.reshape(4, 6))), seen)
        steps = str(jax.make_jaxpr(read)(jnp.asarray(x.reshape(4, 6))))
        assert "pad" not in steps
        assert "dynamic_slice" not in steps
