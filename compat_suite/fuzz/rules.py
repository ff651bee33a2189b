"""What one line of a random program can be.

A rule looks at the live tensors (torch's, while the program is made) and returns a line of source,
or None where it does not apply. Shapes and dtypes are few, so that kernels are compiled once.
"""

from __future__ import annotations

from typing import Any

from .maker import (
    DTYPES,
    RULES as RULES,
    SHAPES,
    Maker,
    dims,
    inexact,
    places,
    races,
    real,
    rule,
    taints,
    touches,
    tracked,
    writable,
)

# --- creation -------------------------------------------------------------------------------------


@rule("numbers", 3)
def create(m: Maker) -> str | None:
    if len(m.live()) > 7:
        return None
    dtype, shape = m.one(*DTYPES), m.one(*SHAPES)
    if (
        0 in shape and "complex" in dtype
    ):  # torch runs no kernel, and its checks come in another order
        return None
    line = f"{m.new()} = {m.literal(shape, dtype)}"
    if dtype[:5] in ("float", "compl") and m.chance(0.6):
        line += ".requires_grad_()"
    return line


FILLED = ("torch.zeros(2, 3, dtype=torch.float64)", "torch.ones(3, dtype=torch.float64)",
          "torch.full((2, 3), 1.5)", "torch.arange(3)", "torch.arange(3.0)",
          "torch.eye(3, dtype=torch.float64, requires_grad=True)", "torch.linspace(0, 1, 3)")  # fmt: skip


@rule("numbers", 0.8, "zeros", "eye", "linspace")
def create_filled(m: Maker) -> str | None:
    return f"{m.new()} = {m.one(*FILLED)}" if len(m.live()) < 8 else None


@rule("views", 1)
def clone(m: Maker) -> str | None:
    x = m.pick()
    how = m.one(
        "clone()",
        "clone()",
        "contiguous()",
        "detach()",
        "detach()",
        "detach().clone()",
        "data",
        "alias()",
    )
    if how == "alias()":
        how = "view_as(" + str(x) + ")"
    if how == "data" and x and not inexact(m.env[x]):  # a write to it would change saved indices
        how = "detach()"
    return x and f"{m.new()} = {x}.{how}"


@rule("dtypes", 0.4)
def convert(m: Maker) -> str | None:
    x = m.pick(lambda t: not t.is_complex())
    how = m.one("to(torch.float64)", "to(torch.float32)", "double()", "float()", "long()", "bool()")
    return (x and m.has("Tensor." + how.partition("(")[0]) and f"{m.new()} = {x}.{how}") or None


@rule("numbers", 0.5, "zeros_like", "ones_like")
def create_like(m: Maker) -> str | None:
    how = m.one(
        "torch.zeros_like({0})",
        "torch.ones_like({0})",
        "{0}.new_zeros(3)",
        "torch.full_like({0}, 2)",
    )
    x = m.pick()
    return x and f"{m.new()} = " + how.format(x)


# --- views ----------------------------------------------------------------------------------------


@rule("views", 4)
def index_view(m: Maker) -> str | None:
    x = m.pick(dims(1, 2, 3))
    if x is None:
        return None
    n = m.env[x].dim()
    options = ["0", "-1", "1:", ":-1", "::2", "...", "None", "0:1", "5"]
    if n >= 2:
        options += [
            ":, 0",
            "0, 1:",
            "..., 1",
            ":, 1:",
            "None, 0",
            ":, None",
            "0, 0",
            ":, ::2",
            ":, [0]",
        ]
    return f"{m.new()} = {x}[{m.one(*options)}]"


