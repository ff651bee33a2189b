"""More kinds of lines: rarer views and writes, modes, hooks, custom Functions, forward mode."""

from __future__ import annotations

from .maker import Maker, dims, inexact, overlaps, races, real, rule, touches, tracked, writable
from .rules import distinct, looked_at

# --- views and writes -----------------------------------------------------------------------------


@rule("views", 1.5)
def rarer_view(m: Maker) -> str | None:
    x = m.pick(dims(1, 2, 3))
    if x is None:
        return None
    t = m.env[x]
    n = t.shape[0]
    options = ["unfold(0, 2, 1)", "unfold(-1, 1, 2)", "expand_as({0})", "view_as({0})", "swapdims(0, -1)",
               "squeeze((0,))", "narrow(-1, 0, 1)", "unflatten(0, (1, -1))", "permute(*range({0}.dim() - 1, -1, -1))",
               "unsqueeze(0).expand(3, *{0}.shape)", "movedim(-1, 0)", "as_strided((2,), (1,))",
               "transpose(0, -1)[0]", "squeeze(-1)", "flatten(0, -1)", "select(-1, 0)", "detach()[0]",
               "reshape(-1)[::2]", "T" if t.dim() == 2 else "ravel()", "contiguous().view(-1)"]  # fmt: skip
    if t.dim() == 2:
        options += [
            "diagonal(-1)",
            "mT[0]",
            "t()[0]",
            "unfold(1, 2, 1)",
            "[:, None, 0]",
            "view(1, *{0}.shape)",
        ]
    if n > 1:
        options += [f"narrow(0, 1, {n - 1})", "[1:][0]", "[-1:]"]
    option = m.one(*options).format(x)
    return f"{m.new()} = {x}{option}" if option[0] == "[" else f"{m.new()} = {x}.{option}"


@rule("views", 1)
def pieces(m: Maker) -> str | None:
    x = m.pick(lambda t: t.dim() == 2 and 0 not in t.shape)
    if x is None:
        return None
    n, k = m.env[x].shape
    kinds = [("unbind(-1)", k), ("split(1, -1)", k), (f"chunk({k}, 1)", k), ("t().unbind()", k)]
    if n > 1:
        kinds += [(f"split([1, {n - 1}])", 2), ("vsplit([1])", 2)]
    if k > 1:
        kinds += [("hsplit([1])", 2), (f"split([{k - 1}, 1], 1)", 2)]
    kind, count = m.one(*kinds)
    return f"{m.news(count)} = {x}.{kind}"


@rule("views", 0.8)
def complex_part(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_complex() and t.dim())
    return x and f"{m.new()} = {x}." + m.one(
        "real[0]", "imag[0]", "mH", "conj()[0]", "real.t()", "conj().imag"
    )


@rule("writes", 1)
def write_to_part(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_complex() and writable(t))
    if x is None:
        return None
    return x + m.one(".real.mul_(2.0)", ".imag.zero_()", ".real = 1.0", ".conj().mul_(2.0)", ".imag.neg_()",
                     ".conj().copy_({0})", ".mul_(1j)").format(x)  # fmt: skip


