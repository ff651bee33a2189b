"""Strides, versions and gradients of results of unusual layouts."""

from tests.differential import numbers
from tests.expressions import table

PRELUDE = """
F, grad = torch.nn.functional, torch.autograd.grad
def looks(*gradients):
    return [g + 1 for g in gradients]  # torch's zeros may have no memory of their own
def coming_in(y):
    turned = torch.ones(y.shape[::-1], dtype=y.dtype).permute(*range(y.dim() - 1, -1, -1))
    return torch.ones_like(y), turned, torch.ones((), dtype=y.dtype).expand(y.shape)
def slopes(y, *xs):
    found = []
    for g in coming_in(y):
        try:
            found.append(looks(*grad(y, xs, g, retain_graph=True)))
        except RuntimeError as error:
            found.append(str(error))
    return found
def met(f):
    found = []
    for v in (torch.ones(2, 2) + 2j, torch.ones(2, 2).t() * 1j, (torch.ones(2, 1) + 1j).expand(2, 2)):
        v = v.to(torch.complex128).detach().requires_grad_()
        found += [looks(*grad(loss, v)) for loss in (f(v).sum().abs(), f(v).abs().sum())]
    return found
def both(f):
    layouts = torch.ones(2, 3), torch.ones(3, 2).t(), torch.ones(3).expand(2, 3), torch.ones(2, 6)[:, ::2]
    pairs = [(x.detach().requires_grad_(), (z * 1j).detach().requires_grad_()) for x in layouts for z in layouts]
    return [slopes(f(x, z), x, z) for x, z in pairs]
def transformed(f):
    found = []
    for x in (torch.eye(3, 4), torch.eye(4, 3).t(), torch.ones(4).expand(3, 4), torch.eye(3, 8)[:, ::2]):
        for dtype in (torch.float64, torch.complex128):
            v = (x.to(dtype) + 0.5).detach().requires_grad_() if x.stride()[0] else x.to(dtype).requires_grad_()
            found.append(slopes(f(v), v))
    return found
def over(f):
    found = []
    for x, z in ((torch.ones(2, 3), torch.ones(3, 2).t()), (torch.ones(3, 2).t(), torch.ones(2, 3))):
        x, z = x.detach().requires_grad_(), z.detach().requires_grad_()
        gs = torch.ones(2, 3), torch.ones(3, 2).t(), torch.ones(()).expand(2, 3)
        found += [looks(*grad(f(x, z), (x, z), g)) for g in gs]
    return found
PARTS = (
    lambda y: y.t(), lambda y: y[:, ::2], lambda y: y[:, 1:].t(), lambda y: y[:, 0], lambda y: y.diagonal(),
    lambda y: y.view(-1) if y.is_contiguous() else y.t().view(-1), lambda y: y.t().t(), lambda y: y[None].mT,
)
def parts(write):
    found = []
    gs = torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(3, 2).t(), torch.ones(()).expand(2, 3)
    for x in (torch.ones(2, 3), torch.ones(3, 2).t()):
        for part in PARTS:
            for g in gs:
                x = x.detach().requires_grad_()
                y = x.clone()
                v = part(y)
                z = torch.ones(v.shape).requires_grad_()
                write(v, z)
                found.append(looks(*grad(y, (x, z), g)))
    return found
def adding(seen):
    class Add(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.mark_dirty(a)
            a.add_(b)
            return a
        @staticmethod
        def backward(ctx, g):
            seen.append(g.clone())
            return g, g * 2
    return Add.apply
def windows(dtype):
    shapes = (
        ((1, 3), (1, 1)), ((3, 1), (1, 5)), ((2, 1, 3), (3, 7, 1)), ((1, 3), (0, 1)), ((1, 1), (5, 7)),
        ((2, 3), (1, 2)), ((2, 3), (6, 2)), ((2, 3), (0, 1)), ((3, 2), (0, 0)), ((1,), (3,)), ((1,), (0,)),
        ((0,), (4,)),
    )
    return [torch.arange(24, dtype=torch.float64).to(dtype).as_strided(*window) for window in shapes]
def lines():
    shapes = ((1,), (4,)), ((1, 1), (4, 7)), ((2, 1), (1, 9)), ((1, 2), (9, 1)), ((2,), (3,)), ((1, 3), (5, 2))
    return [torch.arange(24, dtype=torch.float64).as_strided(*window) for window in shapes]
def strides(rows):
    return [[(*t.shape, *t.stride(), t[..., -1:].storage_offset()) for t in row] for row in rows]
def unsafe(name, *args):
    x, y = torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3).requires_grad_() * 1
    given, others = getattr(x, name)(*args), getattr(y, name)(*args)
    seen = [(t.stride(), t.storage_offset(), t._is_view()) for t in given]
    given[0].mul_(2)
    x[:, 0] = 9.0
    others[0].mul_(3)
    others[0].sum().backward()
    names = [t.grad_fn.name() for t in (*others, y)]
    return seen, [t._version for t in (x, *given)], x, list(given), y.tolist(), names
def tangent(fn):
    ad = torch.autograd.forward_ad
    x = torch.tensor([[1.0, 3.0, 2.0], [3.0, 0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    with ad.dual_level():
        primal, moved = ad.unpack_dual(fn(ad.make_dual(x, torch.ones_like(x))))
    return primal, primal.grad_fn.name(), moved.detach(), moved.requires_grad
def resized(change):
    base = torch.arange(6.0)
    seen = base, base.view(2, 3), base[2:4], base.detach()
    change(*seen[:3])
    return [(t, t.stride(), t.storage_offset(), t._version) for t in seen]
"""
test_as_torch_does = table(__file__, "layouts.txt", prelude=[PRELUDE], look=numbers)
