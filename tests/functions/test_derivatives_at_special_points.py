"""First and second derivatives, in reverse and forward mode, at zeros, ties, infinities and NaN."""

from __future__ import annotations

import itertools

import pytest

import torchgrad_jax as tg
from tests.differential import agree
from tests.programs import Programs

program = Programs()
test_same_as_torch = pytest.mark.long(program.test())

INF, NAN = float("inf"), float("nan")
POINTS = (0.0, 1.0, -0.5, 3.0, -2.0, INF, -INF, NAN)
PAIRED = (0.0, 1.0, -1.0, 0.5, INF, -INF, NAN)
TRIPLES = (0.0, 1.0, INF, NAN)


def of_one(fn, xs, k):
    """The function of its `k`-th argument alone."""
    return lambda x: fn(*xs[:k], x, *xs[k + 1 :])


def derivatives(m, fn, xs):
    """Of each argument the gradient, the gradients of that, and the tangent."""
    leaves = [x.clone().requires_grad_() for x in xs]
    y = fn(*leaves)
    firsts = m.autograd.grad(y, leaves, m.ones_like(y), create_graph=True, allow_unused=True)
    found = {}
    for k, g in enumerate(firsts):
        found[f"d{k}"] = g if g is None else g.detach()
        if g is not None and g.requires_grad:
            seconds = m.autograd.grad(g, leaves, m.ones_like(g), retain_graph=True, allow_unused=True)
            for j, h in enumerate(seconds):
                # The sum gives memory to a tangent, also to one that torch has no memory for.
                found[f"d{k}{j}"] = h if h is None else h + 0
    for k, x in enumerate(xs):
        found[f"f{k}"] = m.func.jvp(of_one(fn, xs, k), (x,), (m.ones_like(x),))[1]
    return found


def at_points(m, points, count, dtype):
    columns = zip(*itertools.product(points, repeat=count))
    return [m.tensor(c, dtype=dtype) for c in columns]


def grid(m, functions, points, count):
    return {
        f"{name} {dtype}": derivatives(m, fn, at_points(m, points, count, dtype))
        for name, fn in functions.items()
        for dtype in (m.float64, m.float32)
    }


@program
def logarithms_of_odds(m):
    """Of numbers outside of the interval, too, where the gradient is NaN or 0."""
    found = grid(m, {"logit": m.logit}, POINTS, 1)
    # With bounds the gradient of NaN is NaN, or 0 if it is recorded, in torch.
    return found | grid(m, {"with eps": lambda x: m.logit(x, 0.25)}, POINTS[:-1], 1)


@program
def products_with_logarithms(m):
    return grid(m, {"xlogy": m.xlogy, "xlog1py": m.special.xlog1py}, PAIRED, 2)


@program
def powers_of_two_and_signs(m):
    return grid(m, {"ldexp": m.ldexp, "copysign": m.copysign}, PAIRED, 2)


@program
def the_second_gradient_of_i0_takes_nan_for_zero(m):
    x = m.tensor([0.0, NAN, INF, 1.0], dtype=m.float64, requires_grad=True)
    (g,) = m.autograd.grad(m.i0(x).sum(), x, create_graph=True)
    return g.detach(), m.autograd.grad(g.sum(), x)[0]


@program
def smallest_of_two(m):
    return grid(m, {"fmin": m.fmin, "fmax": m.fmax}, PAIRED, 2)


@program
def limits_that_are_tensors(m):
    """torch's reverse and forward mode differ where a limit is equal to the input, or NaN."""
    pairs = {
        "from below": lambda x, y: m.clamp(x, min=y),
        "from above": lambda x, y: m.clamp(x, max=y),
        "clamp_min": m.clamp_min,
        "clamp_max": m.clamp_max,
        "to a number": lambda x, y: m.clamp(x, y, y),
    }
    return grid(m, pairs, PAIRED, 2) | grid(m, {"clamp": m.clamp}, TRIPLES, 3)