@rule("writes", 3)
def rarer_write(m: Maker) -> str | None:
    allowed = m.chance(0.85)
    x = m.pick(
        lambda t: writable(t) and t.dim() and not (allowed and t.is_leaf and t.requires_grad)
    )
    if x is None:
        return None
    t = m.env[x]
    n = t.shape[0]
    y = m.pick(lambda u: u.shape == t.shape and not races(t, u)) or f"{x}.clone()"
    v = m.pick(lambda u: u.dim() == 0 and not races(t, u)) or "2.0"
    options = ["masked_fill_({0} > 0, {v})", "masked_scatter_({0} > 0, {y} * 2)", "copy_({y})", "fill_({v})",
               "copy_({y}.flip(0))", "where({0} > 0, {y})", "detach().copy_({y})", "mul_({y}.sum())",
               "view_as({0}).mul_(2)",
               "[...].add_({y})", "clamp_(max={v})", "addcdiv_({y}, {y} * {y} + 1)", "pow_({y} * 0 + 2)",
               "hypot_({y})",
               "sub_({y}, alpha=2)", "div_({y}, rounding_mode='floor')", "logical_not_()", "gt_(0)", "remainder_(2)",
               "cumprod_(0)", "triu_()", "sgn_()", "erf_()", "unsqueeze(0)[0].mul_({v})", "atan2_({y})",
               "expm1_()", "log1p_()", "floor_()", "frac_()", "trunc_()", "rsqrt_()", "ne_({y})",
               "swapaxes_(0, -1)"]  # fmt: skip
    if n > 1:
        options += ["index_put_((torch.tensor([0, 1]),), {y}[:2])",
                    "index_put_((torch.tensor([0, 0]),), {y}[:2], True)",
                    "[1:].mul_({y}[1:])", "select(0, 1).copy_({y}[0])", "narrow(0, 0, 1).zero_()",
                    "scatter_(0, torch.zeros_like({0}, dtype=torch.int64), 1.0)", "[::2].exp_()",
                    "index_fill_(0, torch.tensor([1]), {v})", "index_add_(0, torch.tensor([1]), {y}[:1], alpha=2)",
                    "index_copy_(0, torch.tensor([1]), {y}[:1])", "unbind()[0].mul_(2)"]  # fmt: skip
    option = m.one(*options).format(x, y=y, v=v)
    if "index_put" in option and overlaps(t):
        return None  # torch writes, in the order of its loops
    if f"{y}[" in option and y in m.env and touches(t, m.env[y]):
        return None  # the same: torch reads what it has written
    if "rounding_mode" in option and not inexact(t):
        return None  # a division by 0 leaves a part written, in torch
    return f"{x}{option}" if option[0] == "[" else f"{x}.{option}"


@rule("writes", 1)
def out(m: Maker) -> str | None:
    x = m.pick(lambda t: writable(t) and inexact(t) and not (t.requires_grad and m.chance(0.8)))
    if x is None:
        return None
    t = m.env[x]
    y = m.pick(
        lambda u: (
            u.shape == t.shape and u.dtype == t.dtype and not races(t, u) and not u.requires_grad
        )
    )
    if y is None or touches(t, m.env[y]):
        return None
    return m.one("torch.add({1}, {1}, out={0})", "torch.mul({1}, 2, out={0})", "torch.exp({1}, out={0})",
                 "torch.sub({0}, {1}, out={0})", "torch.neg({1}, out={0})",
                 "torch.where({1} == {1}, {1}, {1}, out={0})",
                 "torch.cumsum({1}.reshape(-1), 0, out={0})", "torch.stack([{1}], out={0})").format(x, y)  # fmt: skip


@rule("writes", 0.8)
def scattered(m: Maker) -> str | None:
    # A result keeps the gaps and the offset of a part of some storage in torch, not here.
    x = m.pick(lambda t: t.dim() in (1, 2) and t.numel() > 0 and t.is_contiguous())
    if x is None or m.env[x].storage_offset():
        return None
    y = m.pick(lambda u: u.dtype == m.env[x].dtype and u.shape == m.env[x].shape[1:]) or f"{x}[0]"
    text = m.one("torch.select_scatter({0}, {1}, 0, 0)", "torch.slice_scatter({0}, {0}[:1] * 2, 0, 0, 1)",
                 "torch.index_copy({0}, 0, torch.tensor([0]), {1}.unsqueeze(0))",
                 "{0}.index_put((torch.tensor([0]),), {1})", "{0}.masked_scatter({0} > 0, {0} * 2)",
                 "torch.scatter_add({0}, 0, torch.zeros_like({0}, dtype=torch.int64), {0} * 2)",
                 "{0}.index_fill(0, torch.tensor([0]), 2.0)")  # fmt: skip
    return f"{m.new()} = " + text.format(x, y)


