"""Functions under torch.jit.script convert and check their arguments as in torch."""

import operator
import warnings

import numpy as np
import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def scripted(m, fn):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return m.jit.script(fn)


def floating(x: float, y: float = 2):
    return x, y


def whole(x: int):
    return x


def truth(x: bool):
    return x


def plane(x: complex):
    return x


def listed(x: list[float]):
    return x


def paired(x: tuple[float, int]):
    return x


def mapped(x: dict[str, list[float]]):
    return x


def maybe(x: float | None = None):
    return x


def maybe_list(x: list[int] | None = None):
    return x


def either(x: int | float):
    return x


FUNCTIONS = (floating, whole, truth, plane)


@program
def numbers_become_what_is_annotated(m):
    values = (3, True, 2.5, np.float32(1.5), np.int64(2), np.True_, m.tensor(2), m.tensor([2.0]))
    out = []
    for fn in FUNCTIONS:
        f = scripted(m, fn)
        taken = [v for v in values if fn is not whole or type(v) is not float]
        out.append([repr(f(v)) for v in taken])
    return out


@program
def what_does_not_become_a_number_is_refused(m):
    values = (1j, None, "s", m.tensor([1, 2]), m.tensor(1j), 2.5, np.float64(1.5))
    out = []
    for fn in FUNCTIONS:
        f = scripted(m, fn)
        for v in values:
            kind, text = complaint(lambda f=f, v=v: f(v))
            out.append([kind, text.splitlines()[:3]])
    return out


@program
def numbers_inside_of_containers(m):
    calls = [
        (listed, ([1, 2],)),
        (listed, ((1, 2),)),
        (paired, ((1, 2),)),
        (mapped, ({"a": [1]},)),
        (maybe, (3,)),
        (maybe, ()),
        (maybe_list, ((True, 2),)),
        (either, (3,)),
    ]
    return [repr(scripted(m, fn)(*args)) for fn, args in calls]


@program
def containers_that_are_refused(m):
    calls = [(listed, [1, "s"]), (listed, 3), (paired, (1, 2, 3)), (maybe, "s"), (maybe_list, [1, 2.5])]
    fns = [(scripted(m, fn), v) for fn, v in calls]
    return [complaint(lambda f=f, v=v: f(v))[1].splitlines()[0] for f, v in fns]


@program
def arguments_by_name_and_defaults(m):
    f = scripted(m, floating)
    return [repr(v) for v in (f(1), f(1, 3), f(y=3, x=True), f(x=1))]


def test_a_function_without_numbers_gets_its_arguments_as_they_are():
    def tensors(x: tg.Tensor, s: str, either: int | str):
        return x, s, either

    given = (tg.ones(2), "a", 3)
    assert all(map(operator.is_, tg.jit.script(tensors)(*given), given))


def test_an_annotation_that_nothing_explains_changes_nothing():
    def later(x):
        return x

    later.__annotations__ = {"x": "Unheard"}
    assert tg.jit.script(later)(3) == 3


def test_what_python_refuses_it_still_refuses():
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        tg.jit.script(floating)()
