"""Lines that write: in-place operators, masks, parts of a tensor, `out=`."""

from __future__ import annotations

from typing import Any

from .. import tables
from ..maker import Maker, inexact, overlaps, places, races, real, rule, taints, touches, writable
from .shared import INDEX, free, plain, some_index

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
            m.pick(lambda u: tuple(u.shape) == tuple(part.shape) and not touches(t, u) and not taints(t, u))
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
    y = m.pick(lambda t: t.shape == shape and t.dtype == dtype and t.is_inference() <= inference) or x
    # torch's backward pass looks whether saved indices are in bounds still.
    if not inexact(m.env[x]):
        return f"{x}.data = {y}.detach().clone()"
    return m.one(
        f"{x}.data = {y}.detach().clone()",
        f"{x}.data.mul_(2.0)",
        f"{x}.data.zero_()",
        f"{x}.detach().mul_(2.0)",
        f"{x}.data[0] = 1.0",
        f"{x}.data = {y}",
    )


@rule("writes", 0.8)
def step(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_leaf and t.grad is not None)
    how = m.one("{0}.add_({0}.grad, alpha=-0.5)", "{0}.copy_({0} - {0}.grad)", "{0} -= 0.5 * {0}.grad")
    return "with torch.no_grad(): " + how.format(x) if x else None


def _other(m: Maker, x: str, wanted: Any = lambda u: True) -> str:
    """Another tensor that a write to `x` may read."""
    t = m.env[x]
    return m.pick(lambda u: wanted(u) and not races(t, u)) or m.scalar()


def _alike(m: Maker, x: str) -> str:
    """A tensor of the shape of `x` that a write to it may read."""
    t = m.env[x]
    return m.pick(lambda u: u.shape == t.shape and not races(t, u)) or f"{x}.detach().clone()"


@rule("writes", 5, rarity=1)
def index_write(m: Maker) -> str | None:
    x = free(m, lambda t: t.dim() in (1, 2) and not t.is_complex() and not overlaps(t))
    if x is None:
        return None
    t, index = m.env[x], some_index(m, x)
    values = [m.scalar(), m.scalar(), _other(m, x), _other(m, x, lambda u: u.dim() == 0)]
    try:
        part = eval(f"{x}[{index}]", {"torch": m.torch, x: t})
    except (IndexError, RuntimeError, TypeError):
        part = None
    if part is not None:
        fits = m.pick(lambda u: tuple(u.shape) == tuple(part.shape) and not races(t, u))
        values += [f"{x}[{index}].detach() * 2", fits or m.scalar()]
        values += [f"{x}[{index}].detach().sum()"] if part.numel() else []
        if part.numel() > 1 and "[0, 0]" in index:
            values = values[:2]  # which of two values stays is up to torch's loops
    elif "torch.tensor" in index or "[" in index:
        return None  # what is out of range leaves a part written, in torch
    value = m.one(*values)
    if value in m.env and (races(t, m.env[value]) or touches(t, m.env[value])):
        return None
    how = m.one("=", "=", "=", "+=", "*=")
    if how != "=" and (part is None or "[0, 0]" in index):
        return None
    return f"{x}[{index}] {how} {value}"


