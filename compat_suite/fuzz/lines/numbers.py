"""Lines that compute: new tensors, elementwise operators, reductions, products, the functions of the whole table."""

from __future__ import annotations

from typing import Any

from .. import tables
from ..maker import DTYPES, SHAPES, Maker, inexact, overlaps, races, real, rule, tracked, writable
from .shared import calm, distinct, filled, ordinary, partner, plain, same, spelled, table_rule


@rule("numbers", 3)
def create(m: Maker) -> str | None:
    if len(m.live()) > 7:
        return None
    dtype, shape = m.one(*DTYPES), m.one(*SHAPES)
    # torch runs no kernel, and its checks come in another order.
    if 0 in shape and "complex" in dtype:
        return None
    line = f"{m.new()} = {m.literal(shape, dtype)}"
    if dtype[:5] in ("float", "compl") and m.chance(0.6):
        line += ".requires_grad_()"
    return line


FILLED = (
    "torch.zeros(2, 3, dtype=torch.float64)",
    "torch.ones(3, dtype=torch.float64)",
    "torch.full((2, 3), 1.5)",
    "torch.arange(3)",
    "torch.arange(3.0)",
    "torch.eye(3, dtype=torch.float64, requires_grad=True)",
    "torch.linspace(0, 1, 3)",
)


@rule("numbers", 0.8, "zeros", "eye", "linspace")
def create_filled(m: Maker) -> str | None:
    return f"{m.new()} = {m.one(*FILLED)}" if len(m.live()) < 8 else None


@rule("numbers", 0.5, "zeros_like", "ones_like")
def create_like(m: Maker) -> str | None:
    how = m.one("torch.zeros_like({0})", "torch.ones_like({0})", "{0}.new_zeros(3)", "torch.full_like({0}, 2)")
    x = m.pick()
    return x and f"{m.new()} = " + how.format(x)


UNARY = ("exp", "sin", "cos", "tanh", "sigmoid", "relu", "abs", "neg", "square", "sqrt", "log", "reciprocal", "sign",
         "atan", "expm1", "log1p", "rsqrt", "floor", "erf", "positive")  # fmt: skip


BINARY = ("{0} + {1}", "{0} * {1}", "{0} - {1}", "{0} / {1}", "torch.maximum({0}, {1})", "torch.atan2({0}, {1})",
          "{0} ** 2", "{0}.pow(3)", "{0} * {0}", "torch.mul({1}, {0})", "{0} < {1}", "{0} == {1}",
          "torch.minimum({0}, {1})", "torch.sub({0}, {1})", "{0} + {0}", "2.0 - {0}", "1 / {0}",
          "{0} // 2")  # fmt: skip


@rule("numbers", 5)
def unary(m: Maker) -> str | None:
    name = m.one(*UNARY)
    x = m.pick(inexact if m.chance(0.9) else lambda t: True)
    return (x and m.has(name) and f"{m.new()} = {x}.{name}()") or None


@rule("numbers", 7)
def binary(m: Maker) -> str | None:
    x = m.pick()
    if x is None:
        return None
    text = m.one(*BINARY)
    y = m.partner(x)
    bools = "torch.bool" in str((m.env[x].dtype, getattr(m.env.get(y), "dtype", "")))
    if "atan2" in text and (bools or x == y):
        return None  # torch's gradient negates the bool, which it refuses; of x and x it cancels
    if ("torch." in text and not y.startswith("v")) or not m.has(
        text.partition("torch.")[2].partition("(")[0] or "add"
    ):
        return None
    return f"{m.new()} = " + text.format(x, y)


@rule("numbers", 1.2)
def ternary(m: Maker) -> str | None:
    x = m.pick(real)
    if x is None:
        return None
    y, z = m.partner(x), m.partner(x)
    text = m.one(
        "torch.where({0} > 0, {0}, {1})",
        "{0}.clamp(-1, 1)",
        "torch.lerp({0}, {1}, 0.5)",
        "{0}.clamp(min=0)",
        "torch.addcmul({0}, {1}, {2}, value=2)",
        "torch.addcdiv({0}, {1}, {2})",
    )
    if not m.has(text.partition("torch.")[2].partition("(")[0] or "clamp"):
        return None
    return f"{m.new()} = " + text.format(x, y, z)


