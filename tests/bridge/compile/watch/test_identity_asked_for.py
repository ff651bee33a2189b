"""Code that asks whether an argument is a tensor that it knows gets the answer of eager code in each call."""

from types import SimpleNamespace

import pytest

import torchgrad_jax as torch


def numbers():
    return torch.tensor([1.0, -2.0, 3.0])


def _known(held, several):
    return lambda x: x * 2 if held.key is x else x * 3


def _one_of_several(held, several):
    return lambda x: x * 2 if any(x is t for t in several) else x * 3


def _by_its_number(held, several):
    return lambda x: x * 2 if id(x) in [id(t) for t in several] else x * 3


def _what_it_kept(held, several):
    def f(x):
        if held.key is x:
            return held.value + 100
        held.key, held.value = x, x * 2
        return held.value

    return f


def _written(held, several):
    def f(x):
        held.total.add_(x)
        return held.total + (1 if x is held.key else 2)

    return f


def _given_twice(held, several):
    def f(x):
        y = held.key
        return x * 2 if x is not y else (x * y).relu()

    return f


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("make", [_known, _one_of_several, _by_its_number, _what_it_kept, _written, _given_twice])
def test_an_argument_is_told_from_what_is_known(make):
    found = []
    for form in (lambda f: f, torch.compile):
        a, b, c = (numbers() + k for k in range(3))
        held = SimpleNamespace(key=a, value=None, total=torch.zeros(3))
        several = [a, b]
        f = form(make(held, several))
        outs = [f(x).tolist() for x in (c, a, b, b, a, numbers(), c)]
        several.append(c)
        held.key = c
        outs += [f(x).tolist() for x in (a, c, c, numbers())]
        found.append(outs)
    assert found[1] == found[0]


def test_arguments_that_are_known_need_one_program_where_nobody_asks():
    several = [numbers(), numbers() + 1]
    f = torch.compile(lambda x, bias=None: x * 2 + (several[0] if bias is None else bias))
    for x in (numbers(), *several, numbers()):
        torch.testing.assert_close(f(x), x * 2 + several[0])
    assert f.counts["traced"] == 1
