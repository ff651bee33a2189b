"""Arguments by name and by position, sizes and indices of odd kinds, and functions of several names."""

from __future__ import annotations

from typing import Any

import pytest

import torchgrad_jax as tg
from tests.differential import caught_warnings
from tests.expressions import table

PRELUDE = """
x, v, zero = torch.arange(6.0), torch.arange(3.0), torch.tensor(0)
a = torch.tensor([[2.0, 0.25], [0.125, 1.75]])
frozen = np.ones(3, np.float32)
frozen.flags.writeable = False
def put(y, index, value):
    try:
        y[index] = value
    except Exception as error:
        return [y, type(error).__name__, str(error)]
    return y
"""
test_as_torch_does = table(__file__, "arguments.txt", prelude=[PRELUDE])

ONCE: dict[str, Any] = {
    "a list that counts as a tuple of indices": lambda m: m.arange(3)[[None]],
    "an array that may only be read": lambda m: m.from_numpy(_read_only()),
    "a buffer that may only be read": lambda m: m.frombuffer(b"1234", dtype=m.uint8),
    "the transpose of a cube": lambda m: m.ones(2, 3, 4).T,
}


def _read_only() -> Any:
    array = tg.ones(3).numpy().copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("name", ONCE)
def test_what_warns_once_per_process_does_not_warn_again(name, same):
    def told(m):
        found = []
        for _ in range(3):
            with caught_warnings(m, always=False) as caught:
                ONCE[name](m)
            found.append(len(caught))
        return found[1:]

    same(told, name)


ALIASES = """
    absolute=abs arccos=acos arctan2=atan2 clip=clamp concat=cat divide=div ger=outer greater=gt moveaxis=movedim
    multiply=mul negative=neg row_stack=vstack subtract=sub swapaxes=transpose trapz=trapezoid
"""


@pytest.mark.parametrize(("alias", "name"), [pair.split("=") for pair in ALIASES.split()])
def test_an_alias_shows_its_own_name(alias, name):
    assert getattr(tg, alias).__name__ == alias
    assert getattr(tg, alias) is not getattr(tg, name)
    with pytest.raises(TypeError, match=rf"^{alias}\(\)"):
        getattr(tg, alias)("a string", "another", "a third")


def test_methods_and_in_place_forms_too():
    for name in ("arcsin_", "absolute_", "clip_", "pow_", "div_", "divide_", "scatter_", "square_", "index_put_"):
        assert getattr(tg.Tensor, name).__name__ == name
    x = tg.tensor([-1.0, 2.0], requires_grad=True)
    assert x.absolute().grad_fn.name() == "AbsBackward0"
    assert (x * 1).divide_(2).grad_fn.name() == "DivBackward0"


def test_overrides_are_told_what_was_called():
    class Told(tg.Tensor):
        calls = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    x = tg.ones(2).as_subclass(Told)
    tg.arccos(x)
    tg.acos(x)
    x.arccos()
    assert Told.calls == [tg.arccos, tg.acos, tg.Tensor.arccos]