@rule("views", 5)
def shape_view(m: Maker) -> str | None:
    x = m.pick()
    if x is None:
        return None
    t = m.env[x]
    n, count = t.dim(), t.numel()
    options = [
        "view(-1)",
        "unsqueeze(0)",
        "unsqueeze(-1)",
        "squeeze()",
        "flatten()",
        "reshape(-1)",
        "ravel()",
    ]
    if n:
        options += ["squeeze(0)", "narrow(0, 0, 1)", "select(0, 0)", "movedim(0, -1)", f"expand(2, *{list(t.shape)})",
                    "unfold(0, 1, 1)", "swapaxes(0, -1)"]  # fmt: skip
    if n == 2:
        options += ["t()", "transpose(0, 1)", "permute(1, 0)", "T", "mT", "diagonal()", "narrow(1, 0, 2)",
                    "select(1, -1)", "unfold(1, 2, 1)", "diagonal(1)", "H", "mH", "adjoint()"]  # fmt: skip
    if n == 3:
        options += ["transpose(0, 2)", "permute(2, 0, 1)", "mT", "flatten(1)", "diagonal(0, 0, 2)"]
    if count == 6:
        options += ["view(2, 3)", "view(3, 2)", "reshape(3, 2)", "reshape(2, 3)", "view(2, 1, 3)"]
    if count == 3:
        options += ["view(3, 1)", "expand(2, 3)", "view(1, 3)", "broadcast_to((2, 3))"]
    if 1 in t.shape:
        options += [f"expand({[max(s, 3) for s in t.shape]})"]
    option = m.one(*options)
    return f"{m.new()} = {x}.{option}" if m.has("Tensor." + option.partition("(")[0]) else None


@rule("views", 1.5)
def multi_view(m: Maker) -> str | None:
    x = m.pick(dims(1, 2))
    if x is None:
        return None
    t = m.env[x]
    n = t.shape[0]
    if not 1 <= n <= 3:
        return None
    kind = m.one("unbind()", "split(1)", f"chunk({n})", f"tensor_split({n})")
    return f"{m.news(n)} = {x}.{kind}"


@rule("views", 0.7)
def strided(m: Maker) -> str | None:
    x = m.pick(lambda t: t.numel() >= 3)
    options = (
        "(3,), (1,)",
        "(2, 2), (1, 1)",
        "(2,), (1,), 1",
        "(1, 3), (3, 1)",
        "(2, 3), (0, 1)",
        "(2, 2), (2, 1)",
    )
    return x and f"{m.new()} = {x}.as_strided({m.one(*options)})"


@rule("views", 0.6)
def complex_view(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_complex())
    if x is None:
        return None
    how = m.one("{0}.real", "{0}.imag", "torch.view_as_real({0})", "{0}.conj()", "{0}.abs()", "{0}.resolve_conj()",
                "{0}.conj_physical()", "{0}.angle()")  # fmt: skip
    return f"{m.new()} = " + how.format(x)


# --- pointwise ------------------------------------------------------------------------------------

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
    text = m.one("torch.where({0} > 0, {0}, {1})", "{0}.clamp(-1, 1)", "torch.lerp({0}, {1}, 0.5)", "{0}.clamp(min=0)",
                 "torch.addcmul({0}, {1}, {2}, value=2)", "torch.addcdiv({0}, {1}, {2})")  # fmt: skip
    if not m.has(text.partition("torch.")[2].partition("(")[0] or "clamp"):
        return None
    return f"{m.new()} = " + text.format(x, y, z)


# --- reductions, products, indexing ---------------------------------------------------------------

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
    return (
        x and m.has("Tensor." + option.partition("(")[0]) and f"{m.new()} = {x}.{option}"
    ) or None


def _of_one_zero(t: Any, option: str) -> bool:
    """Whether a product has one factor, and a factor that is 0."""
    factors = t.numel() if "()" in option else t.shape[0] if t.dim() else 2
    return factors == 1 and not bool(t.detach().all())


def distinct(t: Any) -> bool:
    """Whether no two elements are equal and none is NaN: which of two equal ones is picked, torch leaves open."""
    values = t.detach().flatten().tolist()
    return len(set(values)) == len(values) and all(v == v for v in values)


@rule("numbers", 0.8)
def two_results(m: Maker) -> str | None:
    option = m.one(
        "max(0)", "min(-1)", "sort(0)", "topk(1)", "cummax(0)", "median(0)", "kthvalue(1)"
    )
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
    y = m.pick(
        lambda u: u.dtype == t.dtype and u.dim() in (1, 2) and (u.shape[0] == last or m.chance(0.1))
    )
    if y is None or (m.env[x].is_conj() and m.env[y].is_conj()):
        return None  # of two conjugated vectors torch puts the conjugation of the product off
    text = m.one("{0} @ {1}", "torch.matmul({0}, {1})", "{0}.mm({1})", "{0}.mv({1})", "torch.dot({0}, {1})",
                 "torch.outer({0}, {1})", "{0}.t() @ {0}", "torch.addmm({0}, {0}, {1})", "{1} @ {0}")  # fmt: skip
    name = text.partition("torch.")[2].partition("(")[0] or "mm"
    return (m.has(name) and m.has("matmul") and f"{m.new()} = " + text.format(x, y)) or None