REDUCTIONS = ("sum()", "mean()", "prod()", "sum(0)", "mean(-1)", "sum(0, keepdim=True)", "amax(0)", "amin(-1)",
              "logsumexp(0)", "cumsum(0)", "cumprod(0)", "std()", "var(0)", "norm()", "max()", "any()", "argmax()",
              "softmax(-1)", "log_softmax(-1)", "sum(dtype=torch.float64)", "prod(0)", "flip(0)",
              "tril()", "triu()", "trace()", "roll(1)", "logcumsumexp(0)")  # fmt: skip


@rule("numbers", 4)
def reduction(m: Maker) -> str | None:
    x = m.pick(inexact if m.chance(0.9) else lambda t: True)
    option = m.one(*REDUCTIONS)
    if x and "softmax" in option and not (inexact(m.env[x]) or m.env[x].numel()):
        return None  # torch runs no kernel, which is what would complain
    if x and "prod" in option and tracked(m.env[x]) and _of_one_zero(m.env[x], option):
        return None  # torch passes the gradient on then, as it is
    return (x and m.has("Tensor." + option.partition("(")[0]) and f"{m.new()} = {x}.{option}") or None


def _of_one_zero(t: Any, option: str) -> bool:
    """Whether a product has one factor, and a factor that is 0."""
    factors = t.numel() if "()" in option else t.shape[0] if t.dim() else 2
    return factors == 1 and not bool(t.detach().all())


@rule("numbers", 0.8)
def two_results(m: Maker) -> str | None:
    option = m.one("max(0)", "min(-1)", "sort(0)", "topk(1)", "cummax(0)", "median(0)", "kthvalue(1)")
    x = m.pick(lambda t: real(t) and t.dim() >= 1 and distinct(t))
    known = m.has("Tensor." + option.partition("(")[0])
    if x and "cummax" in option and not m.env[x].numel():
        return None  # its gradient is the tensor itself in torch
    return f"{m.news(2)} = {x}.{option}" if x and known else None


@rule("numbers", 2)
def product(m: Maker) -> str | None:
    x = m.pick(lambda t: inexact(t) and t.dim() in (1, 2))
    if x is None:
        return None
    t = m.env[x]
    last = t.shape[-1]
    y = m.pick(lambda u: u.dtype == t.dtype and u.dim() in (1, 2) and (u.shape[0] == last or m.chance(0.1)))
    if y is None or (m.env[x].is_conj() and m.env[y].is_conj()):
        return None  # of two conjugated vectors torch puts the conjugation of the product off
    text = m.one(
        "{0} @ {1}",
        "torch.matmul({0}, {1})",
        "{0}.mm({1})",
        "{0}.mv({1})",
        "torch.dot({0}, {1})",
        "torch.outer({0}, {1})",
        "{0}.t() @ {0}",
        "torch.addmm({0}, {0}, {1})",
        "{1} @ {0}",
    )
    name = text.partition("torch.")[2].partition("(")[0] or "mm"
    return (m.has(name) and m.has("matmul") and f"{m.new()} = " + text.format(x, y)) or None


@rule("numbers", 1)
def join(m: Maker) -> str | None:
    x = m.pick()
    if x is None:
        return None
    shape, dtype = m.env[x].shape, m.env[x].dtype
    y = m.pick(lambda t: t.shape == shape and (t.dtype == dtype or m.chance(0.2))) or x
    text = m.one(
        "torch.cat([{0}, {1}])", "torch.stack([{0}, {1}])", "torch.stack([{0}, {1}], -1)", "torch.hstack([{0}, {1}])"
    )
    return f"{m.new()} = " + text.format(x, y)


@rule("numbers", 0.5)
def forget(m: Maker) -> str | None:
    x = m.pick(recent=False)
    return (x and len(m.live()) > 4 and f"del {x}") or None


