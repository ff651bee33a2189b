"""Lines far from everyday code: views of views, copies through pickle, transforms inside of transforms,
complex numbers, hooks on saved values, tensors that trade places, nested modes."""

from __future__ import annotations

from typing import Any

from .maker import Maker, inexact, overlaps, races, real, rule, tracked, writable
from .rules import looked_at


def _plain(t: Any) -> bool:
    """Whether transforms and layers of modes may take a tensor: real, with elements, an ordinary one."""
    return bool(real(t) and t.dim() > 0 and t.numel() > 0 and not t.is_inference())


def _other(m: Maker, x: str) -> str:
    """A tensor of the shape and dtype of `x`, or `x` itself."""
    t = m.env[x]
    return m.pick(lambda u: u.shape == t.shape and u.dtype == t.dtype and not u.is_inference()) or x


# --- views of views -------------------------------------------------------------------------------

STEPS = ("view(-1)", "unsqueeze(0)", "unsqueeze(-1)", "transpose(0, -1)", "[::2]", "[-1:]", "squeeze()", "flatten()",
         "narrow(-1, 0, 1)", "unfold(-1, 1, 1)", "movedim(0, -1)", "as_strided((1,), (1,))", "select(-1, 0)", "[None]",
         "chunk(2)[0]", "mT", "diagonal()", "alias()", "unbind()[-1]", "split(1)[0]", "detach()", "[...]", "[:, None]",
         "expand(2, *{x}.shape)[0]", "reshape(-1)", "swapdims(0, -1)", "data", "tensor_split(2)[0]", "squeeze(0)",
         "view_as({x})", "unflatten(0, (-1, 1))", "T", "permute(*range({x}.dim() - 1, -1, -1))")  # fmt: skip
WRITES = (".mul_(2)", ".add_(1)", ".zero_()", "[0] = 1.5", ".exp_()", ".neg_()", ".sub_({x}.detach().sum())",
          ".unsqueeze_(0)", ".squeeze_()", ".detach_()", ".requires_grad_()", ".t_()", ".copy_({y}[-1])", ".mul_({v})",
          ".clamp_(-1, 1)", ".fill_({v})", "[...] = {v}", " += 1", ".transpose_(0, -1)", ".retain_grad()",
          ".masked_fill_({k} > 0, {v})", ".lerp_({k}.detach() + 1, 0.5)", ".cumsum_(-1)", ".sin_()",
          ".register_hook(lambda g: g * 2)", ".as_strided_((1,), (1,))", ".swapdims_(0, -1)")  # fmt: skip


def _step(m: Maker, x: str) -> str:
    step = m.one(*STEPS).format(x=x)
    step = f"view_as({x})" if step == "alias()" else step
    return f"{x}{step}" if step[0] == "[" else f"{x}.{step}"


@rule("views", 8, rarity=3)
def views_of_views(m: Maker) -> str | None:
    x = m.pick(lambda t: inexact(t) and t.dim() in (1, 2, 3) and t.numel() > 0)
    if x is None or overlaps(m.env[x]) or m.env[x].is_inference():
        return None
    n, k = m.new(), m.new()
    v = m.pick(lambda u: u.dim() == 0 and not races(m.env[x], u)) or m.scalar()
    y = m.pick(lambda u: u.dim() > 0 and u.numel() > 0 and not races(m.env[x], u)) or x
    write = m.one(*WRITES).format(x=x, y=y, v=v, k=k)
    if "copy_" in write and y == x:
        write = ".mul_(3)"
    if ">" in write and m.env[x].is_complex():
        return None
    modes = (
        "",
        "",
        "",
        "with torch.no_grad(): ",
        "with torch.inference_mode(): ",
        "with torch.enable_grad(): ",
    )
    look = f"{k}.grad_fn; " if "hook" in write else ""
    lines = [f"{n} = {_step(m, x)}", f"{k} = {_step(m, n)}", f"{look}{k}{write}"]
    end = m.one(
        "",
        "",
        f"{n}.mul_(2)",
        f"{x}.mul_(2)",
        f"{n}.detach_()",
        f"({x} * {n}.sum()).abs().sum().backward()",
    )
    if end and (writable(m.env[x]) or "backward" in end):
        lines.append(end)
    return m.one(*modes) + "; ".join(lines)