@rule("views", 2)
def indexing(m: Maker) -> str | None:
    x = m.pick(dims(1, 2))
    if x is None:
        return None
    n = m.env[x].dim()
    index = "torch.tensor([1, 0, 0])"
    options = [f"{x}[{index}]", f"{x}[{x} > 0]", f"torch.index_select({x}, 0, {index})", f"{x}[[0, -1]]",
               f"torch.masked_fill({x}, {x} > 0, 0.5)", f"torch.take({x}, {index})", f"{x}.repeat(2, 1)",
               f"torch.cat([{x}, {x}])", f"torch.stack([{x}, {x}], -1)", f"{x}.masked_select({x} > 0)"]  # fmt: skip
    if n == 1:
        options += [f"torch.gather({x}, 0, {index})", f"torch.diag({x})", f"torch.index_add({x}, 0, {index}, {x})",
                    f"torch.scatter({x}, 0, torch.tensor([2, 0]), 1.5)"]  # fmt: skip
    else:
        options += [f"{x}[:, {index}]", f"{x}[{index}, 0]", f"torch.gather({x}, 1, torch.tensor([[0, 1], [1, 1]]))",
                    f"{x}[torch.tensor([0, 1]), torch.tensor([1, 0])]", f"{x}[None, {index}]"]  # fmt: skip
    text = m.one(*options)
    name = text.partition("torch.")[2].partition("(")[0]
    name = (
        name
        if name and not text.startswith("v")
        else "Tensor." + text.partition(".")[2].partition("(")[0]
    )
    if text.startswith("v") and text.partition("[")[0] == x:
        name = "tensor"
    return f"{m.new()} = {text}" if m.has(name) else None


@rule("numbers", 1)
def join(m: Maker) -> str | None:
    x = m.pick()
    if x is None:
        return None
    shape, dtype = m.env[x].shape, m.env[x].dtype
    y = m.pick(lambda t: t.shape == shape and (t.dtype == dtype or m.chance(0.2))) or x
    text = m.one("torch.cat([{0}, {1}])", "torch.stack([{0}, {1}])", "torch.stack([{0}, {1}], -1)",
                 "torch.hstack([{0}, {1}])")  # fmt: skip
    return f"{m.new()} = " + text.format(x, y)


# --- in-place writes ------------------------------------------------------------------------------

IN_PLACE = ("add_({1})", "mul_({1})", "sub_({1})", "div_({1})", "copy_({1})", "zero_()", "fill_(2.0)", "exp_()",
            "neg_()",
            "sin_()", "clamp_(-1, 1)", "mul_({0})", "pow_(2)", "sqrt_()", "tanh_()", "sigmoid_()", "relu_()", "abs_()",
            "add_({1}, alpha=2)", "fill_({1})", "masked_fill_({0} > 0, 0.5)", "reciprocal_()", "t_()", "squeeze_()",
            "unsqueeze_(0)", "transpose_(0, -1)", "cumsum_(0)", "lerp_({1}, 0.5)", "addcmul_({1}, {1})", "square_()",
            "index_fill_(0, torch.tensor([0]), 1.5)", "index_add_(0, torch.tensor([0]), {0}[:1])", "round_()",
            "index_copy_(0, torch.tensor([0]), {0}[-1:])", "clamp_min_(0)", "tril_()",
            "fill_diagonal_(1.0)")  # fmt: skip


@rule("writes", 8)
def in_place(m: Maker) -> str | None:
    allowed = m.chance(0.85)
    x = m.pick(lambda t: writable(t) and not (allowed and t.is_leaf and t.requires_grad))
    if x is None:
        return None
    option = m.one(*IN_PLACE[:12]) if m.chance(0.6) else m.one(*IN_PLACE)
    y = m.partner(x, into=m.chance(0.95))
    if y in m.env and races(m.env[x], m.env[y]):
        return None
    if option.startswith("index_fill") and not m.env[x].numel():
        return None  # torch trips over the storage before it looks at the index
    return f"{x}." + option.format(x, y) if m.has("Tensor." + option.partition("(")[0]) else None