@program
def slopes_of_prelu(m):
    prelu = m.nn.functional.prelu
    return grid(m, {"prelu": lambda x, w: prelu(x[None], w)[0]}, PAIRED, 2)


@program
def distances_that_are_no_numbers(m):
    f = m.nn.functional
    losses = {
        "mse": f.mse_loss,
        "smooth_l1": f.smooth_l1_loss,
        "narrow": lambda x, y, reduction: f.smooth_l1_loss(x, y, beta=0.5, reduction=reduction),
    }
    return grid(m, {k: lambda x, y, loss=loss: loss(x, y, reduction="none") for k, loss in losses.items()}, PAIRED, 2)


@program
def second_gradients_of_huber_loss(m):
    """Which has no forward mode in torch."""
    found = []
    for delta in (1.0, 0.5):
        xs = [x.requires_grad_() for x in at_points(m, PAIRED, 2, m.float64)]
        loss = m.nn.functional.huber_loss(*xs, delta=delta, reduction="none")
        (g,) = m.autograd.grad(loss.sum(), xs[0], create_graph=True)
        found += [g.detach(), *m.autograd.grad(g.sum(), xs)]
    return found


@program
def weights_that_are_infinite(m):
    return grid(m, {"lerp": m.lerp}, TRIPLES, 3)


@program
def sizes_below_zero(m):
    """Forward mode knows their slope; reverse mode goes through the result."""
    sizes, angles = at_points(m, (0.0, 1.0, -1.0, INF), 2, m.float64)
    moved = [
        m.func.jvp(lambda s: m.polar(s, angles).real, (sizes,), (m.ones_like(sizes),)),
        m.func.jvp(lambda a: m.polar(sizes, a).real, (angles,), (m.ones_like(sizes),)),
    ]
    return [t[angles.isfinite()] for _, t in moved]


ONE = """
    acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 frac lgamma log
    log10 log1p log2 logit nan_to_num neg reciprocal round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc
    special.entr special.erfcx special.i0 special.i0e special.i1 special.i1e special.log_ndtr
    special.ndtr special.ndtri nn.functional.relu nn.functional.silu nn.functional.softplus nn.functional.softsign
    nn.functional.tanhshrink nn.functional.logsigmoid
"""
TWO = """
    add sub mul div atan2 pow maximum minimum fmax fmin hypot copysign logaddexp logaddexp2 xlogy special.xlog1py fmod
    remainder ldexp nn.functional.mse_loss nn.functional.smooth_l1_loss nn.functional.poisson_nll_loss
    nn.functional.kl_div
"""


def named(m, path):
    fn = m
    for part in path.split("."):
        fn = getattr(fn, part)
    loss = path.endswith(("_loss", "kl_div"))
    return (lambda x, y: fn(x, y, reduction="none")) if loss else fn


def along_grid(m, name, points, count, kind):
    return derivatives(m, named(m, name), at_points(m, points, count, getattr(m, kind)))


CASES = [(n, POINTS, 1) for n in ONE.split()] + [(n, PAIRED, 2) for n in TWO.split()]
each = pytest.mark.parametrize(("name", "points", "count"), CASES, ids=[c[0] for c in CASES])


@each
def test_as_torch(name, points, count, oracle):
    for kind in ("float64", "float32"):
        want, got = (along_grid(m, name, points, count, kind) for m in (oracle, tg))
        # The second derivative of torch's in float32 is off by 2e-6 at -2, where two terms nearly cancel.
        agree(got, want, factor=2.0 if (name, kind) == ("special.log_ndtr", "float32") else 1.0)


@pytest.mark.long
@each
def test_compiled_as_eager(name, points, count):
    for kind in ("float64", "float32"):
        eager = along_grid(tg, name, points, count, kind)
        xs = at_points(tg, points, count, getattr(tg, kind))
        compiled = tg.compile(lambda *xs: derivatives(tg, named(tg, name), xs))(*xs)
        agree(compiled, eager)
