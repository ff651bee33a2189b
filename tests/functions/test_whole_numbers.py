"""Integers that overflow, and the least integer: powers, common divisors and multiples, membership."""

from __future__ import annotations

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, attempt, complaint

program = Programs()
test_same_as_torch = pytest.mark.long(program.test())

DTYPES = ("uint8", "int8", "int16", "int32", "int64")
BASES = (0, 1, 2, 3, 7, 10, 127, -1, -2, -3, -128)
EXPONENTS = (0, 1, 2, 7, 8, 31, 32, 63, 64, 65, 100, 127)


def integers(m, values, name):
    """Of the values those that the dtype holds."""
    dtype = getattr(m, name)
    info = m.iinfo(dtype)
    return m.tensor([v for v in values if info.min <= v <= info.max], dtype=dtype)


@program
def powers_with_tensors_as_exponents(m):
    return {
        f"{base} {exponent}": integers(m, BASES, base)[:, None] ** integers(m, EXPONENTS, exponent)
        for base, exponent in [*zip(DTYPES, DTYPES), ("int8", "int64"), ("uint8", "int16")]
    }


@program
def powers_of_numbers_and_by_numbers(m):
    out = []
    for name in DTYPES:
        x = integers(m, EXPONENTS, name)
        out += [base**x for base in (0, 1, 2, -1, 3)]
        out += [integers(m, BASES, name) ** e for e in (0, 3, 64, 127)]
    return out


@program
def powers_in_place(m):
    x = m.tensor([3, 5, -2], dtype=m.int32)
    x.pow_(m.tensor(70))
    y = m.tensor([3, 5, -2], dtype=m.int8)
    y **= m.tensor([70, 71, 100])
    return x, y, m.pow(2, m.tensor([64, 63]), out=m.zeros(2, dtype=m.int64))


@program
def negative_exponents(m):
    bases = m.tensor([0, 1, -1, 2, -2])
    return [bases ** m.tensor(e) for e in (-1, -2, -63, -64, -65, -(2**63))]


@program
def huge_exponents(m):
    return m.tensor([3, -5, 2, 7]) ** m.tensor([2**62 + 1, 2**63 - 1, 2**40, 2**33 + 3])


@program
def powers_batched_and_compiled(m):
    x = m.tensor([[1, 63, 64], [65, 3, 100]])
    return m.vmap(lambda row: 3**row)(x), m.vmap(m.pow)(x, x), m.float_power(2, x)


EDGES = {
    "uint8": (0, 1, 2, 6, 12, 128, 254, 255),
    "int8": (-128, -127, -64, -12, -2, -1, 0, 1, 3, 6, 64, 127),
    "int16": (-32768, -32767, -16384, -12, 0, 1, 3, 6, 16384, 32767),
}


@program
def common_divisors_and_multiples(m):
    out = {}
    for name, values in EDGES.items():
        x = integers(m, values, name)
        out[name] = [m.gcd(x[:, None], x), m.lcm(x[:, None], x)]
    return out


