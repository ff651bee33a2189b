"""Functions with several names: each name is a function of its own, and messages use the name that was called."""

import pytest

import torchgrad_jax as torch

PAIRS = [
    ("absolute", "abs"),
    ("arccos", "acos"),
    ("arctan2", "atan2"),
    ("clip", "clamp"),
    ("concat", "cat"),
    ("divide", "div"),
    ("ger", "outer"),
    ("greater", "gt"),
    ("moveaxis", "movedim"),
    ("multiply", "mul"),
    ("negative", "neg"),
    ("row_stack", "vstack"),
    ("subtract", "sub"),
    ("swapaxes", "transpose"),
    ("trapz", "trapezoid"),
]


@pytest.mark.parametrize(("alias", "name"), PAIRS)
def test_an_alias_shows_its_own_name(alias, name):
    assert getattr(torch, alias).__name__ == alias
    assert getattr(torch, alias) is not getattr(torch, name)
    with pytest.raises(TypeError, match=rf"^{alias}\(\)"):
        getattr(torch, alias)("a string", "another", "a third")


@pytest.mark.long
def test_methods_and_in_place_forms_too():
    for name in ("arcsin_", "absolute_", "clip_", "pow_", "div_", "divide_", "scatter_", "square_", "index_put_"):
        assert getattr(torch.Tensor, name).__name__ == name
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    y = x.absolute()
    assert y.grad_fn.name() == "AbsBackward0"
    assert (x * 1).divide_(2).grad_fn.name() == "DivBackward0"


def test_overrides_are_told_what_was_called():
    class Told(torch.Tensor):
        calls = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(2).as_subclass(Told)
    torch.arccos(x)
    torch.acos(x)
    x.arccos()
    assert Told.calls == [torch.arccos, torch.acos, torch.Tensor.arccos]
