"""Gradients of elementwise functions where zeros, infinities and NaN meet, going in and coming back."""

from __future__ import annotations

import itertools

from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()

INF, NAN = float("inf"), float("nan")
ZEROS = "asin acos atan asinh acosh atanh sin cos tan sinh cosh tanh exp exp2 expm1 log log1p sqrt sgn sigmoid angle"


@program
def a_masked_entropy_stays_finite(m):
    """0 comes in where there is no logarithm, and 0 comes out; so do second gradients."""
    p = m.tensor([0.5, 0.0, -1.0, 2.0, INF], dtype=m.float64, requires_grad=True)
    loss = m.where(p.detach() > 0, m.xlogy(p, p), 0.0)
    (g,) = m.autograd.grad(loss[:4].sum(), p, create_graph=True)
    (h,) = m.autograd.grad(g[[0, 3]].sum(), p)
    x, y = (m.tensor(v, dtype=m.float64, requires_grad=True) for v in ([2.0, 2.0, 2.0], [3.0, 0.0, -1.0]))
    (slope,) = m.autograd.grad(m.xlogy(x, y).sum(), x, create_graph=True)
    return g.detach(), h, slope.detach(), m.autograd.grad(slope.sum(), y)[0]


def merged(m, z):
    """Complex numbers that are not finite made one: which part of them is is up to the order of a kernel's steps."""
    return m.where(z.isfinite(), z, m.full_like(z, NAN))


@program
def complex_quotients(m):
    points = [complex(a, b) for a, b in itertools.product((0.0, 1.0, -2.0, INF, NAN), (0.0, -1.0, -INF))]
    top, bottom = zip(*itertools.product(points, points))
    x, y = (m.tensor(v, dtype=m.complex128, requires_grad=True) for v in (top, bottom))
    q = x / y
    (g,) = m.autograd.grad(q, x, m.ones_like(q))
    u = m.tensor([1 + 2j, 0j, -3j], dtype=m.complex128, requires_grad=True)
    w = m.tensor([2 - 1j, 1j, 4 + 0j], dtype=m.complex128, requires_grad=True)
    (u / w).abs().sum().backward()
    m.addcdiv(u.detach(), u.detach(), w).real.sum().backward()
    return merged(m, q.detach()), merged(m, g), u.grad, w.grad, merged(m, 2 / x.detach())


@program
def signs_of_zeros(m):
    """Seen through `copysign`, as 0 and -0 are equal."""
    functional, zeros = m.nn.functional, m.tensor([0.0, -0.0, 1.0, -1.0, 2.0], dtype=m.float64)
    incoming = m.tensor([-0.0, 0.0, -0.0, 0.0, -1.0], dtype=m.float64)

    def signed(t):
        return m.copysign(m.ones_like(t), t.detach())

    found = []
    for fn in (functional.leaky_relu, functional.softplus, functional.softshrink, m.i0, functional.silu, m.tanh):
        for _ in range(6):
            x = zeros.clone().requires_grad_()
            y = fn(x)
            (g,) = m.autograd.grad(y, x, incoming)
        found.append((signed(y), signed(g)))
    for loss in (functional.mse_loss, functional.smooth_l1_loss, functional.huber_loss):
        for _ in range(6):
            x, y = (zeros.clone().requires_grad_() for _ in range(2))
            grads = m.autograd.grad(loss(x, y, reduction="none"), (x, y), incoming)
        found.append([signed(g) for g in grads])
    return found


@program
def zeros_of_running_and_leading_numbers(m):
    """Running sums begin with 0, running extrema show the zero that stands there, equals stay in order for topk."""
    rows = ([-0.0], [-0.0, 0.0], [0.0, -0.0, 0.0], [-0.0, 1.0, 0.0, -1.0], [0.0, -0.0, -1.0, 1.0, 0.5])
    found = []
    for row in rows:
        for x in (m.tensor(row, dtype=m.float64), m.tensor([row, row]).t(), m.tensor(row[0])):
            for y in (x.cumsum(0), x.cummax(0), x.cummin(0), x.cumsum(-1), x.to(m.complex64).cumsum(0)):
                y = m.view_as_real(y) if isinstance(y, m.Tensor) and y.is_complex() else y
                found.append((y, m.signbit(y if isinstance(y, m.Tensor) else y[0])))
    for row in rows[1:3]:
        found.extend(m.tensor(row).topk(2, largest=largest) for largest in (True, False))
    return found


@program
def saved_for_one_gradient_of_several(m):
    """What torch's formulas share is kept whichever gradient is wanted."""
    a, b, c = (m.tensor([0.5, 0.25]) for _ in range(3))
    one = m.tensor([0.5, 0.75], requires_grad=True)
    nodes = {
        "addcdiv": m.addcdiv(one, b, c),
        "lerp": m.lerp(a, b, one),
        "logits": m.nn.functional.binary_cross_entropy_with_logits(a, one),
    }
    names = ("tensor1", "tensor2", "weight", "self", "end", "target")
    return {k: [(n, getattr(t.grad_fn, f"_saved_{n}", "none such") is None) for n in names] for k, t in nodes.items()}


@program
def second_derivatives_of_norms(m):
    """NaN where the first one is 0 by convention."""
    found = []
    for p in (2, 3, 2.5, 1.5, 0.5, -1):
        for row in ((0.0, 0.0, 0.0), (0.0, 1.0, 2.0), (3.0, -1.0, 2.0)):
            x = m.tensor(row, dtype=m.float64, requires_grad=True)
            (g,) = m.autograd.grad(m.linalg.vector_norm(x, p), x, create_graph=True)
            found.append((g.detach(), m.autograd.grad(g.sum(), x)[0]))
    return found


