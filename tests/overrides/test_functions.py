"""What torch.overrides offers to functions of one's own, and its lists of functions; compared with torch."""

import collections
import inspect
import operator
from typing import Any

import pytest

import torchgrad_jax as tg
from tests.differential import agree
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "answer", func.__name__, [t.__name__ for t in types], len(args), kwargs


class Refusing:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


def own(x, y=None):
    return "own"


@program
def has_torch_function(m):
    has = m.overrides.has_torch_function
    mine = type("Mine", (m.Tensor,), {})([1.0])
    t, p = m.ones(1), m.nn.Parameter(m.ones(1))
    cases = [(t,), (mine,), [Duck()], (t, 1, None, mine), (p,), (), (1, "a", None, [1])]
    return [has(c) for c in cases], [m.overrides.has_torch_function_unary(x) for x in (t, mine, 3)]


@program.raises
def has_torch_function_wants_a_sequence(m):
    m.overrides.has_torch_function(3)


@program
def variadic(m):
    return m.overrides.has_torch_function_variadic(1, m.ones(1), Duck())


@program
def sequences_of_other_classes_are_looked_into(m):
    pair = collections.namedtuple("pair", "a b")
    kinds = (list, tuple, type("L", (list,), {}), type("T", (tuple,), {}), lambda given: pair(*given))
    mine = [Duck(), m.ones(2)]
    return [[m.cat(kind(mine))[:2], m.stack(kind(mine))[:2]] for kind in kinds]


@program
def handle(m):
    return m.overrides.handle_torch_function(own, (Duck(), 3), 1, 2, z=4)


@program
def handle_asks_plain_tensors_too(m):
    return m.overrides.handle_torch_function(own, (m.ones(1),), 1)


@program
def handle_finds_nobody(m):
    try:
        m.overrides.handle_torch_function(own, (Refusing(), 3), 1)
    except TypeError as error:
        return str(error).replace(__name__, "module")


@program
def wrapped(m):
    @m.overrides.wrap_torch_function(lambda x, y=1: (x, y))
    def fn(x, y: Any = 1):
        """Text."""
        return "plain", x, y

    return fn(3), fn(Duck()), fn(3, y=Duck()), fn.__name__, fn.__doc__


@program
def tensor_likes(m):
    like = m.overrides.is_tensor_like
    return [like(x) for x in (m.ones(1), m.nn.Parameter(m.ones(1)), Duck(), Duck, 3, [m.ones(1)])]


@program
def methods_and_properties(m):
    is_one = m.overrides.is_tensor_method_or_property
    t = m.Tensor
    cases = [t.add, m.add, t.shape.__get__, t.__getitem__, t.shape, m.nn.functional.relu, t.requires_grad.__set__]
    return [is_one(f) for f in cases]


@program
def names(m):
    t = m.Tensor
    functions = [
        t.add, m.add, t.shape.__get__, t.requires_grad.__set__, t.__getitem__, m.nn.functional.relu, m.linalg.norm,
        m.fft.fft, m.special.erf, m.zeros, m.tensor, t.T.__get__, t.shape, own, 3, m.sum, t.sum, t.__add__,
    ]  # fmt: skip
    return [m.overrides.resolve_name(f) for f in functions]


@program
def unconverted(m):
    return sorted(m.overrides.resolve_name(f) for f in m.overrides.get_default_nowrap_functions())


@program
def overridable(m):
    found = m.overrides.get_overridable_functions()
    ignored = m.overrides.get_ignored_functions()
    return [
        [f in found[m] for f in (m.add, m.cat, m.is_tensor, m.tensor)],
        [f in found[m.Tensor] for f in (m.Tensor.add, m.Tensor.__add__, m.Tensor.as_subclass, m.Tensor.new)],
        [f in found[m.nn.functional] for f in (m.nn.functional.relu, m.nn.functional.linear)],
        found[m.Tensor.shape] == [m.Tensor.shape.__get__],
        [f in ignored for f in (m.is_tensor, m.tensor, m.Tensor.as_subclass, m.add, m.Tensor.add)],
    ]