@rule("writes", 2, rarity=1)
def scattered_writes(m: Maker) -> str | None:
    x = free(m, lambda t: t.dim() > 0 and t.numel() > 0 and inexact(t) and not overlaps(t))
    if x is None:
        return None
    y = _alike(m, x)
    v = _other(m, x, lambda u: u.dim() == 0)
    if y in m.env and (m.env[y].dtype != m.env[x].dtype or touches(m.env[x], m.env[y])):
        y = f"{x}.detach().clone()"
    zeros = f"torch.zeros_like({x}, dtype=torch.int64)"
    last = f"torch.full_like({x}, {m.env[x].shape[0] - 1}, dtype=torch.int64)"
    option = m.one(
        "masked_scatter_({y} > 0, {y}.reshape(-1))",
        "masked_scatter_({x}.detach() > 0, {y} * 2)",
        "index_put_((torch.tensor([0, 0]),), {y}[:1], accumulate=True)",
        "index_put_(({y} > 0,), {y}[{y} > 0], accumulate=True)",
        "index_put_(({y} > 0,), torch.tensor(2.0, dtype={y}.dtype))",
        "index_add_(0, torch.tensor([0, 0]), {y}[:1].repeat(2, *[1] * ({y}.dim() - 1)))",
        "index_copy_(0, torch.tensor([0]), {y}[-1:])",
        "index_fill_(0, torch.tensor([-1]), 2.0)",
        "scatter_(0, {z}[:1], {y}[:1])",
        "scatter_add_(0, {z}, {y})",
        "scatter_(0, {l}[:1], 1.5)",
        "scatter_reduce_(0, {z}, {y}, 'sum', include_self=False)",
        "scatter_add_(0, {l}[:1], {y}[:1])",
        "masked_fill_({y} > 0, {v})",
        "masked_fill_(torch.tensor(True), {v})",
        "masked_fill_({y}[0] > 0, 1.0)",
        "fill_({y}.sum())",
        "where({y} > 0, {v})",
        "where({y} > 0, {y}).mul_(2)",
        "copy_({y}[:1])",
        "put_(torch.tensor([0, -1]), {y}.reshape(-1)[:1].repeat(2))",
        "take(torch.tensor([0, -1])).mul_(2)",
        "put_(torch.tensor([0, 0]), {y}.reshape(-1)[:1].repeat(2), accumulate=True)",
    ).format(x=x, y=y, v=v, z=zeros, l=last)
    if m.env[x].is_complex() and (">" in option or "reduce" in option):
        return None
    return f"{x}.{option}"


@rule("writes", 3, rarity=1)
def parts_written(m: Maker) -> str | None:
    x = free(m, lambda t: t.dim() in (1, 2) and min(t.shape) > 0 and not overlaps(t))
    if x is None:
        return None
    n = m.env[x].shape[0]
    first, *rest = [m.new() for _ in range(n)]
    names = ", ".join([first, *rest]) + ("," if not rest else "")
    kind = m.one(
        "unbind()",
        "split(1)",
        f"chunk({n})",
        f"tensor_split({n})",
        "unsafe_split(1)",
        f"unsafe_chunk({n})",
        f"split_with_sizes([1] * {n})",
        f"view({n}, -1).unbind()",
        "detach().unbind()",
        "unbind(0)",
    )
    write = m.one(
        "{0}.mul_(2)",
        "{0}.add_(1)",
        "{0}.zero_()",
        "{0}.copy_({1})",
        "{0}[...] = 1.5",
        "{0} += 1",
        "{0}.data.mul_(2)",
        "{0}.detach_()",
        "{2}.mul_(2)",
        "{2}.mul_(2); {0}.add_(1)",
        "{0}.requires_grad_()",
        "{0}.fill_(2.0); {2}.add_(1)",
        "{0}.unsqueeze(0).mul_(3)",
        "with_no_grad({0})",
    )
    under = m.one("", "", "", "with torch.no_grad(): ")
    return f"{under}{names} = {x}.{kind}; {write.format(first, rest[-1] if rest else first, x)}"


@rule("writes", 2, rarity=1)
def loops(m: Maker) -> str | None:
    x = free(m, lambda t: t.dim() in (1, 2) and t.numel() > 0 and not overlaps(t) and inexact(t))
    if x is None:
        return None
    y = _alike(m, x)
    n = m.env[x].shape[0]
    body = m.one(
        f"[t.mul_(2) for t in {x}]",
        f"[{x}[k].add_(k) for k in range({n})]",
        f"[t.copy_(u * 2) for t, u in zip({x}, {y})]",
        f"[t.add_(1) for t in {x}.split(1)]",
        f"[{x}.__setitem__(k, {y}[k] + 1) for k in range({n})]",
        f"[{x}[1:].add_({x}[:-1].clone()) for _ in range(2)]",
        f"[{x}.unfold(0, 1, 1).mul_(2) for _ in range(2)]",
        f"[t.clamp_(min=0) for t in {x}.flip(0)]",
        f"[t.neg_() for t in {x}[::2]]",
    )
    return f"v_ = {body}"


