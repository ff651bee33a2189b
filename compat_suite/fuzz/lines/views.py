"""Lines that look at the memory of another tensor: indices, shapes, views of views."""

from __future__ import annotations

from .. import tables
from ..maker import Maker, dims, inexact, overlaps, races, rule, writable
from .shared import some_index, table_rule


@rule("views", 1)
def clone(m: Maker) -> str | None:
    x = m.pick()
    how = m.one("clone()", "clone()", "contiguous()", "detach()", "detach()", "detach().clone()", "data", "alias()")
    if how == "alias()":
        how = "view_as(" + str(x) + ")"
    if how == "data" and x and not inexact(m.env[x]):  # a write to it would change saved indices
        how = "detach()"
    return x and f"{m.new()} = {x}.{how}"


@rule("views", 4)
def index_view(m: Maker) -> str | None:
    x = m.pick(dims(1, 2, 3))
    if x is None:
        return None
    n = m.env[x].dim()
    options = ["0", "-1", "1:", ":-1", "::2", "...", "None", "0:1", "5"]
    if n >= 2:
        options += [":, 0", "0, 1:", "..., 1", ":, 1:", "None, 0", ":, None", "0, 0", ":, ::2", ":, [0]"]
    return f"{m.new()} = {x}[{m.one(*options)}]"


@rule("views", 5)
def shape_view(m: Maker) -> str | None:
    x = m.pick()
    if x is None:
        return None
    t = m.env[x]
    n, count = t.dim(), t.numel()
    options = ["view(-1)", "unsqueeze(0)", "unsqueeze(-1)", "squeeze()", "flatten()", "reshape(-1)", "ravel()"]
    if n:
        options += [
            "squeeze(0)",
            "narrow(0, 0, 1)",
            "select(0, 0)",
            "movedim(0, -1)",
            f"expand(2, *{list(t.shape)})",
            "unfold(0, 1, 1)",
            "swapaxes(0, -1)",
        ]
    if n == 2:
        options += [
            "t()",
            "transpose(0, 1)",
            "permute(1, 0)",
            "T",
            "mT",
            "diagonal()",
            "narrow(1, 0, 2)",
            "select(1, -1)",
            "unfold(1, 2, 1)",
            "diagonal(1)",
            "H",
            "mH",
            "adjoint()",
        ]
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
    options = ("(3,), (1,)", "(2, 2), (1, 1)", "(2,), (1,), 1", "(1, 3), (3, 1)", "(2, 3), (0, 1)", "(2, 2), (2, 1)")
    return x and f"{m.new()} = {x}.as_strided({m.one(*options)})"


@rule("views", 0.6)
def complex_view(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_complex())
    if x is None:
        return None
    how = m.one(
        "{0}.real",
        "{0}.imag",
        "torch.view_as_real({0})",
        "{0}.conj()",
        "{0}.abs()",
        "{0}.resolve_conj()",
        "{0}.conj_physical()",
        "{0}.angle()",
    )
    return f"{m.new()} = " + how.format(x)


@rule("views", 2)
def indexing(m: Maker) -> str | None:
    x = m.pick(dims(1, 2))
    if x is None:
        return None
    n = m.env[x].dim()
    index = "torch.tensor([1, 0, 0])"
    options = [
        f"{x}[{index}]",
        f"{x}[{x} > 0]",
        f"torch.index_select({x}, 0, {index})",
        f"{x}[[0, -1]]",
        f"torch.masked_fill({x}, {x} > 0, 0.5)",
        f"torch.take({x}, {index})",
        f"{x}.repeat(2, 1)",
        f"torch.cat([{x}, {x}])",
        f"torch.stack([{x}, {x}], -1)",
        f"{x}.masked_select({x} > 0)",
    ]
    if n == 1:
        options += [
            f"torch.gather({x}, 0, {index})",
            f"torch.diag({x})",
            f"torch.index_add({x}, 0, {index}, {x})",
            f"torch.scatter({x}, 0, torch.tensor([2, 0]), 1.5)",
        ]
    else:
        options += [
            f"{x}[:, {index}]",
            f"{x}[{index}, 0]",
            f"torch.gather({x}, 1, torch.tensor([[0, 1], [1, 1]]))",
            f"{x}[torch.tensor([0, 1]), torch.tensor([1, 0])]",
            f"{x}[None, {index}]",
        ]
    text = m.one(*options)
    name = text.partition("torch.")[2].partition("(")[0]
    name = name if name and not text.startswith("v") else "Tensor." + text.partition(".")[2].partition("(")[0]
    if text.startswith("v") and text.partition("[")[0] == x:
        name = "tensor"
    return f"{m.new()} = {text}" if m.has(name) else None


