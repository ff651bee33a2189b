"""The switch that reads each call twice finds a short way that would do something else than the general one."""

from typing import Any

import pytest

import torchgrad_jax as torch
from torchgrad_jax._engine.entry import compared
from torchgrad_jax._engine.entry.binding import Binding
from torchgrad_jax._engine.entry.composite import Composed
from torchgrad_jax._engine.entry.generate import generate
from torchgrad_jax._ops import TABLE

X, INDEX = torch.arange(6.0).reshape(2, 3), torch.tensor([[0], [1]])


@pytest.fixture
def made(monkeypatch):
    """Makes the function of a row, with code that compares."""
    monkeypatch.setattr(compared, "CHECKING", True)
    return lambda name, **options: generate(Binding(TABLE[name]), name, **options)


def exchange(known: dict[Any, Any]) -> None:
    """Let two calls that are known by their arguments change places."""
    (a, first), (b, second) = known.items()
    known.update({a: second, b: first})


def called_twice(f, *calls):
    for args in (*calls, *calls):
        f(*args)


def test_a_call_that_is_found_under_the_arguments_of_another_one(made):
    gather = made("gather")
    called_twice(gather, (X, 0, INDEX), (X, 1, INDEX))
    exchange(gather.binding.raw)
    with pytest.raises(AssertionError, match=r"gather.*differ in call"):
        gather(X, 1, INDEX)


def test_a_call_of_a_list(made):
    cat = made("cat")
    called_twice(cat, ([X, X], 0), ([X, X], 1))
    exchange(cat.binding.raw)
    with pytest.raises(AssertionError, match=r"cat.*differ in call"):
        cat([X, X], 1)


def test_a_write(made):
    cumsum_ = made("cumsum", inplace=True)
    called_twice(cumsum_, (X.clone(), 0), (X.clone(), 1))
    exchange(cumsum_.binding.raw)
    with pytest.raises(AssertionError, match=r"cumsum.*differ in call"):
        cumsum_(X.clone(), 1)


def test_a_view_that_lies_elsewhere(made):
    select = made("select")
    called_twice(select, (X, 0, 0), (X, 0, 1))
    exchange(select.binding.views)
    with pytest.raises(AssertionError, match=r"select.*differ in geometry"):
        select(X, 0, 1)


def test_arguments_that_a_function_does_not_take(monkeypatch):
    monkeypatch.setattr(compared, "CHECKING", True)

    def doubled(input: torch.Tensor, times: int = 1) -> torch.Tensor:
        return input * 2 * times

    doubled.__annotations__ = {"input": "Tensor", "times": "int"}
    form = Composed(doubled, False, "diagflat", "diagflat", {}, "torch.diagflat")
    public = form.public()
    assert public(X, 2).tolist() == public(X, 2).tolist() == (X * 4).tolist()
    form.fitting[torch.Tensor, float] = False
    with pytest.raises(TypeError, match="diagflat"):
        public(X, 2.5)


def test_nothing_is_compared_unless_it_is_asked_for():
    gather = generate(Binding(TABLE["gather"]), "gather")
    called_twice(gather, (X, 0, INDEX), (X, 1, INDEX))
    exchange(gather.binding.raw)
    assert gather(X, 1, INDEX).tolist() == X.gather(0, INDEX).tolist()
