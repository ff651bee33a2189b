"""What lines about several subjects share: which tensors suit them, and tables of steps."""

from __future__ import annotations

from typing import Any

from ..maker import Maker, real, rule, writable


def distinct(t: Any) -> bool:
    """Whether no two elements are equal and none is NaN: which of two equal ones is picked, torch leaves open."""
    values = t.detach().flatten().tolist()
    return len(set(values)) == len(values) and all(v == v for v in values)


def looked_at(m: Maker, x: str) -> str:
    """What goes before a hook on a view: torch crashes where its base was written to and nobody looked since."""
    return f"{x}.grad_fn; " if m.env[x]._is_view() else ""


def free(m: Maker, wanted: Any = lambda t: True) -> str | None:
    """A tensor that may be written to, mostly: a leaf that requires grad only now and then."""
    allowed = m.chance(0.88)
    return m.pick(
        lambda t: wanted(t) and writable(t) and not t.is_inference() and not (allowed and t.is_leaf and t.requires_grad)
    )


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


def some_index(m: Maker, x: str) -> str:
    options = ROW + TABLE * (m.env[x].dim() > 1)
    return m.one(*options).format(x=x)


INDEX = "torch.tensor([{0}])"


PICKS = (
    "distinct", "sort", "topk", "kthvalue", "median", "mode", "cummax", "cummin", "max(", "min(", "amin", "amax",
    "argm", "quantile", "maximum", "minimum", "fmax", "fmin", "max_pool", "clamp", "inf')", "unique"
)  # fmt: skip
"""Operators that choose among elements: which of two equal ones gets the gradient, torch leaves open."""


def same(m: Maker, x: str) -> str:
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
        return real(t) and t.dtype.itemsize >= 4 and plain(t) and calm(t) and (not chooses(text) or distinct(t))

    return m.pick(suits)


def table_rule(subject: str, name: str, weight: float, entries: tuple[str, ...], space: str = "torch.") -> None:
    """A rule whose lines are the entries of a table over float tensors."""

    def line(m: Maker) -> str | None:
        text = m.one(*entries)
        x = tame(m, text)
        return x and f"{m.new()} = {filled(m, spelled(text, space), x)}"

    line.__name__ = name
    rule(subject, weight, rarity=2)(line)


def ordinary(t: Any) -> bool:
    """Whether transforms and layers of modes may take a tensor: real, with elements, an ordinary one."""
    return bool(real(t) and t.dim() > 0 and t.numel() > 0 and not t.is_inference())


def partner(m: Maker, x: str) -> str:
    """As `same`, but never an inference tensor unless `x` is one."""
    t = m.env[x]
    return m.pick(lambda u: u.shape == t.shape and u.dtype == t.dtype and not u.is_inference()) or x
