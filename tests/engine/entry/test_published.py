"""Which public functions are builtin functions, and what programs may do with them: hold one in a class, above all."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import inspect
import io
import pickle
import types
import weakref
from multiprocessing.reduction import ForkingPickler
from typing import Any

import cloudpickle
import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint
from torchgrad_jax._core.builtin_functions import builtin, function_of
from torchgrad_jax._engine.entry.bind import NAMESPACES
from torchgrad_jax._functions import foreach

program = Programs()
test_same_as_torch = program.test()

OWN = {"cache_info", "clear_caches", "from_jax", "install_as_torch", "scan_layers", "set_cache_limits", "to_jax"}
"""Functions that torch lacks."""
LATER = {"polar": "linalg", "matrix_sqrth": "linalg"}
"""Functions of torch 2.14, and where they are."""
WHERE = ("", "special", "linalg", "fft", "nn.functional")


def _names(where):
    listed = {*dir(tg), *foreach.FUNCTIONS} - OWN if not where else set()
    found = {name: getattr(_at(tg, where), name) for name in listed | NAMESPACES[where].keys()}
    there = [name for name, f in found.items() if callable(f) and not isinstance(f, type)]
    return sorted(name for name in there if LATER.get(name) != where)


def _at(m, where):
    return functools.reduce(getattr, filter(None, where.split(".")), m)


def _binds(fn):
    holder = type("Holder", (), {"f": fn})
    return holder().f is not fn


@program
def functions_that_bind_as_attributes_of_classes(m):
    """All public functions of five modules: those named bind `self`, and the others don't."""
    return {where: [n for n in _names(where) if _binds(getattr(_at(m, where), n))] for where in WHERE}


@program
def attributes_of_classes(m):
    F, x = m.nn.functional, m.tensor([[-1.0, 2.0], [3.0, 4.0]])

    class Net(m.nn.Module):
        act, also, norm, transform = m.relu, F.gelu, m.linalg.norm, m.fft.fft
        special, linear, names, grad = m.special.expit, F.linear, m.is_tensor, m.is_grad_enabled
        python = F.relu

        def forward(self, x):
            return self.act(x), self.also(x, approximate="tanh"), self.norm(x, dim=1), self.transform(x)

    class Sub(Net):
        act = m.tanh

    net = Sub()
    return (
        Net()(x),
        net(x),
        net.special(x),
        net.linear(x, x, bias=None),
        net.grad(),
        net.act is m.tanh,
        Net.act is m.relu,
        net.python.__self__ is net,
        complaint(lambda: net.names(x))[0],
        x.relu().add(1),
    )


@program
def members_defaults_and_partials(m):
    """An enumeration takes a builtin function for a member, and a function of Python for a method."""

    class Act(enum.Enum):
        RELU = m.relu
        SOFT = m.nn.functional.softplus
        PYTHON = m.nn.functional.relu

    @dataclasses.dataclass
    class Config:
        act: Any = m.sigmoid
        scale: float = 2.0

        def run(self, x):
            return self.act(x) * self.scale

    class Partial:
        once = functools.partialmethod(m.add, 1)
        static = staticmethod(m.neg)

    x = m.ones(2)
    return [a.name for a in Act], Act.RELU.value(x), Config().run(x), Partial().static(x), complaint(Partial().once)[0]


KINDS = {
    "row": lambda m: m.relu,
    "composite": lambda m: m.zeros,
    "data": lambda m: m.from_numpy,
    "namespace": lambda m: m.linalg.norm,
    "layer": lambda m: m.nn.functional.gelu,
    "setting": lambda m: m.is_grad_enabled,
    "first use": lambda m: m.get_num_threads,
    "Python": lambda m: m.nn.functional.relu,
    "Python of the top": lambda m: m.einsum,
}


def _about(f):
    held = {f: 1}

    @functools.wraps(f)
    def around(*args):
        return f(*args)

    return (
        [test(f) for test in (callable, inspect.isbuiltin, inspect.isfunction, inspect.ismethod, inspect.isroutine)],
        [isinstance(f, c) for c in (types.BuiltinFunctionType, types.FunctionType, staticmethod, functools.partial)],
        [pickle.loads(pickle.dumps(f, p)) is f for p in range(pickle.HIGHEST_PROTOCOL + 1)],
        [c(f) is f for c in (copy.copy, copy.deepcopy)],
        copy.deepcopy({"act": f})["act"] is f,
        weakref.ref(f)() is f,
        held[f],
        f.__name__,
        (around.__name__, around.__wrapped__ is f),
    )


@program
def what_a_function_is(m):
    """Its class, and what pickling, copying, weak references and decorators make of it."""
    return {kind: _about(get(m)) for kind, get in KINDS.items()}


