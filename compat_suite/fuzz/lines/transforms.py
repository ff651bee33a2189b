"""Lines that take `torch.func`, `vmap`, forward mode and checkpoints."""

from __future__ import annotations

from ..maker import Maker, overlaps, real, rule, tracked, writable
from .shared import calm, distinct, ordinary, partner, plain, same

DUALS = (
    "d.view(-1).clone().mul_(2)", "d * d.detach()", "torch.where(d > 0, d, {x})",
    "d.clone().index_fill_(0, torch.tensor([0]), 1.0)",
    "d.sum() * {x}", "torch.stack([d, {x}]).sum(0)", "d[d > 0]", "d.clone().masked_fill_({x} > 0, 2.0)",
    "d.unbind()[0] * 2",
    "torch.cat([d, d]).cumsum(0)", "d.clone().copy_({x} * 2)", "{x}.clone().add_(d)", "d.norm()",
    "torch.outer(d.reshape(-1), {x}.reshape(-1))", "d.max()", "d.sort(0)[0]", "d.clone().view(-1).zero_()",
    "set_part({x}.clone(), d)", "ScaleBy.apply(d, {x})", "ScaleBy.apply({x}, d)", "d.clone().requires_grad_(False)",
    "torch.func.vjp(lambda t: t * d, {x})[1](d)[0]", "torch.func.grad(lambda t: (t * d).sum())({x})",
    "d.to(torch.float32)",
    "torch.autograd.grad((d * d).sum(), d, create_graph=True)[0]", "torch.linalg.vector_norm(d)",
    "d.expand(2, *d.shape).sum(0)",
    "d.mul_(1)", "d.detach_()", "d.data * d", "torch.einsum('...i,...i->...', d, {x})", "d.prod()",
)  # fmt: skip


@rule("transforms", 2, "autograd.forward_ad.make_dual", rarity=1)
def duals(m: Maker) -> str | None:
    x = m.pick(
        lambda t: (
            real(t)
            and t.dim() > 0
            and t.numel() > 0
            and not t.is_inference()
            and writable(t)
            and t.dtype.itemsize > 2
            and distinct(t)
        )
    )
    if x is None:
        return None
    body = m.one(*DUALS).format(x=x)
    tangent = same(m, x) if m.chance(0.5) else m.like(x)
    # A write to the primal would record the nodes of a tangent, which are not promised.
    if tangent == x:
        tangent = m.like(x)
    return f"{m.news(2)} = forward(lambda d: {body}, {x}, {tangent})"


FORWARD = ("d.sin() * d", "d.clone().mul_(d)", "d * {x}", "({x} * d).sum()", "d.exp().view(-1)", "d[0:1] * 2",
           "set_part(d.clone(), d)", "d.detach() * d", "d.reshape(-1)[0]", "{x}.clone().mul_(d)",
           "Scale.apply(d, 2.0)",
           "d.abs().sqrt()", "torch.cat([d, {x}])", "d / (d * d + 1)", "copied({x}.clone(), d)", "d.clone().zero_()",
           "d.expand(2, *d.shape)", "(d * 2).detach()", "{x} * 2", "d.clone().fill_(1.0).add_(d)")  # fmt: skip


@rule("transforms", 1.5, "autograd.forward_ad.make_dual")
def forward_mode(m: Maker) -> str | None:
    # Into a primal that overlaps itself torch copies the tangent: which element stays is up to its loops.
    # torch's kernels for inference tensors make ordinary ones on the way, which carry tangents; and what a formula
    # saves of an inference tangent depends on how it is written.
    x = m.pick(lambda t: real(t) and t.dim() > 0 and t.numel() > 0 and not t.is_inference() and writable(t))
    if x is None:
        return None
    body = m.one(*FORWARD).format(x=x)
    shape, dtype = m.env[x].shape, m.env[x].dtype
    tangent = m.pick(
        lambda t: t is not m.env[x] and t.shape == shape and t.dtype == dtype and not t.is_inference()
    ) or m.like(x)
    return f"{m.news(2)} = forward(lambda d: {body}, {x}, {tangent})"


TRANSFORMS = (
    "torch.func.grad(lambda t: (t * {y}).sin().sum())({x})",
    "torch.vmap(lambda t: t * t + 1)({x})",
    "torch.vmap(lambda t: t[..., None].expand(*t.shape, 2).sum())({x})",
    "torch.vmap(torch.func.grad(lambda t: (t * t).sum()))({x})",
    "torch.func.jvp(lambda t: t.exp() * {y}, ({x}.detach(),), (torch.ones_like({x}),))[1]",
    "torch.func.vjp(lambda t: t.view(-1).clone().mul_(2), {x})[1](torch.ones({x}.numel(), dtype={x}.dtype))[0]",
    "torch.autograd.functional.jacobian(lambda t: t.tanh().view(-1), {x})",
    "torch.func.hessian(lambda t: t.pow(3).sum())({x})",
    "torch.func.jacrev(lambda t: t[0] * t)({x})",
    "torch.autograd.functional.vjp(lambda t: t * t, {x}, torch.ones_like({x}))[1]",
)