@rule("writes", 2)
def augmented(m: Maker) -> str | None:
    x = m.pick(writable)
    if x is None:
        return None
    how = m.one("+=", "*=", "-=", "/=")
    y = m.partner(x, into=True)
    if x == y and how == "/=" and m.env[x].is_complex():
        return None  # 1, or next to it: products and sums are rounded in one step there, or in two
    return f"{x} {how} {y}"


@rule("writes", 5)
def assign(m: Maker) -> str | None:
    x = m.pick(lambda t: t.dim() in (1, 2) and writable(t))
    if x is None:
        return None
    t = m.env[x]
    options = ["0", "-1", "1:", "...", ":", "0:1", f"{x} > 0", "True", "::2"]
    if t.dim() == 2:
        options += [":, 0", "0, 1:", "..., 1", "0, 0", ":, 1:"]
    if min(t.shape) > 1:  # an index that is out of range leaves a part written, in torch
        options += ["torch.tensor([0, 1])", "[-1, 0]"]
        if t.dim() == 2:
            options += [":, torch.tensor([1, 0])", "torch.tensor([1]), 0"]
    index = m.one(*options)
    values = [m.scalar(), m.scalar()]
    try:
        part = eval(f"{x}[{index}]", {"torch": m.torch, x: t})
        values += [
            m.pick(
                lambda u: (
                    tuple(u.shape) == tuple(part.shape) and not touches(t, u) and not taints(t, u)
                )
            )
            or m.scalar(),
            f"{x}[{index}] * 2",
        ]
    except (IndexError, RuntimeError):
        pass
    values.append(m.pick(lambda u: not touches(t, u) and not taints(t, u)) or m.scalar())
    how = m.one("=", "=", "=", "+=", "*=")
    if len(places(t)) < t.numel():  # where it overlaps itself, nothing but a number is sure
        values = values[:1]
    return f"{x}[{index}] {how} {m.one(*values)}"


@rule("writes", 0.6)
def set_data(m: Maker) -> str | None:
    x = m.pick(writable)
    if x is None:
        return None
    shape, dtype = m.env[x].shape, m.env[x].dtype
    # An inference tensor that requires grad is recorded where torch's kernels make an ordinary one on the way.
    inference = m.env[x].is_inference()
    y = (
        m.pick(lambda t: t.shape == shape and t.dtype == dtype and t.is_inference() <= inference)
        or x
    )
    if not inexact(
        m.env[x]
    ):  # torch's backward pass looks whether saved indices are in bounds still
        return f"{x}.data = {y}.detach().clone()"
    return m.one(f"{x}.data = {y}.detach().clone()", f"{x}.data.mul_(2.0)", f"{x}.data.zero_()",
                 f"{x}.detach().mul_(2.0)",
                 f"{x}.data[0] = 1.0", f"{x}.data = {y}")  # fmt: skip


# --- autograd -------------------------------------------------------------------------------------


@rule("modes", 0.8)
def flags(m: Maker) -> str | None:
    x = m.pick()
    return x and x + m.one(".requires_grad_()", ".requires_grad_(False)", ".detach_()", ".requires_grad = True",
                           ".retain_grad()", ".retain_grad()", ".requires_grad = False")  # fmt: skip


def looked_at(m: Maker, x: str) -> str:
    """What goes before a hook on a view: torch crashes where its base was written to and nobody looked since."""
    return f"{x}.grad_fn; " if m.env[x]._is_view() else ""


@rule("hooks", 1.2)
def hooks(m: Maker) -> str | None:
    x = m.pick(tracked)
    if x is None:
        return None
    scale = m.one("", "", ", 2.0", ", -1.0")
    label = f"'{x}-{m.count}'"
    look = looked_at(m, x)
    options = [f"{look}{x}.register_hook(hook({label}{scale}))"] * 3 + [f"{x}.retain_grad()"] * 2
    options.append(f"{x}.register_post_accumulate_grad_hook(grad_hook({label}))")
    options.append(
        f"{look}v_{m.count} = {x}.register_hook(hook({label}{scale})); v_{m.count}.remove()"
    )
    if m.env[x].grad_fn is not None:
        options += [f"{x}.grad_fn.register_hook(node_hook({label}{scale}))",
                    f"{x}.grad_fn.register_prehook(node_prehook({label}{scale}))"]  # fmt: skip
    return m.one(*options)