@rule("dtypes", 1)
def dtype_mix(m: Maker) -> str | None:
    x = m.pick(lambda t: not t.is_complex())
    if x is None:
        return None
    text = m.one("{0}.to(torch.complex128)", "{0}.to(torch.int32)", "{0} + torch.tensor(1, dtype=torch.int64)",
                 "{0} * torch.tensor(2.0, dtype=torch.float32)", "{0} + 1j", "{0}.type(torch.float64)",
                 "{0}.half().double()",
                 "{0} > 0", "{0}.to({0}.dtype, copy=True)", "{0}.new_tensor([1, 2, 3])", "{0}.bool() & True",
                 "torch.complex({0}.double(), {0}.double())")  # fmt: skip
    return f"{m.new()} = " + text.format(x)


# --- layers and losses ----------------------------------------------------------------------------

LAYERS = (
    "gelu({x})", "silu({x})", "elu({x})", "softplus({x})", "leaky_relu({x})", "hardtanh({x})", "logsigmoid({x})",
    "mish({x})", "selu({x})", "hardswish({x})", "softsign({x})", "hardsigmoid({x})",
    "pairwise_distance({x}, {y})", "tanhshrink({x})", "relu6({x})", "celu({x})",
    "threshold({x}, 0.5, 2.0)", "softmin({x}, 0)", "hardshrink({x})", "softshrink({x})",
    "layer_norm({x}, {x}.shape)", "layer_norm({x}, {x}.shape[-1:], {x}.detach()[0] if {x}.dim() > 1 else None)",
    "normalize({x}, dim=0)", "dropout({x}, 0.0)", "dropout({x}, training=False)", "pad({x}, (1, 0))",
    "pad({x}, (0, 1), value=2.0)", "mse_loss({x}, {y})", "l1_loss({x}, {y}, reduction='sum')",
    "smooth_l1_loss({x}, {y}, reduction='none')", "huber_loss({x}, {y})", "cosine_similarity({x}, {y}, dim=0)",
    "binary_cross_entropy_with_logits({x}, {y})", "kl_div({x}, {y}.clone(), reduction='sum')",
    "relu({x}, inplace=True)",
    "elu_({x})", "leaky_relu_({x})", "hardtanh_({x})", "soft_margin_loss({x}, {y}.detach())", "glu({x}.repeat(2), 0)",
)  # fmt: skip
# Of a constant argument of a convolution torch saves what no gradient reads: a copy hides that.
MATRIX_LAYERS = (
    "linear({x}, {y})", "linear({x}, {y}, {x}[:, 0])", "cross_entropy({x}, torch.tensor([1, 0]))",
    "nll_loss({x}, torch.tensor([1, 0]))", "batch_norm({x}, None, None, training=True)",
    "group_norm({x}, 1)", "max_pool1d({x}, 2, 1)", "max_pool1d({x}, 3)",
    "adaptive_max_pool1d({x}, 2)", "conv1d({x}.clone(), {y}.clone()[None])", "avg_pool1d({x}, 2, 1)",
    "embedding(torch.tensor([1, 0, 1]), {x})", "multi_margin_loss({x}, torch.tensor([1, 0]))",
    "scaled_dot_product_attention({x}, {y}, {y})", "interpolate({x}[None], scale_factor=2)",
    "adaptive_avg_pool1d({x}, 1)", "one_hot(torch.tensor([1, 0]), 2) * 1.5",
)  # fmt: skip


@rule("numbers", 2.5, "nn.functional.linear")
def layer(m: Maker) -> str | None:
    matrix = m.chance(0.4)
    x = m.pick(
        lambda t: real(t) and t.numel() > 0 and (tuple(t.shape) == (2, 3) if matrix else t.dim())
    )
    if x is None:
        return None
    text = m.one(*(MATRIX_LAYERS if matrix else LAYERS))
    if not writable(m.env[x]) and ("_(" in text or "inplace" in text):
        return None
    y = m.pick(lambda t: t.shape == m.env[x].shape and t.dtype == m.env[x].dtype) or x
    return f"{m.new()} = torch.nn.functional.{text.format(x=x, y=y)}"


