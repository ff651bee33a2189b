"""What programs in the wild do: masks and index tensors, parts written to one by one, flags changed half-way,
training steps, promotion with numbers, empty tensors, mixed precision."""

from __future__ import annotations

from typing import Any

from .maker import (
    Maker,
    dims,
    inexact,
    overlaps,
    races,
    real,
    rule,
    taints,
    touches,
    tracked,
    writable,
)  # fmt: skip
from .rules import distinct, looked_at


def _free(m: Maker, wanted: Any = lambda t: True) -> str | None:
    """A tensor that may be written to, mostly: a leaf that requires grad only now and then."""
    allowed = m.chance(0.88)
    return m.pick(
        lambda t: (
            wanted(t)
            and writable(t)
            and not t.is_inference()
            and not (allowed and t.is_leaf and t.requires_grad)
        )
    )


def _other(m: Maker, x: str, wanted: Any = lambda u: True) -> str:
    """Another tensor that a write to `x` may read."""
    t = m.env[x]
    return m.pick(lambda u: wanted(u) and not races(t, u)) or m.scalar()


def _alike(m: Maker, x: str) -> str:
    """A tensor of the shape of `x` that a write to it may read."""
    t = m.env[x]
    return m.pick(lambda u: u.shape == t.shape and not races(t, u)) or f"{x}.detach().clone()"


def _same(m: Maker, x: str) -> str:
    t = m.env[x]
    return m.pick(lambda u: u.shape == t.shape and u.dtype == t.dtype) or x


# --- indices --------------------------------------------------------------------------------------

ROW = ("0", "-1", "1:", ":1", "::2", "...", "None", ":", "True", "False", "[0, -1]", "[-1]", "[]",
       "torch.tensor([0, 0])", "torch.tensor(0)", "torch.tensor([[0], [-1]])", "{x} > 0", "{x} != {x}",
       "{x} == {x}", "..., None", "None, ...", "None, 0", "0, ...", "..., 0", "(0,)", "0:0", "slice(None)",
       "torch.tensor([], dtype=torch.int64)", "torch.tensor(True)", "(torch.tensor([0]), None)")  # fmt: skip
TABLE = ("0, 0", ":, 0", ":, [0, -1]", "[0, -1], [0, 0]", "..., 1:", "0, None", "None, :, 0", ":, None, 0",
         "torch.tensor([0, -1]), torch.tensor([1, 0])", "torch.tensor([0, -1]), 0", ":, torch.tensor([0])",
         "torch.tensor([0])[:, None], torch.tensor([0, 1])", "[0], :1", "{x}[:, 0] > 0", "{x}[:, 0] > 0, 0",
         "{x}.sum(1) > 0, :1", ":, {x}[0] > 0", "0, {x}[0] > 0", "..., {x}[0] > 0", "None, {x} > 0",
         "[0, 0], None, [0, -1]", ":, ..., -1", "1:, torch.tensor([0, 0])", "-1, -1:",
         "torch.tensor(0), [0, 1]")  # fmt: skip


def _index(m: Maker, x: str) -> str:
    options = ROW + TABLE * (m.env[x].dim() > 1)
    return m.one(*options).format(x=x)


@rule("views", 4, rarity=1)
def index_read(m: Maker) -> str | None:
    x = m.pick(dims(1, 2, 3))
    if x is None or m.env[x].is_complex():
        return None
    return f"{m.new()} = {x}[{_index(m, x)}]"


