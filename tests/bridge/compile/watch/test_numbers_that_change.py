"""A number outside of a compiled function changes from call to call, to others of other types and to what is no number.

After its first change a number is followed: a program reads it again in each run. Each row asks for it in another form,
by its value, its class, its text or as a part of something else; the eager function says what is right.
"""

import copy
import json
import math
import numbers
import operator

import numpy as np
import pytest

import torchgrad_jax as torch

VALUES = (1.0, 2.0, 3.0, 4, 5, 6.0, "s", 7.0, True, 0.0, None, 1.0, -2.0, float("inf"), 2, 2.0, [1.0], 3.0)
FORMS = {
    "a factor": lambda x, v: x * v,
    "isinstance float": lambda x, v: x * (2 if isinstance(v, float) else 3),
    "isinstance of several": lambda x, v: x * (2 if isinstance(v, int | bool) else 3),
    "isinstance of an abstract class": lambda x, v: x * (2 if isinstance(v, numbers.Integral) else 3),
    "its type": lambda x, v: x * (2 if type(v) is float else 3),
    "text of its type": lambda x, v: x * len(str(type(v))),
    "a dict by type": lambda x, v: x * {float: 2, int: 3}.get(type(v), 5),
    "its class": lambda x, v: x * len(v.__class__.__name__),
    "hasattr": lambda x, v: x * (2 if hasattr(v, "is_integer") else 3),
    "callable": lambda x, v: x * (2 if callable(v) else 3),
    "its truth": lambda x, v: x * (2 if v else 3),
    "not": lambda x, v: x * (2 if not v else 3),
    "is None": lambda x, v: x * (2 if v is None else 3),
    "equal to a number": lambda x, v: x * (2 if v == 2 else 3),
    "less than a number": lambda x, v: x * (2 if isinstance(v, int | float) and v < 2.5 else 3),
    "formatted": lambda x, v: x * len(f"{v}"),
    "formatted by a function": lambda x, v: x * len(format(str(v), ">5")),
    "its repr": lambda x, v: x * len(repr(v)),
    "json": lambda x, v: x * len(json.dumps(v)),
    "a key of a dict": lambda x, v: x * {2.0: 5, 3.0: 6}.get(v if isinstance(v, float) else 0.0, 7),
    "in a set": lambda x, v: x * (2 if not isinstance(v, list) and v in {1.0, 4} else 3),
    "in a list": lambda x, v: x * (2 if v in [1.0, 4, "s"] else 3),
    "an index": lambda x, v: x * [7, 8, 9][int(v) % 3 if isinstance(v, int) else 0],
    "how many times": lambda x, v: sum([x] * (v if type(v) is int else 1)),
    "a range": lambda x, v: sum(x * i for i in range(v if isinstance(v, int) else 2)) + x,
    "rounded": lambda x, v: x * (round(v) if isinstance(v, float) and math.isfinite(v) else 3),
    "as an int": lambda x, v: x * (int(v) if isinstance(v, float) and math.isfinite(v) else 3),
    "by the math module": lambda x, v: x * (math.sqrt(abs(v)) if isinstance(v, int | float) else 3),
    "floor": lambda x, v: x * (math.floor(v) if isinstance(v, float) and math.isfinite(v) else 3),
    "the larger of two": lambda x, v: x * max(v if isinstance(v, int | float) else 0, 2.5),
    "in a sum": lambda x, v: x * sum([v, 1.0] if isinstance(v, int | float) else [1.0]),
    "sorted": lambda x, v: x * sorted([v, 2.5] if isinstance(v, int | float) else [2.5])[0],
    "matched by class": lambda x, v: x * _matched(v),
    "copied": lambda x, v: x * (copy.deepcopy([v])[0] if isinstance(v, int | float) else 3),
    "an array of NumPy": lambda x, v: x * float(np.asarray([v, 1.0]).sum() if isinstance(v, int | float) else 3),
    "dtype of an array": lambda x, v: x * (2 if np.asarray(v).dtype == np.float64 else 3),
    "a tensor": lambda x, v: x + torch.tensor(v if isinstance(v, int | float) else 3).to(x.dtype),
    "dtype of a tensor": lambda x, v: x * (2 if torch.tensor(v or 3 if v != "s" else 3).dtype == x.dtype else 3),
    "a size": lambda x, v: torch.ones(v if type(v) is int else 2).sum() * x,
    "operator.index": lambda x, v: x * (operator.index(v) if isinstance(v, int) else 3),
    "a condition with several": lambda x, v: x * (2 if isinstance(v, float) and v > 1.5 and not v > 6.5 else 3),
    "kept in an object": lambda x, v: x * (_Held(v).value if isinstance(v, int | float) else 3),
    "raised for": lambda x, v: x * _tried(v),
}  # fmt: skip
_Held = type("Held", (), {"__init__": lambda self, value: setattr(self, "value", value)})