@program
def overloaded_arguments(m):
    deeper = type("Deeper", (Duck,), {})
    t = m.ones(1)
    cases = [(1, Duck(), Refusing()), (Duck(), deeper()), (Duck(), Duck()), (t, Duck()), (t, t), ()]
    return [[type(a).__name__ for a in m.overrides._get_overloaded_args(c)] for c in cases]


def test_testing_overrides_have_the_signatures():
    dummies = tg.overrides.get_testing_overrides()
    assert all(callable(f) for f in dummies.values())
    assert dummies[tg.add](1, 2) == -1
    assert list(inspect.signature(dummies[tg.add]).parameters)[:2] == ["input", "other"]
    assert dummies[tg.Tensor.shape.__get__](1) == -1
    with pytest.raises(TypeError):
        dummies[tg.add]()


def test_every_overridable_function_can_be_overridden():
    """Whatever the arguments: a duck in the first place answers for all of them."""

    class Answer:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func

    silent = []
    for holder, functions in tg.overrides.get_overridable_functions().items():
        for fn in functions:
            if holder is tg.Tensor or isinstance(holder, property):
                continue
            if fn(Answer()) is not fn:
                silent.append(tg.overrides.resolve_name(fn))
    assert silent == []


def test_every_method_can_be_overridden():
    class Answer(tg.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func

    x = Answer([1.0])
    operators = tg._engine.overrides.looking.OPERATOR_METHODS
    for name, fn in vars(tg.Tensor).items():
        if fn in tg.overrides.get_overridable_functions()[tg.Tensor]:
            wanted = getattr(tg.Tensor, operators.get(name, name))
            assert fn(x) is wanted, name


class OfPyTorch:
    """A function of PyTorch, which computes nothing with tensors of others: it asks them."""

    def __init__(self, module, name):
        self.__module__, self.__name__ = module, name

    def __call__(self, *args, **kwargs):
        return type(args[0]).__torch_function__(self, (type(args[0]),), args, kwargs)


@pytest.mark.parametrize(
    "module, name, path, more",
    [
        ("torch", "sin", "sin", ()),
        ("torch", "pairwise_distance", "nn.functional.pairwise_distance", ([[0.5, 1.0]],)),
        ("torch.functional", "norm", "norm", ()),
        ("torch.nn.functional", "relu", "nn.functional.relu", ()),
        ("torch._C._nn", "linear", "nn.functional.linear", ([[0.5, 1.0]],)),
        ("torch._C._linalg", "linalg_norm", "linalg.norm", ()),
        ("torch._C._fft", "fft_fft", "fft.fft", ()),
        ("torch._C._special", "special_erf", "special.erf", ()),
    ],
)
def test_functions_of_pytorch_that_ask_tensors_of_this_package_are_answered_by_its_own(module, name, path, more):
    args = [tg.tensor(values) for values in ([[-1.0, 2.0]], *more)]
    want = operator.attrgetter(path)(tg)(*args)
    agree(OfPyTorch(module, name)(*args), want)
    mine = type("Mine", (tg.Tensor,), {})
    out = OfPyTorch(module, name)(*(a.as_subclass(mine) for a in args))
    assert type(out) is mine
    agree(out.as_subclass(tg.Tensor), want)


@pytest.mark.parametrize("module, name", [("torch", "no_such"), ("torch.no_such", "sin")])
def test_functions_of_pytorch_alone_are_refused(module, name):
    with pytest.raises(TypeError, match=f"{module}.{name} is a function of PyTorch, called with tensors of torchgrad"):
        OfPyTorch(module, name)(tg.ones(2))


def test_a_distance_of_pytorch_is_computed():
    distance = OfPyTorch("torch", "pairwise_distance")
    a, p, n = (tg.tensor(values, requires_grad=True) for values in ([[1.0, 2.0]], [[0.5, 1.0]], [[3.0, -1.0]]))
    loss = tg.nn.functional.triplet_margin_with_distance_loss
    given, own = ([fn(a, p, n, distance_function=d, margin=9.0)] for fn, d in ((loss, distance), (loss, None)))
    agree(given + list(tg.autograd.grad(given[0], (a, p, n))), own + list(tg.autograd.grad(own[0], (a, p, n))))