@rule("writes", 5, rarity=1)
def index_write(m: Maker) -> str | None:
    x = _free(m, lambda t: t.dim() in (1, 2) and not t.is_complex() and not overlaps(t))
    if x is None:
        return None
    t, index = m.env[x], _index(m, x)
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
    x = _free(m, lambda t: t.dim() > 0 and t.numel() > 0 and inexact(t) and not overlaps(t))
    if x is None:
        return None
    y = _alike(m, x)
    v = _other(m, x, lambda u: u.dim() == 0)
    if y in m.env and (m.env[y].dtype != m.env[x].dtype or touches(m.env[x], m.env[y])):
        y = f"{x}.detach().clone()"
    zeros = f"torch.zeros_like({x}, dtype=torch.int64)"
    last = f"torch.full_like({x}, {m.env[x].shape[0] - 1}, dtype=torch.int64)"
    option = m.one(
        "masked_scatter_({y} > 0, {y}.reshape(-1))", "masked_scatter_({x}.detach() > 0, {y} * 2)",
        "index_put_((torch.tensor([0, 0]),), {y}[:1], accumulate=True)",
        "index_put_(({y} > 0,), {y}[{y} > 0], accumulate=True)",
        "index_put_(({y} > 0,), torch.tensor(2.0, dtype={y}.dtype))",
        "index_add_(0, torch.tensor([0, 0]), {y}[:1].repeat(2, *[1] * ({y}.dim() - 1)))",
        "index_copy_(0, torch.tensor([0]), {y}[-1:])", "index_fill_(0, torch.tensor([-1]), 2.0)",
        "scatter_(0, {z}[:1], {y}[:1])", "scatter_add_(0, {z}, {y})", "scatter_(0, {l}[:1], 1.5)",
        "scatter_reduce_(0, {z}, {y}, 'sum', include_self=False)", "scatter_add_(0, {l}[:1], {y}[:1])",
        "masked_fill_({y} > 0, {v})", "masked_fill_(torch.tensor(True), {v})", "masked_fill_({y}[0] > 0, 1.0)",
        "fill_({y}.sum())", "where({y} > 0, {v})", "where({y} > 0, {y}).mul_(2)", "copy_({y}[:1])",
        "put_(torch.tensor([0, -1]), {y}.reshape(-1)[:1].repeat(2))", "take(torch.tensor([0, -1])).mul_(2)",
        "put_(torch.tensor([0, 0]), {y}.reshape(-1)[:1].repeat(2), accumulate=True)",
    ).format(x=x, y=y, v=v, z=zeros, l=last)  # fmt: skip
    if m.env[x].is_complex() and (">" in option or "reduce" in option):
        return None
    return f"{x}.{option}"


@rule("numbers", 2, rarity=1)
def choices(m: Maker) -> str | None:
    x = m.pick(lambda t: not t.is_complex())
    if x is None:
        return None
    y, z = m.partner(x), m.partner(x)
    if not y.startswith("v"):
        y = f"torch.tensor({y})"
    return f"{m.new()} = " + m.one(
        "torch.where({x} > 0, {y}, {z})", "torch.where({x} > 0, {z}, 0)", "torch.where({x} > {y}, {x}, {y})",
        "torch.where({x} > 0, 1.0, 0.0)", "{x}.where({x} > 0, {z})", "torch.where({x} != {x}, {x}, {y}.detach())",
        "torch.where(torch.tensor(True), {x}, {y})", "torch.where(({x} > 0)[None], {x}, {y})",
        "torch.where({x} > 0)[0]", "torch.nan_to_num({x} / 0)", "torch.where({x} > 0, {x}.log(), {y})",
        "torch.where({x} == 0, {x}, {x}.sqrt())", "{x}.masked_fill({x} > 0, float('-inf')).exp()",
    ).format(x=x, y=y, z=z)  # fmt: skip


# --- several views, written to one by one -----------------------------------------------------------


@rule("writes", 3, rarity=1)
def parts_written(m: Maker) -> str | None:
    x = _free(m, lambda t: t.dim() in (1, 2) and min(t.shape) > 0 and not overlaps(t))
    if x is None:
        return None
    n = m.env[x].shape[0]
    first, *rest = [m.new() for _ in range(n)]
    names = ", ".join([first, *rest]) + ("," if not rest else "")
    kind = m.one("unbind()", "split(1)", f"chunk({n})", f"tensor_split({n})", "unsafe_split(1)", f"unsafe_chunk({n})",
                 f"split_with_sizes([1] * {n})", f"view({n}, -1).unbind()", "detach().unbind()",
                 "unbind(0)")  # fmt: skip
    write = m.one("{0}.mul_(2)", "{0}.add_(1)", "{0}.zero_()", "{0}.copy_({1})", "{0}[...] = 1.5", "{0} += 1",
                  "{0}.data.mul_(2)", "{0}.detach_()", "{2}.mul_(2)", "{2}.mul_(2); {0}.add_(1)",
                  "{0}.requires_grad_()",
                  "{0}.fill_(2.0); {2}.add_(1)", "{0}.unsqueeze(0).mul_(3)", "with_no_grad({0})")  # fmt: skip
    under = m.one("", "", "", "with torch.no_grad(): ")
    return f"{under}{names} = {x}.{kind}; {write.format(first, rest[-1] if rest else first, x)}"