@rule("writes", 2.5, rarity=1)
def half_way(m: Maker) -> str | None:
    x = m.pick(lambda t: inexact(t) and not t.is_inference())
    if x is None:
        return None
    y = m.pick(lambda t: t.shape == m.env[x].shape and t.dtype == m.env[x].dtype) or x
    return m.one(
        "{x}.requires_grad_()", "{n} = {x}.detach().requires_grad_()", "{n} = {x}.detach().clone().requires_grad_()",
        "{x} = {x}.detach()", "{x}.detach_()", "{x}.detach_().requires_grad_()", "{x}.data = {y}.data.clone()",
        "{n} = {x}.data; {n}.mul_(2)", "{x}.set_({y}.detach())", "{x}.set_({y}.detach().clone())",
        "{n} = {x}.view(-1); {n}.retain_grad()", "{n} = {x}[:1]; {n}.retain_grad(); {n}.mul_(2)",
        "with torch.no_grad(): {n} = {x}.view(-1).requires_grad_()", "{n} = {x}.clone(); {n}.retain_grad()",
        "{x}.data, {y}.data = {y}.data, {x}.data", "{n} = torch.nn.Parameter({x}.detach())",
        "{n} = {x}.new_tensor({x}.detach().tolist(), requires_grad=True)", "{x}.grad = None",
        "{n} = {x}.detach(); {n}.zero_()", "{x}.requires_grad = not {x}.requires_grad",
        "{n} = {x}.expand(2, *{x}.shape).contiguous().requires_grad_()", "{n} = {x}.T.detach().requires_grad_()",
        "with torch.no_grad(): {x}.copy_({y} * 0.5)",
        "with torch.no_grad(): {x}.mul_(0.9).add_({y}.clone(), alpha=0.1)",
        "{n} = {x}.clone().detach_()", "{n} = ({x} * 2).requires_grad_(); {n}.retain_grad()",
        "{x}.data.set_({y}.detach())", "{n} = {x}.unsqueeze(0); {n}.detach_()",
    ).format(x=x, y=y, n=m.new())  # fmt: skip


@rule("writes", 1.5, rarity=1)
def broadcast_writes(m: Maker) -> str | None:
    x = free(m, lambda t: t.dim() in (1, 2) and t.numel() > 0 and inexact(t))
    if x is None:
        return None
    return m.one(
        "{x} += {x}.sum()",
        "{x} -= {x}.detach().mean(0, keepdim=True)",
        "{x}.mul_({x}.detach()[:1])",
        "{x} /= {x}.detach().abs().sum() + 1",
        "{x}.add_({x}.detach().clone()[..., :1])",
        "{x}[...] = {x}[:1].detach()",
        "{x}.copy_({x}.detach()[..., :1].clone())",
        "{x}[:1].add_({x}[-1:].clone())",
        "{x}.t().add_(1)",
        "{x}.sub_({x}.clone().sum(-1, keepdim=True))",
        "{x}.add_({x}.clone().unsqueeze(0))",
        "{x}.mul_({x}.clone()[None])",
    ).format(x=x)


@rule("writes", 1)
def write_to_part(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_complex() and writable(t))
    if x is None:
        return None
    return x + m.one(
        ".real.mul_(2.0)",
        ".imag.zero_()",
        ".real = 1.0",
        ".conj().mul_(2.0)",
        ".imag.neg_()",
        ".conj().copy_({0})",
        ".mul_(1j)",
    ).format(x)


@rule("writes", 3)
def rarer_write(m: Maker) -> str | None:
    allowed = m.chance(0.85)
    x = m.pick(lambda t: writable(t) and t.dim() and not (allowed and t.is_leaf and t.requires_grad))
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
        options += [
            "index_put_((torch.tensor([0, 1]),), {y}[:2])",
            "index_put_((torch.tensor([0, 0]),), {y}[:2], True)",
            "[1:].mul_({y}[1:])",
            "select(0, 1).copy_({y}[0])",
            "narrow(0, 0, 1).zero_()",
            "scatter_(0, torch.zeros_like({0}, dtype=torch.int64), 1.0)",
            "[::2].exp_()",
            "index_fill_(0, torch.tensor([1]), {v})",
            "index_add_(0, torch.tensor([1]), {y}[:1], alpha=2)",
            "index_copy_(0, torch.tensor([1]), {y}[:1])",
            "unbind()[0].mul_(2)",
        ]
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
    y = m.pick(lambda u: u.shape == t.shape and u.dtype == t.dtype and not races(t, u) and not u.requires_grad)
    if y is None or touches(t, m.env[y]):
        return None
    return m.one(
        "torch.add({1}, {1}, out={0})",
        "torch.mul({1}, 2, out={0})",
        "torch.exp({1}, out={0})",
        "torch.sub({0}, {1}, out={0})",
        "torch.neg({1}, out={0})",
        "torch.where({1} == {1}, {1}, {1}, out={0})",
        "torch.cumsum({1}.reshape(-1), 0, out={0})",
        "torch.stack([{1}], out={0})",
    ).format(x, y)


