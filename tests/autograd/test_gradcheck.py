"""gradcheck and gradgradcheck: verdicts and messages, compared with torch."""

import re
import sys
from functools import partial
from typing import Any

import pytest

import torchgrad_jax
from tests.programs import Programs

tg: Any = torchgrad_jax

program = Programs()
test_same_as_torch = program.test()


def vector(m):
    return m.tensor([1.0, 2.0], dtype=m.float64, requires_grad=True)


def complex_vector(m):
    return m.tensor([1 + 1j, 2], dtype=m.complex128, requires_grad=True)


def function(m, backward, forward=lambda ctx, x: x * x, jvp=None):
    def run(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return forward(ctx, x)

    members = {"forward": staticmethod(run), "backward": staticmethod(backward)}
    if jvp:
        members["jvp"] = staticmethod(jvp)
    return type(m.autograd.Function)("F", (m.autograd.Function,), members).apply


def right(ctx, g):
    return 2 * ctx.saved_tensors[0] * g


def wrong(ctx, g):
    return 3 * ctx.saved_tensors[0] * g


def verdict(run):
    """True, False, or the error: of its text the part about the function, without advice, random numbers of
    fast mode, or the noise of finite differences."""
    try:
        return run()
    except Exception as e:
        text = re.sub(r"(numerical|analytical):(?!tensor)[^\n]*", r"\1:random", str(e))
        text = re.sub(r"(numerical|analytical):tensor\(\[[^\[]*\n", r"\1:random", text)
        text = re.sub(r"difference \(slow mode\) is: .*", "", text)
        text = re.split(r"\n\n(NOTE|gradcheck or|If)", text)[0]
        return type(e).__name__, re.sub(r" +", " ", text)


def both_modes(m, *args, **kwargs):
    gradcheck = m.autograd.gradcheck
    return [verdict(partial(gradcheck, *args, fast_mode=fast, **kwargs)) for fast in (False, True)]


@program
def correct(m):
    return both_modes(m, function(m, right), (vector(m),))


@program
def incorrect(m):
    return both_modes(m, function(m, wrong), (vector(m),))


@program
def incorrect_without_exception(m):
    return both_modes(m, function(m, wrong), (vector(m),), raise_exception=False)


@program
def no_gradient(m):
    return both_modes(m, function(m, lambda ctx, g: None), (vector(m),))


@program
def second_output_and_input(m):
    a, b = vector(m), vector(m)
    return both_modes(m, lambda a, b: (a * b, function(m, wrong)(b)), (a, b))


@program
def complex_correct(m):
    return both_modes(m, lambda z: z * z, (complex_vector(m),), check_forward_ad=True)


@program
def complex_incorrect(m):
    return both_modes(m, function(m, wrong), (complex_vector(m),))


@program
def complex_conjugate_forgotten(m):
    return both_modes(m, function(m, right), (complex_vector(m),))


@program
def real_to_complex(m):
    return both_modes(m, lambda x: m.complex(x, x * 2), (vector(m),))


@program
def complex_to_real(m):
    return both_modes(m, lambda z: z.abs(), (complex_vector(m),), check_forward_ad=True)


@program
def nothing_requires_grad(m):
    return both_modes(m, lambda x: x * 2, (vector(m).detach(),))


@program
def single_precision(m):
    x = m.tensor([1.0, 2.0], requires_grad=True)
    return both_modes(m, lambda x: x.sin(), (x,), eps=1e-2, atol=1e-2)


@program
def overlapping_input(m):
    return both_modes(m, lambda x: x * 2, (vector(m)[:1].expand(3),))


@program
def detached_output(m):
    return both_modes(m, lambda x: x.detach() * 2, (vector(m),))


@program
def constant_output(m):
    return both_modes(m, lambda x: m.ones(2, dtype=m.float64), (vector(m),))


@program
def integer_output(m):
    return both_modes(m, lambda x: x.long(), (vector(m),))


@program
def output_is_no_tensor(m):
    return both_modes(m, lambda x: 3, (vector(m),))


@program
def backward_raises(m):
    return both_modes(m, function(m, lambda ctx, g: 1 / 0), (vector(m),))


@program
def not_reentrant(m):
    count = [0]

    def backward(ctx, g):
        count[0] += 1
        return right(ctx, g) + count[0] * 1e-9

    f = function(m, backward)
    return both_modes(m, f, (vector(m),)), both_modes(m, f, (vector(m),), nondet_tol=1e-3)


def undefined(m, backward):
    class U(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

    U.backward = staticmethod(backward)
    return U.apply


@program
def undefined_not_zero(m):
    f = undefined(m, lambda ctx, g: m.ones(2, dtype=m.float64) if g is None else g * 2)
    return both_modes(m, f, (vector(m),)), both_modes(m, f, (vector(m),), check_undefined_grad=False)


@program
def undefined_raises(m):
    def backward(ctx, g):
        if g is None:
            raise RuntimeError("undefined")
        return g * 2

    return both_modes(m, undefined(m, backward), (vector(m),))


@program
def undefined_of_two_outputs(m):
    return both_modes(m, lambda x: (x * 2, x.sin()), (vector(m),))


@program
def forward_missing(m):
    return both_modes(m, function(m, right), (vector(m),), check_forward_ad=True)


@program
def forward_incorrect(m):
    f = function(m, right, jvp=lambda ctx, t: t * 7)
    return both_modes(m, f, (vector(m),), check_forward_ad=True)


@program
def forward_only(m):
    f = function(m, wrong, jvp=lambda ctx, t: ctx.saved_tensors[0] * 2 * t)
    return both_modes(m, f, (vector(m),), check_forward_ad=True, check_backward_ad=False, check_undefined_grad=False)


@program
def complex_forward_incorrect(m):
    f = function(
        m, lambda ctx, g: 2 * g * ctx.saved_tensors[0].conj(), jvp=lambda ctx, t: ctx.saved_tensors[0] * 2 * t.conj()
    )
    return verdict(lambda: m.autograd.gradcheck(f, (complex_vector(m),), check_forward_ad=True))[1].splitlines()[0]


@program
def argument_errors(m):
    x = (vector(m),)
    f = m.sin
    return [
        both_modes(m, f, x, check_backward_ad=False),
        both_modes(m, f, x, check_batched_forward_grad=True),
        both_modes(m, f, x, check_batched_grad=True, check_backward_ad=False, check_forward_ad=True),
        verdict(lambda: m.autograd.gradgradcheck(f, x, check_rev_over_rev=False)),
        verdict(lambda: m.autograd.gradgradcheck(f, x, check_fwd_over_rev=True, check_rev_over_rev=False)),
        verdict(
            partial(
                m.autograd.gradgradcheck,
                f,
                x,
                check_fwd_over_rev=True,
                check_rev_over_rev=False,
                check_undefined_grad=False,
                check_batched_grad=True,
            )
        ),
        verdict(lambda: m.autograd.gradcheck(f, x, 1e-6)),
    ]


@program
def dtype_is_cast_by_the_engine(m):
    return both_modes(m, function(m, lambda ctx, g: right(ctx, g).float()), (vector(m),), check_grad_dtypes=True)


@program
def shapes_of_inputs(m):
    return [
        both_modes(m, lambda x: x * 2, (m.zeros(0, dtype=m.float64, requires_grad=True),)),
        both_modes(m, lambda x: x[:1], (vector(m),)),
        both_modes(m, lambda x: x.clone().mul_(3), (vector(m),)),
        both_modes(m, lambda x: x * 2, vector(m)),
        both_modes(m, lambda x: x, (vector(m),)),
        both_modes(m, lambda x, k: x * k, (vector(m), 3)),
        both_modes(m, lambda x: x.t() * 2, (m.ones(2, 3, dtype=m.float64, requires_grad=True),)),
        both_modes(m, lambda x: (x * x).sum(), (m.ones((), dtype=m.float64, requires_grad=True),)),
    ]


@program
def closure_sees_the_moved_input(m):
    x = vector(m)
    return both_modes(m, lambda _: x.sin(), (x,))


@program
def inputs_are_left_as_they_were(m):
    x = vector(m)
    m.autograd.gradcheck(m.sin, (x,))
    return x, x.grad


@program
def second_order_linear(m):
    return verdict(lambda: m.autograd.gradgradcheck(lambda x: x * 2, (vector(m),)))


@program
def second_order_options(m):
    ones = m.ones(2, dtype=m.float64, requires_grad=True)
    f = m.sin
    check = m.autograd.gradgradcheck
    return [
        verdict(lambda: check(f, (vector(m),), ones)),
        verdict(lambda: check(f, (vector(m),), gen_non_contig_grad_outputs=True)),
        verdict(lambda: check(f, (vector(m),), check_fwd_over_rev=True)),
        verdict(lambda: check(f, (vector(m),), check_batched_grad=True)),
        verdict(lambda: check(f, (complex_vector(m),))),
    ]


def module(m):
    return __import__(m.__name__ + ".autograd.gradcheck", fromlist=["gradcheck"])


def named(m, name):
    """A name of the submodule, which the function of the same name hides."""
    module(m)
    return getattr(sys.modules[m.__name__ + ".autograd.gradcheck"], name)


@program
def error_class(m):
    return [c.__name__ for c in named(m, "GradcheckError").__mro__]


def test_batched_failure_is_reported():
    m = tg
    f = function(m, lambda ctx, g: right(ctx, g) * (g.sum().item() ** 0))
    with pytest.raises(RuntimeError, match=r"^While computing batched gradients, got: "):
        m.autograd.gradcheck(f, (vector(m),), check_batched_grad=True)


def test_batched_forward():
    m = tg
    assert m.autograd.gradcheck(m.sin, (vector(m),), check_forward_ad=True, check_batched_forward_grad=True)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_passes_that_are_compiled_on_the_way_are_repeatable(fast_mode):
    """The first pass goes node by node, a later one is compiled as a whole, and rounds in another way."""
    m = tg
    m.manual_seed(0)
    inputs = [m.rand(*shape, dtype=m.float64, requires_grad=True) for shape in ((3, 1), (3, 3), (3, 1), (3, 1))]

    def gradients(v, a, b, x):
        y = m.nn.functional.softplus(a @ x + b)
        return m.autograd.grad(y, (a, b, x), v, create_graph=True)

    assert m.autograd.gradcheck(gradients, inputs, fast_mode=fast_mode)


def test_passes_that_differ_node_by_node_are_told():
    m = tg
    passes = iter(range(100))
    f = function(m, lambda ctx, g: right(ctx, g) + next(passes) * 1e-9)
    with pytest.raises(RuntimeError, match=r"^Backward is not reentrant"):
        m.autograd.gradcheck(f, (vector(m),))