# --- copies, and tensors that trade places ----------------------------------------------------------


@rule("views", 2, rarity=3)
def copies(m: Maker) -> str | None:
    x, y = m.pick(), m.pick()
    if x is None or y is None or m.env[x].is_inference() or m.env[y].is_inference():
        return None
    pair, n = m.news(2), m.new()
    if m.env[x].grad_fn is not None and m.chance(0.5):
        x = f"{x}.detach()"
    return m.one(
        f"{n} = __import__('copy').deepcopy({x})", f"{n} = pickled({x})", f"{n} = saved({x})",
        f"{n} = __import__('copy').copy({x})", f"{pair} = __import__('copy').deepcopy(({x}, {y}.detach()))",
        f"{pair} = pickled(({x}, {y}))", f"{pair} = saved(({x}, {y}))", f"{pair} = saved(({x}, {x}))",
        f"{n} = torch.nn.Parameter({x}); {n} = __import__('copy').deepcopy({n})",
        f"{n} = pickled(torch.nn.Parameter({x}.detach().clone()))",
        f"{n} = torch.empty_like({x}); {n}.copy_({x})", f"{n} = torch.as_tensor({x}.detach().numpy().copy())",
        f"{n} = torch.from_numpy({x}.detach().clone().numpy()); {n}.mul_(2)",
        f"{n} = {x}.clone(memory_format=torch.preserve_format)",
    )  # fmt: skip


@rule("views", 1.5, rarity=3)
def trades(m: Maker) -> str | None:
    x = m.pick(lambda t: not t.is_inference())
    y = m.pick(lambda t: not t.is_inference())
    if x is None or y is None:
        return None
    n = m.new()
    smaller = y if m.env[y].numel() <= m.env[x].numel() else x  # new memory holds anything
    return m.one(
        f"{x}.data = {y}.data", f"{x}.detach().resize_(2)",
        f"{x}.resize_({x}.shape)", f"{x}.resize_as_({smaller})", f"{n} = {x}.untyped_storage().nbytes()",
        f"{n} = {x}.storage_offset(), {x}.stride()", f"{n} = {x}.is_set_to({y})",
        f"{n} = {x}.data_ptr() == {y}.data_ptr()", f"{x}.set_({y}.detach().clone())",
        f"{n} = {x}.is_contiguous(), {x}.is_leaf, {x}.dim(), {x}.nbytes, {x}.element_size()",
        f"{n} = torch.equal({x}, {y}), torch.allclose({x}.detach().abs().double(), {x}.detach().abs().double())",
        f"{n} = torch.can_cast({x}.dtype, {y}.dtype), torch.result_type({x}, {y})",
        f"{n} = {x}.new_empty_strided((2, 3), (1, 2)).fill_(1)", f"{n} = {x}._is_view(), {x}.is_conj(), {x}.is_neg()",
    )  # fmt: skip


