"""Which functions keep subnormal numbers and which take them for zeros, on the CPU, beside torch, which keeps all.

NumPy, which computes small tensors, keeps them, too, and so it does where it goes through large ones block by block.
XLA runs its kernels with the processor's modes that flush subnormal numbers: what moves or inspects bits keeps them;
what computes, compares or orders sees zeros. A row that changes sides is a change for users: `docs/non_goals.md`.
"""

import dataclasses

import pytest

import torchgrad_jax as tg
from torchgrad_jax._core.host import choice

HALF = 33
"""Numbers of each sign: kernels run their vectors of eight or sixteen, and what is left over."""
MANY = choice.LARGEST // 2 + HALF
"""The same in a tensor that is XLA's."""


@pytest.fixture(autouse=True)
def blocks_as_with_one_core(monkeypatch):
    """Arithmetic on a tensor that is XLA's goes block by block, as it does where XLA has no second thread."""
    monkeypatch.setattr(choice, "BLOCKS_END", 1 << 22)
    monkeypatch.setattr(choice, "OF_BLOCKS", dataclasses.replace(choice.OF_BLOCKS, largest=1 << 22))


SMALL = {"float64": 2e-310, "float32": 2e-40, "bfloat16": 2e-40, "float16": 2e-6}
BITS = {"float64": "int64", "float32": "int32", "bfloat16": "int16", "float16": "int16"}
USES = 2
"""A kernel gives the same each time."""


def mask(t, x):
    return t.ones(x.shape, dtype=t.bool)


def assigned(t, x, v):
    y = t.zeros_like(x)
    y[1:] = v
    return y


def assigned_to_one(t, x, v):
    y = t.zeros_like(x)
    y[1] = -v
    return y


KEEP = {
    "tensor": lambda t, x, v: t.tensor([v, -v], dtype=x.dtype),
    "full": lambda t, x, v: t.full((3,), v, dtype=x.dtype),
    "large_full": lambda t, x, v: t.full((20_000,), v, dtype=x.dtype)[-3:],
    "full_like": lambda t, x, v: t.full_like(x, v),
    "assignment": assigned,
    "assignment_to_one": assigned_to_one,
    "list": lambda t, x, v: t.tensor(x.tolist(), dtype=t.float64),
    "item": lambda t, x, v: t.tensor(x[1].item(), dtype=t.float64),
    "clone": lambda t, x, v: x.clone(),
    "index": lambda t, x, v: x[t.arange(x.numel() - 1, -1, -1)],
    "index_put": lambda t, x, v: t.zeros_like(x).index_put((t.arange(x.numel()),), x),
    "masked_select": lambda t, x, v: x[mask(t, x)],
    "gather": lambda t, x, v: x.gather(0, t.arange(x.numel())),
    "scatter": lambda t, x, v: t.zeros_like(x).scatter(0, t.arange(x.numel()), x),
    "cat": lambda t, x, v: t.cat([x, x]),
    "transposed": lambda t, x, v: x.reshape(2, -1).t().contiguous(),
    "flip": lambda t, x, v: x.flip(0),
    "pad": lambda t, x, v: t.nn.functional.pad(x, (1, 1)),
    "view_as_integers": lambda t, x, v: x.view(getattr(t, BITS[name_of(x)])),
    "where": lambda t, x, v: t.where(mask(t, x), x, -x),
    "neg": lambda t, x, v: -x,
    "abs": lambda t, x, v: x.abs(),
    "copysign": lambda t, x, v: t.copysign(x, -t.ones_like(x)),
    "signbit": lambda t, x, v: x.signbit(),
    "isnan": lambda t, x, v: x.isnan(),
    "isfinite": lambda t, x, v: x.isfinite(),
    "nan_to_num": lambda t, x, v: x.nan_to_num(),
    "nonzero": lambda t, x, v: x.nonzero(),
    "sort": lambda t, x, v: x.sort().values,
    "unique": lambda t, x, v: t.unique(x),
    "frexp": lambda t, x, v: t.frexp(x).mantissa,
    "frexp_exponent": lambda t, x, v: t.frexp(x).exponent,
    "nextafter_up": lambda t, x, v: t.nextafter(x, t.ones_like(x)),
    "nextafter_to_zero": lambda t, x, v: t.nextafter(x, t.zeros_like(x)),
    "nextafter_from_zero": lambda t, x, v: t.nextafter(t.zeros_like(x), x),
    "clone_in_vmap": lambda t, x, v: t.func.vmap(lambda y: y.clone())(x),
}
FLUSH = {
    "eq": lambda t, x, v: x == 0,
    "ne": lambda t, x, v: x != 0,
    "lt": lambda t, x, v: x < 0,
    "gt": lambda t, x, v: x > 0,
    "equal": lambda t, x, v: t.tensor(t.equal(x, -x)),
    "isclose": lambda t, x, v: t.isclose(x, -x, 0, 0),
    "any": lambda t, x, v: (x != 0).any(),
    "count_nonzero": lambda t, x, v: t.count_nonzero(x == 0),
    "heaviside": lambda t, x, v: t.heaviside(x, t.full_like(x, 0.5)),
    "sign": lambda t, x, v: x.sign(),
    "floor": lambda t, x, v: x.floor(),
    "ceil": lambda t, x, v: x.ceil(),
    "maximum": lambda t, x, v: t.maximum(x, t.zeros_like(x)),
    "relu": lambda t, x, v: x.relu(),
    "add": lambda t, x, v: x + x,
    "sub": lambda t, x, v: x - (-x),
    "mul": lambda t, x, v: x * 4,
    "div": lambda t, x, v: x / 2,
    "result_of_mul": lambda t, x, v: t.full_like(x, v * 2**20) * 2.0**-20,
    "sqrt": lambda t, x, v: x.abs().sqrt(),
    "log": lambda t, x, v: x.abs().log(),
    "sum": lambda t, x, v: x.abs().sum(),
    "mean": lambda t, x, v: x.abs().mean(),
    "cumsum": lambda t, x, v: x.abs().cumsum(0),
    "ldexp": lambda t, x, v: t.ldexp(x, t.tensor(5)),
    "index_add": lambda t, x, v: t.zeros_like(x).index_add(0, t.arange(x.numel()), x),
}