@rule("writes", 2, rarity=1)
def loops(m: Maker) -> str | None:
    x = _free(m, lambda t: t.dim() in (1, 2) and t.numel() > 0 and not overlaps(t) and inexact(t))
    if x is None:
        return None
    y = _alike(m, x)
    n = m.env[x].shape[0]
    body = m.one(f"[t.mul_(2) for t in {x}]", f"[{x}[k].add_(k) for k in range({n})]",
                 f"[t.copy_(u * 2) for t, u in zip({x}, {y})]", f"[t.add_(1) for t in {x}.split(1)]",
                 f"[{x}.__setitem__(k, {y}[k] + 1) for k in range({n})]",
                 f"[{x}[1:].add_({x}[:-1].clone()) for _ in range(2)]",
                 f"[{x}.unfold(0, 1, 1).mul_(2) for _ in range(2)]",
                 f"[t.clamp_(min=0) for t in {x}.flip(0)]", f"[t.neg_() for t in {x}[::2]]")  # fmt: skip
    return f"v_ = {body}"


@rule("views", 2, rarity=1)
def windows(m: Maker) -> str | None:
    x = m.pick(lambda t: t.dim() in (1, 2) and min(t.shape) > 1)
    if x is None:
        return None
    end = m.one(
        "",
        ".sum()",
        ".clone()",
        ".contiguous().mul_(2)",
        "[0]",
        ".mean(-1)",
        "[-1].mul_(2)",
        ".select(-1, 0)",
    )
    t, dim = m.env[x], m.one(0, -1)
    if "mul_" in end and (not writable(t) or (t.is_leaf and t.requires_grad)):
        return None
    if end == "[-1].mul_(2)" and not writable(t.unfold(dim, 2, 1)[-1]):
        return None
    return f"{m.new()} = {x}.unfold({dim}, 2, 1){end}"


# --- flags and memory half-way ----------------------------------------------------------------------


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


@rule("hooks", 1, rarity=1)
def kept_gradients(m: Maker) -> str | None:
    """A view keeps its gradient while its base is written to."""
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None and t.numel() > 0)
    if x is None or overlaps(m.env[x]):
        return None
    n = m.new()
    return m.one(
        "{n} = {x}.view(-1); {n}.retain_grad(); {x}.mul_(2); {x}.sum().backward(retain_graph=True)",
        "{n} = {x}.reshape(-1)[:1]; {n}.retain_grad(); {n}.mul_(2); {n}.sum().backward(retain_graph=True)",
        "{x}.retain_grad(); {n} = {x}.view(-1); {n}.mul_(2); {n}.sum().backward(retain_graph=True)",
        "{x}.retain_grad(); {x}.mul_(2); {n} = {x}.sum(); {n}.backward(retain_graph=True)",
        "{n} = {x} * 2; {n}.retain_grad(); ({n} * {x}).sum().backward(retain_graph=True)",
        "{n} = {x}.clone(); {n}.retain_grad(); {n}.view(-1)[:1].mul_(3); {n}.sum().backward(retain_graph=True)",
    ).format(x=x, n=n)  # fmt: skip


# --- passes ---------------------------------------------------------------------------------------