# Operands of kron are cloned: torch's gradient reads them without a version, and is wrong after a write.
MORE = (
    "torch.einsum('...i,...i->...', {x}, {y})", "torch.kron({x}.clone(), {y}.clone())", "torch.diff({x})",
    "torch.roll({x}, 1, 0)",
    "torch.repeat_interleave({x}, 2)", "torch.nan_to_num({x})", "torch.var_mean({x})[1]", "torch.std_mean({x})[0]",
    "torch.logaddexp({x}, {y})", "torch.hypot({x}, {y})", "torch.copysign({x}, {y})", "torch.fmax({x}, {y})",
    "torch.dist({x}, {y})", "torch.linalg.vector_norm({x}, 2)",
    "torch.cartesian_prod({x}.reshape(-1), {y}.reshape(-1))", "torch.block_diag({x}, {y})",
    "torch.rot90({x}, 1, (0, -1))",
    "torch.movedim({x}, 0, -1)", "torch.aminmax({x})[0]", "torch.nansum({x})", "torch.renorm({x}, 2, 0, 1.0)",
    "torch.cdist({x}, {y})", "torch.fliplr({x})", "torch.trace({x})", "torch.addmv({x}, {y}, {x})",
    "torch.heaviside({x}, {y})", "torch.float_power({x}, 2)", "torch.sinc({x})", "torch.digamma({x})",
    "torch.cov({x})", "torch.atleast_2d({x})", "torch.meshgrid({x}.reshape(-1), {y}.reshape(-1), indexing='ij')[1]",
    "torch.argsort({x}, 0)",
    "torch.lt({x}, {y}, out=torch.zeros(0, dtype=torch.bool))", "torch.clamp({x}, max={y})",
    "torch.clamp({x}, {y}, {x})",
    "torch.addr({x}, {y}[0], {x}[0])", "torch.vander({x})", "torch.vdot({x}, {y})",
    "torch.linalg.norm({x})", "torch.exp2({x})", "torch.logit({x})", "torch.rsub({x}, {y})", "torch.ldexp({x}, {y})",
    "torch.take_along_dim({x}, torch.zeros_like({x}, dtype=torch.int64), 0)", "torch.inner({x}, {y})",
    "torch.tensordot({x}, {y}, {x}.dim())", "torch.trapezoid({x})", "torch.cumulative_trapezoid({x})",
)  # fmt: skip


@rule("numbers", 2.5, "einsum")
def rarer_operator(m: Maker) -> str | None:
    x = m.pick(lambda t: real(t) and t.dim() > 0 and t.numel() > 0)
    if x is None:
        return None
    y = m.pick(lambda t: t.shape == m.env[x].shape and t.dtype == m.env[x].dtype) or x
    text = m.one(*MORE)
    if "kron" in text and not (m.env[x].is_contiguous() and m.env[y].is_contiguous()):
        return None  # torch makes a view of its product, which it then finds impossible
    if "argsort" in text and m.env[x].numel() > 16 and not distinct(m.env[x]):
        return None  # torch keeps the order of equal elements in short rows alone
    return f"{m.new()} = {text.format(x=x, y=y)}"


# --- modes ----------------------------------------------------------------------------------------


@rule("modes", 1.5)
def under_modes(m: Maker) -> str | None:
    """A computation or a write under nested modes."""
    x = m.pick(inexact)
    if x is None:
        return None
    modes = m.one("torch.no_grad(), torch.enable_grad()", "torch.set_grad_enabled(False)",
                  "torch.set_grad_enabled(True)",
                  "torch.enable_grad(), torch.no_grad()", "torch.inference_mode(), torch.enable_grad()",
                  "torch.inference_mode(False)", "torch.no_grad(), torch.inference_mode(False)",
                  "torch.no_grad(), torch.set_grad_enabled(True)")  # fmt: skip
    name = m.new()
    body = m.one("{1} = {0} * 2", "{1} = {0}.view(-1)", "{1} = {0}.clone(); {1}.mul_(2)", "{0}.mul_(2)",
                 "{1} = {0}.detach()",
                 "{1} = {0}.exp(); {1}.add_({0})", "{1} = {0}.unsqueeze(0); {1}.neg_()")  # fmt: skip
    if not writable(m.env[x]) and "_(" in body:
        return None
    return f"with {modes}: " + body.format(x, name)