@rule("transforms", 0.8, "func.grad", "vmap", "autograd.functional.jacobian")
def transformed(m: Maker) -> str | None:
    """Values of transforms; in an outer graph each is one node here."""
    # In which order they put dimensions of one element is the affair of how they batch.
    x = m.pick(lambda t: real(t) and t.dim() > 0 and t.numel() > 0 and t.stride() == t.new_empty(t.shape).stride())
    if x is None or m.env[x].is_inference():
        return None
    y = m.pick(lambda t: t.shape == m.env[x].shape and t.dtype == m.env[x].dtype) or x
    return f"{m.new()} = {m.one(*TRANSFORMS).format(x=x, y=y)}.detach().clone()"


MORE_TRANSFORMS = (
    "torch.func.grad(lambda t: (t.sin() * {y}).sum())({x})",
    "torch.func.grad_and_value(lambda t: (t * t).sum())({x})[0]",
    "torch.func.jacfwd(lambda t: t.exp().view(-1))({x})",
    "torch.func.jacrev(lambda t: (t @ t) if t.dim() == 1 else t.sum(0))({x})",
    "torch.vmap(lambda t, u: t * u, in_dims=(0, None))({x}, {y})",
    "torch.vmap(lambda t: t.sum(), in_dims=-1)({x})",
    "torch.vmap(lambda t: t.sin(), out_dims=-1)({x})",
    "torch.vmap(torch.func.jacrev(lambda t: t.pow(2)))({x})",
    "torch.func.vjp(lambda t: t.cumsum(0), {x})[1]({y})[0]",
    "torch.func.jvp(lambda t: t.view(-1).prod(), ({x},), ({y},))[1]",
    "torch.func.linearize(lambda t: t * t, {x})[1]({y})",
    "torch.autograd.functional.hessian(lambda t: (t * t * t).sum(), {x})",
    "torch.autograd.functional.jvp(lambda t: t.exp(), {x}, {y})[1]",
    "torch.autograd.functional.hvp(lambda t: t.pow(3).sum(), {x}, {y})[1]",
    "torch.autograd.functional.vhp(lambda t: t.pow(3).sum(), {x}, {y})[1]",
    "torch.func.hessian(lambda t: (t.sin() * {y}).sum())({x})",
    "torch.vmap(lambda t: torch.where(t > 0, t, -t))({x})",
    "torch.vmap(lambda t: t.clone().mul_(2))({x})",
    "torch.func.functionalize(lambda t: t.clone().mul_(2))({x})",
    "torch.vmap(lambda t: t.expand(2, *t.shape).sum(0))({x})",
    "torch.func.grad(lambda t: torch.func.grad(lambda u: (u ** 3).sum())(t).sum())({x})",
    "torch.vmap(lambda t: torch.cat([t.reshape(-1), t.reshape(-1)]))({x})",
    "torch.vmap(lambda t: t.softmax(-1) if t.dim() else t)({x})",
)


@rule("transforms", 1, "func.grad", "vmap", "func.linearize", rarity=2)
def more_transforms(m: Maker) -> str | None:
    x = m.pick(lambda t: real(t) and plain(t) and calm(t) and t.is_contiguous())
    y = x and same(m, x)
    if y is None or not m.env[y].is_contiguous() or m.env[y].is_inference():
        return None
    return f"{m.new()} = {m.one(*MORE_TRANSFORMS).format(x=x, y=y)}.detach().clone()"


BODIES = ("(t * {y}).sin().sum()", "t.pow(3).sum()", "(t.exp() * t).sum()", "t.norm()", "(t.clone().mul_(t)).sum()",
          "(t[0] * t).sum()", "t.prod()", "t.logsumexp(0).sum()", "(t * t.detach()).sum()", "t.cumsum(0).tanh().sum()",
          "ScaleBy.apply(t, {y}).sum()", "(put(t, {y}) if t.dim() else t).sum()", "t.var()",
          "(t.unsqueeze(0) @ t.unsqueeze(-1)).sum()",
          "torch.where(t > 0, t, t * 2).sum()", "t.softmax(-1).pow(2).sum()", "(t / (1 + t * t)).mean()",
          "Vmapped.apply(t).sum()", "torch.func.grad(lambda s: (s * t).sin().sum())(t).sum()",
          "torch.func.jvp(lambda s: s.sin() * t, (t,), (t,))[1].sum()", "torch.vmap(lambda s: s * s.sum())(t).sum()",
          "torch.autograd.grad((t * t * t).sum(), t, create_graph=True)[0].sum()", "t.sum()", "t.relu().sum() * 2",
          "torch.einsum('...i,...i->...', t, {y}).sum()", "(t.flip(0) if t.dim() else t).view(-1)[0]",
          "t.index_fill(0, {i}, 2.).sum()",
          "t.sort(0)[0][0].sum()", "t.roll(1).mul(t).sum()", "t.double().float().sum()", "t.max()")  # fmt: skip