@program
def divisors_of_the_least_integer(m):
    """Not by what makes torch divide it by -1, which ends the process there."""
    out = []
    for bits in (32, 64):
        dtype, least = getattr(m, f"int{bits}"), -(2 ** (bits - 1))
        x = m.tensor([least, least, 3, 0, least, least // 2, 6, -6], dtype=dtype)
        y = m.tensor([3, 0, least, least, least, least, least, least], dtype=dtype)
        out += [m.gcd(x, y), m.lcm(x, y), m.vmap(m.gcd)(x, y)]
    return out


@program
def membership_of_truth_values(m):
    t, f = m.tensor([True, False]), m.tensor([1.0])
    pairs = [
        (t, t),
        (t, f),
        (f, t),
        (t, True),
        (True, t),
        (f, True),
        (t, 1),
        (t, 1.5),
        (m.tensor([1]), m.tensor([1j])),
        (m.tensor([1j]), t),
        (t, m.tensor([1j])),
        (t[:0], f),
    ]
    return [complaint(lambda a=a, b=b: m.isin(a, b)) for a, b in pairs]


@program
def membership(m):
    x = m.tensor([[1, 2], [3, 4]])
    return [
        m.isin(x, m.tensor([2, 3])),
        m.isin(x, 2.0),
        m.isin(2, x),
        m.isin(x, m.tensor([]), invert=True),
        m.isin(m.tensor([float("nan"), float("inf")]), m.tensor([float("nan"), float("inf")])),
        m.isin(x, x[0], assume_unique=True),
        m.isin(x.to(m.uint8), m.arange(1, 20, 2)),
    ]


NUMBERS = (-0.5, -1.0, -1, -128.5, 127.5, 255.0, 255.5, 256, 32768.0, 1e19, 2.0**63, float("nan"), float("-inf"))
WRITES = {
    "full": lambda m, x, v: m.full((2,), v, dtype=x.dtype),
    "fill_": lambda m, x, v: x.fill_(v),
    "full_like": lambda m, x, v: m.full_like(x, v),
    "masked_fill": lambda m, x, v: x.masked_fill(x == 0, v),
    "assignment": lambda m, x, v: x.__setitem__(0, v) or x,
    "tensor": lambda m, x, v: m.tensor(v, dtype=x.dtype),
    "a tensor's number": lambda m, x, v: x.masked_fill(x == 0, m.tensor(v)),
}


@program
def numbers_that_a_dtype_does_not_hold(m):
    """Whole numbers below 0 wrap around in unsigned dtypes; those with a fraction do not, nor do floats."""
    return {
        f"{name} {kind} {v}": attempt(lambda w=write, k=kind, v=v: w(m, m.zeros(2, dtype=getattr(m, k)), v))
        for name, write in WRITES.items()
        for kind in ("uint8", "int8", "int64")
        for v in NUMBERS
        if not (kind == "int64" and v == 2.0**63)  # its conversion is up to the processor
    }


def test_a_compiled_function_refuses_numbers_that_do_not_fit():
    write = tg.compile(lambda x, v: x.masked_fill(x == 0, v))
    for v, kind in ((-0.5, tg.uint8), (255.5, tg.uint8), (127.5, tg.int8)):
        with pytest.raises(RuntimeError, match="without overflow"):
            write(tg.zeros(2, dtype=kind), tg.tensor(v)).tolist()


@program
def half_precision_divided_by_numbers(m):
    """A number that divides is not rounded to half precision first; what is divided is."""
    found = {}
    for dtype in (m.float16, m.bfloat16):
        x = m.tensor([1.0, 2.0, -1.0, 0.5, 100.0, 0.0, 0.3, 7.0, float("inf"), -0.7], dtype=dtype)
        for v in (0.1, 0.3, 1e-9, 1e5, -0.7, 3):
            t = m.tensor(v)
            found[f"{dtype} {v}"] = [
                x // v,
                x.div(v, rounding_mode="floor"),
                x.div(v, rounding_mode="trunc"),
                x.clone().floor_divide_(v),
                v // x,
                x // t,
                t // x,
                x / v,
                v / x,
                x / t,
                t / x,
                x % v,
                m.fmod(x, v),
            ]
    return found


@program
def small_angles_in_half_precision(m):
    return m.asin(m.tensor([6e-8, -6e-8, 3e-5], dtype=m.float16))


@program
def bool_tensors_have_no_bounds(m):
    x = m.tensor([True, False])
    return [complaint(lambda: m.clamp(x, x, x)), m.clamp(x, min=x), complaint(lambda: x.round(decimals=1))]


@program
def numbers_that_are_put_around(m):
    """`pad` fills with a number, which the dtype has to hold."""
    pad = m.nn.functional.pad
    return {
        f"{kind} {v}": attempt(lambda k=kind, v=v: pad(m.zeros(2, dtype=getattr(m, k)), (1, 1), value=v))
        for kind in ("uint8", "int8", "int16", "int32", "float16", "bfloat16", "float32")
        for v in (300, -1, -1.5, 1e5, 1e20, 1e300, 2.5)
    }


@program
def distinct_elements_by_their_inner_name(m):
    x = m.tensor([3, 1, 1, 2])
    return [m._unique2(x, return_inverse=i, return_counts=c) for i in (False, True) for c in (False, True)]