@rule("views", 4, rarity=1)
def index_read(m: Maker) -> str | None:
    x = m.pick(dims(1, 2, 3))
    if x is None or m.env[x].is_complex():
        return None
    return f"{m.new()} = {x}[{some_index(m, x)}]"


@rule("views", 2, rarity=1)
def windows(m: Maker) -> str | None:
    x = m.pick(lambda t: t.dim() in (1, 2) and min(t.shape) > 1)
    if x is None:
        return None
    end = m.one("", ".sum()", ".clone()", ".contiguous().mul_(2)", "[0]", ".mean(-1)", "[-1].mul_(2)", ".select(-1, 0)")
    t, dim = m.env[x], m.one(0, -1)
    if "mul_" in end and (not writable(t) or (t.is_leaf and t.requires_grad)):
        return None
    if end == "[-1].mul_(2)" and not writable(t.unfold(dim, 2, 1)[-1]):
        return None
    return f"{m.new()} = {x}.unfold({dim}, 2, 1){end}"


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
        options += ["diagonal(-1)", "mT[0]", "t()[0]", "unfold(1, 2, 1)", "[:, None, 0]", "view(1, *{0}.shape)"]
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
    return x and f"{m.new()} = {x}." + m.one("real[0]", "imag[0]", "mH", "conj()[0]", "real.t()", "conj().imag")


table_rule("views", "all_places", 3, tables.PLACES)


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


STEPS_OF_VIEWS = (
    "view(-1)", "unsqueeze(0)", "unsqueeze(-1)", "transpose(0, -1)", "[::2]", "[-1:]", "squeeze()", "flatten()",
    "narrow(-1, 0, 1)", "unfold(-1, 1, 1)", "movedim(0, -1)", "as_strided((1,), (1,))", "select(-1, 0)", "[None]",
    "chunk(2)[0]", "mT", "diagonal()", "alias()", "unbind()[-1]", "split(1)[0]", "detach()", "[...]", "[:, None]",
    "expand(2, *{x}.shape)[0]", "reshape(-1)", "swapdims(0, -1)", "data", "tensor_split(2)[0]", "squeeze(0)",
    "view_as({x})", "unflatten(0, (-1, 1))", "T", "permute(*range({x}.dim() - 1, -1, -1))"
)  # fmt: skip


WRITES_THROUGH_VIEWS = (
    ".mul_(2)", ".add_(1)", ".zero_()", "[0] = 1.5", ".exp_()", ".neg_()", ".sub_({x}.detach().sum())",
    ".unsqueeze_(0)", ".squeeze_()", ".detach_()", ".requires_grad_()", ".t_()", ".copy_({y}[-1])", ".mul_({v})",
    ".clamp_(-1, 1)", ".fill_({v})", "[...] = {v}", " += 1", ".transpose_(0, -1)", ".retain_grad()",
    ".masked_fill_({k} > 0, {v})", ".lerp_({k}.detach() + 1, 0.5)", ".cumsum_(-1)", ".sin_()",
    ".register_hook(lambda g: g * 2)", ".as_strided_((1,), (1,))", ".swapdims_(0, -1)"
)  # fmt: skip


