"""Strides, versions and gradients of results of unusual arguments."""

from __future__ import annotations

import math
from typing import Any

from tests.programs import Programs, attempt

program = Programs()
test_same_as_torch = program.test()
WINDOWS = (
    ((1, 3), (1, 1)),
    ((3, 1), (1, 5)),
    ((2, 1, 3), (3, 7, 1)),
    ((1, 3), (0, 1)),
    ((1, 1), (5, 7)),
    ((2, 3), (1, 2)),
    ((2, 3), (6, 2)),
    ((2, 3), (0, 1)),
    ((3, 2), (0, 0)),
    ((1,), (3,)),
    ((1,), (0,)),
    ((0,), (4,)),
)


def _window(m: Any, shape: Any, strides: Any, dtype: Any) -> Any:
    return m.arange(24, dtype=m.float64).to(dtype).as_strided(shape, strides)


@program.long
def strides_of_parts_of_complex_numbers(m):
    found = []
    for window in WINDOWS:
        for dtype in (m.complex128, m.float64):
            x = _window(m, *window, dtype)
            outs = x.abs(), x.angle(), x.conj_physical(), x.sgn(), -x
            found.append([tuple(t.stride()) for t in outs])
    return found


_OF_COMPLEX = (
    lambda m, v: v + v,
    lambda m, v: v.conj() + v,
    lambda m, v: -v + v,
    lambda m, v: v.exp() + v,
    lambda m, v: v.real * v.imag,
    lambda m, v: v.real * v.real * v.imag,
    lambda m, v: v.real[0] + v.imag[1],
    lambda m, v: v.real.t() + v.imag,
    lambda m, v: m.view_as_real(v) + m.view_as_real(v),
    lambda m, v: v.abs() + v.real,
    lambda m, v: v.real + v.abs(),
    lambda m, v: m.addcmul(v, v, v),
    lambda m, v: m.complex(v.real, v.imag),
    lambda m, v: m.polar(v.abs(), v.angle()),
    lambda m, v: m.view_as_complex(m.view_as_real(v) * 2),
    lambda m, v: v.conj().imag + v.imag,
)


@program.long
def gradients_of_complex_numbers_that_meet(m):
    found = []
    for f in _OF_COMPLEX:
        for v in (m.ones(2, 2) + 2j, m.ones(2, 2).t() * 1j, (m.ones(2, 1) + 1j).expand(2, 2)):
            v = v.to(m.complex128).detach().requires_grad_()
            losses = f(m, v).sum().abs(), f(m, v).abs().sum()
            found += [_looks(m.autograd.grad(loss, v)) for loss in losses]
    return found


_OF_BOTH = (
    lambda m, x, z: x * z,
    lambda m, x, z: z + x,
    lambda m, x, z: x - z,
    lambda m, x, z: z / x,
    lambda m, x, z: m.pow(z, x),
    lambda m, x, z: m.where(x > 2, x, z),
    lambda m, x, z: m.addcmul(z, x, z),
    lambda m, x, z: m.polar(x, x.detach()) + z,
    lambda m, x, z: m.complex(x.detach(), x) * z,
    lambda m, x, z: m.cat([x, z]),
    lambda m, x, z: x.to(m.complex64) @ z.mT,
    lambda m, x, z: (z * 1).copy_(x),
    lambda m, x, z: z.masked_fill(z.abs() > 3, 1) * x,
    lambda m, x, z: (z * 1).fill_(x.sum()) + x,
)


@program.long
def gradients_of_real_and_complex_numbers(m):
    found = []
    layouts = m.ones(2, 3), m.ones(3, 2).t(), m.ones(3).expand(2, 3), m.ones(2, 6)[:, ::2]
    for f in _OF_BOTH:
        for x in layouts:
            for z in layouts:
                x, z = x.detach().requires_grad_(), (z * 1j).detach().requires_grad_()
                y = f(m, x, z)
                turned = m.ones(y.shape[::-1], dtype=y.dtype).t()
                gs = m.ones_like(y), turned, m.ones((), dtype=y.dtype).expand(y.shape)
                for g in gs:
                    slopes = attempt(lambda g=g, y=y, x=x, z=z: m.autograd.grad(y, (x, z), g, retain_graph=True))
                    found.append(slopes if isinstance(slopes, Exception) else _looks(slopes))
    return found