# --- transforms -----------------------------------------------------------------------------------

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
    x = m.pick(lambda t: _plain(t) and t.dtype.itemsize > 2 and not overlaps(t))
    if x is None:
        return None
    y, n = _other(m, x), m.new()
    body = m.one(*BODIES).format(
        y=f"{y}.detach().sum()" if m.chance(0.3) else y, i="torch.tensor([0])"
    )
    call = m.one(*CALLS).format(x=x, y=f"{y}.detach()")
    if "jvp" in body and (
        "fwd" in call or "jvp" in call or "forward" in call or "hess" in call or "linea" in call
    ):
        return None  # torch has no forward mode inside of forward mode
    if "autograd.grad" in body and (
        "torch.vmap(f" in call or "func.jvp(f," in call or "jacfwd(f)" in call
    ):
        return None  # refused there by torch where the gradient is that of a tensor from outside
    if "functionalize" in call and "apply" in body:
        return None  # torch has no rule for it
    if "roll" in body and "vmap" in call and m.env[x].dim() == 1:
        return None  # torch rolls the examples
    if tracked(m.env[x]) and m.chance(0.5):
        return f"f = lambda t: {body}; {n}, = grads({call}.pow(2).sum(), [{x}], allow_unused=True)"
    return (
        f"f = lambda t: {body}; {n} = {call}.detach().clone(memory_format=torch.contiguous_format)"
    )


@rule("transforms", 2, "autograd.forward_ad.make_dual", rarity=3)
def duals_of_transforms(m: Maker) -> str | None:
    x = m.pick(lambda t: _plain(t) and t.dtype.itemsize > 2 and writable(t) and not overlaps(t))
    if x is None:
        return None
    y = _other(m, x)
    body = m.one(*BODIES).format(y=y, i="torch.tensor([0])")
    if "jvp" in body:
        return None  # torch has no forward mode inside of forward mode
    use = m.one("f(d)", "f(d) * d", "torch.func.grad(f)(d)", "torch.vmap(f)(d)", "torch.func.vjp(f, d)[1](one(d))[0]",
                "torch.autograd.grad(f(d.clone().requires_grad_()), d, allow_unused=True)[0]",
                "torch.utils.checkpoint.checkpoint(f, d, use_reentrant=False)")  # fmt: skip
    return f"f = lambda t: {body}; {m.news(2)} = dual_values(lambda d: {use}, {x}, {_other(m, x)}.detach())"


# --- complex numbers ------------------------------------------------------------------------------

COMPLEX = ("{x}.abs()", "{x}.angle()", "{x}.conj() * {y}", "{x}.exp()", "{x}.log()", "{x}.sqrt()", "{x} ** 2",
           "{x} @ {y}.mH if {x}.dim() == 2 else {x} @ {y}", "torch.vdot({x}.reshape(-1), {y}.reshape(-1))",
           "{x}.real * {y}.imag", "{x}.sgn()", "torch.view_as_real({x})", "torch.view_as_real({x}).sum(-1)",
           "{x}.conj().imag", "{x}.conj().resolve_conj()", "{x}.mH if {x}.dim() == 2 else {x}.conj()", "{x}.sum()",
           "{x}.mean(0)", "{x}.prod(0)", "{x}.cumsum(0)", "{x}.cumprod(0)", "{x} / {y}", "{x} * 1j", "{x} + 2",
           "{x}.sin()", "{x}.tanh()", "{x}.reciprocal()", "{x}.norm()", "{x}.var()",
           "torch.where({x}.real > 0, {x}, {y})",
           "torch.complex({x}.real, {y}.imag)", "torch.polar({x}.abs(), {x}.angle())", "{x}.to(torch.complex64)",
           "{x}.conj().t() if {x}.dim() == 2 else {x}.conj()[0]", "{x}.isfinite() & {x}.isreal()",
           "torch.cat([{x}, {y}.conj()])", "{x}.masked_fill({x}.real > 0, 1j)", "{x}.imag.conj()", "-{x}.conj()",
           "{x}.conj().imag.clone()", "{x}.conj().view(-1)", "torch.outer({x}.reshape(-1), {y}.conj().reshape(-1))",
           "torch.view_as_complex(torch.view_as_real({x}) * 2)", "{x}.real.to({x}.dtype)", "{x}.conj().contiguous()",
           "{x}.index_select(0, torch.tensor([0]))", "{x}.conj()[torch.tensor([0, -1])]", "{x}.conj_physical()",
           "torch.fft.fft({x})", "torch.fft.ifft({x}.conj())", "torch.dot({x}.reshape(-1), {y}.reshape(-1).conj())",
           "{x}.conj().detach()", "{x}.addcmul({x}, {y}, value=1j)", "torch.lerp({x}, {y}, 0.5)",
           "torch.linalg.vector_norm({x}, 1)", "{x}.conj().flatten().flip(0)",
           "torch.kron({x}.clone(), {y}.clone())")  # fmt: skip