def scalar_of(m: Maker, x: str) -> str:
    t = m.env[x]
    if t.is_complex():
        return f"{x}.abs().sum()" if m.chance(0.5) else f"{x}.real.sum()"
    return (
        x
        if t.dim() == 0 and m.chance(0.5)
        else m.one(f"{x}.sum()", f"({x} * {x}).sum()", f"{x}.mean()")
    )


@rule("passes", 3.5)
def backward(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and t.grad_fn is not None) if m.chance(0.95) else m.pick()
    if x is None:
        return None
    options = m.one(
        "", "", "", "retain_graph=True", "retain_graph=True", "create_graph=True", "inputs"
    )
    if options == "inputs":
        options = f"inputs=[{m.pick(tracked)}]"
    if m.chance(0.3):
        given = m.like(x) if m.chance(0.95) else "torch.tensor([1.0])"
        return f"{x}.backward({given}{', ' if options else ''}{options})"
    target = scalar_of(m, x) if m.chance(0.95) else x
    return f"{target}.backward({options})"


@rule("passes", 2.5)
def grad(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and t.grad_fn is not None)
    if x is None:
        return None
    count = m.one(1, 1, 2)
    inputs = [m.pick(tracked, recent=False) for _ in range(count)]
    options = m.one(
        "",
        ", create_graph=True",
        ", create_graph=True",
        ", retain_graph=True",
        ", materialize_grads=True",
    )
    if m.chance(0.8) and "materialize" not in options:
        options += ", allow_unused=True"
    if m.chance(0.2):
        out, options = x, f", {m.like(x)}{options}"
    else:
        out = scalar_of(m, x)
    return f"{m.news(count)} = grads({out}, [{', '.join(map(str, inputs))}]{options})"


@rule("passes", 0.7)
def backward_of_several(m: Maker) -> str | None:
    x, y = m.pick(lambda t: tracked(t) and real(t)), m.pick(lambda t: tracked(t) and real(t))
    keep = m.one("", ", retain_graph=True")
    return f"torch.autograd.backward([{x}.sum(), {y}.mean()]{keep})" if x and y else None


@rule("writes", 0.8)
def step(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_leaf and t.grad is not None)
    how = m.one(
        "{0}.add_({0}.grad, alpha=-0.5)", "{0}.copy_({0} - {0}.grad)", "{0} -= 0.5 * {0}.grad"
    )
    return "with torch.no_grad(): " + how.format(x) if x else None


@rule("passes", 1)
def use_grad(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_leaf and t.grad is not None)
    if x is None:
        return None
    return m.one(f"{x}.grad = None", f"{x}.grad.zero_()", f"{m.new()} = {x}.grad", f"{x}.grad.mul_(0.5)",
                 f"{x}.grad = {m.like(x)}", f"{x}.data.sub_({x}.grad)")  # fmt: skip


@rule("numbers", 0.5)
def forget(m: Maker) -> str | None:
    x = m.pick(recent=False)
    return (x and len(m.live()) > 4 and f"del {x}") or None


@rule("passes", 1.5, "autograd.Function")
def function(m: Maker) -> str | None:
    x = m.pick(real)
    if x is None:
        return None
    y = m.pick(lambda t: real(t) and t.shape == m.env[x].shape) or x
    kind = m.one("Cube", "Saturate", "Twice", "Pair", "Sign", "Same", "Lazy")
    if kind == "Twice" and not writable(m.env[x]):
        return None
    match kind:
        case "Saturate":
            return f"{m.new()} = Saturate.apply({x}, 1.0)"
        case "Pair" | "Lazy":
            return f"{m.news(2)} = {kind}.apply({x}, {y})"
        case "Sign":
            return f"{m.news(2)} = Sign.apply({x})"
        case _:
            return f"{m.new()} = {kind}.apply({x})"