@rule("numbers", 2, rarity=1)
def choices(m: Maker) -> str | None:
    x = m.pick(lambda t: not t.is_complex())
    if x is None:
        return None
    y, z = m.partner(x), m.partner(x)
    if not y.startswith("v"):
        y = f"torch.tensor({y})"
    return f"{m.new()} = " + m.one(
        "torch.where({x} > 0, {y}, {z})",
        "torch.where({x} > 0, {z}, 0)",
        "torch.where({x} > {y}, {x}, {y})",
        "torch.where({x} > 0, 1.0, 0.0)",
        "{x}.where({x} > 0, {z})",
        "torch.where({x} != {x}, {x}, {y}.detach())",
        "torch.where(torch.tensor(True), {x}, {y})",
        "torch.where(({x} > 0)[None], {x}, {y})",
        "torch.where({x} > 0)[0]",
        "torch.nan_to_num({x} / 0)",
        "torch.where({x} > 0, {x}.log(), {y})",
        "torch.where({x} == 0, {x}, {x}.sqrt())",
        "{x}.masked_fill({x} > 0, float('-inf')).exp()",
    ).format(x=x, y=y, z=z)


@rule("numbers", 1.5, rarity=1)
def empties(m: Maker) -> str | None:
    x = m.pick(lambda t: real(t) and t.dim() in (1, 2) and not t.is_inference())
    if x is None:
        return None
    n = m.new()
    return m.one(
        "{n} = {x}[:0]", "{n} = {x}[:0].sum()", "{n} = torch.cat([{x}[:0], {x}])", "{n} = {x}[{x} > 100]",
        "{n} = {x}[:0].mean()", "{n} = {x}[:0] * 2 + {x}[:1]", "{n} = {x}[0:0].prod()", "{n} = {x}.new_empty(0)",
        "{n} = {x}[{x} > 100].sum()", "{n} = torch.cat([torch.empty(0, dtype={x}.dtype), {x}.reshape(-1)])",
        "{n} = torch.stack([]) if {x} is None else {x}[:0].clone()", "{n} = {x}[:0].exp(); {n}.mul_(2)",
        "{x}[:0] = 1.0; {n} = {x}[:0]", "{n} = {x}[..., :0].sum(-1)", "{n} = {x}[:0].max() if {x}.numel() else {x}",
        "{n} = {x}[..., :0] @ {x}[..., :0].t() if {x}.dim() == 2 else {x}[:0] @ {x}[:0]",
        "{n} = {x}[:0].cumsum(0)", "{n} = {x}[:0].norm()", "{n} = {x}[:0].view(-1, 2)", "{n} = {x}[:0].softmax(0)",
        "{n} = torch.nn.functional.mse_loss({x}[:0], {x}[:0])", "{n} = {x}[:0].var(0)", "{n} = {x}[:0].sort(0)[0]",
        "{n} = {x}[torch.tensor([], dtype=torch.int64)] * 2",
        "{n} = {x}.index_select(0, torch.tensor([], dtype=torch.int64))",
    ).format(x=x, n=n)  # fmt: skip


@rule("numbers", 2, rarity=1)
def broadcasts(m: Maker) -> str | None:
    x = m.pick(lambda t: real(t) and t.dim() in (1, 2) and t.numel() > 0)
    if x is None:
        return None
    y = same(m, x)
    return f"{m.new()} = " + m.one(
        "{x}[:, None] * {y}[None]",
        "{x} - {x}.mean(0, keepdim=True)",
        "{x} / {x}.norm(dim=-1, keepdim=True)",
        "({x} - {y}.max()).exp()",
        "{x}.unsqueeze(-1) + {y}.unsqueeze(-2)",
        "{x}.expand(2, *{x}.shape) * {y}",
        "{x}.sum(0, keepdim=True).expand_as({x})",
        "{x} * {y}.mean()",
        "torch.broadcast_to({x}, (2, *{x}.shape))",
        "{x}.repeat(2, *[1] * {x}.dim()) * {y}",
        "({x}[None] - {y}[:, None]).pow(2).sum(-1)",
        "{x} + {y}[..., :1]",
        "{x}.sub({y}.sum(-1, keepdim=True))",
        "torch.outer({x}.reshape(-1), {y}.reshape(-1))",
    ).format(x=x, y=y)


