"""Edges of each dtype, in every form of a function: by NumPy or XLA, in place, `out=`, a list, numbers or tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compat_suite.cases.points import ONE
from compat_suite.libs import live_torch, ours, torch_installed
from torchgrad_jax import clear_caches
from torchgrad_jax._core.host import choice

DTYPES = ("float64", "float32", "float16", "bfloat16")
POINTS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 4.0, float("inf"), -float("inf"), float("nan"))
EXPONENTS = (0.5, -0.5, 0, 1, 2, 3, -1, -2, 2.5, 0.25)
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda m, x: x + 0,
    "sub": lambda m, x: x - 0,
    "mul": lambda m, x: x * 1,
    "div": lambda m, x: x / 1,
    "div by 2": lambda m, x: x / 2,
    "sum of itself": lambda m, x: x + x,
    "add in place": lambda m, x: x.clone().add_(0),
    "mul in place": lambda m, x: x.clone().mul_(1),
    "mul by a tensor": lambda m, x: x * m.ones_like(x),
    "mul by a tensor of one number": lambda m, x: x * m.ones((), dtype=x.dtype),
    "list": lambda m, x: m._foreach_mul([x], 1.0)[0],
    "list in place": lambda m, x: _first(m._foreach_add_, [x.clone()], 0.0),
    "greater": lambda m, x: x > 0,
    "maximum": lambda m, x: m.maximum(x, m.full_like(x, -3.0)),
    "cast": lambda m, x: x.to(m.float64),
}
POWERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "number": lambda m, x, p: x**p,
    "tensor of one number": lambda m, x, p: m.pow(x, m.tensor(p, dtype=x.dtype)),
    "tensor": lambda m, x, p: m.pow(x, m.full_like(x, p)),
    "in place": lambda m, x, p: x.clone().pow_(p),
    "tensor in place": lambda m, x, p: x.clone().pow_(m.full_like(x, p)),
    "list": lambda m, x, p: m._foreach_pow([x], p)[0],
    "lists": lambda m, x, p: m._foreach_pow([x], [m.full_like(x, p)])[0],
    "list in place": lambda m, x, p: _first(m._foreach_pow_, [x.clone()], p),
    "out": lambda m, x, p: m.pow(x, p, out=m.zeros_like(x)),
}


def _first(fn: Any, xs: list[Any], *args: Any) -> Any:
    fn(xs, *args)
    return xs[0]


def _of_one(name: str) -> dict[str, Callable[[Any, Any], Any]]:
    """The forms of a function of one tensor that torch has."""
    short = name.rpartition(".")[2]
    forms: dict[str, Callable[[Any, Any], Any]] = {"function": lambda m, x: _found(m, name)(x)}
    forms["out"] = lambda m, x: _found(m, name)(x, out=m.zeros_like(x))
    if hasattr(ours().module.Tensor, f"{short}_") and short == name:
        forms["in place"] = lambda m, x: getattr(x.clone(), f"{name}_")()
    if hasattr(ours().module, f"_foreach_{name}"):
        forms["list"] = lambda m, x: getattr(m, f"_foreach_{name}")([x])[0]
    return forms


def _found(m: Any, name: str) -> Any:
    for part in name.split("."):
        m = getattr(m, part)
    return m


def _result(m: Any, form: Any, x: Any, *args: Any) -> Any:
    try:
        return np.array(form(m, x, *args).tolist(), np.float64)
    except (NotImplementedError, RuntimeError, TypeError) as error:
        return type(error).__name__


def _same(got: Any, want: Any, dtype: str) -> bool:
    """Whether numbers agree to the rounding of their dtype; NaN, infinities and the signs of zeros do exactly."""
    if isinstance(got, str) or isinstance(want, str):
        return isinstance(got, str) and isinstance(want, str)
    rtol = {"float64": 1e-9, "float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}[dtype]
    zeros = (got == 0) & (want == 0)
    signs = np.signbit(got) == np.signbit(want)
    return bool(np.allclose(got, want, rtol, 0, equal_nan=True) and signs[zeros].all())


def _apart(forms: dict[str, Any], points: tuple[float, ...], dtypes: tuple[str, ...], *args: Any) -> list[str]:
    """Forms that differ from torch's, where it is installed, and from the same with one tensor where it isn't."""
    oracle, found = live_torch() if torch_installed() else ours(), []
    for dtype in dtypes:
        given = [lib.module.tensor(points, dtype=lib.dtype(dtype)) for lib in (ours(), oracle)]
        for name, form in forms.items():
            got, want = (_result(lib.module, form, x, *args) for lib, x in zip((ours(), oracle), given))
            if not _same(got, want, dtype):
                found.append(f"{name} {dtype} {args}: {got} and not {want}")
    return found


@pytest.fixture(params=["", "numpy", "xla"])
def executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Who computes: by the rule, NumPy, or XLA."""
    if request.param:
        monkeypatch.setattr(choice, "EXECUTOR", request.param)
        clear_caches()
    yield request.param
    monkeypatch.undo()
    clear_caches()


def test_powers(executor: str) -> None:
    assert [line for p in EXPONENTS for line in _apart(POWERS, POINTS, DTYPES, p)] == []


def test_arithmetic(executor: str) -> None:
    assert _apart(ARITHMETIC, POINTS, DTYPES) == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_of_subnormal_numbers(dtype: str) -> None:
    """Of small tensors, which are NumPy's."""
    least = {"float64": 2.0**-1040, "float32": 2.0**-140, "bfloat16": 2.0**-130, "float16": 2.0**-20}[dtype]
    points = (least, -least, 3 * least, 2 * least)
    assert _apart(ARITHMETIC | {"root": lambda m, x: x.abs().sqrt()}, points, (dtype,)) == []


@pytest.mark.parametrize("name", ONE.split())
def test_functions_of_one_tensor(name: str, executor: str) -> None:
    assert _apart(_of_one(name), POINTS, DTYPES) == []
