"""Lines about dtypes, promotion and conversions."""

from __future__ import annotations

from .. import tables
from ..maker import Maker, inexact, races, rule, taints
from .shared import calm, filled, free, plain, spelled


@rule("dtypes", 0.4)
def convert(m: Maker) -> str | None:
    x = m.pick(lambda t: not t.is_complex())
    how = m.one("to(torch.float64)", "to(torch.float32)", "double()", "float()", "long()", "bool()")
    return (x and m.has("Tensor." + how.partition("(")[0]) and f"{m.new()} = {x}.{how}") or None


KINDS = ("float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64", "float32", "float64")


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
    )


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
    if ("/ {x}" in text or "%" in text or "//" in text or "/ {y}" in text) and not inexact(m.env[x]):
        return None
    return f"{m.new()} = " + text.format(x=x, y=y)


@rule("dtypes", 2.5, rarity=1)
def promoted_in_place(m: Maker) -> str | None:
    x = free(m)
    if x is None:
        return None
    y = (
        m.partner(x, into=m.chance(0.9))
        if m.chance(0.6)
        else m.one(
            "1", "1.5", "True", "torch.tensor(2)", "torch.tensor(1.5)", "torch.tensor([2.0])", "1j", "torch.tensor(1j)"
        )
    )
    if y in m.env and (taints(m.env[x], m.env[y]) or races(m.env[x], m.env[y])):
        return None
    options = [
        "{x} += {y}",
        "{x} -= {y}",
        "{x} *= {y}",
        "{x}.add_({y}, alpha=2)",
        "{x}.copy_(torch.as_tensor({y}))",
        "{x}.fill_({y})",
        "{x}.mul_({y}).add_({y})",
        "{x}.pow_(2)",
        "{x}.sub_({y}, alpha=0.5)",
        "{x}[...] = {y}",
        "{x}.lerp_({x}.detach() * 2, 0.5)",
        "{x}.eq_({y})",
        "{x}.clamp_(min=0)",
        "{x}.logical_not_()",
    ]
    if inexact(m.env[x]):
        options += [
            "{x} /= {y}",
            "{x} **= 2",
            "{x}.div_({y})",
            "{x}.exp_().mul_({y})",
            "{x}.addcmul_({x}.detach(), {x}.detach())",
        ]
    return m.one(*options).format(x=x, y=y)


@rule("dtypes", 1)
def dtype_mix(m: Maker) -> str | None:
    x = m.pick(lambda t: not t.is_complex())
    if x is None:
        return None
    text = m.one(
        "{0}.to(torch.complex128)",
        "{0}.to(torch.int32)",
        "{0} + torch.tensor(1, dtype=torch.int64)",
        "{0} * torch.tensor(2.0, dtype=torch.float32)",
        "{0} + 1j",
        "{0}.type(torch.float64)",
        "{0}.half().double()",
        "{0} > 0",
        "{0}.to({0}.dtype, copy=True)",
        "{0}.new_tensor([1, 2, 3])",
        "{0}.bool() & True",
        "torch.complex({0}.double(), {0}.double())",
    )
    return f"{m.new()} = " + text.format(x)


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
    kind, shape = (m.one("int32", "uint8", "float16", "complex64", "bool", "int64"), m.one((3,), (2, 3)))
    what = "2" if kind == "uint8" else "True" if kind == "bool" else "-1"
    text = m.one(
        f"torch.full({shape}, {what}, dtype=torch.{kind})",
        f"torch.tensor([1, 0, 2], dtype=torch.{kind})",
        f"torch.ones({shape}, dtype=torch.{kind})",
        f"torch.arange(1, 4, dtype=torch.{'int64' if kind == 'bool' else kind})",
    )
    return f"{m.new()} = {text}"


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