_TRANSFORMED = (
    lambda m, x: m.fft.fft(x, dim=0),
    lambda m, x: m.fft.fft2(x),
    lambda m, x: m.fft.irfft(x),
    lambda m, x: m.fft.irfft(x, 2),
    lambda m, x: m.fft.hfft(x, dim=0),
    lambda m, x: m.sgn(x),
    lambda m, x: m.nn.functional.pad(x, (1, 1)),
    lambda m, x: m.nn.functional.pad(x, (-1, 1)),
    lambda m, x: m.fft.rfft(x if not x.is_complex() else x.real, dim=0),
    lambda m, x: x.to(m.complex64),
    lambda m, x: m.fft.rfft2(x if not x.is_complex() else x.imag),
    lambda m, x: m.linalg.eigvals(x[:3, :3]),
)


@program.long
def gradients_of_transforms(m):
    found = []
    for x in (m.eye(3, 4), m.eye(4, 3).t(), m.ones(4).expand(3, 4), m.eye(3, 8)[:, ::2]):
        for dtype in (m.float64, m.complex128):
            for f in _TRANSFORMED:
                v = (x.to(dtype) + 0.5).detach().requires_grad_() if x.stride()[0] else x.to(dtype).requires_grad_()
                y = f(m, v)
                turned = m.ones(y.shape[::-1], dtype=y.dtype).permute(*range(y.dim() - 1, -1, -1))
                gs = m.ones_like(y), turned, m.ones((), dtype=y.dtype).expand(y.shape)
                found += [_looks(m.autograd.grad(y, v, g, retain_graph=True)) for g in gs]
    return found


_WRITTEN_OVER = (
    lambda x, z: (z * 1).copy_(x),
    lambda x, z: (z * 1).fill_(x.sum()) + 0 * x,
    lambda x, z: (z * 1).zero_() + x,
    lambda x, z: z.clone().fill_(2) * x,
    lambda x, z: (x * z).index_put_((x.to(int).new_tensor([0, 1]),), x),
    lambda x, z: (z * x).index_put((x.to(int).new_tensor([1, 0]),), x, accumulate=True),
)


@program
def gradients_of_what_is_written_over(m):
    found = []
    for x, z in ((m.ones(2, 3), m.ones(3, 2).t()), (m.ones(3, 2).t(), m.ones(2, 3))):
        x, z = x.detach().requires_grad_(), z.detach().requires_grad_()
        for f in _WRITTEN_OVER:
            gs = m.ones(2, 3), m.ones(3, 2).t(), m.ones(()).expand(2, 3)
            found += [_looks(m.autograd.grad(f(x, z), (x, z), g)) for g in gs]
    return found


_PARTS = (
    lambda y: y.t(),
    lambda y: y[:, ::2],
    lambda y: y[:, 1:].t(),
    lambda y: y[:, 0],
    lambda y: y.diagonal(),
    lambda y: y.view(-1) if y.is_contiguous() else y.t().view(-1),
    lambda y: y.t().t(),
    lambda y: y[None].mT,
)


def _written_to(m: Any, write: Any) -> list[Any]:
    """What writes to parts of a tensor get and give, whatever the layout of it and its gradient."""
    found = []
    for x in (m.ones(2, 3), m.ones(3, 2).t()):
        for part in _PARTS:
            for g in (m.arange(6.0).reshape(2, 3), m.arange(6.0).reshape(3, 2).t(), m.ones(()).expand(2, 3)):
                x = x.detach().requires_grad_()
                y = x.clone()
                v = part(y)
                z = m.ones(v.shape).requires_grad_()
                write(v, z)
                grads = m.autograd.grad(y, (x, z), g)
                found.append(_looks(grads))
    return found


@program.long
def gradients_of_writes_to_parts(m):
    writes = lambda v, z: v.mul_(z), lambda v, z: v.copy_(z), lambda v, z: v.add_(z)
    return [_written_to(m, write) for write in writes]