@program
def handlers_are_given_the_functions_that_programs_hold(m):
    seen = []

    class Mine(m.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Net(m.nn.Module):
        act = m.relu

        def forward(self, x):
            return self.act(x)

    called = [m.add, m.linalg.norm, m.nn.functional.gelu, m.cat, m.sum, m.softmax]
    x = m.ones(2).as_subclass(Mine)
    m.add(x, 1), m.linalg.norm(x), m.nn.functional.gelu(x), m.cat([x, x]), m.sum(x), m.softmax(x, 0)
    Net()(x)
    kept = [f for f in seen if f in [*called, m.relu]]
    return (
        [f is g for f, g in zip(kept, [*called, m.relu])],
        len(kept),
        [m.overrides.resolve_name(f) for f in called],
        [f in m.overrides.get_overridable_functions()[m] for f in called[:1]],
        m.add in m.overrides.get_testing_overrides(),
    )


# --- what has no like in torch ------------------------------------------------------------------


def test_a_compiled_function_may_hold_one_in_a_class():
    class Net(tg.nn.Module):
        act, norm = tg.relu, tg.linalg.norm

        def forward(self, x):
            return self.act(x).sum() + self.norm(x)

    net, x = Net(), tg.tensor([-1.0, 2.0])
    compiled = tg.compile(net)
    assert compiled(x).item() == pytest.approx(net(x).item()) == pytest.approx(2 + 5**0.5)
    assert compiled.counts["eager"] == 0


def test_a_compiled_function_notices_that_another_one_is_held():
    class Net(tg.nn.Module):
        act = tg.relu

        def forward(self, x):
            return self.act(x)

    compiled, x = tg.compile(Net()), tg.tensor([-1.0, 2.0])
    assert compiled(x).tolist() == [0.0, 2.0]
    Net.act = tg.neg
    assert compiled(x).tolist() == [1.0, -2.0]


def _plain(a, b=1, *more, c=None, d=2.5, **rest):
    """Say something."""
    return a, b, more, c, d, rest


CALLS = {
    "nothing but positions": ((1, 2, 3, 4), {}),
    "names": ((1,), {"b": 2, "c": 3}),
    "all by name": ((), {"a": 1, "e": 5}),
    "nothing that may be left out": ((1,), {}),
}


@pytest.mark.parametrize("call", CALLS)
def test_arguments_come_as_they_are(call):
    args, kwargs = CALLS[call]
    made = builtin(_plain)
    assert made(*args, **kwargs) == _plain(*args, **kwargs)
    assert made is builtin(_plain)
    assert function_of(made) is _plain is function_of(_plain)


def test_errors_pass_through():
    made: Any = builtin(_plain)
    with pytest.raises(TypeError, match=r"_plain\(\) missing 1 required positional argument: 'a'"):
        made()


SIGNATURES = {
    "own": (builtin(_plain), "(a, b=1, *more, c=None, d=2.5, **rest)"),
    "row": (tg.add, "(input, other, *, alpha=None, out=None)"),
    "composite": (tg.linalg.norm, "(A, ord=None, dim=None, keepdim=False, *, dtype=None)"),
    "layer": (tg.nn.functional.gelu, "(input, *, approximate='none')"),
    "setting": (tg.is_grad_enabled, "()"),
}


@pytest.mark.parametrize("kind", SIGNATURES)
def test_signatures(kind):
    fn, want = SIGNATURES[kind]
    assert str(inspect.signature(fn)) == want
    assert fn.__doc__ == function_of(fn).__doc__


def test_other_builtin_functions_are_pickled_as_ever():
    for fn in (len, [].append, int.from_bytes, "a".join):
        assert pickle.loads(pickle.dumps(fn)).__name__ == fn.__name__
    assert pickle.loads(pickle.dumps(len)) is len
    assert b"torchgrad_jax\x94\x8c\x04relu" in pickle.dumps(tg.relu)  # its public name alone


@pytest.mark.parametrize("fn", [tg.relu, tg.linalg.norm, tg.nn.functional.gelu], ids=lambda fn: fn.__name__)
def test_a_file_of_weights_may_hold_those_that_are_declared_safe(fn):
    held = io.BytesIO()
    tg.save({"act": fn}, held)
    held.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        tg.load(held)
    held.seek(0)
    with tg.serialization.safe_globals([fn]):
        assert tg.load(held)["act"] is fn


@pytest.mark.parametrize("dumps", [cloudpickle.dumps, ForkingPickler.dumps], ids=["cloudpickle", "multiprocessing"])
def test_other_picklers_find_them_by_name(dumps):
    assert pickle.loads(dumps({"act": tg.relu}))["act"] is tg.relu