def _matched(v):
    match v:
        case bool():
            return 2
        case int():
            return 3
        case float(real):
            return 4 if real > 2 else 5
        case None:
            return 6
        case _:
            return 7


def _tried(v):
    try:
        return v + 1.0
    except TypeError:
        return 3.0


def in_a_dict(form):
    held = {"v": 1.0}
    return lambda x: form(x, held["v"]), lambda v: held.update(v=v)


def in_an_attribute(form):
    held = _Held(1.0)
    return lambda x: form(x, held.value), lambda v: setattr(held, "value", v)


def in_a_list(form):
    held = [0.5, 1.0]
    return lambda x: form(x, held[1]), lambda v: held.__setitem__(1, v)


def in_a_closure(form):
    value = 1.0

    def put(v):
        nonlocal value
        value = v

    return lambda x: form(x, value), put


def in_a_module(form):
    held = torch.nn.Module()
    held.value = 1.0
    held.forward = lambda x: form(x, held.value)
    return held, lambda v: setattr(held, "value", v)


def in_a_dict_of_a_list(form):
    held = [{"w": {"v": 1.0}}]
    return lambda x: form(x, held[0]["w"]["v"]), lambda v: held[0]["w"].update(v=v)


def by_a_loop_over_a_dict(form):
    held = {"v": 1.0}
    return lambda x: sum(form(x, v) for v in held.values()), lambda v: held.update(v=v)


HOLDERS = (in_a_dict, in_an_attribute, in_a_list, in_a_closure, in_a_module, in_a_dict_of_a_list, by_a_loop_over_a_dict)


def shown(fn, x):
    try:
        return repr(fn(x).tolist())
    except Exception as error:  # both have to raise the same
        return type(error).__name__


@pytest.mark.filterwarnings("ignore:torch.compile:UserWarning")
@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: holder.__name__)
@pytest.mark.parametrize("form", FORMS)
def test_each_call_has_the_number_that_is_there(form, holder):
    fn, put = holder(FORMS[form])
    step, x = torch.compile(fn), torch.ones(())
    for n, v in enumerate(VALUES):
        put(v)
        assert shown(step, x) == shown(fn, x), f"{v!r} after {VALUES[:n]}: {step.counts}, {step.reasons}"


@pytest.mark.parametrize("change", [lambda v: v.append(4.0), lambda v: v.pop(), lambda v: v.insert(0, 1), list.clear])
def test_the_length_of_a_list_that_was_another_one_before(change):
    held = {"v": [1.0, 2.0, 3.0]}
    step, x = torch.compile(lambda x: x * len(held["v"])), torch.ones(())
    for _ in range(3):
        held["v"] = [4.0, 5.0, 6.0]
        assert step(x).item() == 3.0
    change(held["v"])
    assert step(x).item() == len(held["v"])


def test_a_list_of_numbers_that_a_step_writes_to_is_written_to_once():
    held = {"v": [1.0, 2.0, 3.0]}

    def step(x):
        if len(held["v"]) < 5:
            held["v"].append(1.0)
        return x * held["v"][0]

    compiled, x = torch.compile(step), torch.ones(())
    for _ in range(4):
        compiled(x)
    held["v"] = [4.0, 5.0, 6.0]
    assert compiled(x).item() == 4.0
    assert held["v"] == [4.0, 5.0, 6.0, 1.0]


@pytest.mark.parametrize("space", [{}, {"__name__": "made"}, {"__name__": "__main__"}], ids=str)
def test_functions_made_from_text_are_looked_at_where_a_layer_calls_them(space):
    layer, x = torch.nn.Linear(2, 2), torch.tensor([1.0, 2.0])
    step = torch.compile(lambda x: layer(x).sum())
    step(x)
    exec("V = 3.0\nforward = lambda x: x * V", space)
    layer.forward = space["forward"]
    for v in (3.0, 7.0, 4.0):
        space["V"] = v
        assert step(x).item() == 3 * v