@rule("numbers", 1.5, "nn.Linear", rarity=1)
def training(m: Maker) -> str | None:
    """A step on a parameter, written out by hand."""
    x = m.pick(lambda t: t.is_leaf and t.requires_grad and real(t) and t.numel() > 0 and not overlaps(t))
    if x is None:
        return None
    y = same(m, x)
    n = m.new()
    return m.one(
        "{n} = (({x} * 2 - {y}.detach()) ** 2).mean(); {n}.backward(); {x}.data.sub_({x}.grad); {x}.grad.zero_()",
        "{n} = ({x} * {y}.detach()).sum(); {n}.backward(); {x}.data = {x}.data - 0.1 * {x}.grad; {x}.grad = None",
        "[({x} * k).sum().backward() for k in (1, 2)]; {n} = {x}.grad.clone()",
        "{n}, = torch.autograd.grad((({x} - 1) ** 2).sum(), {x}, create_graph=True); {n} = ({x} - {n}).pow(2).sum()",
        "{n} = {x} - 0.1 * torch.autograd.grad({x}.pow(2).sum(), {x}, create_graph=True)[0]; {n}.sum().backward()",
        "{n} = torch.nn.functional.softmax({x}, -1).log().mean(); {n}.backward(retain_graph=True); {n}.backward()",
        "{n} = {x}.clone(); {n} += {y}.detach(); {n}.relu_(); {n}.sum().backward()",
        "{n} = torch.stack([{x}.sum(), {x}.mean()]).max(); {n}.backward()",
        "{n} = {x}; {n} = {n} * 2; {n} = {n} * 2; {n}.sum().backward()",
        "{n} = sum({x} * k for k in range(3)); {n}.sum().backward()",
        "{n} = torch.zeros_like({x}); {n}[:1] = {x}[:1] if {x}.dim() else {x}; {n}.sum().backward()",
        "{n} = [{x}.detach().clone()]; {n}[0].add_({x}.detach()); {n} = {n}[0]",
    ).format(x=x, y=y, n=n)


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
    "linear({x}, {y})",
    "linear({x}, {y}, {x}[:, 0])",
    "cross_entropy({x}, torch.tensor([1, 0]))",
    "nll_loss({x}, torch.tensor([1, 0]))",
    "batch_norm({x}, None, None, training=True)",
    "group_norm({x}, 1)",
    "max_pool1d({x}, 2, 1)",
    "max_pool1d({x}, 3)",
    "adaptive_max_pool1d({x}, 2)",
    "conv1d({x}.clone(), {y}.clone()[None])",
    "avg_pool1d({x}, 2, 1)",
    "embedding(torch.tensor([1, 0, 1]), {x})",
    "multi_margin_loss({x}, torch.tensor([1, 0]))",
    "scaled_dot_product_attention({x}, {y}, {y})",
    "interpolate({x}[None], scale_factor=2)",
    "adaptive_avg_pool1d({x}, 1)",
    "one_hot(torch.tensor([1, 0]), 2) * 1.5",
)


@rule("numbers", 2.5, "nn.functional.linear")
def layer(m: Maker) -> str | None:
    matrix = m.chance(0.4)
    x = m.pick(lambda t: real(t) and t.numel() > 0 and (tuple(t.shape) == (2, 3) if matrix else t.dim()))
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


@rule("numbers", 0.4)
def copied(m: Maker) -> str | None:
    x = m.pick()
    if x is None:
        return None
    line = m.one(
        "__import__('copy').deepcopy({0})",
        "torch.empty_like({0}).copy_({0})",
        "torch.as_tensor({0})",
        "{0}.clone(memory_format=torch.contiguous_format)",
    )
    return f"{m.new()} = " + line.format(x)


table_rule("numbers", "special_functions", 0.7, tables.SPECIAL)


table_rule("numbers", "pairs", 2.5, tables.PAIRS)


table_rule("numbers", "all_reductions", 2.5, tables.REDUCTIONS)


table_rule("numbers", "losses", 1, tables.LOSSES, "torch.nn.functional.")


table_rule("numbers", "activations", 2, tables.ACTIVATIONS, "torch.nn.functional.")


table_rule("numbers", "spectra", 0.5, tables.TRANSFORMS)


@rule("numbers", 2, rarity=2)
def all_pointwise(m: Maker) -> str | None:
    x = m.pick(lambda t: t.numel() > 0 and not t.is_inference())
    return x and f"{m.new()} = torch.{m.one(*tables.POINTWISE)}({x})"