@rule("hooks", 1, "autograd.graph.saved_tensors_hooks")
def under_saved_hooks(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and inexact(t))
    if x is None:
        return None
    hooks = m.one("torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)",
                  "torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)",
                  "torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2)",
                  "torch.autograd.graph.save_on_cpu()",
                  "torch.autograd.graph.disable_saved_tensors_hooks('no hooks')")  # fmt: skip
    body = m.one(
        "{0} * {0}",
        "{0}.sin()",
        "{0}.exp()",
        "({0} * 2).tanh()",
        "{0} / ({0} + 3)",
        "{0}.clone().mul_({0})",
    )
    return f"with {hooks}: {m.new()} = " + body.format(x)


# --- hooks ----------------------------------------------------------------------------------------


@rule("hooks", 1, "autograd.graph.register_multi_grad_hook")
def multi_hook(m: Maker) -> str | None:
    x, y = m.pick(tracked), m.pick(tracked)
    if x is None or y is None:
        return None
    mode = m.one("", "", ", mode='any'")
    label = f"'{x}-{y}-{m.count}'"
    kind = "any_hook" if mode else "all_hook"
    line = f"torch.autograd.graph.register_multi_grad_hook([{x}, {y}], {kind}({label}){mode})"
    line = f"{looked_at(m, x)}{looked_at(m, y)}h_{m.count} = {line}"
    return line if m.chance(0.8) else f"{line}; h_{m.count}.remove()"


@rule("hooks", 1.2)
def rarer_hook(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t))
    if x is None:
        return None
    label = f"'{x}-{m.count}'"
    look = looked_at(m, x)
    options = [f"{look}h_{m.count} = {x}.register_hook(once_hook({label}))",
               f"{look}{x}.register_hook(lambda g: g.clone())", f"{look}{x}.register_hook(lambda g: None)",
               f"{look}{x}.register_hook(lambda g: g.detach() * 0.5)", f"{look}{x}.register_hook(lambda g: g[0])",
               f"{x}.register_post_accumulate_grad_hook(forget_grad)"]  # fmt: skip
    if m.env[x].grad_fn is not None:
        options += [f"h_{m.count} = {x}.grad_fn.register_hook(node_hook({label})); h_{m.count}.remove()",
                    f"{x}.grad_fn.register_prehook(lambda gs: tuple(None if g is None else g * 2 for g in gs))",
                    f"{x}.grad_fn.register_hook(lambda gs, _: tuple(None for g in gs))",
                    f"{x}.grad_fn.register_prehook(node_prehook({label}))"]  # fmt: skip
    return m.one(*options)


# --- backward -------------------------------------------------------------------------------------


@rule("passes", 1)
def rarer_backward(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None)
    y = m.pick(lambda t: tracked(t) and real(t))
    z, w = m.pick(tracked), m.pick(tracked)
    if None in (x, y, z, w):
        return None
    keep = m.one("", ", retain_graph=True", ", create_graph=True")
    return m.one(
        f"torch.autograd.backward([{x}, {y}], [torch.ones_like({x}), torch.full_like({y}, 2.0)]{keep})",
        f"torch.autograd.backward({x}.sum(), inputs=[{z}, {w}]{keep})",
        f"torch.autograd.backward([{x}.sum(), {y}.sum()], inputs=[{z}]{keep})",
        f"torch.autograd.backward(({x}.mean(), {x}.sum()){keep})",
        f"{x}.backward(torch.ones_like({x}), inputs=[{z}]{keep})",
    )  # fmt: skip