CALLS = (
    "torch.func.grad(f)({x})", "torch.func.grad_and_value(f)({x})[0]", "torch.func.vjp(f, {x})[1](one({x}))[0]",
    "torch.func.jvp(f, ({x},), ({y},))[1]", "torch.func.hessian(f)({x})", "torch.func.jacfwd(f)({x})",
    "torch.func.jacrev(f)({x})", "torch.func.jacfwd(torch.func.jacrev(f))({x})",
    "torch.func.grad(lambda s: f(s * 2))({x})",
    "torch.vmap(f)({x})", "torch.vmap(torch.func.grad(f))({x})", "torch.vmap(f, in_dims=-1)({x})",
    "torch.vmap(f)({x}.expand(2, *{x}.shape))", "torch.vmap(torch.func.hessian(f))({x}[None])",
    "torch.func.linearize(f, {x})[1]({y})", "torch.func.grad(lambda s: torch.func.grad(f)(s).sum())({x})",
    "torch.func.jvp(torch.func.grad(f), ({x},), ({y},))[1]", "torch.func.grad(f)({x}.detach())",
    "torch.autograd.functional.hvp(f, {x}, {y})[1]", "torch.autograd.functional.vhp(f, {x}, {y})[1]",
    "torch.autograd.functional.jacobian(f, {x}, vectorize=True)", "torch.autograd.functional.hessian(f, {x})",
    "torch.autograd.functional.jvp(f, {x}, {y})[1]", "torch.vmap(torch.func.grad(f), chunk_size=1)({x})",
    "torch.autograd.functional.jacobian(f, {x}, strategy='forward-mode', vectorize=True)",
    "torch.vmap(torch.vmap(lambda s: f(s[None])))({x}[None])", "torch.func.vjp(torch.func.grad(f), {x})[1]({y})[0]",
    "torch.vmap(lambda g: torch.func.vjp(f, {x})[1](g)[0])(torch.ones(2, dtype={x}.dtype))",
    "torch.vmap(f, out_dims=0, randomness='same')({x})", "torch.func.functionalize(f)({x})",
    "torch.vmap(lambda s: torch.func.jvp(f, (s,), (s,))[1])({x}[None])", "torch.func.grad(f, argnums=0)({x})",
)  # fmt: skip


@rule("transforms", 5, "func.grad", "vmap", "func.linearize", rarity=3)
def transforms(m: Maker) -> str | None:
    """A value of a transform, or the gradient that comes back through it; in an outer graph each is one node here."""
    x = m.pick(lambda t: ordinary(t) and t.dtype.itemsize > 2 and not overlaps(t))
    if x is None:
        return None
    y, n = partner(m, x), m.new()
    body = m.one(*BODIES).format(y=f"{y}.detach().sum()" if m.chance(0.3) else y, i="torch.tensor([0])")
    call = m.one(*CALLS).format(x=x, y=f"{y}.detach()")
    if "jvp" in body and ("fwd" in call or "jvp" in call or "forward" in call or "hess" in call or "linea" in call):
        return None  # torch has no forward mode inside of forward mode
    if "autograd.grad" in body and ("torch.vmap(f" in call or "func.jvp(f," in call or "jacfwd(f)" in call):
        return None  # refused there by torch where the gradient is that of a tensor from outside
    if "functionalize" in call and "apply" in body:
        return None  # torch has no rule for it
    if "roll" in body and "vmap" in call and m.env[x].dim() == 1:
        return None  # torch rolls the examples
    if tracked(m.env[x]) and m.chance(0.5):
        return f"f = lambda t: {body}; {n}, = grads({call}.pow(2).sum(), [{x}], allow_unused=True)"
    return f"f = lambda t: {body}; {n} = {call}.detach().clone(memory_format=torch.contiguous_format)"


@rule("transforms", 2, "autograd.forward_ad.make_dual", rarity=3)
def duals_of_transforms(m: Maker) -> str | None:
    x = m.pick(lambda t: ordinary(t) and t.dtype.itemsize > 2 and writable(t) and not overlaps(t))
    if x is None:
        return None
    y = partner(m, x)
    body = m.one(*BODIES).format(y=y, i="torch.tensor([0])")
    if "jvp" in body:
        return None  # torch has no forward mode inside of forward mode
    use = m.one(
        "f(d)",
        "f(d) * d",
        "torch.func.grad(f)(d)",
        "torch.vmap(f)(d)",
        "torch.func.vjp(f, d)[1](one(d))[0]",
        "torch.autograd.grad(f(d.clone().requires_grad_()), d, allow_unused=True)[0]",
        "torch.utils.checkpoint.checkpoint(f, d, use_reentrant=False)",
    )
    return f"f = lambda t: {body}; {m.news(2)} = dual_values(lambda d: {use}, {x}, {partner(m, x)}.detach())"