COMPLEX_WRITES = (".real.mul_(2)", ".imag.zero_()", ".conj().mul_(1j)", ".mul_(1j)", ".real[0] = 2",
".conj_physical_()",
                  ".imag.copy_({y}.detach().real)", ".conj().copy_({y}.detach())", "[0] = 1j", ".add_({y}.conj())",
                  ".copy_({y}.detach().conj())", ".div_(1 + 1j)", ".conj().imag.add_(1)", ".real = {y}.detach().imag",
                  ".neg_()", ".conj()[0].fill_(1j)", " *= {y}.conj()", ".sgn_()", ".copy_({y}.detach().abs())",
                  ".conj().imag.neg_()", ".exp_()", ".pow_(2)", ".fill_(1j)", ".abs_()")  # fmt: skip


@rule("numbers", 2, rarity=3)
def complex_made(m: Maker) -> str | None:
    if sum(t.is_complex() for t in m.live().values()) > 3:
        return None
    shape = m.one((3,), (2, 3), (2, 2), (3, 3))
    flag = ".requires_grad_()" if m.chance(0.6) else ""
    return f"{m.new()} = {m.literal(shape, 'complex128')}{flag}"


@rule("numbers", 6, rarity=3)
def complex_programs(m: Maker) -> str | None:
    x = m.pick(
        lambda t: t.is_complex() and t.numel() > 0 and t.dim() in (1, 2) and not t.is_inference()
    )
    if x is None:
        return None
    y, kind = _other(m, x), m.chance(0.35)
    if not kind:
        return f"{m.new()} = " + m.one(*COMPLEX).format(x=x, y=y)
    if m.chance(0.4) and tracked(m.env[x]) and m.env[x].grad_fn is not None:
        return m.one(
            f"{x}.backward({m.like(x)})", f"{x}.backward({y}.detach(), retain_graph=True)",
            f"{x}.sum().abs().backward()",
            f"{x}.backward({y}.detach().conj())", f"{x}.register_hook(lambda g: g.conj())",
            f"{x}.abs().pow(2).sum().backward(retain_graph=True)", f"{x}.sum().backward()",
            f"{x}.backward({y}.detach().real)",
        )  # fmt: skip
    if not writable(m.env[x]):
        return None
    y = y if y != x else f"{x}.detach().clone()"
    return x + m.one(*COMPLEX_WRITES).format(y=y)


# --- saved values, passes, anomalies ----------------------------------------------------------------

SAVING = ("{x} * {x}", "{x}.exp()", "({x} * 2).sin()", "{x}.tanh() * {x}", "{x}.clone().mul_({x})", "{x} / {y}",
          "Cube.apply({x})", "Between.apply({x}, {y})", "{x}.pow(2).exp()", "{x}.view(-1) * 2.5", "{x}.prod()",
          "{x}.softmax(-1)", "({x} + {y}).relu()", "torch.where({x} > 0, {x}, {y}) * {y}", "{x}.std()")  # fmt: skip
HOOKS = ("saved_tensors_hooks(lambda t: t, lambda t: t)",
"saved_tensors_hooks(lambda t: (t.clone(), 1), lambda p: p[0])",
         "saved_tensors_hooks(lambda t: t.detach().numpy().copy(), lambda p: torch.from_numpy(p))",
         "saved_tensors_hooks(packing('p'), lambda t: t)", "save_on_cpu()", "disable_saved_tensors_hooks('no')",
         "allow_mutation_on_saved_tensors()", "saved_tensors_hooks(lambda t: t, lambda t: t.detach())",
         "saved_tensors_hooks(lambda t: t.clone(), unpacking('u'))")  # fmt: skip