@rule("numbers", 1.2, "linalg.solve", rarity=2)
def matrices(m: Maker) -> str | None:
    text = m.one(*tables.MATRICES)
    x = m.pick(
        lambda t: (
            real(t)
            and t.dtype.itemsize == 8
            and t.dim() == 1
            and 1 < t.numel() <= 4
            and calm(t)
            and distinct(t)
            and not t.is_inference()
        )
    )
    if x is None:
        return None
    y = same(m, x)
    if not calm(m.env[y]):
        return None
    text = spelled(text.replace("{m}", tables.SOLVED).replace("{s}", tables.SPD))
    return f"{m.new()} = {text.format(x=x, y=y)}"


@rule("numbers", 1.5, rarity=2)
def complex_numbers(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_complex() and plain(t))
    return x and f"{m.new()} = {filled(m, spelled(m.one(*tables.COMPLEX)), x)}"


MODULES = (
    "torch.nn.Linear({n}, 2)",
    "torch.nn.Linear({n}, 3, bias=False)",
    "torch.nn.Sequential(torch.nn.Linear({n}, 2), torch.nn.Tanh())",
    "torch.nn.LayerNorm({n})",
    "torch.nn.Sequential(torch.nn.Linear({n}, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))",
    "torch.nn.PReLU()",
    "torch.nn.RMSNorm({n})",
    "torch.nn.Sequential(torch.nn.LayerNorm({n}), torch.nn.GELU())",
    "torch.nn.Bilinear({n}, {n}, 2)",
    "torch.nn.Softmax(-1)",
    "torch.nn.Dropout(0.0)",
    "torch.nn.Identity()",
    "torch.nn.Flatten(0)",
)


OPTIMIZERS = (
    "SGD({p}, lr=0.1)",
    "SGD({p}, lr=0.1, momentum=0.9)",
    "SGD({p}, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)",
    "Adam({p}, lr=0.1)",
    "AdamW({p}, lr=0.1)",
    "RMSprop({p}, lr=0.1, centered=True)",
    "Adagrad({p}, lr=0.1)",
    "Adam({p}, lr=0.1, amsgrad=True)",
    "Adadelta({p})",
    "Adamax({p})",
    "NAdam({p})",
    "RAdam({p})",
    "Rprop({p})",
    "ASGD({p})",
    "SGD({p}, lr=0.1, maximize=True)",
    "Adam({p}, foreach=True)",
    "SGD({p}, foreach=False)",
)


@rule("numbers", 1, "nn.Linear", "optim.SGD", rarity=2)
def module(m: Maker) -> str | None:
    """A layer with known parameters is made, and applied."""
    x = m.pick(lambda t: t.dtype == m.torch.float64 and plain(t) and calm(t))
    if x is None:
        return None
    made = m.one(*MODULES).format(n=m.env[x].shape[-1])
    out = m.new()
    layer = f"m_{m.count}"
    call = f"{layer}({x}, {x})" if "Bilinear" in made else f"{layer}({x})"
    fill = f"[torch.nn.init.constant_(p, 0.1 * (k + 1)) for k, p in enumerate({layer}.parameters())]"
    line = f"{layer} = {made}.double(); {fill}; {out} = {call}"
    if m.chance(0.5) and made.startswith(("torch.nn.Linear", "torch.nn.LayerNorm")):
        line += f"; {m.new()} = {layer}.weight"
    return line


@rule("numbers", 1, "optim.SGD", rarity=2)
def optimizer(m: Maker) -> str | None:
    """A leaf is optimised for a step or two."""
    x = m.pick(lambda t: t.is_leaf and t.requires_grad and real(t) and t.numel() > 0)
    if x is None:
        return None
    made = m.one(*OPTIMIZERS).format(p=f"[{x}]")
    body = f"o_.zero_grad(); ({x} * {x}).sum().backward(); o_.step()"
    if m.chance(0.3):
        body = "o_.step()"
    if m.chance(0.3):
        body += f"; ({x} + 1).prod().backward(); o_.step()"
    return f"o_ = torch.optim.{made}; {body}"


@rule("numbers", 0.6, "nn.utils.clip_grad_norm_", rarity=2)
def utilities(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_leaf and t.grad is not None)
    if x is None:
        return None
    return m.one(
        f"{m.new()} = torch.nn.utils.clip_grad_norm_([{x}], 0.5)",
        f"torch.nn.utils.clip_grad_value_([{x}], 0.1)",
        f"{m.new()} = torch.nn.utils.parameters_to_vector([{x}])",
        f"{x}.grad.detach_()",
        f"{x}.grad.requires_grad_()",
        f"{m.new()} = {x}.grad.clone(); {x}.grad = None",
        f"{x}.grad = {x}.grad * 2",
        f"{x}.grad.copy_({x}.detach())",
        f"{m.new()} = torch.nn.Parameter({x}.detach().clone())",
        f"{x}.grad = torch.ones(1)",
    )


