"""Lines over the whole table of operators, dtypes, modules, optimizers and transforms."""

from __future__ import annotations

from typing import Any

from . import tables
from .maker import Maker, overlaps, races, real, rule, taints, touches, tracked, writable
from .rules import distinct

INDEX = "torch.tensor([{0}])"
PICKS = ("distinct", "sort", "topk", "kthvalue", "median", "mode", "cummax", "cummin", "max(",
"min(", "amin", "amax",
         "argm", "quantile", "maximum", "minimum", "fmax", "fmin", "max_pool", "clamp", "inf')",
         "unique")  # fmt: skip
"""Operators that choose among elements: which of two equal ones gets the gradient, torch leaves open."""


def same(m: Maker, x: str, **more: Any) -> str:
    """Another tensor of the shape and dtype of `x`, or `x` itself."""
    t = m.env[x]
    return m.pick(lambda u: u.shape == t.shape and u.dtype == t.dtype) or x


def filled(m: Maker, text: str, x: str) -> str:
    """An expression of `tables` about the tensor `x`."""
    n = m.env[x].shape[0] if m.env[x].dim() else 1
    index = INDEX.format(m.one(*[f"{i}" for i in range(max(n, 1))]))
    if n > 1 and m.chance(0.5):
        index = INDEX.format(m.one("0, 1", "1, 0", "-1, 0"))
    return text.format(x=x, y=same(m, x), i=index)


def spelled(text: str, space: str = "torch.") -> str:
    """A table's entry as source: names stand for functions of torch, `{x}` and operators for themselves."""
    return text if text[0] in "{~-2" else space + text


def plain(t: Any) -> bool:
    """Whether a tensor is one that a numerical operator is called on: some elements, not too large."""
    return t.dim() in (1, 2) and t.numel() > 0 and not t.is_inference()


def calm(t: Any) -> bool:
    """Whether the numbers are tame: what becomes of NaN and of huge ones is up to the kernels."""
    values = t.detach().abs()
    return bool(((values < 50) & (values > 1e-6)).all())


def chooses(text: str) -> bool:
    """Whether an expression picks elements by comparing them."""
    return any(word in text for word in PICKS)


def tame(m: Maker, text: str) -> str | None:
    """A floating point tensor that suits an expression."""

    def suits(t: Any) -> bool:
        return (
            real(t)
            and t.dtype.itemsize >= 4
            and plain(t)
            and calm(t)
            and (not chooses(text) or distinct(t))
        )

    return m.pick(suits)


def table_rule(
    subject: str, name: str, weight: float, entries: tuple[str, ...], space: str = "torch."
) -> None:
    """A rule whose lines are the entries of a table over float tensors."""

    def line(m: Maker) -> str | None:
        text = m.one(*entries)
        x = tame(m, text)
        return x and f"{m.new()} = {filled(m, spelled(text, space), x)}"

    line.__name__ = name
    rule(subject, weight, rarity=2)(line)


table_rule("numbers", "special_functions", 0.7, tables.SPECIAL)
table_rule("numbers", "pairs", 2.5, tables.PAIRS)
table_rule("numbers", "all_reductions", 2.5, tables.REDUCTIONS)
table_rule("views", "all_places", 3, tables.PLACES)
table_rule("numbers", "losses", 1, tables.LOSSES, "torch.nn.functional.")
table_rule("numbers", "activations", 2, tables.ACTIVATIONS, "torch.nn.functional.")
table_rule("numbers", "spectra", 0.5, tables.TRANSFORMS)


@rule("numbers", 2, rarity=2)
def all_pointwise(m: Maker) -> str | None:
    x = m.pick(lambda t: t.numel() > 0 and not t.is_inference())
    return x and f"{m.new()} = torch.{m.one(*tables.POINTWISE)}({x})"


@rule("writes", 2, rarity=2)
def all_pointwise_in_place(m: Maker) -> str | None:
    x = m.pick(lambda t: t.numel() > 0 and writable(t) and not t.is_inference())
    name = m.one(*tables.POINTWISE) + "_"
    return (x and m.has("Tensor." + name) and f"{x}.{name}()") or None


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


@rule("dtypes", 1.5, rarity=2)
def integers(m: Maker) -> str | None:
    kinds = (m.torch.int64, m.torch.int32, m.torch.uint8)
    x = m.pick(lambda t: t.dtype in kinds and plain(t))
    return x and f"{m.new()} = {filled(m, spelled(m.one(*tables.INTEGERS)), x)}"