@rule("hooks", 3, "autograd.graph.saved_tensors_hooks", "autograd.Function", rarity=3)
def saving(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and not t.is_inference())
    if x is None:
        return None
    y, n = _other(m, x), m.new()
    hooks = [f"torch.autograd.graph.{m.one(*HOOKS)}" for _ in range(m.one(1, 1, 2))]
    body = m.one(*SAVING).format(x=x, y=y)
    write = ""
    if writable(m.env[x]) and m.chance(0.3):
        write = f"; {m.one(f'{x}.mul_(2)', f'{n}.mul_(2)', f'{x}.data.mul_(2)', f'{y}.detach().add_(1)')}"
    end = m.one("", f"; {n}.sum().backward()", f"; {n}.sum().backward(retain_graph=True)",
                f"; grads({n}.sum(), [{x}], create_graph=True)[0].sum().backward()")  # fmt: skip
    inside = m.chance(0.5) and "create_graph" not in end  # what that saves is up to the formulas
    line = f"with {', '.join(hooks)}: {n} = {body}{write}"
    return line + end if inside or not end else f"exec({line!r}, globals()){end}"


@rule("hooks", 2, rarity=3)
def saved_values(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and not t.is_inference())
    if x is None:
        return None
    y, n = _other(m, x), m.new()
    made, name = m.one((f"{x}.exp()", "result"), (f"{x}.sin()", "self"), (f"{x} * {y}", "self"), (f"{x} * {y}",
    "other"),
                       (f"{x}.tanh()", "result"), (f"{x} ** 2", "self"), (f"{x}.log()", "self"))  # fmt: skip
    node = f"{n}.grad_fn"
    return f"{n} = {made}; " + m.one(
        f"log.append(('s', {node}._saved_{name}.detach().clone()))",
        f"log.append(('s', {node}._saved_{name}.grad_fn is {x}.grad_fn, {node}._saved_{name}.requires_grad))",
        f"{node}._raw_saved_{name}.register_hooks(lambda t: t * 2, lambda t: t / 2); {n}.sum().backward()",
        f"{n}.sum().backward(); {node}._saved_{name}", f"{x}.detach().add_(1); {node}._saved_{name}",
        f"{n}.mul_(2); {node}.next_functions[0][0]._saved_{name}",
        f"{n}.sum().backward(retain_graph=True); {node}._raw_saved_{name}.register_hooks(lambda t: t, lambda t: t)",
    )  # fmt: skip