@rule("passes", 3, rarity=1)
def passes(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None)
    y = m.pick(lambda t: tracked(t) and real(t) and t.is_leaf) or m.pick(
        lambda t: tracked(t) and real(t)
    )
    if x is None or y is None:
        return None
    z = m.pick(tracked)
    return m.one(
        "{x}.sum().backward(inputs=[{y}])", "{x}.sum().backward(inputs={y}, retain_graph=True)",
        "({x} * {x}).sum().backward(inputs=[{y}, {z}], create_graph=True)",
        "({x} * {x}).sum().backward(create_graph=True); {y}.grad.pow(2).sum().backward()",
        "{n}, = grads(({x} ** 3).sum(), [{y}], create_graph=True); ({n} * {n}).sum().backward()",
        "{n}, = grads(({x} ** 2).sum(), [{y}], create_graph=True); {n}.norm().backward(inputs=[{y}])",
        "{x}.sum().backward(retain_graph=True); {x}.sum().backward()",
        "{x}.sum().backward(retain_graph=True); {y}.grad.zero_(); ({x} * 2).sum().backward()",
        "torch.autograd.backward([{x}.sum(), {x}.mean()], inputs=[{y}])",
        "with torch.no_grad(): {x}.sum().backward(retain_graph=True)",
        "{x}.backward(torch.ones_like({x}), retain_graph=True)", "{x}.backward({x}.detach())",
        "{n}, = grads({x}.sum(), [{y}], retain_graph=True, allow_unused=True)",
        "{n}, = grads({x}, [{y}], torch.ones_like({x}).expand_as({x}), retain_graph=True)",
        "{n}, = torch.autograd.grad({x}.sum(), [{y}], retain_graph=True); {n} = {n}.clone()",
        "{n}, = grads([{x}], [{y}], [torch.ones(2, *{x}.shape, dtype={x}.dtype)], is_grads_batched=True)",
        "with torch.autograd.set_grad_enabled(False): {x}.mean().backward()",
        "with torch.autograd.set_multithreading_enabled(False): {x}.mean().backward(retain_graph=True)",
        "(lambda u: u.backward())({x}.sum()); {y}.grad = None",
        "{x}.sum().add({x}.mean()).backward(retain_graph=True); {y}.grad.mul_(0.5)",
    ).format(x=x, y=y, z=z, n=m.new())  # fmt: skip


@rule("hooks", 1.5, rarity=1)
def replaced_gradients(m: Maker) -> str | None:
    x = m.pick(tracked)
    y = m.pick(tracked)
    if x is None or y is None:
        return None
    look = looked_at(m, x) + looked_at(m, y)
    label = f"'{x}-{m.count}'"
    option = m.one(
        "{x}.register_hook(lambda g: g * 2)", "{x}.register_hook(lambda g: torch.zeros_like(g))",
        "{x}.register_hook(lambda g: g.clamp(-0.5, 0.5))", "{x}.register_hook(lambda g: g.mul_(2))",
        "{x}.register_hook(lambda g: g.t() if g.dim() == 2 and g.shape[0] == g.shape[1] else g.clone())",
        "{x}.register_hook(lambda g: g + {x}.detach())", "{x}.register_hook(lambda g: g.expand_as(g).contiguous())",
        "h_ = [{x}.register_hook(lambda g, k=k: g * k) for k in (2, 3)]; h_[0].remove()",
        "{x}.register_hook(lambda g: log.append(({l}, g.requires_grad, g._version)))",
        "h_ = torch.autograd.graph.register_multi_grad_hook(({x}, {y}), all_hook({l}))",
        "h_ = torch.autograd.graph.register_multi_grad_hook(({x}, {y}), any_hook({l}), mode='any')",
        "h_ = torch.autograd.graph.register_multi_grad_hook(({x} * 1, {y}), all_hook({l})); h_.remove()",
        "{x}.register_hook(lambda g: {y}.detach().sum().to(g.dtype) * g)",
        "{x}.register_post_accumulate_grad_hook(lambda t: t.grad.mul_(0.5) and None if t.grad.numel() < 2 else None)",
        "{x}.register_post_accumulate_grad_hook(lambda t: t.data.sub_(t.grad))",
    )  # fmt: skip
    return look + option.format(x=x, y=y, l=label)