@rule("dtypes", 1, rarity=2)
def booleans(m: Maker) -> str | None:
    x = m.pick(lambda t: t.dtype == m.torch.bool and plain(t))
    return x and f"{m.new()} = {filled(m, spelled(m.one(*tables.BOOLEANS)), x)}"


@rule("dtypes", 0.8, rarity=2)
def halves(m: Maker) -> str | None:
    x = m.pick(lambda t: t.dtype == m.torch.float16 and plain(t) and calm(t))
    if x is None:
        y = m.pick(lambda t: t.dtype == m.torch.float64 and plain(t) and calm(t))
        return y and f"{m.new()} = {y}.half()"
    return f"{m.new()} = {filled(m, spelled(m.one(*tables.HALVES)), x)}"


@rule("dtypes", 0.8, rarity=2)
def rarer_creation(m: Maker) -> str | None:
    if len(m.live()) > 8:
        return None
    kind, shape = (
        m.one("int32", "uint8", "float16", "complex64", "bool", "int64"),
        m.one((3,), (2, 3)),
    )
    what = "2" if kind == "uint8" else "True" if kind == "bool" else "-1"
    text = m.one(
        f"torch.full({shape}, {what}, dtype=torch.{kind})",
        f"torch.tensor([1, 0, 2], dtype=torch.{kind})",
        f"torch.ones({shape}, dtype=torch.{kind})",
        f"torch.arange(1, 4, dtype=torch.{'int64' if kind == 'bool' else kind})",
    )
    return f"{m.new()} = {text}"


# --- writes ---------------------------------------------------------------------------------------

WRITES = (
    "add_({y}, alpha=0.5)", "addmm_({m}, {m})", "baddbmm_({x}, {x})", "bernoulli_(1.0)",
    "clamp_({y} - 1, {y} + 1)",
    "clamp_max_({y})", "copysign_({y})", "cumprod_(-1)", "cumsum_(-1)", "deg2rad_()",
    "div_({y}, rounding_mode='floor')",
    "div_({y}, rounding_mode='trunc')", "eq_({y})", "erfinv_()", "exp2_()", "fill_diagonal_(2.0)",
    "float()", "floor_divide_(2)",
    "fmod_({y})", "ge_(0)", "heaviside_({y})", "hypot_({y})",
    "index_add_(0, {i}, {y}[{i}], alpha=2)",
    "index_copy_(0, {i}[:1], {y}[{i}[:1]])", "index_fill_(0, {i}, 0.5)",
    "index_put_(({i},), {y}[{i}] * 2)",
    "index_put_(({i},), {y}[{i}], accumulate=True)", "index_reduce_(0, {i}, {y}[{i}], 'amax')",
    "ldexp_({y})", "lerp_({y}, 0.25)",
    "lerp_({y}, {y})", "logical_and_({y})", "logit_(0.1)", "masked_fill_({y} > 0, 3)",
    "masked_fill_({y} > 0, {y}.mean())",
    "masked_scatter_({y} > 0, {y}.clone())", "mvlgamma_(1)", "nan_to_num_(0.5)", "nextafter_({y})",
    "not_equal_({y})", "polygamma_(2)",
    "pow_({y})", "pow_(-1)", "put_(torch.tensor([0]), {y}.reshape(-1)[:1])", "remainder_({y})",
    "renorm_(2, 0, 1.0)", "scatter_(0, torch.zeros_like({x}, dtype=torch.int64)[:1], {y}[:1])",
    "scatter_(0, torch.zeros_like({x}, dtype=torch.int64)[:1], 2.0, reduce='multiply')",
    "scatter_add_(0, torch.zeros_like({x}, dtype=torch.int64), {y})",
    "scatter_reduce_(0, torch.zeros_like({x}, dtype=torch.int64), {y}, 'amin')", "sub_(1)",
    "swapdims_(0, -1)", "tril_(-1)", "triu_(1)",
    "true_divide_({y})", "xlogy_({y})", "zero_()", "unsqueeze_(-1)", "squeeze_(0)",
    "moveaxis(0, -1).mul_(2)", "addr_({x}, {y})",
    "addcmul_({y}, {y}, value=-1)", "addcdiv_({y}, {y} * {y} + 1, value=2)", "arctan2_({y})",
    "multiply_({y})", "requires_grad_()", "detach_()",
    "rsub_(1)", "relu_()", "square_().add_(1)", "mul_(2)[0].zero_()",
    "view(-1)[0].add_({y}.sum())", "sigmoid_().mul_({y})", "expand_as({x}).mul_(2)",
    "as_strided((2,), (1,)).mul_({v})", "diagonal(0, 0, -1).add_(1)", "unfold(0, 1, 1).mul_(3)",
    "chunk(2)[0].mul_({v})", "split(1)[-1].exp_()",
    "unbind(0)[0].copy_({y}[0])", "T.add_({y}.T)", "t().mul_(2)", "select(0, -1).fill_({v})",
    "flatten().sub_(1)", "narrow(0, 0, 1).copy_({y}[-1:])",
    "real.mul_(2)", "detach().view(-1)[0].mul_(2)", "data[0].add_(1)", "set_({y}.clone())",
    "resize_as_({y})", "as_strided_((2,), (1,))", "resize_(2)",
    "exponential_().zero_()", "random_(1).add_({y})", "normal_(0, 0).add_({v})", "uniform_(1, 1)",
    "swapaxes_(0, -1)", "t_()", "transpose_(0, 1)", "erf_().neg_()",
)  # fmt: skip