@rule("passes", 2.5, rarity=3)
def far_passes(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None and not t.is_inference())
    y = m.pick(lambda t: tracked(t) and not t.is_inference())
    if x is None or y is None:
        return None
    n, label = m.new(), f"'{x}-{m.count}'"
    look = looked_at(m, x) + (looked_at(m, y) if y != x else "")
    return look + m.one(
        f"with torch.autograd.detect_anomaly(check_nan=True): {x}.sum().backward()",
        f"with torch.autograd.detect_anomaly(): ({x} * 0).log().sum().mul(0).backward()",
        f"with torch.autograd.detect_anomaly(): ({x}.sqrt() / {x}.sqrt()).sum().backward(retain_graph=True)",
        f"with torch.autograd.detect_anomaly(check_nan=False): {x}.sum().backward(retain_graph=True)",
        f"{x}.register_hook(lambda g: (({y}.detach().requires_grad_() * 2).abs().sum().backward(), g * 2)[1])",
        f"{y}.register_hook(lambda g: log.append(({label}, torch.is_grad_enabled(), g.requires_grad, g.is_leaf)))",
        f"{n}, = grads({x}.sum(), [{y}], allow_unused=True, create_graph=True); {x}.sum().backward()",
        f"{x}.sum().backward(gradient=torch.tensor(2.0, dtype={x}.dtype), retain_graph=True)",
        f"torch.autograd.backward([{x}, {x}], [torch.ones_like({x}), {x}.detach()], retain_graph=True)",
        f"{x}.grad_fn.register_prehook(lambda g: (g[0] * 2,)); {x}.sum().backward(retain_graph=True)",
        f"{n} = {x}.grad_fn.next_functions; {n} = [k for _, k in {n}]",
        f"{n} = {x}.grad_fn.metadata; {x}.grad_fn.metadata['a'] = 1; {n} = dict({x}.grad_fn.metadata)",
        f"{n} = torch.autograd.graph.get_gradient_edge({x}); {n} = {n}.output_nr",
        f"torch.autograd.backward([torch.autograd.graph.get_gradient_edge({x})], [torch.ones_like({x})])",
        f"{y}.register_hook(lambda g: g.double() if g.dtype != torch.float64 else g.float())",
        f"{y}.register_hook(lambda g: g.to_dense().reshape({y}.shape).requires_grad_())",
        f"with torch.autograd.graph.save_on_cpu(): {n} = {x} * {x}; {n}.sum().backward(inputs=[{y}])",
        f"{n} = {x}.detach().requires_grad_(); ({n} * 2).sum().backward(); {x}.backward({n}.grad)",
        f"{n} = {x} * 1; {n}.retain_grad(); {n}.sum().backward(retain_graph=True); {n}.sum().backward()",
    )  # fmt: skip


# --- casts, lists of tensors, Functions -------------------------------------------------------------


@rule("dtypes", 2.5, rarity=3)
def casts(m: Maker) -> str | None:
    x = m.pick(lambda t: not t.is_inference() and t.numel() > 0)
    if x is None:
        return None
    y = m.pick(lambda t: not t.is_inference()) or x
    if m.env[x].is_complex() or m.env[y].is_complex():
        return f"{m.new()} = {x}.to(torch.complex64).to(torch.complex128)"
    return f"{m.new()} = " + m.one(
        "{x}.type_as({y})", "{x}.to({y})", "{x}.to({y}.dtype)", "{x}.view(torch.int64)", "{x}.view(torch.uint8)",
        "{x}.view(torch.float32)", "{x}.to(torch.float64, copy=True)", "{x}.half().double()", "{x}.bfloat16().float()",
        "{x}.to(torch.complex128).real", "{x}.float().view(-1).double()", "{x}.to(torch.float64).mul({y})",
        "{x}.int() * {y}",
        "{x}.double().to({y}).sum()", "{x}.to('cpu', torch.float32)", "{x}.to(dtype=torch.float64, non_blocking=True)",
        "{x}.contiguous().view(torch.int32).sum()", "{x}.bool().to({x}.dtype) * {x}", "{x}.type('torch.DoubleTensor')",
        "torch.promote_types({x}.dtype, {y}.dtype) == torch.result_type({x}, {y})",
        "{x}.float().half().sum(dtype=torch.float64)",
        "{x}.cdouble()", "{x}.sum(dtype=torch.float32)", "{x}.short().double()",
        "{x}.double().mean(0, dtype=torch.float64)",
    ).format(x=x, y=y)  # fmt: skip