@rule("passes", 1)
def rarer_grad(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None)
    y = m.pick(lambda t: tracked(t) and real(t))
    z, w = m.pick(tracked), m.pick(tracked)
    if None in (x, y, z, w):
        return None
    keep = m.one("", ", retain_graph=True", ", create_graph=True")
    extra = m.one("", ", allow_unused=True", ", materialize_grads=True", ", allow_unused=True")
    kind = m.one(0, 1, 2, 3)
    if kind == 0:
        return f"{m.news(1)} = grads([{x}.sum(), {y}.mean()], [{z}]{keep}{extra})"
    if kind == 1:
        return f"{m.news(2)} = grads([{x}, {y}], [{z}, {w}], [torch.ones_like({x}), torch.ones_like({y})]{keep}{extra})"
    if kind == 2 and m.has("autograd.graph.get_gradient_edge"):
        edge = f"torch.autograd.graph.get_gradient_edge({z})"
        return f"{m.news(1)} = grads({x}.sum(), [{edge}]{keep}{extra})"
    first, second = m.new(), m.new()
    return (
        f"{first}, = grads(({x} * {x}).sum(), [{z}], create_graph=True{extra}); "
        f"{second}, = grads({first}.sum(), [{w}]{keep}{extra})"
    )


# --- custom Functions and forward mode ------------------------------------------------------------


@rule("passes", 2, "autograd.Function")
def rarer_function(m: Maker) -> str | None:
    x = m.pick(lambda t: real(t) and t.dim() > 0 and t.numel() > 0)
    if x is None:
        return None
    y = m.pick(lambda t: real(t) and t.shape == m.env[x].shape) or x
    kind = m.one(
        "Scale",
        "Once",
        "Window",
        "Swap",
        "Half",
        "SaveOut",
        "Needs",
        "Both",
        "Fresh",
        "Write",
        "Nothing",
    )
    if kind in ("Both", "Write") and (not writable(m.env[x]) or races(m.env[x], m.env[y])):
        return None
    match kind:
        case "Scale":
            return f"{m.new()} = Scale.apply({x}, {m.scalar()})"
        case "Swap" | "Both":
            return f"{m.news(2)} = {kind}.apply({x}, {y})"
        case "Half" | "Needs" | "Write":
            return f"{m.new()} = {kind}.apply({x}, {y})"
        case _:
            return f"{m.new()} = {kind}.apply({x})"


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
    x = m.pick(
        lambda t: real(t) and t.dim() > 0 and t.numel() > 0 and not t.is_inference() and writable(t)
    )
    if x is None:
        return None
    body = m.one(*FORWARD).format(x=x)
    shape, dtype = m.env[x].shape, m.env[x].dtype
    tangent = m.pick(
        lambda t: (
            t is not m.env[x] and t.shape == shape and t.dtype == dtype and not t.is_inference()
        )
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
    x = m.pick(
        lambda t: real(t) and t.dim() > 0 and t.numel() > 0
        and t.stride() == t.new_empty(t.shape).stride()
    )  # fmt: skip
    if x is None or m.env[x].is_inference():
        return None
    y = m.pick(lambda t: t.shape == m.env[x].shape and t.dtype == m.env[x].dtype) or x
    return f"{m.new()} = {m.one(*TRANSFORMS).format(x=x, y=y)}.detach().clone()"


@rule("passes", 0.8, "utils.checkpoint.checkpoint")
def checkpointed(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t))
    if x is None:
        return None
    y = m.pick(lambda t: real(t) and t.shape == m.env[x].shape) or x
    body = m.one(
        "t.sin() * u",
        "(t * u).exp().sum()",
        "t.clone().mul_(u)",
        "torch.cat([t.view(-1), u.view(-1)]).tanh()",
    )
    how = m.one("False", "False", "True")
    if how == "True" and x == y and "cat" in body and not m.env[x].numel():
        return None  # the gradients of cat are new tensors then, in torch
    call = f"torch.utils.checkpoint.checkpoint(lambda t, u: {body}, {x}, {y}, use_reentrant={how})"
    return f"{m.new()} = {call}"


@rule("numbers", 0.4)
def copied(m: Maker) -> str | None:
    x = m.pick()
    if x is None:
        return None
    line = m.one("__import__('copy').deepcopy({0})", "torch.empty_like({0}).copy_({0})",
                 "torch.as_tensor({0})", "{0}.clone(memory_format=torch.contiguous_format)")  # fmt: skip
    return f"{m.new()} = " + line.format(x)


@rule("writes", 0.3, "autograd.graph.increment_version")
def touched(m: Maker) -> str | None:
    x = m.pick()
    return x and f"torch.autograd.graph.increment_version({x})"