@rule("writes", 4, rarity=2)
def all_writes(m: Maker) -> str | None:
    x = m.pick(
        lambda t: writable(t) and plain(t) and not (t.is_leaf and t.requires_grad and m.chance(0.9))
    )
    if x is None:
        return None
    t = m.env[x]
    y = (
        m.pick(lambda u: u.shape == t.shape and not races(t, u) and not u.is_inference())
        or f"{x}.clone()"
    )
    v = m.pick(lambda u: u.dim() == 0 and not races(t, u) and not u.is_inference()) or "2.0"
    if (y in m.env and taints(t, m.env[y])) or (v in m.env and taints(t, m.env[v])):
        return None
    index = INDEX.format(m.one("0", "0, 0", "-1"))
    text = m.one(*WRITES)
    if not real(t) and any(
        w in text for w in ("div", "%", "mod", "remainder", "random", "normal", "expo")
    ):
        return None
    if "put_" in text and overlaps(t):
        return None  # torch writes, in the order of its loops
    square = "torch.eye(3, dtype=torch.float64)"
    return f"{x}.{text.format(x=x, y=y, v=v, i=index, m=square)}"


OUTS = (
    "torch.{name}({y}, out={x})", "torch.{name}({y}, out={x}[:])",
    "torch.{name}({y}, out={x}.view(-1))", "torch.{name}({y}.detach(), out={x}.detach())",
)  # fmt: skip


@rule("writes", 1, rarity=2)
def all_outs(m: Maker) -> str | None:
    x = m.pick(lambda t: writable(t) and plain(t) and real(t))
    if x is None:
        return None
    t = m.env[x]
    y = m.pick(lambda u: u.shape == t.shape and u.dtype == t.dtype and not touches(t, u))
    if y is None:
        return None
    if m.chance(0.5):
        return m.one(*OUTS).format(
            name=m.one(
                "exp", "neg", "abs", "tanh", "relu" if m.chance(0) else "sin", "square", "floor"
            ),
            x=x,
            y=y,
        )
    return m.one(
        "torch.sum({y}, 0, out={x})", "torch.cat([{y}, {y}], out={x})",
        "torch.mean({y}, 0, out={x}[0])", "torch.matmul({y}, {y}.t(), out={x})",
        "torch.index_select({y}, 0, torch.tensor([0]), out={x})", "torch.div({y}, 2, out={x})",
        "torch.pow({y}, 2, out={x})", "torch.cumsum({y}, 0, out={x})",
        "torch.gt({y}, 0, out={x})", "torch.clamp({y}, 0, 1, out={x})",
        "torch.addcmul({y}, {y}, {y}, out={x})", "torch.lerp({y}, {y}, 0.5, out={x})",
        "torch.zeros(3, out={x})", "torch.ones_like({y}, out={x})", "torch.arange(3, out={x})",
        "torch.sort({y}, out=({x}, torch.zeros(0, dtype=torch.int64)))",
        "torch.maximum({y}, {y}, out={x})", "torch.sigmoid({y}, out={x}.t())",
        "torch.add({y}, 1, out=torch.empty(0, dtype={x}.dtype)).mul_({x})",
    ).format(x=x, y=y)  # fmt: skip