def name_of(x):
    return str(x.dtype).rpartition(".")[2]


def numbers(t, dtype, half=HALF):
    v = SMALL[dtype]
    return t.tensor([v, -v] * half, dtype=getattr(t, dtype))


def answers(fn, dtype, half=HALF):
    """What all uses give, as lists of Python numbers."""
    return [fn(tg, numbers(tg, dtype, half), SMALL[dtype]).tolist() for _ in range(USES)]


SUMMED_BY_XLA = ("index_add", "bfloat16")
"""What has no NumPy code at any size."""


IN_BLOCKS = {
    *("eq", "ne", "lt", "gt", "equal", "isclose", "any", "count_nonzero", "floor", "ceil", "maximum", "add", "sub"),
    *("mul", "result_of_mul", "sqrt", "fill", "fill_"),
}
"""What NumPy does block by block with float32 and float64."""


def kept_by(dtype, half, name=""):
    """Whether the numbers of a dtype are kept by what computes with so many: by NumPy, or as `float32` by XLA."""
    in_numpy = name in ("cumsum", "pad_number") or (dtype != "bfloat16" and name in IN_BLOCKS)
    return dtype == "float16" or in_numpy or (half == HALF and (name, dtype) != SUMMED_BY_XLA)


def flushed(t, values):
    """Zeros for what is subnormal."""
    if not values.dtype.is_floating_point:
        return values
    return t.where(values.abs() < t.finfo(values.dtype).smallest_normal, 0, values)


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("name", KEEP)
def test_kept(oracle, name, dtype):
    fn = KEEP[name]
    expected = fn(oracle, numbers(oracle, dtype), SMALL[dtype]).tolist()
    assert answers(fn, dtype) == [expected] * USES


@pytest.mark.parametrize("dtype", SMALL)
def test_printed(oracle, dtype):
    assert str(numbers(tg, dtype)) == str(numbers(oracle, dtype))


@pytest.mark.parametrize("half", [HALF, MANY])
@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("name", FLUSH)
def test_flushed_where_xla_computes_and_kept_in_float16(oracle, name, dtype, half):
    fn, x = FLUSH[name], numbers(oracle, dtype, half)
    kept = fn(oracle, x, SMALL[dtype])
    zeros = flushed(oracle, fn(oracle, flushed(oracle, x), SMALL[dtype]))
    assert kept.tolist() != zeros.tolist()
    expected = (kept if kept_by(dtype, half, name) else zeros).tolist()
    if half == HALF or expected.__class__ is not float:
        assert answers(fn, dtype, half) == [expected] * USES
    else:
        assert answers(fn, dtype, half) == pytest.approx([expected] * USES, rel=1e-2)


CASTS = [
    ("float64", "float32", 2e-40, "flushes"),
    ("float64", "bfloat16", 2e-40, "flushes"),
    ("float64", "float16", 2e-6, "keeps"),
    ("float32", "float64", 2e-40, "flushes"),
    ("float32", "bfloat16", 2e-40, "keeps"),
    ("float32", "float16", 2e-6, "keeps"),
    ("bfloat16", "float32", 2e-40, "keeps"),
    ("bfloat16", "float64", 2e-40, "flushes"),
    ("float16", "float32", 2e-6, "keeps"),
    ("float16", "float64", 2e-6, "keeps"),
    ("float64", "bool", 2e-310, "flushes"),
    ("float32", "bool", 2e-40, "flushes"),
    ("bfloat16", "bool", 2e-40, "keeps"),
    ("float16", "bool", 2e-6, "keeps"),
]


@pytest.mark.parametrize("half", [HALF, MANY])
@pytest.mark.parametrize(("old", "new", "value", "state"), CASTS)
def test_casts(oracle, old, new, value, state, half):
    def cast(t):
        x = t.tensor([value, -value] * half, dtype=getattr(t, old))
        return x.to(getattr(t, new)).tolist()

    in_numpy = half == HALF or {old, new} <= {"float64", "float32", "bool"}
    expected = cast(oracle) if state == "keeps" or in_numpy else [0] * (2 * half)
    assert any(cast(oracle))
    assert [cast(tg) for _ in range(USES)] == [expected] * USES


STORED = {
    "fill_": lambda t, x, v: x.clone().fill_(v),
    "fill": lambda t, x, v: t.fill(x, -v),
    "masked_fill": lambda t, x, v: x.masked_fill(mask(t, x), v),
    "index_fill": lambda t, x, v: x.index_fill(0, t.arange(x.numel()), v),
    "scatter_number": lambda t, x, v: x.scatter(0, t.arange(x.numel()), v),
    "where_number": lambda t, x, v: t.where(mask(t, x), v, x),
    "pad_number": lambda t, x, v: t.nn.functional.pad(x, (2, 2), value=v)[:2],
}


@pytest.mark.parametrize("half", [HALF, MANY])
@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("name", STORED)
def test_numbers_that_kernels_take_as_float64(oracle, name, dtype, half):
    fn = STORED[name]
    expected = fn(oracle, numbers(oracle, dtype, half), SMALL[dtype])
    if dtype != "float64" and not kept_by(dtype, half, name):
        expected = oracle.zeros_like(expected)
    assert answers(fn, dtype, half) == [expected.tolist()] * USES