@rule("numbers", 1.5, "_foreach_add", "_foreach_mul", rarity=3)
def lists(m: Maker) -> str | None:
    x = m.pick(lambda t: _plain(t) and writable(t) and not tracked(t))
    if x is None:
        return None
    y = _other(m, x)
    if tracked(m.env[y]):  # nodes of lists have the edges of all of their tensors in torch
        y = x
    if m.env[y]._is_view() and races(m.env[x], m.env[y]):
        y = x
    text = m.one("_foreach_add([{x}, {y}], 1.5)", "_foreach_mul([{x}, {y}], [{y}, {x}])", "_foreach_exp([{x}, {y}])",
                 "_foreach_neg([{x}, {y}])", "_foreach_add([{x}, {y}], [2.0, 3.0])", "_foreach_sqrt([{x}, {y}])",
                 "_foreach_div([{x}, {y}], 2)", "_foreach_lerp([{x}, {x}], [{y}, {y}], 0.5)",
                 "_foreach_addcmul([{x}, {x}], [{y}, {y}], [{x}, {y}], value=2)",
                 "_foreach_norm([{x}, {y}])")  # fmt: skip
    if m.chance(0.3) and "norm" not in text and "[{y}, {x}]" not in text and x != y:
        return "torch." + text.replace("(", "_(", 1).format(x=x, y=y)
    return f"{m.news(2)} = torch.{text.format(x=x, y=y)}"


@rule("passes", 4, "autograd.Function", rarity=3)
def far_function(m: Maker) -> str | None:
    x = m.pick(lambda t: _plain(t) and writable(t))
    if x is None:
        return None
    y, n = _other(m, x), m.new()
    pair = m.news(2)
    made = m.one(
        f"{pair} = WithNone.apply({x})", f"{n} = Variadic.apply(3, {x}, {y}, {x})", f"{n} = Vmapped.apply({x})",
        f"{pair} = Dualled.apply({x}, {y})", f"{n} = Recorded.apply({x})", f"{n} = Failing.apply({x})",
        f"{pair} = PartAndWhole.apply({x})", f"{n} = WritesGrad.apply({x}, {y})", f"{pair} = SharedOut.apply({x})",
        f"{n} = Twice.apply({x}.clone().view(-1))", f"{n} = Twice.apply({x}.view(-1))",
        f"{pair} = DirtyAndNew.apply({x}, {y})", f"{n} = InnerWrite.apply({x})", f"{pair} = forward(lambda d: "
        f"Dualled.apply(d, {y})[1], {x}, {y}.detach())", f"{n} = torch.vmap(Vmapped.apply)({x}).detach().clone()",
    )  # fmt: skip
    out = n if f"{n} = " in made else pair.split(", ")[m.one(0, 1)]
    return made + m.one("", "", f"; {out}.mul_(2)", f"; {out}.sum().backward()", f"; {out} = {out}[:1]; {out}.add_(1)",
                        f"; grads({out}.pow(2).sum(), [{x}], create_graph=True)[0].sum().backward()",
                        f"; {out}.register_hook(hook('{out}', 2.0)); {out}.sum().backward(retain_graph=True)",
                        f"; {x}.mul_(2); {out}.sum().backward()", f"; {out}.retain_grad(); {out}.mul_(2)")  # fmt: skip


@rule("modes", 1.5, "inference_mode", rarity=3)
def inference(m: Maker) -> str | None:
    x = m.pick(lambda t: inexact(t) and t.numel() > 0 and t.dim() > 0 and writable(t))
    if x is None:
        return None
    n = m.new()
    return m.one(
        f"with torch.inference_mode(): {n} = {x}.clone(); {n}.mul_(2); {n} = {n}[:1]",
        f"with torch.inference_mode(): {n} = {x}[:1]; {n}.mul_(2)",
        f"with torch.inference_mode(): {x}.mul_(2); {n} = {x}.view(-1)",
        f"with torch.inference_mode(): {n} = {x}.detach(); {n}.add_(1)",
        f"with torch.inference_mode(), torch.inference_mode(False): {n} = {x} * 2",
        f"with torch.inference_mode(): {n} = torch.ones(3); {n} = {n}.view(-1); {n}[0] = 2",
        f"with torch.no_grad(): {n} = {x}[:1].view(-1); {n}.mul_(2)",
        f"with torch.inference_mode(): {n} = {x}.view(-1)\n{n} = {n}.clone()",
    )  # fmt: skip
