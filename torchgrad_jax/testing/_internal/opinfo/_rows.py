"""Rows of functions of elements: which dtypes they take, and what is known of their derivatives.

Dtypes are written in letters: I all integers, F float32 and float64, C the complex ones, h float16, b bfloat16,
? bool, u uint8, l int64, w all integers but uint8.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import torchgrad_jax as torch

from .core import BinaryUfuncInfo, OpInfo, UnaryUfuncInfo

_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)
LETTERS: dict[str, tuple[Any, ...]] = {
    "I": (torch.uint8, *_INTEGERS),
    "F": (torch.float32, torch.float64),
    "C": (torch.complex64, torch.complex128),
    "h": (torch.float16,),
    "b": (torch.bfloat16,),
    "?": (torch.bool,),
    "u": (torch.uint8,),
    "l": (torch.int64,),
    "w": _INTEGERS,
}
ALL = "IFC?bh"


def dtypes(letters: str) -> set[Any]:
    """The dtypes that the letters stand for."""
    return {d for letter in letters for d in LETTERS[letter]}


def knows(what: str) -> dict[str, Any]:
    """Flags from letters: a autograd, g twice, f forward mode, w forward over reverse, o `out=`."""
    return {
        "supports_autograd": "a" in what,
        "supports_gradgrad": "g" in what,
        "supports_forward_ad": "f" in what,
        "supports_fwgrad_bwgrad": "w" in what,
        "supports_out": "o" in what,
    }


def _ref(name: str) -> Any:
    return getattr(np, _NUMPY.get(name, name), None)


_NUMPY = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
          "atanh": "arctanh", "neg": "negative", "bitwise_not": "invert", "conj_physical": "conj",
          "mul": "multiply", "sub": "subtract", "eq": "equal", "ne": "not_equal", "ge": "greater_equal",
          "gt": "greater", "le": "less_equal", "lt": "less", "pow": "power", "true_divide": "divide",
          "atan2": "arctan2", "sinc": "sinc", "positive": "positive"}  # fmt: skip

_WITH_INPLACE = [f"nn.functional.{n}" for n in ["elu", "celu", "selu", "silu", "mish", "leaky_relu", "hardsigmoid"]]

Group = tuple[str, str | None, str, str]
"""Dtypes, those of derivatives where they are fewer, flags, names."""

_UNARY: tuple[Group, ...] = (
    (ALL, None, "agfwo", "acos acosh asin asinh atan atanh conj_physical cos cosh exp log1p log log10 log2 sin sinc "
                         "sinh tan tanh exp2 expm1 reciprocal rsqrt sqrt square sigmoid"),
    (ALL, "FCbh", "agfwo", "angle sgn"),
    ("IFCbh", None, "agfwo", "abs neg"),
    ("IFCbh", None, "agfw", "positive nn.functional.softsign nn.functional.tanhshrink"),
    ("IF?bh", None, "agfwo", "deg2rad i0 rad2deg sign nan_to_num digamma erf erfc erfinv lgamma logit"),
    ("IFbh", None, "agfwo", "ceil floor trunc round"),
    ("Fbh", None, "agfwo", "frac nn.functional.logsigmoid nn.functional.softshrink nn.functional.hardshrink "
                           "nn.functional.softplus"),
    ("Fbh", None, "agfw", "nn.functional.elu nn.functional.celu nn.functional.selu nn.functional.silu "
                          "nn.functional.mish"),
    ("IFbh", None, "agfw", "nn.functional.relu"),
    ("IFbh", "Fbh", "agfw", "nn.functional.relu6"),
    ("IF?bh", None, "agfwo", "special.i0e special.ndtr special.entr"),
    ("IF?bh", "F", "agfwo", "special.i1 special.i1e"),
    ("IF?", None, "agfwo", "special.ndtri special.log_ndtr special.erfcx"),
    ("IF?bh", None, "o", "signbit isposinf isneginf"),
    (ALL, None, "", "isfinite isinf isreal isnan"),
    (ALL, None, "o", "logical_not"),
    ("I?", None, "o", "bitwise_not"),
    ("IF?", None, "o", "special.airy_ai special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 "
                       "special.modified_bessel_i0 special.modified_bessel_i1 special.modified_bessel_k0 "
                       "special.modified_bessel_k1 special.spherical_bessel_j0"),
)  # fmt: skip
_DOMAINS: dict[str, tuple[Any, Any]] = {
    "acos": (-1, 1),
    "asin": (-1, 1),
    "acosh": (1, None),
    "atanh": (-1, 1),
    "log": (0, None),
    "log10": (0, None),
    "log1p": (-1, None),
    "log2": (0, None),
    "rsqrt": (0, None),
    "sqrt": (0, None),
    "erfinv": (-1, 1),
    "logit": (0, 1),
    "special.ndtri": (0, 1),
    "special.entr": (0, None),
    "special.bessel_y0": (0, None),
    "special.bessel_y1": (0, None),
    "special.modified_bessel_k0": (0, None),
    "special.modified_bessel_k1": (0, None),
}

_BINARY: tuple[Group, ...] = (
    (ALL, None, "agfwo", "add mul true_divide float_power ldexp"),
    ("IFCbh", None, "agfwo", "sub"),
    ("IFCbh", "FCbh", "agfwo", "pow"),
    ("IFCbh", None, "agfw", "rsub"),
    ("IF?bh", None, "agfwo", "fmax fmin maximum minimum atan2 copysign xlogy"),
    ("IFbh", None, "agfwo", "fmod remainder"),
    ("IF?bh", None, "agfwo", "special.xlog1py"),
    ("FCbh", None, "agfwo", "logaddexp"),
    ("Fbh", None, "agfwo", "logaddexp2 hypot"),
    ("Fbh", None, "o", "igamma igammac"),
    ("I", None, "o", "bitwise_left_shift bitwise_right_shift lcm gcd"),
    ("I?", None, "o", "bitwise_and bitwise_or bitwise_xor"),
    ("IF?bh", None, "o", "ge gt le lt heaviside"),
    (ALL, None, "o", "eq ne logical_and logical_or logical_xor"),
    (ALL, None, "", "isclose"),
    ("IFbh", None, "o", "floor_divide"),
    ("IF?", None, "o", "special.zeta special.chebyshev_polynomial_t special.hermite_polynomial_h"),
)
_POSITIVE = {"low": 0.1, "high": 5}
_OPERANDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "true_divide": ({}, {"exclude_zero": True}),
    "fmod": ({}, {"exclude_zero": True}),
    "remainder": ({}, {"exclude_zero": True}),
    "floor_divide": ({}, {"exclude_zero": True}),
    "pow": ({"low": 0}, {"low": 0}),
    "float_power": ({"low": 1}, {}),
    "hypot": ({"exclude_zero": True}, {}),
    "xlogy": ({}, {"low": 1}),
    "special.xlog1py": ({}, {"low": 0}),
    "igamma": (_POSITIVE, _POSITIVE),
    "igammac": (_POSITIVE, _POSITIVE),
    "atan2": ({"exclude_zero": True}, {"exclude_zero": True}),
    "bitwise_left_shift": ({"low": 0, "high": 5}, {"low": 0, "high": 5}),
    "bitwise_right_shift": ({"low": 0, "high": 9}, {"low": 0, "high": 5}),
    "ldexp": ({}, {"low": -2, "high": 3}),
    "special.zeta": ({"low": 2, "high": 5}, {"low": 1, "high": 5}),
    "special.chebyshev_polynomial_t": ({"low": -1, "high": 1}, {"low": 0, "high": 4}),
    "special.hermite_polynomial_h": ({"low": -1, "high": 1}, {"low": 0, "high": 4}),
}
_COMPARES = ["ge", "gt", "le", "lt", "eq", "ne", "logical_and", "logical_or", "logical_xor", "isclose"]


def _unary(name: str, group: Group, **more: Any) -> UnaryUfuncInfo:
    letters, backward, flags, _ = group
    if name in _WITH_INPLACE:
        fn = getattr(torch.nn.functional, name.removeprefix("nn.functional."))
        more["inplace_variant"] = functools.partial(fn, inplace=True)
    return UnaryUfuncInfo(
        name,
        ref=_ref(name),
        dtypes=dtypes(letters),
        domain=_DOMAINS.get(name, (None, None)),
        backward_dtypes=None if backward is None else dtypes(backward),
        **knows(flags),
        **more,
    )


def unary_rows() -> list[OpInfo]:
    """Functions of one tensor."""
    rows: list[OpInfo] = [_unary(n, group) for group in _UNARY for n in group[3].split()]
    for name, scalar in (("nn.functional.leaky_relu", {"negative_slope": 0.1}), ("nn.functional.hardsigmoid", {})):
        kwargs = {"sample_kwargs": lambda d, k, x, given=scalar: (given, given)}
        rows.append(_unary(name, ("Fbh", None, "agfw" if scalar else "af", ""), **kwargs))
    rows.extend(
        UnaryUfuncInfo(
            "polygamma",
            op=lambda x, n, **kwargs: torch.polygamma(n, x, **kwargs),
            variant_test_name=f"polygamma_n_{n}",
            dtypes=dtypes("IF?b"),
            domain=(0, None),
            inplace_variant=None,
            method_variant=None,
            **knows("agfwo"),
            sample_kwargs=lambda d, k, x, n=n: ({"n": n}, {"n": n}),
        )
        for n in (1, 2)
    )
    return rows


def binary_rows() -> list[OpInfo]:
    """Functions of two tensors."""
    rows: list[OpInfo] = []
    for group in _BINARY:
        for name in group[3].split():
            left, right = _OPERANDS.get(name, ({}, {}))
            rows.append(
                BinaryUfuncInfo(
                    name,
                    ref=_ref(name),
                    dtypes=dtypes(group[0]),
                    backward_dtypes=None if group[1] is None else dtypes(group[1]),
                    lhs_make_tensor_kwargs=left,
                    rhs_make_tensor_kwargs=right,
                    always_returns_bool=name in _COMPARES,
                    **knows(group[2]),
                    supports_rhs_python_scalar=name in _SCALARS,
                )
            )
    for mode, letters in ((None, ALL), ("trunc", "IFbh"), ("floor", "IFbh")):
        given = {"rounding_mode": mode}
        rows.append(
            BinaryUfuncInfo(
                "div",
                variant_test_name=f"{mode or 'no'}_rounding{'' if mode else '_mode'}",
                dtypes=dtypes(letters),
                rhs_make_tensor_kwargs={"exclude_zero": True},
                sample_kwargs=lambda d, k, x, given=given: (given, given),
                **knows("agfwo"),
            )
        )
    for name, of in (("max", torch.max), ("min", torch.min)):
        rows.append(
            BinaryUfuncInfo(
                name,
                op=of,
                variant_test_name="binary",
                ref=_ref(f"{name}imum"),
                inplace_variant=None,
                dtypes=dtypes("IF?bh"),
                supports_rhs_python_scalar=False,
                **knows("agfwo"),
            )
        )
    return rows


_SCALARS = frozenset({
    "add", "mul", "sub", "true_divide", "pow", "float_power", "rsub", "fmod", "remainder", "floor_divide", "eq", "ne",
    "ge", "gt", "le", "lt", "copysign", "xlogy", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
    "bitwise_right_shift", "special.xlog1py", "special.zeta",
})  # fmt: skip