def _step(m: Maker, x: str) -> str:
    step = m.one(*STEPS_OF_VIEWS).format(x=x)
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
    write = m.one(*WRITES_THROUGH_VIEWS).format(x=x, y=y, v=v, k=k)
    if "copy_" in write and y == x:
        write = ".mul_(3)"
    if ">" in write and m.env[x].is_complex():
        return None
    modes = ("", "", "", "with torch.no_grad(): ", "with torch.inference_mode(): ", "with torch.enable_grad(): ")
    look = f"{k}.grad_fn; " if "hook" in write else ""
    lines = [f"{n} = {_step(m, x)}", f"{k} = {_step(m, n)}", f"{look}{k}{write}"]
    end = m.one("", "", f"{n}.mul_(2)", f"{x}.mul_(2)", f"{n}.detach_()", f"({x} * {n}.sum()).abs().sum().backward()")
    if end and (writable(m.env[x]) or "backward" in end):
        lines.append(end)
    return m.one(*modes) + "; ".join(lines)


@rule("views", 2, rarity=3)
def copies(m: Maker) -> str | None:
    x, y = m.pick(), m.pick()
    if x is None or y is None or m.env[x].is_inference() or m.env[y].is_inference():
        return None
    pair, n = m.news(2), m.new()
    if m.env[x].grad_fn is not None and m.chance(0.5):
        x = f"{x}.detach()"
    return m.one(
        f"{n} = __import__('copy').deepcopy({x})",
        f"{n} = pickled({x})",
        f"{n} = saved({x})",
        f"{n} = __import__('copy').copy({x})",
        f"{pair} = __import__('copy').deepcopy(({x}, {y}.detach()))",
        f"{pair} = pickled(({x}, {y}))",
        f"{pair} = saved(({x}, {y}))",
        f"{pair} = saved(({x}, {x}))",
        f"{n} = torch.nn.Parameter({x}); {n} = __import__('copy').deepcopy({n})",
        f"{n} = pickled(torch.nn.Parameter({x}.detach().clone()))",
        f"{n} = torch.empty_like({x}); {n}.copy_({x})",
        f"{n} = torch.as_tensor({x}.detach().numpy().copy())",
        f"{n} = torch.from_numpy({x}.detach().clone().numpy()); {n}.mul_(2)",
        f"{n} = {x}.clone(memory_format=torch.preserve_format)",
    )


@rule("views", 1.5, rarity=3)
def trades(m: Maker) -> str | None:
    x = m.pick(lambda t: not t.is_inference())
    y = m.pick(lambda t: not t.is_inference())
    if x is None or y is None:
        return None
    n = m.new()
    smaller = y if m.env[y].numel() <= m.env[x].numel() else x  # new memory holds anything
    return m.one(
        f"{x}.data = {y}.data",
        f"{x}.detach().resize_(2)",
        f"{x}.resize_({x}.shape)",
        f"{x}.resize_as_({smaller})",
        f"{n} = {x}.untyped_storage().nbytes()",
        f"{n} = {x}.storage_offset(), {x}.stride()",
        f"{n} = {x}.is_set_to({y})",
        f"{n} = {x}.data_ptr() == {y}.data_ptr()",
        f"{x}.set_({y}.detach().clone())",
        f"{n} = {x}.is_contiguous(), {x}.is_leaf, {x}.dim(), {x}.nbytes, {x}.element_size()",
        f"{n} = torch.equal({x}, {y}), torch.allclose({x}.detach().abs().double(), {x}.detach().abs().double())",
        f"{n} = torch.can_cast({x}.dtype, {y}.dtype), torch.result_type({x}, {y})",
        f"{n} = {x}.new_empty_strided((2, 3), (1, 2)).fill_(1)",
        f"{n} = {x}._is_view(), {x}.is_conj(), {x}.is_neg()",
    )
