# ruff: noqa: UP006, UP045 - spellings that users write
# pyright: reportInvalidTypeForm=false, reportCallIssue=false, reportArgumentType=false
# The annotations name the module that a program is given, and some calls are wrong on purpose.
"""Operators of the user's own (torch.library): schemas, kernels, gradients, rules; compared with torch."""

from typing import List, Optional, Sequence, Tuple  # noqa: UP035

import numpy as np
import pytest

import torchgrad_jax as tg
from tests.engine.helpers import attempt
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def squares(m, name):
    @m.library.custom_op(name, mutates_args=())
    def square(x: m.Tensor, by: float = 2.0) -> m.Tensor:
        return m.from_numpy(x.detach().numpy() ** 2 * np.float32(by))

    return square


def scaled_by(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.by = inputs[1]
    ctx.shape = tuple(output.shape)


def slope(ctx, g):
    (x,) = ctx.saved_tensors
    assert ctx.shape == (2,)
    assert ctx.needs_input_grad[0]
    return 2 * x * g * ctx.by, None


@program
def names_and_schema(m):
    op = squares(m, "tgj_a::square")
    overload = m.ops.tgj_a.square.default
    schema = overload._schema
    arguments = [(a.name, str(a.type), a.default_value, a.kwarg_only, a.has_default_value()) for a in schema.arguments]
    return (repr(op), str(m.ops.tgj_a.square), str(overload), str(schema), schema.name, arguments, schema.is_mutable)


@program
def without_formula(m):
    x = m.tensor([1.0, 2.0], requires_grad=True)
    y = squares(m, "tgj_b::square")(x)
    return y, y.grad_fn, attempt(lambda: y.sum().backward())


@program
def formula(m):
    op = squares(m, "tgj_c::square")
    op.register_autograd(slope, setup_context=scaled_by)
    x = m.tensor([1.0, 2.0], requires_grad=True)
    y = op(x, by=3.0)
    (first,) = m.autograd.grad(y.sum(), x)
    (twice,) = m.autograd.grad(m.ops.tgj_c.square(x).sum(), x, create_graph=True)
    return y, first, twice, m.autograd.grad(twice.sum(), x), op(x.detach()), x.grad


@program
def lists_and_several_results(m):
    @m.library.custom_op("tgj_d::lists", mutates_args=())
    def lists(xs: Sequence[m.Tensor], y: Optional[m.Tensor] = None, n: int = 1) -> List[m.Tensor]:
        return [x * n + (0 if y is None else y) for x in xs]

    def setup(ctx, inputs, output):
        ctx.n = inputs[2]
        ctx.kinds = type(inputs[0]).__name__, type(output).__name__

    def backward(ctx, gs):
        seen.append((ctx.kinds, type(gs).__name__, ctx.needs_input_grad))
        return [g * ctx.n for g in gs], None, None

    seen = []
    lists.register_autograd(backward, setup_context=setup)
    a, b = m.ones(2, requires_grad=True), m.ones(2)
    out = lists([a, b], None, 3)
    (out[0].sum() + out[1].sum()).backward()

    @m.library.custom_op("tgj_d::pair", mutates_args=())
    def pair(x: m.Tensor) -> Tuple[m.Tensor, m.Tensor, int]:
        return x + 1, x + 2, 3

    return (str(lists._opoverload._schema), out, a.grad, b.grad, seen, pair(a), str(pair._opoverload._schema))


@program
def arguments_by_name_alone(m):
    @m.library.custom_op("tgj_e::scale", mutates_args=())
    def scale(x: m.Tensor, *, by: float) -> m.Tensor:
        return x * by

    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.by = keyword_only_inputs["by"]

    scale.register_autograd(lambda ctx, g: g * ctx.by, setup_context=setup)
    a = m.ones(2, requires_grad=True)
    wrong = [attempt(lambda: scale(a)), attempt(lambda: scale(a, 4.0))]
    return str(scale._opoverload._schema), m.autograd.grad(scale(a, by=4.0).sum(), a), wrong


@program
def writing(m):
    @m.library.custom_op("tgj_f::add", mutates_args={"x"})
    def add(x: m.Tensor, y: m.Tensor) -> None:
        x.add_(y)

    x = m.ones(2)
    result = add(x, m.ones(2))
    leaf = m.ones(2, requires_grad=True)
    add(leaf, m.ones(2))
    refused = attempt(lambda: add.register_autograd(lambda ctx, g: g))
    return result, x, x._version, leaf, leaf._version, str(add._opoverload._schema), refused


@program
def results_that_are_arguments(m):
    @m.library.custom_op("tgj_g::same", mutates_args=())
    def same(x: m.Tensor) -> m.Tensor:
        return x

    return str(attempt(lambda: same(m.ones(2)))).partition("(1)")[2]


@program
def wrong_calls(m):
    @m.library.custom_op("tgj_h::op", mutates_args=())
    def op(x: m.Tensor, sizes: List[int], n: int, name: str = "a") -> m.Tensor:
        return x + n

    x = m.ones(2)
    calls = [
        (),
        (3.0,),
        (x,),
        (x, [1], 3.0),
        (x, 1, 3),
        (x, [1.5], 3),
        (x, None, 3),
        ([x], [1], 3),
        (x, [1], 3, 4),
        (x, [1], 3, "b", 5),
        (x, (1, 2), True),
        (x, [1], m.tensor(3)),
    ]
    by_name = [{"z": 1}, {"x": x}]
    return [attempt(lambda c=c: op(*c)) for c in calls], [attempt(lambda k=k: op(x, [1], 2, **k)) for k in by_name]


@program
def inferred(m):
    def many(
        x: m.Tensor,
        l: Sequence[m.Tensor],  # noqa: E741
        n: int,
        o: Optional[m.Tensor],
        f: float = 1.5,
        b: bool = True,
        s: str = "a",
        *,
        d: m.dtype = m.float32,
        i: Optional[List[int]] = None,
        z: "list[float] | None" = None,
        w: "int | None" = None,
    ) -> Tuple[m.Tensor, List[m.Tensor], int]: ...

    def untyped(x): ...
    def no_result(x: m.Tensor): ...
    def starred(x: m.Tensor, *args: int) -> m.Tensor: ...
    def numbers(x: m.Tensor, n: int = 3) -> m.Tensor: ...
    def pairs(x: m.Tensor, i: List[int] = (1, 2)) -> m.Tensor: ...

    infer = m.library.infer_schema
    return (
        infer(many, mutates_args=()),
        infer(many, mutates_args="unknown"),
        infer(many, mutates_args={"x"}, op_name="hello"),
        *(attempt(lambda f=f: infer(f, mutates_args=())) for f in (untyped, no_result, starred, pairs)),
        attempt(lambda: infer(numbers, mutates_args={"n"})),
        attempt(lambda: infer(numbers, mutates_args={"q"})),
        attempt(lambda: infer(numbers, mutates_args="all")),
    )


@program
def libraries(m):
    lib = m.library.Library("tgj_i", "FRAGMENT")
    defined = (
        lib.define("bar(Tensor x, int n=2) -> Tensor"),
        lib.define(
            "g.ov(Tensor[] x, str s='abc', bool b=True, SymInt n=3, float f=1.5, int[] k=[1,2], Scalar q=1) -> ()"
        ),
    )
    missing = type(attempt(lambda: m.ops.tgj_i.bar(m.ones(2)))).__name__
    lib.impl("bar", lambda x, n=2: x * n, "CPU")
    x = m.ones(2, requires_grad=True)
    y = m.ops.tgj_i.bar(x, 3)
    shown = str(m.ops.tgj_i.g.ov._schema), m.ops.tgj_i.g.overloads(), repr(lib), str(m.ops.tgj_i)
    wrong = [
        attempt(lambda: m.library.Library("prim", "DEF")),
        attempt(lambda: m.library.Library("x", "FOO")),
        attempt(lambda: lib.impl("bar", 3, "CPU")),
        attempt(lambda: lib.impl("bar", len, "FOO")),
        attempt(lambda: m.ops.tgj_i.g.default),
        attempt(lambda: m.ops.tgj_i.nope),
        attempt(lambda: m.library.define("tgj_i::h", "Tensor x -> Tensor")),
        attempt(lambda: m.library.define("tgj_i", "(Tensor x) -> Tensor")),
    ]
    result = defined, missing, y, shown, wrong
    lib._destroy()
    return *result, attempt(lambda: m.ops.tgj_i.bar)


@program
def functions_of_the_module(m):
    m.library.define("tgj_j::baz", "(Tensor x) -> Tensor")

    @m.library.impl("tgj_j::baz", "cpu")
    def baz(x):
        return x + 1

    m.library.register_autograd("tgj_j::baz", lambda ctx, g: g * 5)
    a = m.ones(2, requires_grad=True)
    y = m.ops.tgj_j.baz(a)
    y.sum().backward()
    lib = m.library.Library("tgj_jj", "FRAGMENT")

    @m.library.define(lib, "older(Tensor x) -> Tensor")
    def older(x):
        return x * 2

    return y, a.grad, m.ops.tgj_jj.older(a)


@program
def devices(m):
    @m.library.custom_op("tgj_k::dev", mutates_args=(), device_types="cuda")
    def dev(x: m.Tensor) -> m.Tensor:
        return x

    before = type(attempt(lambda: dev(m.ones(2)))).__name__
    dev.register_kernel("cpu")(lambda x: x * 7)
    return before, dev(m.ones(2))


@program
def autocast(m):
    @m.library.custom_op("tgj_l::cast", mutates_args=())
    def cast(x: m.Tensor) -> m.Tensor:
        seen.append((str(x.dtype), m.is_autocast_enabled("cpu")))
        return x + 1

    seen = []
    cast.register_autocast("cpu", m.bfloat16)
    x = m.ones(2)
    with m.autocast("cpu"):
        inside = cast(x), cast(x.double())
    return inside, cast(x), seen


@program
def batched(m):
    @m.library.custom_op("tgj_m::twice", mutates_args=())
    def twice(x: m.Tensor, by: float = 2.0) -> m.Tensor:
        return x * by

    @twice.register_vmap
    def rule(info, in_dims, x, by=2.0):
        seen.append((info.batch_size, info.randomness, in_dims))
        return twice(x, by), in_dims[0]

    seen = []
    return (m.vmap(twice)(m.ones(3, 2)), m.vmap(twice, in_dims=(0, None), out_dims=1)(m.ones(3, 2), 3.0), seen)


@program
def checks(m):
    @m.library.custom_op("tgj_n::sine", mutates_args=())
    def sine(x: m.Tensor) -> m.Tensor:
        return x.sin()

    sine.register_fake(lambda x: m.empty_like(x))
    sine.register_autograd(
        lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return (
        m.library.opcheck(sine, (m.ones(3, requires_grad=True),)),
        m.autograd.gradcheck(sine, m.ones(3, dtype=m.float64, requires_grad=True)),
    )


@program
def conditions(m):
    check = m._check
    return [
        attempt(f)
        for f in (
            lambda: check(False),
            lambda: check(False, lambda: "why"),
            lambda: check(m.tensor(True)),
            lambda: check(3),
            lambda: check(False, "why"),
            lambda: m._check_index(False),
            lambda: m._check_value(False, lambda: 3),
            lambda: m._check_type(False),
            lambda: m._check_not_implemented(False),
            lambda: m._check_with(KeyError, False, lambda: "x"),
            lambda: m._check_tensor_all(m.tensor([True, False])),
            lambda: m._check_tensor_all(m.ones(2)),
            lambda: m._check_tensor_all(m.tensor([True])),
        )
    ]


# --- what torch has no answer to, or another one ---


def made(name):
    @tg.library.custom_op(name, mutates_args=())
    def cube(x: tg.Tensor) -> tg.Tensor:
        return x**3

    cube.register_autograd(
        lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return cube


def test_inside_of_transforms_and_compile():
    cube = made("tgj_o::cube")
    x = tg.tensor([1.0, 2.0])
    np.testing.assert_allclose(tg.func.grad(lambda t: cube(t).sum())(x), [3.0, 12.0])
    rows = tg.func.vmap(tg.func.grad(lambda t: cube(t).sum()))(tg.stack([x, x + 1]))
    np.testing.assert_allclose(rows, [[3.0, 12.0], [12.0, 27.0]])
    np.testing.assert_allclose(tg.func.jvp(cube, (x,), (tg.ones(2),))[1], [3.0, 12.0])

    @tg.compile
    def step(t):
        cube(t).sum().backward()
        return t.grad

    np.testing.assert_allclose(step(x.clone().requires_grad_()), [3.0, 12.0])


@pytest.mark.parametrize(
    ("fake", "what"),
    [(lambda x: x.new_empty(3), "shape"), (lambda x: x.double(), "dtype"), (lambda x: [x, x], "tells of 2 tensors")],
)
def test_a_fake_function_that_is_wrong(fake, what):
    cube = made(f"tgj_p::cube_{what.split()[0]}")
    cube.register_fake(fake)
    with pytest.raises(Exception, match=what):
        tg.library.opcheck(cube, (tg.ones(2),))
    found = tg.library.opcheck(cube, (tg.ones(2),), raise_exception=False)
    assert [name for name, result in found.items() if result != "SUCCESS"] == ["test_faketensor"]


def test_an_operator_that_writes_unsaid_is_found():
    @tg.library.custom_op("tgj_q::sly", mutates_args=())
    def sly(x: tg.Tensor) -> tg.Tensor:
        x.add_(1)
        return x.clone()

    with pytest.raises(Exception, match="not defined to be mutated"):
        tg.library.opcheck(sly, (tg.ones(2),), test_utils="test_schema")


def test_an_incorrect_number_of_gradients():
    cube = made("tgj_r::cube")
    cube.register_autograd(lambda ctx, g: (g, g), setup_context=lambda ctx, inputs, output: None)
    x = tg.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"expected 1, got 2"):
        cube(x).sum().backward()
    assert x.grad is None


def test_operators_that_cannot_be_loaded_or_are_not_there():
    with pytest.raises(OSError, match=r"Could not load this library: nowhere\.so"):
        tg.ops.load_library("nowhere.so")
    with pytest.raises(RuntimeError, match="operator tgj_s::nope does not exist"):
        tg.library.impl("tgj_s::nope", "CPU", len)
    tg.library.register_fake("tgj_s::later", lambda x: tg.empty_like(x))
    tg.library.define("tgj_s::later", "(Tensor x) -> Tensor")
    tg.library.impl("tgj_s::later", "default", lambda x: x + 1)
    assert tg.library.opcheck(tg.ops.tgj_s.later.default, (tg.ones(2),), test_utils="test_faketensor")
    with pytest.raises(NotImplementedError, match="__torch_function__"):
        tg.library.Library("aten", "IMPL")


@pytest.mark.parametrize(
    "text", ["f(Tensor x) ->", "f(Tensor x", "f(Foo x) -> ()", "(Tensor x) -> ()", "f(Tensor) -> ()"]
)
def test_schemas_that_cannot_be_read(text):
    with pytest.raises(RuntimeError, match="cannot read this as the schema"):
        tg.library.Library("tgj_t", "FRAGMENT").define(text)


def test_sets_of_dispatch_keys():
    key, keys = tg._C.DispatchKey, tg._C.DispatchKeySet
    both = keys(key.CPU) | keys(key.AutocastCPU)
    assert both.has(key.CPU)
    assert not both.remove(key.CPU).has(key.CPU)
    assert repr(both - keys(key.CPU)) == "DispatchKeySet(AutocastCPU)"
    assert both & keys(key.CPU) == keys(key.CPU) == keys(key.CPU).add(key.CPU)
