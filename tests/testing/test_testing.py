"""torchgrad_jax.testing: comparisons and what they say."""

from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax.testing import assert_close, assert_matches_jax, assert_matches_torch, make_tensor

t = torch.tensor
nan = float("nan")


@pytest.mark.parametrize(
    ("a", "b", "kwargs"),
    [
        (t([1.0, 2.0]), t([1.0, 2.0 + 1e-6]), {}),
        (t([nan]), t([nan]), {"equal_nan": True}),
        ([t(1.0), {"a": 2}], [t(1.0), {"a": 2}], {}),
        (t([1.0]), t([1.0], dtype=torch.float64), {"check_dtype": False}),
        (1.0, 1.0 + 1e-9, {}),
        (t([]), t([]), {}),
        (None, None, {}),
    ],
)
def test_close(a, b, kwargs):
    assert_close(a, b, **kwargs)


@pytest.mark.parametrize(
    ("a", "b", "kwargs", "text"),
    [
        (
            t([1.0, 2.0]),
            t([1.0, 2.5]),
            {},
            "Tensor-likes are not close!\n\nMismatched elements: 1 / 2 (50.0%)\n"
            "Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)\n"
            "Greatest relative difference: 0.20000000298023224 at index (1,) (up to 1.3e-06 allowed)",
        ),
        (
            t([[1, 2], [3, 4]]),
            t([[1, 2], [3, 5]]),
            {},
            "Tensor-likes are not equal!\n\nMismatched elements: 1 / 4 (25.0%)\n"
            "Greatest absolute difference: 1 at index (1, 1)\n"
            "Greatest relative difference: 0.20000000298023224 at index (1, 1)",
        ),
        (
            [t(1.0), t(2.0)],
            [t(1.0), t(3.0)],
            {},
            "Scalars are not close!\n\nExpected 3.0 but got 2.0.\nAbsolute difference: 1.0 (up to 1e-05 allowed)\n"
            "Relative difference: 0.3333333333333333 (up to 1.3e-06 allowed)\n\nThe failure occurred for item [1]",
        ),
        (
            t([1.0]),
            t([1.0, 2.0]),
            {},
            "The values for attribute 'shape' do not match: torch.Size([1]) != torch.Size([2]).",
        ),
        (t([1.0]), t([1]), {}, "The values for attribute 'dtype' do not match: torch.float32 != torch.int64."),
        (
            {"a": 1},
            {"b": 1},
            {},
            "The keys of the mappings do not match:\nMissing keys in the actual mapping: ['b']\n"
            "Additional keys in the actual mapping: ['a']",
        ),
        ([1], [1, 2], {}, "The length of the sequences mismatch: 1 != 2"),
        (True, False, {}, "Booleans mismatch: True is not False"),
        (t([1.0]), t([2.0]), {"msg": "mine"}, "mine"),
    ],
)
def test_not_close(a, b, kwargs, text):
    with pytest.raises(AssertionError) as caught:
        assert_close(a, b, **kwargs)
    assert str(caught.value) == text


def test_misuse():
    with pytest.raises(ValueError, match="got no atol"):
        assert_close(1.0, 1.0, rtol=0.1)
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close("a", "b")
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close(t(1.0), 1.0)


def test_make_tensor():
    x = make_tensor(2, 3, dtype=torch.float64, device="cpu", low=1, high=2, noncontiguous=True, requires_grad=True)
    assert x.stride() == (6, 2)
    assert x.requires_grad
    assert bool(((x >= 1) & (x < 2)).all())
    assert make_tensor((4,), dtype=torch.bool, device="cpu").dtype is torch.bool


def test_beside_jax():
    x, y = torch.arange(3.0), torch.full((3,), 2.0)
    assert_matches_jax(
        lambda x, y: {"a": (x.sin() * y).cumsum(0)}, lambda x, y: {"a": jnp.cumsum(jnp.sin(x) * y)}, [x, y]
    )
    with pytest.raises(AssertionError, match=r"float32: output: 3 of 3 elements differ, most at \(0,\)"):
        assert_matches_jax(torch.sin, jnp.cos, [x])
    with pytest.raises(AssertionError, match="float32: gradient"):
        assert_matches_jax(lambda x: (x * x.detach()).sum(), lambda x: (x * x).sum(), [y])


