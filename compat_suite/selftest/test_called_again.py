"""A repeated call has to do what the first one did: that is noticed, to the last bit."""

import numpy as np
import pytest

from compat_suite.execute import Result, Seen
from compat_suite.judge import changes

ONE = Seen("Tensor", "float32", (2,), (1,), True, "MulBackward0", False, np.array([1.0, 0.0], np.float32))


def seen(**facts: object) -> Result:
    return Result("one", (Seen(**{**vars(ONE), **facts}),), saved=("self",))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "again",
    [
        seen(value=np.array([1.0, -0.0], np.float32)),
        seen(value=np.array([1.0, 0.0], np.float64)),
        seen(value=None),
        seen(stride=(2,)),
        seen(grad_fn="DivBackward0"),
        seen(requires_grad=False),
        Result("tuple", (ONE,), saved=("self",)),
        Result("one", (ONE,)),
        Result(error=("IndexError", "out of range")),
    ],
)
def test_what_is_another_one_is_told(again: Result) -> None:
    assert any(text.startswith("called again: ") for text in changes(seen(), again))


def test_what_is_the_same_is_not() -> None:
    assert not [*changes(seen(), seen(value=np.array([1.0, 0.0], np.float32)))]