@program.long
def functions_that_write_to_parts(m):
    seen = []

    class Add(m.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.mark_dirty(a)
            a.add_(b)
            return a

        @staticmethod
        def backward(ctx, g):
            seen.append(g.tolist())
            return g, g * 2

    return _written_to(m, Add.apply), seen


def _looks(gradients: Any) -> list[Any]:
    sums = [g + 1 for g in gradients]  # torch's zeros may have no memory of their own
    return [(g.dtype, g.real.tolist(), g.is_complex() and g.imag.tolist()) for g in sums]


@program
def isclose_is_written_to(m):
    x, z, i = m.ones(2), m.ones(2) * 1j, m.tensor([1, 2])
    pairs = (
        (x, {}),
        (x, {"equal_nan": True}),
        (i, {"equal_nan": True}),
        (z, {"equal_nan": True}),
        (x, {"rtol": 0, "atol": 0}),
        (x, {"rtol": 0, "atol": 0, "equal_nan": True}),
        (m.ones(0), {}),
    )
    return [m.isclose(t, t, **options)._version for t, options in pairs]


@program
def logit_at_its_edges(m):
    nan, inf = math.nan, math.inf
    x = m.tensor([nan, -1.0, 0.5, 0.5, inf, 0.05], dtype=m.float64, requires_grad=True)
    m.logit(x, 0.1).backward(m.tensor([1.0, nan, nan, 1.0, 1.0, nan], dtype=m.float64))
    return x.grad


# --- parts of one memory ------------------------------------------------------------------------------


def _unsafe(name: str, *args: Any) -> Any:
    def parts(m: Any) -> Any:
        x = m.arange(6.0).reshape(2, 3)
        given = getattr(x, name)(*args)
        seen = [(tuple(t.stride()), t.storage_offset(), t._is_view()) for t in given]
        given[0].mul_(2)
        x[:, 0] = 9.0
        y = m.arange(6.0).reshape(2, 3).requires_grad_() * 1
        others = getattr(y, name)(*args)
        others[0].mul_(3)
        others[0].sum().backward()
        names = [t.grad_fn.name() for t in (*others, y)]
        return seen, [t._version for t in (x, *given)], x, list(given), y.tolist(), names

    parts.__name__ = f"{name}_{len(args)}"
    return parts


UNSAFE = (("unsafe_chunk", 2), ("unsafe_chunk", 2, 1), ("unsafe_split", 1), ("unsafe_split_with_sizes", [1, 1]))
for _name, *_args in UNSAFE:
    program(_unsafe(_name, *_args))


# --- values ------------------------------------------------------------------------------------------


@program.long
def extrema_that_were_written_to(m):
    found = []
    for name in ("max", "min", "amax", "amin", "median", "nanmedian"):
        x = m.tensor([[1.0, 3.0, 2.0], [3.0, 0.0, 1.0]], dtype=m.float64, requires_grad=True)
        y = getattr(x, name)()
        y.data.add_(5)
        y.backward()
        found.append(x.grad)
    return found


@program
def ldexp_by_infinite_powers(m):
    inf = math.inf
    x, y = m.tensor([inf, 1.0, -2.0, 0.0, 3.0]), m.tensor([inf, inf, -inf, inf, 2.0])
    return m.ldexp(x, y)


@program.long
def tangents_under_a_mask_do_not_require_grad(m):
    forward_ad = m.autograd.forward_ad
    functions = (
        lambda d: d.max(),
        lambda d: d.amax(0),
        lambda d: d.clamp(0, 1),
        lambda d: m.maximum(d, d.detach() * 2),
        lambda d: d.median(),
        lambda d: m.aminmax(d)[0],
        lambda d: m.fmax(d, d.detach() * 2),
        lambda d: d.relu(),
    )
    found = []
    for fn in functions:
        x = m.tensor([[1.0, 3.0, 2.0], [3.0, 0.0, 1.0]], dtype=m.float64, requires_grad=True)
        with forward_ad.dual_level():
            primal, tangent = forward_ad.unpack_dual(fn(forward_ad.make_dual(x, m.ones_like(x))))
        found.append((primal, tangent.detach(), tangent.requires_grad))
    return found


@program.long
def zeros_keep_their_sign(m):
    z, o, f = -m.zeros(3), m.zeros(3), m.nn.functional
    outs = (
        z.relu(),
        z.clamp(0, 1),
        z.clamp(min=0),
        o.clamp(max=-0.0),
        o.clamp(-1, -0.0),
        z.clamp(min=o),
        o.clamp(max=z),
        z.clamp(o, o + 1),
        f.relu6(z),
        f.hardtanh(z, 0.0, 1.0),
        z.clone().relu_(),
    )
    return [m.signbit(t).tolist() for t in outs]


# --- memory that grows ---------------------------------------------------------------------------------


def _after_resizing(change: Any) -> Any:
    def run(m: Any) -> Any:
        base = m.arange(6.0)
        table = base.view(2, 3)
        part, apart = base[2:4], base.detach()
        change(base, table, part)
        seen = (base, table, part, apart)
        return [(t, tuple(t.stride()), t.storage_offset(), t._version) for t in seen]

    run.__name__ = change.__name__
    return program(run)


@_after_resizing
def base_grows(base, table, part):
    base.resize_(8)[6:].zero_()
    table.mul_(2)


@_after_resizing
def base_grows_and_is_filled(base, table, part):
    base.resize_(2, 4).fill_(7)


@_after_resizing
def view_grows(base, table, part):
    part.resize_(2, 4)[1].zero_()
    base.add_(1)


@program
def strides_of_addr(m):
    given = (
        m.ones(3, 4),
        m.ones(4, 3).t(),
        m.ones(4),
        m.ones(3, 1).expand(3, 4),
        m.ones(3, 8)[:, ::2],
        m.ones(8, 3).t()[:, ::2],
    )
    return [tuple(m.addr(t, m.ones(6)[::2], m.ones(4)).stride()) for t in given]


@program
def strides_of_lines_and_points(m):
    """Where the result's memory is made like the input's, a dimension of one element keeps its stride."""
    found = []
    F = m.nn.functional
    makers = m.deg2rad, m.rad2deg, m.isreal, F.hardtanh, F.relu6, m.clone, m.exp, F.relu
    windows = (((1,), (4,)), ((1, 1), (4, 7)), ((2, 1), (1, 9)), ((1, 2), (9, 1)), ((2,), (3,)), ((1, 3), (5, 2)))
    for shape, strides in windows:
        x = m.arange(24, dtype=m.float64).as_strided(shape, strides)
        found.append([tuple(maker(x).stride()) for maker in makers])
    return found


@program.long
def strides_of_nothing_and_a_number(m):
    """Beside an operand of another shape torch looks for an order of the dimensions, though there are no elements."""
    found = []
    for shape in ((0, 1), (0, 3), (3, 0), (1, 0, 2), (2, 0, 1)):
        x = m.zeros(shape)
        outs = (
            x * 1.5,
            x + x,
            x > 0,
            x + m.zeros(()),
            m.where(x > 0, x, 0.0),
            -x,
            x**2,
            1 - x,
            x.double() + x,
            m.lerp(x, x, 0.5),
            x.clamp(0, 1),
            x + m.zeros(shape[1:]),
            m.addcmul(x, x, m.ones(())),
            x / 2,
        )
        found.append([(tuple(t.stride()), t[..., -1:].storage_offset()) for t in outs])
    return found


@program
def strides_of_empty_results(m):
    wide = m.zeros(0, 3, dtype=m.float64).t()
    narrow = m.zeros(1, 1, 0, dtype=m.float64)
    pairs = (
        (narrow, wide),
        (wide, narrow),
        (wide, wide),
        (wide[:1], wide),
        (m.zeros(2, 1, 3, 0).permute(3, 2, 1, 0), m.zeros(1)),
    )
    return [(list((x * y).shape), list((x * y).stride()), (x * y)[..., 1:].storage_offset()) for x, y in pairs]