@program
def what_recorded_gradients_are_said_to_depend_on(m):
    functional = m.nn.functional
    image = m.arange(16.0, dtype=m.float64).reshape(1, 1, 4, 4) / 7
    grid = m.tensor([[[[0.25, 0.5], [-0.5, 0.75]]]], dtype=m.float64)
    functions = (
        lambda x: functional.adaptive_avg_pool2d(x, 3),
        lambda x: functional.adaptive_avg_pool3d(x[None], 2),
        lambda x: functional.grid_sample(x, grid, align_corners=False),
        lambda x: functional.nll_loss(x.expand(1, 2, 4, 4), m.zeros(1, 4, 4, dtype=m.int64)),
    )
    found = []
    for fn in functions:
        x = image.clone().requires_grad_()
        (g,) = m.autograd.grad(fn(x).sum(), x, create_graph=True)
        found.append((g.requires_grad, g.detach()))
    return found


@program
def rounded_to_digits(m):
    """The quotient is that of the division, not a product with the reciprocal: 0.7, not 0.7000000000000001."""
    x = m.tensor([0.7227, 1.2346, 1234.5678, -55.123], dtype=m.float64)
    want = m.tensor([0.7, 1.2, 1234.6, -55.1], dtype=m.float64)
    return [(x.round(decimals=1) == want).tolist() for _ in range(10)]


@program
def zeros_of_complex_functions(m):
    """The sign of a zero says on which side of a cut a number lies: what comes in decides it, as in C."""
    values = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)
    points = [complex(*p) for v in values for z in (0.0, -0.0) for p in ((v, z), (z, v))]
    points += [complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)]
    found = []
    for name in ZEROS.split():
        z = m.tensor(points, dtype=m.complex128)
        y = getattr(m, name)(z)
        found += [m.signbit(p) & (p == 0) for p in ((y.real, y.imag) if y.is_complex() else (y,))]
        z = z[(z.abs() != 1) & (z != 0)].requires_grad_()  # no poles
        y = getattr(m, name)(z)
        found.append(m.autograd.grad(y, z, m.ones_like(y))[0])
    return found


@program
def divided_bowls(m):
    """Divided once, and rounded once for it: by no product with the reciprocal, and by no factor in between."""
    found = []
    for beta in (0.3, 0.7, 2.0):
        x = m.linspace(-1.5, 1.5, 61, dtype=m.float64).requires_grad_()
        loss = m.nn.functional.smooth_l1_loss(x, m.zeros_like(x), beta=beta, reduction="none")
        (slope,) = m.autograd.grad(loss.sum(), x)
        d = x.detach()
        inside = d.abs() < beta
        found.append(
            [
                (loss.detach() == m.where(inside, 0.5 * d * d / beta, d.abs() - 0.5 * beta)).tolist(),
                (slope == m.where(inside, d / beta, d.sign())).tolist(),
            ]
        )
    return found


@program
def sizes_of_complex_infinities(m):
    """Infinite, and be the other part NaN: in norms as in absolute values."""
    found = []
    for value in (complex(INF, NAN), complex(NAN, -INF), complex(NAN, 1.0), complex(INF, 2.0)):
        z = m.tensor([value, 1 + 1j], dtype=m.complex128)
        found += [z.abs(), *(m.linalg.vector_norm(z, p) for p in (0, 0.5, 1, 2, 3, INF, -INF))]
        found += [z.norm(), m.linalg.norm(z), m.linalg.matrix_norm(z[None])]
    return found


@program
def variances_of_equal_numbers(m):
    """0 along a dimension, whatever their sum rounds to; and their mean is their value, or NaN after an infinity."""
    found = []
    for dtype in (m.float64, m.float32, m.complex128, m.bfloat16):
        for value in (0.1, 3.3, 1e30, INF):
            x = m.full((7, 3), value, dtype=dtype).requires_grad_()
            y = x.std(0)
            g = m.autograd.grad(y.sum(), x)[0]
            found += [y == 0, x.t().var(1), g.isnan(), *m.var_mean(x, 0), *m.std_mean(x)]
    x = m.tensor([[1.0, INF], [INF, 1.0], [-INF, INF], [NAN, 2.0]])
    found += [*m.var_mean(x, 1), *m.var_mean(x[:1, 1:], 1), *m.var_mean(x[:, :0], 1)]
    found += [*m.std_mean(x[:0], 0), *m.std_mean(x[0, 0])]
    return found


@program
def norms_of_equal_numbers(m):
    """The rounding of a mean is not blown up by 1 / sqrt(eps)."""
    f, found = m.nn.functional, []
    for number in (0.84147098, 1 / 3, 7.7):
        for dtype in (m.float32, m.float64):
            x = m.full((3, 3), number, dtype=dtype, requires_grad=True)
            y = f.layer_norm(x, (3, 3))
            (y**2).sum().backward()
            found += [y.detach(), x.grad, f.group_norm(x.detach()[None], 1)]
    return found


@program
def sizes_below_zero(m):
    """Forward mode knows their slope; reverse mode goes through the result."""
    columns = zip(*itertools.product((0.0, 1.0, -1.0, INF), repeat=2))
    sizes, angles = (m.tensor(c, dtype=m.float64) for c in columns)
    moved = [
        m.func.jvp(lambda s: m.polar(s, angles).real, (sizes,), (m.ones_like(sizes),)),
        m.func.jvp(lambda a: m.polar(sizes, a).real, (angles,), (m.ones_like(sizes),)),
    ]
    return [t[angles.isfinite()] for _, t in moved]
