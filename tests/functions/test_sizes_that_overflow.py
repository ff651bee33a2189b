"""A size that 64 bits do not count is refused before memory is asked for, as by torch."""

import pytest

import torchgrad_jax as tg
from tests.expressions import table

test_as_torch_does = table(__file__, "sizes_that_overflow.txt")


def test_a_refused_window_leaves_the_tensor_as_it_is():
    x = tg.ones(4)
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.set_(x.untyped_storage(), 0, (8,), (1,))
    assert x.tolist() == [1.0] * 4
