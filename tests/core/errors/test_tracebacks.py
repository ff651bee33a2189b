"""Tracebacks end at the line of the program that is wrong, as torch's do."""

import traceback
from typing import Any

import jax
import pytest

import torchgrad_jax as tg

F = tg.nn.functional


WRONG: dict[str, Any] = {
    "operator": lambda x: x + tg.ones(4),
    "method": lambda x: x.sum(5),
    "in place": lambda x: x.add_(tg.ones(4)),
    "in place, of another dtype": lambda x: tg.ones(3, dtype=tg.int32).add_(1.5),
    "made of others": lambda x: F.linear(x, tg.ones(2, 9)),
    "a value": lambda x: F.cross_entropy(tg.ones(2, 3), tg.tensor([0, 5])),
    "a matrix without an inverse": lambda x: tg.linalg.inv(tg.zeros(2, 2)),
    "several tensors": lambda x: tg.cat([x, tg.ones(2, 3)]),
    "out": lambda x: tg.add(x, tg.ones(4), out=tg.ones(3)),
}


def failure(call: Any) -> Exception:
    with pytest.raises((RuntimeError, IndexError)) as caught:
        call(tg.ones(3))
    return caught.value


def lines(error: BaseException) -> list[str]:
    """The files that a traceback leads through, below this one."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return files[max(i for i, file in enumerate(files) if file == __file__) + 1 :]


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_call_is_the_last_line_but_for_the_way_in(how):
    failure(WRONG[how])  # a first call writes the function's code
    error = failure(WRONG[how])
    assert all("/_engine/entry/" in file or "/_engine/overrides/" in file for file in lines(error))
    assert error.__context__ is None
    assert not getattr(error, "__notes__", [])


def test_a_function_of_the_program_in_between_is_shown():
    def pack(t: Any) -> Any:
        return t @ tg.ones(7)

    def call(x: Any) -> Any:
        with tg.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            return x.requires_grad_().exp()

    names = [frame.name for frame in traceback.extract_tb(failure(call).__traceback__)]
    assert names.index("call") < names.index("pack")


def test_an_error_that_the_program_was_handling_stays():
    def call(x: Any) -> Any:
        try:
            raise KeyError("mine")
        except KeyError:
            return x + tg.ones(4)

    assert isinstance(failure(call).__context__, KeyError)


def test_all_frames_are_shown_on_request():
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        error = failure(WRONG["operator"])
    finally:
        jax.config.update("jax_traceback_filtering", before)
    assert len(lines(error)) > 3