@rule("writes", 0.8)
def scattered(m: Maker) -> str | None:
    # A result keeps the gaps and the offset of a part of some storage in torch, not here.
    x = m.pick(lambda t: t.dim() in (1, 2) and t.numel() > 0 and t.is_contiguous())
    if x is None or m.env[x].storage_offset():
        return None
    y = m.pick(lambda u: u.dtype == m.env[x].dtype and u.shape == m.env[x].shape[1:]) or f"{x}[0]"
    text = m.one(
        "torch.select_scatter({0}, {1}, 0, 0)",
        "torch.slice_scatter({0}, {0}[:1] * 2, 0, 0, 1)",
        "torch.index_copy({0}, 0, torch.tensor([0]), {1}.unsqueeze(0))",
        "{0}.index_put((torch.tensor([0]),), {1})",
        "{0}.masked_scatter({0} > 0, {0} * 2)",
        "torch.scatter_add({0}, 0, torch.zeros_like({0}, dtype=torch.int64), {0} * 2)",
        "{0}.index_fill(0, torch.tensor([0]), 2.0)",
    )
    return f"{m.new()} = " + text.format(x, y)


@rule("writes", 0.3, "autograd.graph.increment_version")
def touched(m: Maker) -> str | None:
    x = m.pick()
    return x and f"torch.autograd.graph.increment_version({x})"


@rule("writes", 2, rarity=2)
def all_pointwise_in_place(m: Maker) -> str | None:
    x = m.pick(lambda t: t.numel() > 0 and writable(t) and not t.is_inference())
    name = m.one(*tables.POINTWISE) + "_"
    return (x and m.has("Tensor." + name) and f"{x}.{name}()") or None


FUNCTIONS_THAT_WRITE = (
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
    x = m.pick(lambda t: writable(t) and plain(t) and not (t.is_leaf and t.requires_grad and m.chance(0.9)))
    if x is None:
        return None
    t = m.env[x]
    y = m.pick(lambda u: u.shape == t.shape and not races(t, u) and not u.is_inference()) or f"{x}.clone()"
    v = m.pick(lambda u: u.dim() == 0 and not races(t, u) and not u.is_inference()) or "2.0"
    if (y in m.env and taints(t, m.env[y])) or (v in m.env and taints(t, m.env[v])):
        return None
    index = INDEX.format(m.one("0", "0, 0", "-1"))
    text = m.one(*FUNCTIONS_THAT_WRITE)
    if not real(t) and any(w in text for w in ("div", "%", "mod", "remainder", "random", "normal", "expo")):
        return None
    if "put_" in text and overlaps(t):
        return None  # torch writes, in the order of its loops
    square = "torch.eye(3, dtype=torch.float64)"
    return f"{x}.{text.format(x=x, y=y, v=v, i=index, m=square)}"


OUTS = (
    "torch.{name}({y}, out={x})",
    "torch.{name}({y}, out={x}[:])",
    "torch.{name}({y}, out={x}.view(-1))",
    "torch.{name}({y}.detach(), out={x}.detach())",
)


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
            name=m.one("exp", "neg", "abs", "tanh", "relu" if m.chance(0) else "sin", "square", "floor"), x=x, y=y
        )
    return m.one(
        "torch.sum({y}, 0, out={x})",
        "torch.cat([{y}, {y}], out={x})",
        "torch.mean({y}, 0, out={x}[0])",
        "torch.matmul({y}, {y}.t(), out={x})",
        "torch.index_select({y}, 0, torch.tensor([0]), out={x})",
        "torch.div({y}, 2, out={x})",
        "torch.pow({y}, 2, out={x})",
        "torch.cumsum({y}, 0, out={x})",
        "torch.gt({y}, 0, out={x})",
        "torch.clamp({y}, 0, 1, out={x})",
        "torch.addcmul({y}, {y}, {y}, out={x})",
        "torch.lerp({y}, {y}, 0.5, out={x})",
        "torch.zeros(3, out={x})",
        "torch.ones_like({y}, out={x})",
        "torch.arange(3, out={x})",
        "torch.sort({y}, out=({x}, torch.zeros(0, dtype=torch.int64)))",
        "torch.maximum({y}, {y}, out={x})",
        "torch.sigmoid({y}, out={x}.t())",
        "torch.add({y}, 1, out=torch.empty(0, dtype={x}.dtype)).mul_({x})",
    ).format(x=x, y=y)