@rule("passes", 1.2, "utils.checkpoint.checkpoint", rarity=1)
def recomputed(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and not t.is_inference())
    if x is None:
        return None
    y = m.pick(lambda t: real(t) and t.shape == m.env[x].shape and not t.is_inference()) or x
    body = m.one("(t.sin() * u).exp()", "t.clone().mul_(u).tanh()", "Cube.apply(t) * u", "(t * u, t + u)[0]",
                 "t.clone().index_fill_(0, torch.tensor([0]), 2.0) * u if t.numel() and t.dim() else t * u",
                 "torch.utils.checkpoint.checkpoint(lambda s: s.exp(), t, use_reentrant=False) * u",
                 "(t * u).sum()", "torch.where(t > 0, t, u).exp()",
                 "t[..., :1].exp() if t.dim() else t.exp()")  # fmt: skip
    option = m.one("use_reentrant=False", "use_reentrant=False", "use_reentrant=True",
                   "use_reentrant=False, preserve_rng_state=False",
                   "use_reentrant=False, determinism_check='none'")  # fmt: skip
    n = m.new()
    line = f"{n} = torch.utils.checkpoint.checkpoint(lambda t, u: {body}, {x}, {y}, {option})"
    return line + m.one(
        "", "", f"; {n}.sum().backward()", f"; {n}.sum().backward(retain_graph=True)"
    )


# --- custom Functions -------------------------------------------------------------------------------


@rule("passes", 3, "autograd.Function", rarity=1)
def wild_function(m: Maker) -> str | None:
    x = m.pick(
        lambda t: real(t) and t.dim() > 0 and t.numel() > 0 and writable(t) and not t.is_inference()
    )
    if x is None:
        return None
    t = m.env[x]
    y = m.pick(
        lambda u: real(u) and u.shape == t.shape and not races(t, u) and not u.is_inference()
    ) or x  # fmt: skip
    kind = m.one("TwoViews", "DirtyPart", "PlainAndTensor", "Between", "Detached", "OnlySecond", "Grown",
                 "Chained", "SelfAndCopy", "InputBack", "Summed", "Casting")  # fmt: skip
    match kind:
        case "TwoViews" | "SelfAndCopy" | "Detached":
            line = f"{m.news(2)} = {kind}.apply({x})"
        case "PlainAndTensor":
            line = f"{m.news(2)} = PlainAndTensor.apply({x}, 2)"
        case "Between" | "OnlySecond" | "Chained" | "InputBack":
            line = f"{m.new()} = {kind}.apply({x}, {y})"
        case "DirtyPart":
            line = f"{m.new()} = DirtyPart.apply({x}[:1])"
        case _:
            line = f"{m.new()} = {kind}.apply({x})"
    made = f"v{m.count - 1}"
    if kind == "PlainAndTensor":
        return line
    return line + m.one(
        "", "", "", f"; {made}.mul_(2)", f"; {made} = {made}.view(-1)", f"; {made}.sum().backward()"
    )


# --- dtypes, numbers, promotion ---------------------------------------------------------------------

KINDS = (
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "uint8",
    "bool",
    "complex64",
    "float32",
    "float64",
)


@rule("dtypes", 2, rarity=1)
def other_dtypes(m: Maker) -> str | None:
    if len(m.live()) > 8:
        return None
    kind, n = m.one(*KINDS), m.new()
    flag = ".requires_grad_()" if ("float" in kind or "complex" in kind) and m.chance(0.4) else ""
    shape = m.one("(3,)", "()", "(2, 3)", "(0,)", "(1,)", "(2, 0)")
    x = m.pick(lambda t: not t.is_complex() and t.numel() < 10)
    return m.one(
        f"{n} = torch.ones({shape}, dtype=torch.{kind}){flag}",
        f"{n} = torch.full({shape}, 2, dtype=torch.{kind}){flag}",
        f"{n} = torch.tensor(2, dtype=torch.{kind}){flag}",
        f"{n} = torch.arange(3).to(torch.{kind}){flag}",
        f"{n} = ({x} > 0).to(torch.{kind}){flag}" if x else f"{n} = torch.zeros({shape}, dtype=torch.{kind}){flag}",
    )  # fmt: skip