# --- views of views -------------------------------------------------------------------------------

STEPS = (
    "[0]", "[-1]", "[1:]", "[:-1]", "[::2]", "[None]", "[..., 0]", "[..., :1]", ".t()", ".T",
    ".mT", ".transpose(0, -1)", ".view(-1)", ".reshape(-1)", ".unsqueeze(0)", ".unsqueeze(-1)",
    ".squeeze()", ".squeeze(0)", ".expand(2, -1)", ".expand(2, -1, -1)", ".narrow(0, 0, 1)",
    ".select(0, 0)", ".diagonal()", ".unfold(0, 1, 1)", ".flatten()", ".detach()", ".view_as({x})",
    ".permute(1, 0)", ".movedim(0, -1)",
    ".as_strided((2,), (1,))", ".unbind(0)[0]", ".split(1)[0]", ".chunk(2)[-1]", ".real",
    ".conj()", ".contiguous()", ".swapaxes(0, -1)", ".ravel()", ".unflatten(0, (-1, 1))",
    ".expand_as({x})", ".hsplit(1)[0]", ".tensor_split(2)[0]", ".alias()",
)  # fmt: skip


@rule("views", 3, rarity=2)
def chained_views(m: Maker) -> str | None:
    x = m.pick(lambda t: t.dim() in (1, 2, 3))
    if x is None:
        return None
    chain = "".join(m.one(*STEPS).format(x=x) for _ in range(m.one(2, 2, 3)))
    end = m.one("", "", "", ".clone()", ".mul_(2)", " * 2", ".sum()", ".add_(1)")
    if end.endswith(")") and "_(" in end:
        try:
            if not writable(eval(x + chain, {x: m.env[x]})):
                return None
        except (RuntimeError, IndexError, AttributeError, ValueError):
            return None
    return f"{m.new()} = {x}{chain}{end}"


# --- autograd -------------------------------------------------------------------------------------


def fits_next(t: Any) -> bool:
    """Whether the node before that of `t` gets gradients of its shape: of others, kernels complain in their ways."""
    before = t.grad_fn.next_functions[:1]
    if not before or before[0][0] is None:
        return True
    return tuple(before[0][0]._input_metadata[0].shape) == tuple(t.shape)


@rule("passes", 1.5, rarity=2)
def grads_again(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None)
    z = m.pick(tracked, recent=False)
    if x is None or z is None:
        return None
    by_hand = f"{x}.grad_fn.next_functions[0][0](torch.ones_like({x}))"
    line = m.one(
        f"torch.autograd.grad({x}.sum(), {z}, create_graph=True, allow_unused=True)[0]",
        f"{m.new()}, = grads({x}.square().sum(), [{z}], create_graph=True, allow_unused=True)",
        f"{m.new()}, = grads({x}, [{z}], torch.eye({x}.numel(), dtype={x}.dtype).reshape(-1, *{x}.shape), "
        "is_grads_batched=True, allow_unused=True, retain_graph=True)",
        f"g_, = torch.autograd.grad(({x} * {x}).sum(), [{z}], create_graph=True, allow_unused=True); "
        "g_ is not None and g_.requires_grad and g_.abs().sum().backward(retain_graph=True)",
        f"({x}.sum() + {z}.abs().sum()).backward(retain_graph=True)",
        f"{x}.backward({x}.detach(), retain_graph=True)",
        f"{x}.register_hook(lambda g: g * {x}.detach()); {x}.sum().backward(retain_graph=True)",
        f"{x}.grad_fn(torch.ones_like({x}))",
        f"torch.autograd.backward([{x}], [None])",
        f"torch.autograd.grad({x}, {z}, torch.ones(1))",
        f"torch.autograd.grad([{x}.sum()], [{z}, {x}], retain_graph=True, allow_unused=True)",
        f"{x}.sum().backward(retain_graph=True); {z}.grad = None",
        f"{x}.grad_fn.next_functions[0][0].register_hook(node_hook('next-{m.count}'))",
        f"{x}.grad_fn.next_functions[0][0].register_prehook(node_prehook('pre-{m.count}', 2.0))",
        by_hand,
    )  # fmt: skip
    return None if line == by_hand and not fits_next(m.env[x]) else line


