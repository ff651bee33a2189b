"""dtypes, their limits, and torch's promotion rules: every pair, judged by live torch; a few by heart."""

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as tg
from torchgrad_jax._core.arrays import dtypes

NAMES = [d.name for d in dtypes.ALL]
NO_COMPLEX_HALF = "JAX has no complex32: half precision widens to complex64"


def answer(fn, *args):
    """What a call gives, as text, or how it fails."""
    try:
        return str(fn(*args))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("fn", ["promote_types", "can_cast"])
@pytest.mark.parametrize("name", NAMES)
def test_every_pair_promotes_and_casts_as_in_torch(oracle, fn, name):
    ours = {b: answer(getattr(tg, fn), getattr(tg, name), getattr(tg, b)) for b in NAMES}
    theirs = {b: answer(getattr(oracle, fn), getattr(oracle, name), getattr(oracle, b)) for b in NAMES}
    assert ours == theirs


def operand(m, kind, value):
    if kind == "number":
        return value
    return m.zeros((2,) if kind == "dimensioned" else (), dtype=getattr(m, value))


OPERANDS = [
    *[("number", v) for v in (True, 3, 2.5, 2j)],
    *[(kind, name) for kind in ("dimensioned", "zero-dim") for name in NAMES],
]


@pytest.mark.parametrize("first", OPERANDS, ids=lambda o: f"{o[0]}-{o[1]}")
def test_result_type_of_every_mixture_is_torchs(oracle, first):
    for second in OPERANDS:
        pair = (first, second)
        want = answer(oracle.result_type, *[operand(oracle, *o) for o in pair])
        if want == "torch.complex32":
            want = "torch.complex64"  # see NO_COMPLEX_HALF
        assert answer(tg.result_type, *[operand(tg, *o) for o in pair]) == want, pair


@pytest.mark.parametrize("name", NAMES)
def test_fields_and_limits_are_torchs(oracle, name):
    want, got = getattr(oracle, name), getattr(tg, name)
    for field in ("is_floating_point", "is_complex", "is_signed", "itemsize", "abbr"):
        assert getattr(got, field) == getattr(want, field), field
    assert repr(got) == repr(want)
    assert answer(got.to_real) == answer(want.to_real)
    if name != "float16":  # see NO_COMPLEX_HALF
        assert answer(got.to_complex) == answer(want.to_complex)
    for info, fields in (
        ("finfo", ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype")),
        ("iinfo", ("bits", "max", "min", "dtype")),
    ):
        ours, theirs = getattr(tg, info), getattr(oracle, info)
        assert answer(ours, got) == answer(theirs, want)
        if not answer(theirs, want).startswith("TypeError"):
            assert {f: getattr(ours(got), f) for f in fields} == {f: getattr(theirs(want), f) for f in fields}


def test_every_dtype_of_torch_that_jax_has_is_here(oracle):
    theirs = {str(d).removeprefix("torch.") for d in vars(oracle).values() if isinstance(d, oracle.dtype)}
    quantized_or_packed = {n for n in theirs if n.startswith(("q", "bits", "float4")) or n == "complex32"}
    narrow = {f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)}
    assert theirs - quantized_or_packed - narrow == set(NAMES)


PROMOTIONS = [
    ("int8", "uint8", "int16"),
    ("int64", "float16", "float16"),
    ("float16", "bfloat16", "float32"),
    ("float64", "complex64", "complex128"),
    ("bool", "uint8", "uint8"),
    ("uint8", "int64", "int64"),
    ("bfloat16", "complex64", "complex64"),
    ("int32", "int16", "int32"),
]


@pytest.mark.parametrize("a, b, want", PROMOTIONS)
def test_promotions_by_heart(a, b, want):
    first, second, result = (getattr(tg, n) for n in (a, b, want))
    assert tg.promote_types(first, second) is tg.promote_types(second, first) is result


def test_a_zero_dim_tensor_does_not_widen_within_its_category():
    assert tg.result_type(tg.ones(2, dtype=tg.float16), tg.tensor(1.0, dtype=tg.float64)) is tg.float16
    assert tg.result_type(tg.ones(2, dtype=tg.int8), 3) is tg.int8
    assert tg.result_type(tg.ones(2, dtype=tg.int8), 2.5) is tg.float32


def test_float8_and_wide_unsigned_types_do_not_promote():
    with pytest.raises(
        RuntimeError, match="Promotion for Float8 Types is not supported, attempted to promote Float and"
    ):
        tg.promote_types(tg.float32, tg.float8_e5m2)
    with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"):
        tg.promote_types(tg.uint16, tg.int32)


def test_dtypes_are_one_of_a_kind():
    for d in dtypes.ALL:
        assert pickle.loads(pickle.dumps(d)) is copy.deepcopy(d) is copy.copy(d) is d
    assert (tg.half, tg.float, tg.double, tg.long, tg.int) == (tg.float16, tg.float32, tg.float64, tg.int64, tg.int32)


def test_numpy_dtypes_map_back():
    for d in dtypes.ALL:
        assert dtypes.from_np(d.np) is d
    with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type"):
        dtypes.from_np(np.dtype("datetime64[s]"))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64"])
def test_the_default_dtype_decides_what_floats_and_divisions_give(name):
    half = tg.ones(2, dtype=tg.int64) / 2
    try:
        tg.set_default_dtype(getattr(tg, name))
        assert {tg.get_default_dtype().name, tg.tensor(1.5).dtype.name, tg.zeros(1).dtype.name} == {name}
        assert (tg.ones(2, dtype=tg.int64) / 2).dtype.name == name  # the plan of the division above was forgotten
        assert tg.tensor(1.5 + 0j).dtype is (tg.complex128 if name == "float64" else tg.complex64)
    finally:
        tg.set_default_dtype(tg.float32)
    assert half.dtype is (tg.ones(2, dtype=tg.int64) / 2).dtype is tg.float32


@pytest.mark.skipif(tuple(map(int, np.__version__.split(".")[:2])) < (2, 4), reason="NumPy asks from 2.4 on")
@pytest.mark.parametrize("d", [tg.float32, tg.bfloat16, tg.int64, tg.bool, tg.complex64], ids=str)
def test_jax_and_numpy_take_dtypes(d):
    with jax.enable_x64(True):
        x: Any = tg.zeros(2, dtype=d)
        assert np.dtype(d) == np.asarray(jnp.asarray(x)).dtype
        assert jnp.zeros(3, x.dtype).dtype == np.dtype(d)
        assert jnp.ones(3, "int8").astype(x.dtype).dtype == np.dtype(d)