@rule("numbers", 0.8, rarity=2)
def looks(m: Maker) -> str | None:
    """What a program asks of a tensor without computing; it is logged."""
    x = m.pick()
    what = m.one(
        "{0}.is_contiguous()", "{0}.storage_offset()", "{0}.untyped_storage().nbytes()",
        "{0}.is_set_to({0}.detach())", "{0}.dim()", "{0}.element_size()", "{0}.size(-1)",
        "tuple({0}.stride())", "{0}.is_nonzero()", "len({0})", "str({0}.dtype)",
        "type({0}.tolist()).__name__", "bool({0}.sum() > 0)", "type({0}.item()).__name__",
        "repr({0})", "{0}.is_floating_point()", "{0}.requires_grad", "{0} in {0}",
        "{0}.grad is None", "{0}.type()", "{0}.numel()", "{0}._is_view()",
        "[t.shape for t in {0}]", "{0}.__len__()", "hash({0}) == hash({0})",
        "type(float({0})).__name__", "{0}.nelement()", "torch.is_complex({0})",
        "{0}.is_same_size({0})", "{0}.data_ptr() == {0}.data.data_ptr()", "torch.equal({0}, {0})",
        "torch.can_cast({0}.dtype, torch.int64)", "str(torch.result_type({0}, 1.5))", "{0}.ndim",
        "{0}.itemsize", "{0}.nbytes", "{0}.is_neg()", "format({0})",
    )  # fmt: skip
    return x and f"log.append(('look', {what.format(x)}))"


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
    x = m.pick(lambda t: t.is_complex() and t.numel() > 0 and t.dim() in (1, 2) and not t.is_inference())
    if x is None:
        return None
    y, kind = partner(m, x), m.chance(0.35)
    if not kind:
        return f"{m.new()} = " + m.one(*COMPLEX).format(x=x, y=y)
    if m.chance(0.4) and tracked(m.env[x]) and m.env[x].grad_fn is not None:
        return m.one(
            f"{x}.backward({m.like(x)})",
            f"{x}.backward({y}.detach(), retain_graph=True)",
            f"{x}.sum().abs().backward()",
            f"{x}.backward({y}.detach().conj())",
            f"{x}.register_hook(lambda g: g.conj())",
            f"{x}.abs().pow(2).sum().backward(retain_graph=True)",
            f"{x}.sum().backward()",
            f"{x}.backward({y}.detach().real)",
        )
    if not writable(m.env[x]):
        return None
    y = y if y != x else f"{x}.detach().clone()"
    return x + m.one(*COMPLEX_WRITES).format(y=y)


@rule("numbers", 1.5, "_foreach_add", "_foreach_mul", rarity=3)
def lists(m: Maker) -> str | None:
    x = m.pick(lambda t: ordinary(t) and writable(t) and not tracked(t))
    if x is None:
        return None
    y = partner(m, x)
    if tracked(m.env[y]):  # nodes of lists have the edges of all of their tensors in torch
        y = x
    if m.env[y]._is_view() and races(m.env[x], m.env[y]):
        y = x
    text = m.one(
        "_foreach_add([{x}, {y}], 1.5)",
        "_foreach_mul([{x}, {y}], [{y}, {x}])",
        "_foreach_exp([{x}, {y}])",
        "_foreach_neg([{x}, {y}])",
        "_foreach_add([{x}, {y}], [2.0, 3.0])",
        "_foreach_sqrt([{x}, {y}])",
        "_foreach_div([{x}, {y}], 2)",
        "_foreach_lerp([{x}, {x}], [{y}, {y}], 0.5)",
        "_foreach_addcmul([{x}, {x}], [{y}, {y}], [{x}, {y}], value=2)",
        "_foreach_norm([{x}, {y}])",
    )
    if m.chance(0.3) and "norm" not in text and "[{y}, {x}]" not in text and x != y:
        return "torch." + text.replace("(", "_(", 1).format(x=x, y=y)
    return f"{m.news(2)} = torch.{text.format(x=x, y=y)}"
