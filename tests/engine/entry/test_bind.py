"""Functions made from the table: arguments, aliases, out= forms, operators."""

import inspect
import linecache
import sys

import numpy as np
import pytest

import torchgrad_jax
from tests.differential import everything
from tests.engine.helpers import Programs, attempt, leaf
from torchgrad_jax._core.jax import caches
from torchgrad_jax._engine.entry import bind, binding, composite
from torchgrad_jax._engine.entry.generate import unrollable
from torchgrad_jax._engine.graph.record import apply
from torchgrad_jax._ops import registry

PROGRAMS = Programs()


test_same_as_torch = PROGRAMS.test()


def data(m):
    return m.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


WRONG = {
    "tensor_is_a_list": lambda m, x: m.exp([1.0]),
    "tensor_is_a_string": lambda m, x: m.add("1", x),
    "tensor_is_none": lambda m, x: m.sin(None),
    "other_is_a_string": lambda m, x: x.add("1"),
    "other_is_none": lambda m, x: x.mul(None),
    "dim_is_a_float": lambda m, x: x.sum(7.5),
    "dim_is_a_string": lambda m, x: x.cumsum("0"),
    "bool_is_an_int": lambda m, x: x.sum(0, 5),
    "missing": lambda m, x: m.add(x),
    "unknown_keyword": lambda m, x: x.sum(dimension=0),
    "dim_out_of_range": lambda m, x: x.sum(2),
    "dim_negative_out_of_range": lambda m, x: x.sum(-3),
    "repeated_dim": lambda m, x: x.sum((0, 0)),
    "list_with_a_number": lambda m, x: m.cat([x, 1.0]),
    "not_a_list": lambda m, x: m.cat(x),
    "empty_list": lambda m, x: m.cat([]),
    "shape_mismatch": lambda m, x: x + m.ones(2),
    "matmul_mismatch": lambda m, x: x @ m.ones(2),
    "integers_have_no_mean": lambda m, x: m.tensor([1, 2]).mean(),
    "in_place_of_a_number": lambda m, x: m.exp_(1.0),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_type_or_value_errors(name, oracle):
    """torch's argument parser words these in its own way; the class is what programs rely on."""
    with pytest.raises(Exception) as want:  # noqa: PT011
        WRONG[name](oracle, data(oracle))
    with pytest.raises(want.type):
        WRONG[name](torchgrad_jax, data(torchgrad_jax))


WORDED = {
    "dim_out_of_range",
    "dim_negative_out_of_range",
    "repeated_dim",
    "shape_mismatch",
    "not_a_list",
    "tensor_is_a_list",
    "tensor_is_none",
    "matmul_mismatch",
    "list_with_a_number",
    "integers_have_no_mean",
}


@pytest.mark.parametrize("name", sorted(WORDED))
def test_texts_of_wrong_arguments(name, same):
    def run(m):
        return attempt(lambda: WRONG[name](m, data(m)))

    same(run, f"wrong_{name}")


@PROGRAMS
def numpys_names_of_arguments(m):
    x = data(m)
    return [
        x.sum(axis=1),
        x.sum(axis=0, keepdims=True),
        m.mean(x, axis=1),
        x.argmax(axis=0),
        m.softmax(x, axis=1),
        x.cumsum(axis=1),
        m.add(x1=x, x2=x),
        x.max(axis=0)[0],
        m.flip(x, dims=(0,)),
        m.cat((x, x), axis=1),
    ]


@PROGRAMS
def sizes_as_varargs_and_as_sequences(m):
    x = data(m)
    return [x.permute(1, 0).shape, x.permute((1, 0)).shape, x.permute([1, 0]).shape, x.permute(dims=(1, 0)).shape,
            x.reshape(3, 2).shape, x.reshape((3, 2)).shape, x.reshape(shape=(3, 2)).shape, x.view(-1).shape,
            x.view([6, 1]).shape,
            x.expand(2, 2, 3).shape, x.expand((2, 2, 3)).shape, x.repeat(2, 1).shape, x.tile((2,)).shape,
            x.flip(0, 1).tolist(),
            m.zeros(2, 3).shape, m.zeros((2, 3)).shape, m.zeros(size=(2, 3)).shape, m.ones(()).shape,
            x.new_zeros(4).shape,
            x.view(m.Size([3, 2])).shape, x.reshape(-1, m.tensor(2)).shape]  # fmt: skip


@PROGRAMS
def numpy_scalars_are_numbers(m):
    x = data(m)
    return [
        x + np.float32(1.5),
        x * np.int64(2),
        x.sum(np.int64(1)),
        x ** np.float64(2),
        x > np.float32(2),
        x.clamp(np.float32(2), np.int32(4)),
    ]


@PROGRAMS
def zero_dim_tensors_are_numbers(m):
    x = data(m)
    one = m.tensor(1)
    return [
        x.sum(one),
        x.select(one, one),
        m.full((2,), m.tensor(3.0)),
        x.narrow(1, one, one),
        m.add(x, x, alpha=m.tensor(2.0)),
        x.unbind(one)[0],
    ]


@PROGRAMS.raises
def missing_argument(m):
    return attempt(lambda: data(m).cumsum())


@PROGRAMS
def out_forms(m):
    x = data(m)
    out = m.empty(2, 3)
    r = m.exp(x, out=out)
    same = m.zeros(2, 3)
    m.add(x, x, out=same[:, :])
    wide = m.zeros(2, 3, dtype=m.float64)
    m.mul(x, 2, out=wide)
    strided = m.zeros(3, 2).t()
    m.neg(x, out=strided)
    values, indices = m.empty(2), m.empty(2, dtype=m.int64)
    pair = m.max(x, 1, out=(values, indices))
    return [r is out, everything(out), same, wide, everything(strided), values, indices, pair.values is values]


@PROGRAMS
def out_that_does_not_fit(m):
    x = data(m)
    some, none, wrong = m.zeros(3), m.zeros(0), m.zeros(2, 3, dtype=m.int64)
    m.exp(x, out=some)
    m.exp(x, out=none)
    return (some, none, attempt(lambda: m.exp(x, out=wrong)), some.shape, attempt(lambda: m.exp(x, out=3)))


@PROGRAMS
def out_has_no_gradient(m):
    x = leaf(m, 2, 3)
    out = m.zeros(2, 3)
    first = attempt(lambda: m.exp(x, out=out))
    second = attempt(lambda: m.exp(out, out=leaf(m, 2, 3)))
    with m.no_grad():
        m.exp(x, out=out)
    return first, second, everything(out)


@PROGRAMS
def out_none_is_no_out(m):
    return m.exp(data(m), out=None)


@PROGRAMS
def operators(m):
    x, n, b = data(m), m.tensor([7, -3]), m.tensor([True, False])
    return [2 + x, 2 - x, 2 * x, 2 / x, 2**x, 7 // x, 7 % x, x // 2, x % 2, -x, +x, abs(-x), x @ x.t(), n & 3,
            n | 1, n ^ 5, ~n, n << 1, n >> 1,
            ~b, b & True, 1 << n.abs(), n // 2, n % 4, n / 2, x == 2, x != 2, x < 3, x >= 3,
            round(x.sum().item(), 3)]  # fmt: skip


class Foreign:
    """Somebody else's number."""

    def __radd__(self, other):
        return "radd"

    def __rmul__(self, other):
        return "rmul"

    def __rsub__(self, other):
        return "rsub"

    def __rtruediv__(self, other):
        return "rtruediv"

    def __rmatmul__(self, other):
        return "rmatmul"

    def __lt__(self, other):
        return "lt"


def test_foreign_operands_get_their_say():
    x = data(torchgrad_jax)
    f = Foreign()
    assert [x + f, x * f, x - f, x / f, x @ f, x > f] == ["radd", "rmul", "rsub", "rtruediv", "rmatmul", "lt"]


@PROGRAMS
def operands_nobody_understands(m):
    x = data(m)
    steps = [lambda: x + object(), lambda: object() - x, lambda: x @ 3, lambda: x < object(), lambda: x + "a"]
    return [type(attempt(s)).__name__ for s in steps], x == object(), x != "a"


@PROGRAMS
def named_tuples(m):
    x = data(m)
    r = x.max(1)
    _, indices = r
    return (
        r,
        r.values is r[0],
        indices,
        len(r),
        isinstance(r, tuple),
        r._fields if hasattr(r, "_fields") else ("values", "indices"),
        type(m.sort(x)).__name__,
    )


@pytest.mark.parametrize("call", ["x.exp()", "-x", "x * x", "x.view(-1)", "x.sum(0)", "x.clone().mul_(2)"])
def test_a_debugger_shows_the_code_that_is_written(call):
    x, shown = leaf(torchgrad_jax, 2, 3), {}

    def enter(frame, event, argument):
        code = frame.f_code
        if event == "call" and ("generate.py:" in code.co_filename or "finish.py:" in code.co_filename):
            shown[code.co_name] = linecache.getline(code.co_filename, code.co_firstlineno)

    eval(call, {"x": x})
    sys.setprofile(enter)
    try:
        eval(call, {"x": x})
    finally:
        sys.setprofile(None)
    linecache.checkcache()
    assert shown
    assert all(line.startswith(f"def {name}(") for name, line in shown.items()), shown


def test_generated_functions_introspect():
    torchgrad_jax.ones(2).cumsum(0)  # the first call generates the code
    assert str(inspect.signature(torchgrad_jax.Tensor.cumsum)).startswith("(input: 'Array', dim: ")
    assert "def cumsum(" in inspect.getsource(torchgrad_jax.Tensor.cumsum)  # the row
    assert torchgrad_jax.exp.__name__ == "exp"
    assert torchgrad_jax.exp_.__name__ == "exp_"
    assert torchgrad_jax.Tensor.__add__.__name__ == "__add__"
    assert torchgrad_jax.cumsum.__doc__


def cases(m):
    x, y = leaf(m, 2, 3), leaf(m, 2, 3, start=0.5)
    return {
        "exp": (x,),
        "sin": (y,),
        "mul": (x, y),
        "div": (x, y),
        "matmul": (x, y.t()),
        "maximum": (x, y),
        "sub": (x, y),
        "sigmoid": (x,),
        "atan2": (x, y),
        "relu": (x,),
        "logaddexp": (x, y),
        "minimum": (x, y.detach()),
        "log": (y,),
        "tanh": (x * 1,),
        "mean": (x,),
        "hypot": (x[:, :2], y.t()[:2].t()),
        "gather": (x, 1, m.tensor([[0, 2], [1, 1]])),
        "index_select": (y.t(), 0, m.tensor([2, 0])),
        "clamp": (x, 0.5, None),
        "lerp": (x, y, 0.25),
        "addcmul": (x, x, y),
        "leaky_relu": (x,),
        "nll_loss": (x, m.tensor([2, 0]), None, -100, "mean"),
        "max_dim": (x, 1),
    }


UNROLLED = sorted(
    n for n in cases(torchgrad_jax) if hasattr(bind.ops, n) and unrollable(getattr(bind.ops, n).binding, False)
)


def first(out):
    """The result of an operator, or the first of several."""
    return out[0] if isinstance(out, tuple) else out


@pytest.mark.parametrize("name", UNROLLED)
def test_unrolled_code_does_what_the_general_path_does(name):
    args = cases(torchgrad_jax)[name]
    fn = getattr(bind.ops, name)
    b = fn.binding
    full = [*args, *[p.default for p in b.params[len(args) :]]]
    fast, slow = first(fn(*args)), first(apply(*b.general(full)))
    assert fast.tolist() == slow.tolist()
    assert fast._m is slow._m
    one, two = fast.grad_fn, slow.grad_fn
    # Two equal plans where a test before this one made the caches forget the first.
    assert (one.gp.saved_in, one.gp.saved_out) == (two.gp.saved_in, two.gp.saved_out)
    assert one.edges == two.edges
    assert one.vers == two.vers
    assert two.seq > one.seq
    for p, q in zip(one.saved, two.saved):
        assert p is q or (p.version, p.array.tolist()) == (q.version, q.array.tolist())
    with torchgrad_jax.no_grad():
        fast, slow = first(fn(*args)), first(apply(*b.general(full)))
    assert fast.grad_fn is slow.grad_fn is None
    assert not fast.requires_grad


def test_unrolled_code_is_the_common_case():
    assert len(UNROLLED) >= 10
    fast = [n for n in dir(bind.ops) if not n.endswith("_") and unrollable(getattr(bind.ops, n).binding, False)]
    assert len(fast) > 150


FLOATS = sorted(
    n
    for n in dir(bind.ops)
    if not n.endswith("_") and any(p.kind is float for p in getattr(bind.ops, n).binding.static)
)
"""Rows with a number that is a part of their calls."""


@pytest.mark.parametrize("name", FLOATS)
def test_zeros_of_two_signs_are_two_numbers(name):
    b = getattr(bind.ops, name).binding
    at = next(i for i, p in enumerate(b.static) if p.kind is float)
    statics = [{bool: False, int: 0, float: 0.5, str: "none"}.get(p.kind, ()) for p in b.static]
    counts = [1] * sum(p.kind in (registry.Arrays, registry.OptArrays) for p in b.dynamic)

    def call(zero):
        return b.call(*statics[:at], zero, *statics[at + 1 :], *counts)

    plus, minus = call(0.0), call(-0.0)
    assert plus is not minus
    assert (call(0.0), call(-0.0)) == (plus, minus)


def test_a_zero_that_was_met_before_keeps_its_sign():
    x = torchgrad_jax.ones(2)
    for _ in range(3):
        assert [str(v) for v in torchgrad_jax.nn.functional.threshold(x, 2.0, 0.0).tolist()] == ["0.0", "0.0"]
        assert [str(v) for v in torchgrad_jax.nn.functional.threshold(x, 2.0, -0.0).tolist()] == ["-0.0", "-0.0"]


def _inference(x, *_):
    with torchgrad_jax.inference_mode():
        return x * x, (x * 1).add_(1)[0].mul_(2).clone()


def _with_hooks(x, *_):
    with torchgrad_jax.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return x * x, (x * 1).add_(1)[0].mul_(x[1])


MET_AGAIN = {
    "checked places": lambda x, i: x.gather(1, i),
    "several results": lambda x, i: x.topk(2),
    "a named tuple": lambda x, i: x.max(1),
    "a list of tensors": lambda x, i: torchgrad_jax.cat([x, x], 1),
    "a list of numbers": lambda x, i: x.sum([0, 1]),
    "tensors that are left out": lambda x, i: bind.ops._native_layer_norm(x, (3,), None, None, 1e-5),
    "a number beside tensors": lambda x, i: torchgrad_jax.add(x, x, alpha=2),
    "an index": lambda x, i: x[i[:, 0]],
    "several views": lambda x, i: x.split(1),
    "a write": lambda x, i: x.detach().clone().add_(x.detach(), alpha=2),
    "a write at places": lambda x, i: x.detach().index_fill_(0, i[0], 2.0),
    "inference mode": _inference,
    "hooks of saved values": _with_hooks,
}


@pytest.mark.parametrize("label", MET_AGAIN)
def test_arguments_of_a_call_that_was_met_before_are_not_read_one_by_one(label, monkeypatch):
    x, i = leaf(torchgrad_jax, 2, 3), torchgrad_jax.zeros(2, 1, dtype=torchgrad_jax.int64)

    def refuse(*args):
        raise AssertionError("read one by one")

    for pool in caches.POOLS.values():  # no generation of plans may end between the two calls
        monkeypatch.setattr(pool, "limit", 1 << 40)
    want = MET_AGAIN[label](x, i)
    with monkeypatch.context() as patch:
        patch.setattr(binding.Binding, "general", refuse)
        patch.setattr(composite.Composed, "look", refuse)
        got = MET_AGAIN[label](x, i)
    for a, b in zip(*[out if isinstance(out, tuple) else (out,) for out in (want, got)], strict=True):
        assert a.tolist() == b.tolist()
        assert (a.grad_fn is None) is (b.grad_fn is None)
        assert a.is_inference() is b.is_inference()
