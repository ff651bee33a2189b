"""Text of tensors: recorded torch texts (always), and live torch on thousands of random cases."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from torchgrad_jax._engine.tensor import printing

pytestmark = [
    # torch warns that complex32 is experimental, and about itself when it imports forward_ad
    pytest.mark.filterwarnings("ignore:ComplexHalf support:UserWarning"),
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
]

FLOATS = ("float64", "float32", "float16", "bfloat16")
FLOAT8S = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
INTS = ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "bool")
COMPLEXES = ("complex64", "complex128", "complex32")
INF, NAN = math.inf, math.nan


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _restore_options() -> Iterator[None]:
    with printing.printoptions():
        yield


def ours(array: np.ndarray | None, **meta: Any) -> str:
    """Call `format_tensor` with what it can infer from the array filled in."""
    defaults: dict[str, Any] = {"default_dtype": "float32"}
    if array is not None:
        defaults |= {"dtype": array.dtype.name, "shape": array.shape}
    return printing.format_tensor(array, **defaults | meta)


# -------------------------------------------------------------------------------- asking live torch


@contextlib.contextmanager
def both_options(torch: Any, options: dict[str, Any]) -> Iterator[None]:
    with printing.printoptions(**options), torch._tensor_str.printoptions(**options):
        yield


def to_torch(torch: Any, array: np.ndarray, dtype: str) -> Any:
    """Copy into a torch tensor, through its bits where numpy does not know the dtype."""
    array = np.array(array)
    if dtype in ("bfloat16", *FLOAT8S):
        bits = torch.from_numpy(array.view(f"uint{8 * array.itemsize}"))
        return bits.view(getattr(torch, dtype))
    return torch.from_numpy(array).to(getattr(torch, dtype))


def to_numpy(tensor: Any, dtype: str) -> np.ndarray:
    if dtype == "complex32":
        return tensor.cfloat().numpy()
    if dtype in ("bfloat16", *FLOAT8S):
        import torch

        bits = tensor.view(torch.uint16 if dtype == "bfloat16" else torch.uint8)
        return bits.numpy().view(getattr(ml_dtypes, dtype))
    return tensor.numpy()


def torch_repr(torch: Any, x: Any, **meta: Any) -> str:
    """Give a tensor the autograd state and the type that `meta` describes, and print it."""
    if meta.get("requires_grad") or meta.get("grad_fn"):
        x.requires_grad_()
    if meta.get("grad_fn"):
        assert meta["grad_fn"] == "AliasBackward0"
        x = torch.ops.aten.alias(x)
    make = torch.nn.Parameter
    if (name := meta.get("class_name", "tensor")) != "tensor":
        if meta.get("parameter_heading"):
            make = type(name, (torch.nn.Parameter,), {})
        else:
            x = x.as_subclass(type(name, (torch.Tensor,), {}))
    if meta.get("is_parameter"):
        x = make(x, requires_grad=meta.get("requires_grad", False))
    default = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, meta.get("default_dtype", "float32")))
    try:
        return repr(x)
    finally:
        torch.set_default_dtype(default)


# ---------------------------------------------------------------------------- texts torch has given


def _f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


# id: array, metadata, print options, what torch 2.13 prints
RECORDED: dict[str, tuple[np.ndarray, dict[str, Any], dict[str, Any], str]] = {
    "fixed": (_f32(1, 2.5, -3.14159), {}, {}, "tensor([ 1.0000,  2.5000, -3.1416])"),
    "whole": (_f32(1, 2, -30), {}, {}, "tensor([  1.,   2., -30.])"),
    "whole_non_finite": (_f32(1, NAN, INF, -INF, -0.0), {}, {}, "tensor([1., nan, inf, -inf, -0.])"),
    "fixed_non_finite": (
        _f32(1.5, NAN, INF, -INF, 0, -0.0),
        {},
        {},
        "tensor([1.5000,    nan,    inf,   -inf, 0.0000, -0.0000])",
    ),
    "no_regular_value": (_f32(0, NAN, -INF), {}, {"sci_mode": True}, "tensor([0., nan, -inf])"),
    "sci_by_ratio": (_f32(0.5, 1000, 0, INF), {}, {}, "tensor([5.0000e-01, 1.0000e+03, 0.0000e+00,        inf])"),
    "sci_by_size": (_f32(2e8, 1e8), {}, {}, "tensor([2.0000e+08, 1.0000e+08])"),
    "sci_by_smallness": (_f32(9e-5, 1e-4), {}, {}, "tensor([9.0000e-05, 1.0000e-04])"),
    "sci_forbidden": (_f32(1e-5, 1e5), {}, {"sci_mode": False}, "tensor([     0.0000, 100000.0000])"),
    "sci_forced": (_f32(1, 2), {}, {"sci_mode": True}, "tensor([1.0000e+00, 2.0000e+00])"),
    "precision": (_f32(1.23456, 2), {}, {"precision": 2}, "tensor([1.23, 2.00])"),
    "scalar": (np.array(2.5, np.float32), {}, {}, "tensor(2.5000)"),
    "scalar_whole": (np.array(-2.0, np.float32), {}, {}, "tensor(-2.)"),
    "scalar_int": (np.array(7), {}, {}, "tensor(7)"),
    "matrix": (_f32([1, 2], [3, 4.5]), {}, {}, ("tensor([[1.0000, 2.0000],\n        [3.0000, 4.5000]])")),
    "cube": (
        np.arange(8).reshape(2, 2, 2),
        {},
        {},
        ("tensor([[[0, 1],\n         [2, 3]],\n\n        [[4, 5],\n         [6, 7]]])"),
    ),
    "bool": (np.array([[True, False], [True, True]]), {}, {}, ("tensor([[ True, False],\n        [ True,  True]])")),
    "uint8": (np.array([1, 200], np.uint8), {}, {}, "tensor([  1, 200], dtype=torch.uint8)"),
    "uint64": (
        np.array([2**64 - 1, 5], np.uint64),
        {},
        {},
        "tensor([18446744073709551615,                    5], dtype=torch.uint64)",
    ),
    "int32_negative": (
        np.array([[-5, 10], [3, 400]], np.int32),
        {},
        {},
        ("tensor([[ -5,  10],\n        [  3, 400]], dtype=torch.int32)"),
    ),
    "float64": (np.array([0.1]), {}, {}, "tensor([0.1000], dtype=torch.float64)"),
    "float64_default": (np.array([0.1]), {"default_dtype": "float64"}, {}, "tensor([0.1000])"),
    "float32_not_default": (_f32(0.1), {"default_dtype": "float64"}, {}, "tensor([0.1000], dtype=torch.float32)"),
    "bfloat16": (np.array([0.1, 3], ml_dtypes.bfloat16), {}, {}, "tensor([0.1001, 3.0000], dtype=torch.bfloat16)"),
    "float8": (
        np.array([0.1, 3], ml_dtypes.float8_e4m3fn),
        {},
        {},
        "tensor([0.1016, 3.0000], dtype=torch.float8_e4m3fn)",
    ),
    "float8_e8m0fnu_nan": (
        np.array([1, NAN], ml_dtypes.float8_e8m0fnu),
        {},
        {},
        "tensor([1.0000,    nan], dtype=torch.float8_e8m0fnu)",
    ),
    "float8_e8m0fnu_least": (
        np.array(2.0**-127, ml_dtypes.float8_e8m0fnu),
        {},
        {},
        "tensor(0., dtype=torch.float8_e8m0fnu)",
    ),
    "complex": (np.array([1 + 2j, -0.5 - 10.25j], np.complex64), {}, {}, "tensor([ 1.0000+2.0000j, -0.5000-10.2500j])"),
    "complex_nan": (
        np.array([complex(NAN, -0.0), complex(-1, INF)], np.complex64),
        {},
        {},
        "tensor([nan-0.j, -1.+infj])",
    ),
    "complex128": (np.array([[1 + 2j]]), {}, {}, "tensor([[1.+2.j]], dtype=torch.complex128)"),
    "complex128_default": (np.array([[1 + 2j]]), {"default_dtype": "float64"}, {}, "tensor([[1.+2.j]])"),
    "complex_scalar": (np.array(1 - 2.5j, np.complex64), {}, {}, "tensor(1.-2.5000j)"),
    "empty": (_f32(), {}, {}, "tensor([])"),
    "empty_matrix": (np.zeros((2, 0), np.float32), {}, {}, "tensor([], size=(2, 0))"),
    "empty_int64": (np.zeros((0,), np.int64), {}, {}, "tensor([], dtype=torch.int64)"),
    "empty_bool_cube": (
        np.zeros((1, 0, 2), bool),
        {"requires_grad": False},
        {},
        "tensor([], size=(1, 0, 2), dtype=torch.bool)",
    ),
    "wrapped": (
        np.arange(40),
        {},
        {},
        (
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
            "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,\n"
            "        36, 37, 38, 39])"
        ),
    ),
    "wrapped_narrow": (
        _f32(0.5, 1.5, 2.5, 3.5),
        {},
        {"linewidth": 30},
        ("tensor([0.5000, 1.5000,\n        2.5000, 3.5000])"),
    ),
    "wrapped_complex": (
        np.full(5, 1.5 + 1j, np.complex64),
        {},
        {"linewidth": 40},
        ("tensor([1.5000+1.j, 1.5000+1.j, 1.5000+1.j,\n        1.5000+1.j, 1.5000+1.j])"),
    ),
    "summary_row": (np.arange(1001), {}, {}, "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    "summary_matrix": (
        np.arange(10000, dtype=np.float32).reshape(100, 100),
        {},
        {},
        (
            "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.7000e+01, 9.8000e+01,\n"
            "         9.9000e+01],\n"
            "        [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.9700e+02, 1.9800e+02,\n"
            "         1.9900e+02],\n"
            "        [2.0000e+02, 2.0100e+02, 2.0200e+02,  ..., 2.9700e+02, 2.9800e+02,\n"
            "         2.9900e+02],\n"
            "        ...,\n"
            "        [9.7000e+03, 9.7010e+03, 9.7020e+03,  ..., 9.7970e+03, 9.7980e+03,\n"
            "         9.7990e+03],\n"
            "        [9.8000e+03, 9.8010e+03, 9.8020e+03,  ..., 9.8970e+03, 9.8980e+03,\n"
            "         9.8990e+03],\n"
            "        [9.9000e+03, 9.9010e+03, 9.9020e+03,  ..., 9.9970e+03, 9.9980e+03,\n"
            "         9.9990e+03]])"
        ),
    ),
    "summary_small_edges": (
        np.arange(40).reshape(2, 20),
        {},
        {"threshold": 10, "edgeitems": 1},
        ("tensor([[ 0,  ..., 19],\n        [20,  ..., 39]])"),
    ),
    "summary_cube": (
        np.arange(75).reshape(5, 3, 5),
        {},
        {"threshold": 10, "edgeitems": 1},
        (
            "tensor([[[ 0,  ...,  4],\n"
            "         ...,\n"
            "         [10,  ..., 14]],\n"
            "\n"
            "        ...,\n"
            "\n"
            "        [[60,  ..., 64],\n"
            "         ...,\n"
            "         [70,  ..., 74]]])"
        ),
    ),
    "summary_no_edges": (
        np.arange(6).reshape(2, 3),
        {},
        {"threshold": 3, "edgeitems": 0},
        "tensor([...], size=(2, 3))",
    ),
    "summary_hides_extremes": (
        np.where(np.arange(20) == 10, 1e9, 1.0),
        {},
        {"threshold": 10},
        "tensor([1., 1., 1.,  ..., 1., 1., 1.], dtype=torch.float64)",
    ),
    "size_without_edges": (np.arange(2), {}, {"edgeitems": 0}, "tensor([0, 1], size=(2,))"),
    "profile_short": (
        np.linspace(0, 1, 1200, dtype=np.float32),
        {},
        {"profile": "short"},
        "tensor([0.00e+00, 8.34e-04,  ..., 9.99e-01, 1.00e+00])",
    ),
    "profile_full": (
        np.zeros(12, np.float32),
        {},
        {"profile": "full", "linewidth": 30},
        ("tensor([0., 0., 0., 0., 0., 0., 0.,\n        0., 0., 0., 0., 0.])"),
    ),
    "requires_grad": (_f32(1), {"requires_grad": True}, {}, "tensor([1.], requires_grad=True)"),
    "grad_fn": (
        _f32(1),
        {"requires_grad": True, "grad_fn": "AliasBackward0"},
        {},
        "tensor([1.], grad_fn=<AliasBackward0>)",
    ),
    "grad_fn_new_line": (
        np.ones(15, np.float32),
        {"grad_fn": "AliasBackward0"},
        {},
        ("tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.],\n       grad_fn=<AliasBackward0>)"),
    ),
    "suffixes_new_line": (
        np.ones((2, 12), np.float16),
        {"requires_grad": True},
        {},
        (
            "tensor([[1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.],\n"
            "        [1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.]], dtype=torch.float16,\n"
            "       requires_grad=True)"
        ),
    ),
    "parameter": (
        _f32([1, 2]),
        {"requires_grad": True, "is_parameter": True},
        {},
        ("Parameter containing:\ntensor([[1., 2.]], requires_grad=True)"),
    ),
    "parameter_frozen": (_f32(1), {"is_parameter": True}, {}, ("Parameter containing:\ntensor([1.])")),
    "parameter_subclass": (
        _f32([1, 2], [3, 4]),
        {"requires_grad": True, "is_parameter": True, "class_name": "Mine", "parameter_heading": True},
        {},
        ("Parameter containing:\nParameter(Mine([[1., 2.],\n      [3., 4.]], requires_grad=True))"),
    ),
    "subclass": (_f32([1, 2], [3, 4]), {"class_name": "Mine"}, {}, ("Mine([[1., 2.],\n      [3., 4.]])")),
    "subclass_flagged_parameter": (
        _f32(1),
        {"requires_grad": True, "is_parameter": True, "class_name": "Mine"},
        {},
        "Parameter(Mine([1.], requires_grad=True))",
    ),
}


@pytest.mark.parametrize("array, meta, options, expected", RECORDED.values(), ids=RECORDED)
def test_recorded(array: np.ndarray, meta: dict[str, Any], options: dict[str, Any], expected: str) -> None:
    with printing.printoptions(**options):
        assert ours(array, **meta) == expected


@pytest.mark.oracle
@pytest.mark.parametrize("array, meta, options, expected", RECORDED.values(), ids=RECORDED)
def test_record_is_what_torch_prints(
    torch: Any, array: np.ndarray, meta: dict[str, Any], options: dict[str, Any], expected: str
) -> None:
    with both_options(torch, options):
        assert torch_repr(torch, to_torch(torch, array, array.dtype.name), **meta) == expected


def _elsewhere(**meta: Any) -> str:
    return ours(np.ones((2,), np.float32), **meta)


@pytest.mark.parametrize(
    "meta, expected",
    [
        ({"device": "cpu:0"}, "tensor([1., 1.])"),
        ({"device": "cuda:0"}, "tensor([1., 1.], device='cuda:0')"),
        ({"device": "cuda:0", "default_device": "cuda"}, "tensor([1., 1.])"),
        ({"device": "cuda:1", "default_device": "cuda"}, "tensor([1., 1.], device='cuda:1')"),
        ({"device": "cpu", "default_device": "cuda"}, "tensor([1., 1.], device='cpu')"),
        ({"device": "mps:0", "default_device": "mps"}, "tensor([1., 1.], device='mps:0')"),
        (
            {"device": "cuda:0", "dtype": "float16", "requires_grad": True},
            "tensor([1., 1.], device='cuda:0', dtype=torch.float16, requires_grad=True)",
        ),
        ({"tangent": "2.0"}, "tensor([1., 1.], tangent=2.0)"),
        (
            {"tangent": "tensor([1., 1.])", "grad_fn": "MulBackward0"},
            "tensor([1., 1.], grad_fn=<MulBackward0>, tangent=tensor([1., 1.]))",
        ),
        ({"tensor_contents": "HI"}, "tensor(HI)"),
    ],
)
def test_device_tangent_and_contents(meta: dict[str, Any], expected: str) -> None:
    assert _elsewhere(**meta) == expected


META = [
    ((2,), "float32", "tensor(..., device='meta', size=(2,))"),
    ((), "int64", "tensor(..., device='meta', size=(), dtype=torch.int64)"),
    ((0, 3), "bool", "tensor(..., device='meta', size=(0, 3), dtype=torch.bool)"),
]


@pytest.mark.parametrize("shape, dtype, expected", META)
def test_meta(shape: tuple[int, ...], dtype: str, expected: str) -> None:
    assert ours(None, shape=shape, dtype=dtype, device="meta") == expected


@pytest.mark.oracle
@pytest.mark.parametrize("shape, dtype, expected", META)
def test_meta_record(torch: Any, shape: tuple[int, ...], dtype: str, expected: str) -> None:
    assert repr(torch.empty(shape, dtype=getattr(torch, dtype), device="meta")) == expected


# ---------------------------------------------------------------------------------- live comparison


def _values(torch: Any, rng: np.random.Generator, count: int, dtype: str) -> Any:
    """Draw values that reach every style: whole, fixed, scientific, zeros and non-finite ones."""
    if dtype in INTS:
        high = 2 if dtype == "bool" else int(rng.choice([3, 100, torch.iinfo(to_dtype(torch, dtype)).max]))
        low = 0 if dtype == "bool" or dtype.startswith("u") or rng.random() < 0.5 else -high
        draws = [int(low + rng.random() * (high - low)) for _ in range(count)]
        return torch.tensor(draws, dtype=to_dtype(torch, dtype))
    if dtype in COMPLEXES:
        part = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}[dtype]
        real, imag = _values(torch, rng, count, part), _values(torch, rng, count, part)
        return torch.complex(real, imag)
    kind = rng.integers(5)
    draws = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4)
    if kind == 0:
        draws = np.round(draws)
    elif kind == 1:
        draws = draws * 10.0 ** rng.integers(-12, 13, count)
    elif kind == 2:
        draws = np.abs(draws) * 10.0 ** rng.integers(-320, 300)
    special = rng.choice([0.0, -0.0, INF, -INF, NAN, 1e-4, 1e8, 1e3, 1.0], count)
    draws = np.where(rng.random(count) < rng.choice([0, 0.3, 1]), special, draws)
    return torch.from_numpy(draws).to(to_dtype(torch, dtype))


def to_dtype(torch: Any, dtype: str) -> Any:
    return getattr(torch, dtype)


def _shape(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.choice([0, 1, 1, 2, 3, 4, 7], rng.integers(0, 4)))


def _options(rng: np.random.Generator) -> dict[str, Any]:
    drawn: dict[str, Any] = {}
    if rng.random() < 0.5:
        drawn["profile"] = str(rng.choice(["default", "short", "full"]))
    if rng.random() < 0.4:
        drawn["precision"] = int(rng.integers(0, 9))
    if rng.random() < 0.5:
        drawn |= {"threshold": int(rng.integers(0, 12)), "edgeitems": int(rng.integers(0, 4))}
    if rng.random() < 0.5:
        drawn["linewidth"] = int(rng.choice([1, 20, 40, 60, 120]))
    if rng.random() < 0.3:
        drawn["sci_mode"] = bool(rng.random() < 0.5)
    return drawn


def _meta(rng: np.random.Generator, dtype: str) -> dict[str, Any]:
    meta: dict[str, Any] = {"default_dtype": str(rng.choice(FLOATS))}
    choice = rng.integers(6)
    if dtype in (*FLOATS, *COMPLEXES):
        if choice == 1:
            meta["requires_grad"] = True
        elif choice == 2:
            meta |= {"requires_grad": True, "grad_fn": "AliasBackward0"}
    if choice == 3:
        meta["is_parameter"] = True
    elif choice == 4:
        meta["class_name"] = "A" * int(rng.integers(1, 20))
    return meta


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", [*FLOATS, *FLOAT8S, *INTS, *COMPLEXES])
def test_random_against_torch(torch: Any, dtype: str) -> None:
    rng = np.random.default_rng([*dtype.encode()])
    for _ in range(150):
        shape, options, meta = _shape(rng), _options(rng), _meta(rng, dtype)
        x = _values(torch, rng, math.prod(shape), dtype).reshape(shape)
        array = to_numpy(x.clone(), dtype)
        with both_options(torch, options):
            expected = torch_repr(torch, x, **meta)
            got = printing.format_tensor(array, **{"dtype": dtype, "shape": shape, "default_dtype": "float32"} | meta)
        assert got == expected, f"{array!r}\n{meta}\n{options}"


@pytest.mark.oracle
@pytest.mark.parametrize("shape", [(1001,), (4, 300), (30, 40), (2, 9, 70), (9, 8, 7, 3)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64", "bool"])
def test_summaries_against_torch(torch: Any, shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(len(shape))
    for options in ({}, {"profile": "short"}, {"edgeitems": 12}, {"edgeitems": 1, "linewidth": 50}):
        x = _values(torch, rng, math.prod(shape), dtype).reshape(shape)
        with both_options(torch, options):
            assert ours(x.numpy()) == repr(x)
            assert ours(x.numpy().T.copy().T) == repr(x)  # memory order does not matter


@pytest.mark.oracle
def test_packed_float4_against_torch(torch: Any) -> None:
    bits = np.arange(8, dtype=np.uint8).reshape(2, 4)
    x = torch.from_numpy(bits).view(torch.float4_e2m1fn_x2)
    assert ours(bits, dtype="float4_e2m1fn_x2") == repr(x)


@pytest.mark.oracle
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_tangent_against_torch(torch: Any, shape: tuple[int, ...]) -> None:
    fwd = torch.autograd.forward_ad
    with fwd.dual_level():
        tangent = torch.full(shape, 2.0)
        x = fwd.make_dual(torch.ones(shape), tangent)
        assert ours(np.ones(shape, np.float32), tangent=f"{tangent}") == repr(x)


# ---------------------------------------------------------------------------------------- summaries


def test_large_tensors_are_not_read_whole() -> None:
    # 2**60 elements that share one byte: anything but picking a corner fails or never ends
    huge = np.broadcast_to(np.array(1.5, ml_dtypes.float8_e5m2), (2**20, 2**20, 2**20))
    text = ours(huge)
    assert text.count("1.5000") == 6**3
    assert text.count("...") == 36 + 6 + 1


@pytest.mark.parametrize("shape", [(2000,), (2, 900), (40, 50), (3, 4, 500)])
def test_summarised_data_are_accepted(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    index = printing.summary_index(shape)
    assert index is not None
    assert ours(array[index], shape=shape) == ours(array)
    with jax.numpy_rank_promotion("raise"):
        corner = np.asarray(jnp.asarray(array)[index])
    assert ours(corner, shape=shape) == ours(array)


def test_small_tensors_have_no_summary() -> None:
    assert printing.summary_index((10, 100)) is None
    assert printing.summary_index(()) is None


@pytest.mark.parametrize("array", [None, np.zeros(3, np.float32)])
def test_data_of_another_shape_are_refused(array: np.ndarray | None) -> None:
    with pytest.raises(ValueError, match=r"expected data of shape \(2,\)"):
        ours(array, dtype="float32", shape=(2,))


# ------------------------------------------------------------------------------------ format_scalar

SCALARS = [
    (np.float32(0.1), "", "0.10000000149011612"),
    (np.array(2.5, np.float64), ".3f", "2.500"),
    (np.array(0.1, ml_dtypes.bfloat16), "", "0.10009765625"),
    (np.array(0.5, ml_dtypes.float8_e5m2), ">6", "   0.5"),
    (np.array(3), ">5", "    3"),
    (np.array(2**64 - 1, np.uint64), "x", "ffffffffffffffff"),
    (np.array(True), "", "True"),
    (np.array(True), "d", "1"),
    (np.array(1 + 2j, np.complex64), ".2f", "1.00+2.00j"),
    (np.array(NAN, np.float16), "", "nan"),
]


@pytest.mark.parametrize("value, spec, expected", SCALARS)
def test_format_scalar(value: Any, spec: str, expected: str) -> None:
    assert printing.format_scalar(value, spec) == expected


@pytest.mark.oracle
@pytest.mark.parametrize("value, spec, expected", SCALARS)
def test_format_scalar_record(torch: Any, value: Any, spec: str, expected: str) -> None:
    array = np.asarray(value)
    assert format(to_torch(torch, array, array.dtype.name), spec) == expected


def test_format_scalar_passes_errors_on() -> None:
    with pytest.raises(ValueError, match="Unknown format code"):
        printing.format_scalar(np.float32(1), "d")
    assert printing.format_scalar(3, "03d") == "003"


# ------------------------------------------------------------------------------------ print options

OPTION_CALLS = [
    [{"profile": "short"}],
    [{"profile": "full", "precision": 7}],
    [{"profile": "short"}, {"edgeitems": 5}],
    [{"sci_mode": True}, {"precision": 3}],
    [{"threshold": 5, "linewidth": 11, "edgeitems": 0, "sci_mode": False}, {"profile": "default"}],
    [{"profile": "no such profile", "precision": 2}],
]


def _after(module: Any, calls: list[dict[str, Any]]) -> dict[str, Any]:
    with module.printoptions():
        for call in calls:
            assert module.set_printoptions(**call) is None
        return module.get_printoptions()


@pytest.mark.oracle
@pytest.mark.parametrize("calls", OPTION_CALLS)
def test_options_against_torch(torch: Any, calls: list[dict[str, Any]]) -> None:
    assert _after(printing, calls) == _after(torch._tensor_str, calls)


def test_options() -> None:
    assert _after(printing, []) == {
        "precision": 4,
        "threshold": 1000,
        "edgeitems": 3,
        "linewidth": 80,
        "sci_mode": None,
    }
    assert _after(printing, [{"profile": "full"}])["threshold"] == INF
    assert _after(printing, [{"profile": "short"}])["edgeitems"] == 2
    # any call sets sci_mode, as in torch
    assert _after(printing, [{"sci_mode": True}, {"precision": 3}])["sci_mode"] is None


def test_printoptions_restores_after_an_error() -> None:
    before = printing.get_printoptions()
    with pytest.raises(KeyError), printing.printoptions(precision=1, sci_mode=True):
        {}[ours(_f32(2))]
    assert printing.get_printoptions() == before


def test_negative_edgeitems_are_refused() -> None:
    with pytest.raises(ValueError, match="edgeitems must be 0 or more, got -1"):
        printing.set_printoptions(edgeitems=-1)


# ------------------------------------------------------------------------------- one number at a time

ELEMENTS = [[1.0], [0.5, 2.0], [1e-9, 1.0], [1e9], [0.0], [INF, 3.0], [NAN, 0.25], [], [1, 20], [True]]


@pytest.mark.oracle
@pytest.mark.parametrize("elements", ELEMENTS, ids=str)
@pytest.mark.parametrize("options", [{}, {"precision": 2}, {"sci_mode": True}], ids=str)
def test_the_text_of_a_number_among_elements(torch: Any, elements: list[Any], options: dict[str, Any]) -> None:
    import torchgrad_jax

    with both_options(torch, options):
        want, found = (m._tensor_str._Formatter(m.tensor(elements)) for m in (torch, torchgrad_jax))
        for name in ("floating_dtype", "int_mode", "sci_mode", "max_width"):
            assert getattr(found, name) == getattr(want, name), name
        assert found.width() == want.width()
        values = elements if not found.floating_dtype else [0.0, 1.0, -2.5, 1e7, INF, NAN]
        assert [found.format(v) for v in values] == [want.format(v) for v in values]