def test_beside_torch():
    pytest.importorskip("torch", exc_type=ImportError)
    assert_matches_torch(lambda torch, x: torch.relu(x).t() * 2, [torch.randn(2, 3)])
    with pytest.raises(AssertionError, match="output: 2 of 2 elements differ"):
        assert_matches_torch(lambda lib, x: x * (1 if lib is torch else 2), [torch.ones(2)])

    def f(lib, x):
        if lib is not torch:
            raise ValueError
        return x

    with pytest.raises(AssertionError, match="torchgrad_jax raised nothing, torch raised ValueError"):
        assert_matches_torch(f, [torch.ones(2)])


@pytest.mark.parametrize(
    ("a", "b", "kwargs"),
    [
        (t([True, False]), t([True, False]), {"rtol": 1e-4, "atol": 1e-4}),
        (t([True, False]), t([True, True]), {"rtol": 0, "atol": 1}),
        (t([1, 4], dtype=torch.uint8), t([4, 1], dtype=torch.uint8), {"rtol": 0, "atol": 3}),
        (t([True]), t([1]), {"check_dtype": False}),
    ],
)
def test_whole_numbers_that_are_close(a, b, kwargs):
    """Booleans have no difference in NumPy, and that of unsigned numbers wraps around."""
    assert_close(a, b, **kwargs)


@pytest.mark.parametrize(
    ("a", "b", "kwargs", "line"),
    [
        (t([True, False]), t([True, True]), {"rtol": 0.1, "atol": 0.1}, "absolute difference: 1 at index (1,)"),
        (t([1, 2]), t([1, 4]), {"rtol": 0.1, "atol": 0.1}, "absolute difference: 2 at index (1,) (up to 0.1 allowed)"),
        (t([0.5]), t([0.0]), {"rtol": 0, "atol": 0}, "absolute difference: 0.5 at index (0,)"),
        (t([1j]), t([1 + 0j]), {}, "absolute difference: 1.4142135381698608 at index (0,) (up to 1e-05 allowed)"),
        (t([0.1]), t([0.3]), {}, "absolute difference: 0.20000001788139343 at index (0,)"),
    ],
)
def test_differences_have_the_dtype_of_what_is_compared(a, b, kwargs, line):
    with pytest.raises(AssertionError) as raised:
        assert_close(a, b, **kwargs)
    assert f"Greatest {line}" in str(raised.value)


@pytest.mark.parametrize(
    ("a", "b", "kwargs"),
    [
        (np.float32(1), 1.0, {}),
        (np.int64(3), 3, {}),
        (np.float32(1), np.float64(1), {}),
        (1, 1.0, {"check_dtype": False}),
        (t([1.0]), torch.ones(1, device="meta"), {"check_device": False}),
    ],
)
def test_numbers_and_what_has_no_values_are_close(a, b, kwargs):
    assert_close(a, b, **kwargs)


@pytest.mark.parametrize(("a", "b", "kinds"), [(1, 1.0, ("int", "float")), (1j, 1, ("complex", "int"))])
def test_numbers_of_two_types_are_not_close(a, b, kinds):
    text = "The (d)types do not match: <class '{}'> != <class '{}'>.".format(*kinds)
    with pytest.raises(AssertionError) as raised:
        assert_close(a, b)
    assert str(raised.value) == text


def test_bounds_beyond_what_a_dtype_has_are_cut():
    assert make_tensor(50, dtype=torch.uint8, device="cpu", low=-5).max() < 10
    assert make_tensor(50, dtype=torch.int8, device="cpu", high=300).min() >= -9
    assert make_tensor(50, dtype=torch.float16, device="cpu", high=1e6).isfinite().all()
    assert make_tensor(4, dtype=torch.float8_e4m3fn, device="cpu").dtype is torch.float8_e4m3fn
    with pytest.raises(ValueError, match=r"is \[2, 5\), but torch.bool only supports \[0, 2\)"):
        make_tensor(4, dtype=torch.bool, device="cpu", low=2, high=5)
    with pytest.warns(FutureWarning, match="Passing `low==high`"):
        assert make_tensor(2, dtype=torch.float32, device="cpu", low=3, high=3).tolist() == [3, 3]
    with pytest.raises(TypeError, match="The requested dtype 'float' is not supported"):
        make_tensor(2, dtype=cast("Any", "float"), device="cpu")
