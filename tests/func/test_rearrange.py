"""rearrange, compared with torch."""

import pytest

import torchgrad_jax as tg
from tests.differential import numbers
from tests.expressions import table

PRELUDE = "F = torch.func; x = torch.arange(24.0).reshape(2, 3, 4)"
test_as_torch_does = table(__file__, "rearrange.txt", prelude=[PRELUDE], look=numbers)


def test_axis_of_size_one_must_have_it():
    with pytest.raises(ValueError, match="has size 1, but the tensor has 2 there"):
        tg.func.rearrange(tg.ones(2, 3), "1 b -> b")


def test_gradient():
    x = tg.arange(6.0, requires_grad=True)
    y = tg.func.rearrange(x, "(a b) -> b a", a=2)
    y[0].sum().backward()
    assert x.grad.tolist() == [1, 0, 0, 1, 0, 0]


def test_under_vmap():
    x = tg.arange(12.0).reshape(2, 6)
    out = tg.func.vmap(lambda r: tg.func.rearrange(r, "(a b) -> b a", a=2))(x)
    assert out.tolist() == x.reshape(2, 2, 3).transpose(1, 2).tolist()