@rule("dtypes", 4, rarity=1)
def promoted(m: Maker) -> str | None:
    x = m.pick(lambda t: not t.is_inference())
    if x is None:
        return None
    number = m.one("1", "2", "1.5", "True", "1j", "-1", "0.5", "torch.tensor(2)", "torch.tensor(1.5)",
                   "torch.tensor(True)", "torch.tensor(2.0, dtype=torch.float64)", "torch.tensor([2])",
                   "torch.tensor(1.5, dtype=torch.float16)", "torch.tensor(1, dtype=torch.uint8)",
                   "torch.tensor([1.5], dtype=torch.bfloat16)", "torch.tensor(1 + 1j)")  # fmt: skip
    y = m.partner(x) if m.chance(0.5) else number
    text = m.one("{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / {y}", "{y} + {x}", "{y} - {x}", "{y} * {x}",
                 "{y} / {x}",
                 "{x} == {y}", "{x} != {y}", "{x} < {y}", "{x} >= {y}", "{x} ** 2", "2 ** {x}", "{x} ** 0.5",
                 "torch.maximum({x}, torch.as_tensor({y}))", "torch.add({x}, {y}, alpha=2)", "{x}.mul({y}).sum()",
                 "-{x}", "abs({x})", "{x} & True", "~{x}", "{x} | 1", "{x} % 2", "{x} // 2", "torch.sub({x}, {y})",
                 "{x}.sum() + {y}", "{x}.mean() * {y}", "torch.stack([{x}, {x} * {y}])",
                 "torch.cat([{x}[None], ({x} + {y})[None]])",
                 "torch.where({x} == {x}, {x}, {y})", "{x}.to(torch.result_type({x}, {y}))", "{x}.clamp(max=2)",
                 "{x}.float() + {y}", "{x}.half() + {y}", "{x}.bfloat16() * {y}",
                 "{x}.double().addcmul({x}, {x})")  # fmt: skip
    if ("/ {x}" in text or "%" in text or "//" in text or "/ {y}" in text) and not inexact(
        m.env[x]
    ):
        return None
    return f"{m.new()} = " + text.format(x=x, y=y)


@rule("dtypes", 2.5, rarity=1)
def promoted_in_place(m: Maker) -> str | None:
    x = _free(m)
    if x is None:
        return None
    y = m.partner(x, into=m.chance(0.9)) if m.chance(0.6) else m.one(
        "1", "1.5", "True", "torch.tensor(2)", "torch.tensor(1.5)", "torch.tensor([2.0])", "1j", "torch.tensor(1j)"
    )  # fmt: skip
    if y in m.env and (taints(m.env[x], m.env[y]) or races(m.env[x], m.env[y])):
        return None
    options = ["{x} += {y}", "{x} -= {y}", "{x} *= {y}", "{x}.add_({y}, alpha=2)", "{x}.copy_(torch.as_tensor({y}))",
               "{x}.fill_({y})", "{x}.mul_({y}).add_({y})", "{x}.pow_(2)", "{x}.sub_({y}, alpha=0.5)",
               "{x}[...] = {y}",
               "{x}.lerp_({x}.detach() * 2, 0.5)", "{x}.eq_({y})", "{x}.clamp_(min=0)",
               "{x}.logical_not_()"]  # fmt: skip
    if inexact(m.env[x]):
        options += [
            "{x} /= {y}",
            "{x} **= 2",
            "{x}.div_({y})",
            "{x}.exp_().mul_({y})",
            "{x}.addcmul_({x}.detach(), {x}.detach())",
        ]
    return m.one(*options).format(x=x, y=y)


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
    y = _same(m, x)
    return f"{m.new()} = " + m.one(
        "{x}[:, None] * {y}[None]", "{x} - {x}.mean(0, keepdim=True)", "{x} / {x}.norm(dim=-1, keepdim=True)",
        "({x} - {y}.max()).exp()", "{x}.unsqueeze(-1) + {y}.unsqueeze(-2)", "{x}.expand(2, *{x}.shape) * {y}",
        "{x}.sum(0, keepdim=True).expand_as({x})", "{x} * {y}.mean()", "torch.broadcast_to({x}, (2, *{x}.shape))",
        "{x}.repeat(2, *[1] * {x}.dim()) * {y}", "({x}[None] - {y}[:, None]).pow(2).sum(-1)", "{x} + {y}[..., :1]",
        "{x}.sub({y}.sum(-1, keepdim=True))", "torch.outer({x}.reshape(-1), {y}.reshape(-1))",
    ).format(x=x, y=y)  # fmt: skip