@rule("modes", 0.8, "autograd.graph.allow_mutation_on_saved_tensors", rarity=2)
def mutation_allowed(m: Maker) -> str | None:
    x = m.pick(
        lambda t: (
            tracked(t) and real(t) and t.grad_fn is not None and writable(t) and t._base is None
        )
    )
    if x is None:
        return None
    name = m.new()
    body = m.one("{0} = ({1} * {1}).sum(); {1}.mul_(2); {0}.backward(retain_graph=True)",
    "{0} = {1}.exp(); {0}.add_(1); {0}.sum().backward(retain_graph=True)",
                 "{0} = {1}.sin(); {1}.zero_(); {0}.sum().backward()").format(name, x)  # fmt: skip
    return f"exec('''with torch.autograd.graph.allow_mutation_on_saved_tensors():\n    {body}''')"


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
)  # fmt: skip


@rule("transforms", 1, "func.grad", "vmap", "func.linearize", rarity=2)
def more_transforms(m: Maker) -> str | None:
    x = m.pick(lambda t: real(t) and plain(t) and calm(t) and t.is_contiguous())
    y = x and same(m, x)
    if y is None or not m.env[y].is_contiguous() or m.env[y].is_inference():
        return None
    return f"{m.new()} = {m.one(*MORE_TRANSFORMS).format(x=x, y=y)}.detach().clone()"


# --- modules and optimizers -----------------------------------------------------------------------

MODULES = (
    "torch.nn.Linear({n}, 2)", "torch.nn.Linear({n}, 3, bias=False)",
    "torch.nn.Sequential(torch.nn.Linear({n}, 2), torch.nn.Tanh())", "torch.nn.LayerNorm({n})",
    "torch.nn.Sequential(torch.nn.Linear({n}, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))",
    "torch.nn.PReLU()", "torch.nn.RMSNorm({n})",
    "torch.nn.Sequential(torch.nn.LayerNorm({n}), torch.nn.GELU())",
    "torch.nn.Bilinear({n}, {n}, 2)", "torch.nn.Softmax(-1)", "torch.nn.Dropout(0.0)",
    "torch.nn.Identity()", "torch.nn.Flatten(0)",
)  # fmt: skip
OPTIMIZERS = (
    "SGD({p}, lr=0.1)", "SGD({p}, lr=0.1, momentum=0.9)",
    "SGD({p}, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)", "Adam({p}, lr=0.1)",
    "AdamW({p}, lr=0.1)", "RMSprop({p}, lr=0.1, centered=True)", "Adagrad({p}, lr=0.1)",
    "Adam({p}, lr=0.1, amsgrad=True)", "Adadelta({p})", "Adamax({p})", "NAdam({p})", "RAdam({p})",
    "Rprop({p})", "ASGD({p})", "SGD({p}, lr=0.1, maximize=True)", "Adam({p}, foreach=True)",
    "SGD({p}, foreach=False)",
)  # fmt: skip


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
    fill = (
        f"[torch.nn.init.constant_(p, 0.1 * (k + 1)) for k, p in enumerate({layer}.parameters())]"
    )
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


CLASSES = (
    "ScaleBy", "Several", "Views", "InPlaceTwo", "Nested", "PassThrough", "HalfGrad", "Stateful",
    "Outer",
)  # fmt: skip


@rule("passes", 2, "autograd.Function", rarity=2)
def rarest_function(m: Maker) -> str | None:
    x = m.pick(
        lambda t: real(t) and t.dim() > 0 and t.numel() > 0 and writable(t) and not t.is_inference()
    )
    if x is None:
        return None
    y = (
        m.pick(
            lambda t: (
                real(t)
                and t.shape == m.env[x].shape
                and not races(m.env[x], t)
                and not t.is_inference()
            )
        )
        or x
    )
    kind = m.one(*CLASSES)
    match kind:
        case "Several":
            return f"{m.news(3)} = Several.apply({x}, {y}, 2.0)"
        case "Views":
            return f"{m.news(2)} = Views.apply({x})"
        case "InPlaceTwo":
            return (
                None if touches(m.env[x], m.env[y]) else f"{m.news(2)} = InPlaceTwo.apply({x}, {y})"
            )
        case "ScaleBy" | "Nested" | "Outer":
            return f"{m.new()} = {kind}.apply({x}, {y})"
        case _:
            return f"{m.new()} = {kind}.apply({x})"