@rule("writes", 1.5, rarity=1)
def broadcast_writes(m: Maker) -> str | None:
    x = _free(m, lambda t: t.dim() in (1, 2) and t.numel() > 0 and inexact(t))
    if x is None:
        return None
    return m.one(
        "{x} += {x}.sum()", "{x} -= {x}.detach().mean(0, keepdim=True)", "{x}.mul_({x}.detach()[:1])",
        "{x} /= {x}.detach().abs().sum() + 1", "{x}.add_({x}.detach().clone()[..., :1])",
        "{x}[...] = {x}[:1].detach()",
        "{x}.copy_({x}.detach()[..., :1].clone())", "{x}[:1].add_({x}[-1:].clone())", "{x}.t().add_(1)",
        "{x}.sub_({x}.clone().sum(-1, keepdim=True))", "{x}.add_({x}.clone().unsqueeze(0))",
        "{x}.mul_({x}.clone()[None])",
    ).format(x=x)  # fmt: skip


# --- mixed precision, training, forward mode ----------------------------------------------------------


@rule("modes", 1.5, "autocast", rarity=1)
def autocast(m: Maker) -> str | None:
    x = m.pick(lambda t: t.dtype == m.torch.float32 and t.dim() in (1, 2) and t.numel() > 0)
    if x is None:
        y = m.pick(lambda t: real(t) and t.dim() in (1, 2) and t.numel() > 0)
        return y and f"{m.new()} = {y}.float()"
    n = m.new()
    kind = m.one("bfloat16", "bfloat16", "float16")
    body = m.one("{x} @ {x}.t()", "{x}.exp()", "{x} * {x}", "({x} @ {x}.t()).sum()", "({x} @ {x}.t()).float().exp()",
                 "torch.nn.functional.linear({x}, {x})", "{x}.softmax(-1)", "{x} @ {x}.t() + {x}.sum()",
                 "torch.nn.functional.mse_loss({x} @ {x}.t(), ({x} @ {x}.t()).detach() * 2)",
                 "torch.cat([{x}, {x}.half()])",
                 "torch.matmul({x}, {x}.t()).relu()", "torch.einsum('...i,...i->...', {x}, {x})", "{x}.sum()",
                 "{x}.norm()",
                 "torch.stack([{x}, {x}.bfloat16()])", "torch.addmm({x} @ {x}.t(), {x}, {x}.t())")  # fmt: skip
    return f"with torch.autocast('cpu', dtype=torch.{kind}): {n} = {body.format(x=x)}"


@rule("numbers", 1.5, "nn.Linear", rarity=1)
def training(m: Maker) -> str | None:
    """A step on a parameter, written out by hand."""
    x = m.pick(
        lambda t: t.is_leaf and t.requires_grad and real(t) and t.numel() > 0 and not overlaps(t)
    )
    if x is None:
        return None
    y = _same(m, x)
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
    ).format(x=x, y=y, n=n)  # fmt: skip


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
            real(t) and t.dim() > 0 and t.numel() > 0 and not t.is_inference() and writable(t)
            and t.dtype.itemsize > 2 and distinct(t)
        )
    )  # fmt: skip
    if x is None:
        return None
    body = m.one(*DUALS).format(x=x)
    tangent = _same(m, x) if m.chance(0.5) else m.like(x)
    if (
        tangent == x
    ):  # a write to the primal would record the nodes of a tangent, which are not promised
        tangent = m.like(x)
    return f"{m.news(2)} = forward(lambda d: {body}, {x}, {tangent})"
