"""Every view function under `vmap`: its result lies in the memory of the input where torch's does, laid out as there.

A write to the input is seen in the result, and a write to the result in the input, at top level, nested, and for every
`in_dims` and `out_dims`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.programs import digest

Function = Callable[[Any, Any], Any]

VIEWS: dict[str, Function] = {
    "transpose": lambda m, x: x.transpose(0, 1), "transpose none": lambda m, x: x.transpose(0, 0),
    "permute": lambda m, x: m.permute(x, tuple(reversed(range(x.ndim)))), "swapaxes": lambda m, x: x.swapaxes(0, 1),
    "swapdims": lambda m, x: x.swapdims(0, 1), "movedim": lambda m, x: x.movedim(0, 1),
    "movedim of two": lambda m, x: x.movedim((0, 1), (1, 0)), "T": lambda m, x: x[0].T if x.ndim > 2 else x.T,
    "mT": lambda m, x: x.mT, "H": lambda m, x: x[0].H if x.ndim > 2 else x.H, "mH": lambda m, x: x.mH,
    "adjoint": lambda m, x: x.adjoint(), "t": lambda m, x: x[0].t(), "unsqueeze": lambda m, x: x.unsqueeze(1),
    "unsqueeze last": lambda m, x: x.unsqueeze(-1), "squeeze": lambda m, x: x[:1].squeeze(),
    "squeeze a dim": lambda m, x: x[:1].squeeze(0), "squeeze in vain": lambda m, x: x.squeeze(0),
    "squeeze dims": lambda m, x: x[:1].unsqueeze(-1).squeeze((0, -1)), "expand": lambda m, x: x.expand(2, *x.shape),
    "expand a dim": lambda m, x: x[:1].expand(3, *x.shape[1:]), "expand in vain": lambda m, x: x.expand(x.shape),
    "expand_as": lambda m, x: x[:1].expand_as(x), "broadcast_to": lambda m, x: m.broadcast_to(x, (2, *x.shape)),
    "broadcast_tensors": lambda m, x: m.broadcast_tensors(x, x[:1]), "narrow": lambda m, x: x.narrow(1, 0, 2),
    "select": lambda m, x: x.select(0, 1), "select last": lambda m, x: x.select(-1, 0),
    "diagonal": lambda m, x: x.diagonal(), "diagonal beside": lambda m, x: x.diagonal(1, -1, 0),
    "linalg.diagonal": lambda m, x: m.linalg.diagonal(x), "unfold": lambda m, x: x.unfold(0, 2, 1),
    "unfold last": lambda m, x: x.unfold(-1, 2, 2), "view flat": lambda m, x: x[0].view(-1),
    "view": lambda m, x: x.view(1, *x.shape), "view_as": lambda m, x: x.view_as(x),
    "view as int": lambda m, x: x.view(m.int32), "reshape": lambda m, x: x.reshape(-1),
    "reshape in vain": lambda m, x: x.reshape(x.shape), "reshape_as": lambda m, x: x.reshape_as(x),
    "reshape transposed": lambda m, x: x.transpose(0, 1).reshape(-1), "flatten": lambda m, x: x.flatten(),
    "flatten in vain": lambda m, x: x.flatten(-1), "unflatten": lambda m, x: x.unflatten(-1, (2, -1)),
    "ravel": lambda m, x: x[0].ravel(), "split": lambda m, x: x.split(1),
    "split unequal": lambda m, x: x.split([1, x.shape[0] - 1]),
    "chunk": lambda m, x: x.chunk(2, -1), "unbind": lambda m, x: x.unbind(), "unbind 1": lambda m, x: x.unbind(1),
    "tensor_split": lambda m, x: x.tensor_split(2), "hsplit": lambda m, x: x.hsplit([1]),
    "vsplit": lambda m, x: x.vsplit([1]), "dsplit": lambda m, x: x.unsqueeze(-1).dsplit([1]),
    "rows": lambda m, x: list(x), "as_strided": lambda m, x: x[0].as_strided((2,), (1,)),
    "index": lambda m, x: x[1], "slice": lambda m, x: x[1:], "step": lambda m, x: x[:, ::2],
    "ellipsis": lambda m, x: x[..., 0], "None": lambda m, x: x[None], "element": lambda m, x: x[0][0],
    "atleast_3d": lambda m, x: m.atleast_3d(x),
    "meshgrid": lambda m, x: m.meshgrid(x[0].flatten()[:2], x[1].flatten()[:3], indexing="ij"),
    "chain": lambda m, x: x[1:].transpose(0, 1)[0].unsqueeze(0), "twice": lambda m, x: (x, x[0], x[0]),
    "detach": lambda m, x: x.detach(), "detached part": lambda m, x: x.detach()[0].detach(),
    "real": lambda m, x: x.real, "conj": lambda m, x: x.conj(), "resolve_conj": lambda m, x: x.resolve_conj(),
    "as complex": lambda m, x: m.view_as_complex(x.unfold(-1, 2, 2)),
    "imag": lambda m, x: m.view_as_complex(x.unfold(-1, 2, 2)).imag,
    "real of complex": lambda m, x: m.view_as_complex(x.unfold(-1, 2, 2)).real,
    "as real": lambda m, x: m.view_as_real(m.view_as_complex(x.unfold(-1, 2, 2))),
    "conj of complex": lambda m, x: m.view_as_complex(x.unfold(-1, 2, 2)).conj(),
    "mH of complex": lambda m, x: m.view_as_complex(x.unfold(-1, 2, 2)).mH,
    "einsum": lambda m, x: m.einsum("...ij->...ji", x),
    "einsum diagonal": lambda m, x: m.einsum("...ii->...i", x[..., :2, :2]),
}  # fmt: skip
"""What gives a view in torch, some only of a batch that lies so."""
THEMSELVES: dict[str, Function] = {
    "identity": lambda m, x: x, "to": lambda m, x: x.to(x.dtype), "float": lambda m, x: x.float(),
    "contiguous": lambda m, x: x.contiguous(), "positive": lambda m, x: m.positive(x), "cpu": lambda m, x: x.cpu(),
    "type_as": lambda m, x: x.type_as(x), "requires_grad_": lambda m, x: x.requires_grad_(x.requires_grad),
    "Identity": lambda m, x: m.nn.Identity()(x), "dropout": lambda m, x: m.nn.functional.dropout(x, 0.5, False),
    "relu_": lambda m, x: m.nn.functional.relu(x, inplace=True), "zero_": lambda m, x: x.zero_(),
    "fill_": lambda m, x: x.fill_(3), "copy_": lambda m, x: x.copy_(x * 2), "+=": lambda m, x: x.__iadd__(2),
    "masked_fill_": lambda m, x: x.masked_fill_(x > 0, 5.0), "nan_to_num_": lambda m, x: x.nan_to_num_(),
    "index_fill_": lambda m, x: x.index_fill_(0, m.tensor([0]), 9.0), "part": lambda m, x: x[0].mul_(3),
    "transposed": lambda m, x: x.transpose(0, 1).add_(1), "setitem": lambda m, x: (x.__setitem__(0, 7.0), x, x[0])[1:],
    "two parts": lambda m, x: (x[0].add_(1), x[1].mul_(2), x), "detached": lambda m, x: x.detach().add_(1),
    "transpose_": lambda m, x: x.transpose_(0, 1), "unsqueeze_": lambda m, x: x.unsqueeze_(0),
    "squeeze_": lambda m, x: x.squeeze_(0), "swapaxes_": lambda m, x: x.swapaxes_(0, 1), "t_": lambda m, x: x[0].t_(),
}  # fmt: skip
"""What hands back its input or a part of it, most after a write."""
COPIES: dict[str, Function] = {
    "clone": lambda m, x: x.clone(),
    "product": lambda m, x: x * 1,
    "flip": lambda m, x: x.flip(0),
    "cat": lambda m, x: m.cat((x,)),
    "roll": lambda m, x: x.roll(1, 0),
    "gather": lambda m, x: x[m.tensor([0, 1])],
    "narrow_copy": lambda m, x: x.narrow_copy(0, 0, 1),
    "contiguous": lambda m, x: x.transpose(0, 1).contiguous(),
    "diag_embed": lambda m, x: m.diag_embed(x),
    "abs": lambda m, x: x.abs(),
    "double": lambda m, x: x.double(),
}
FUNCTIONS = {
    f"{kind}: {name}": fn
    for kind, table in (("view", VIEWS), ("itself", THEMSELVES), ("copy", COPIES))
    for name, fn in table.items()
}
PLACES = [(0, 0, None), (1, 0, None), (1, -1, None), (2, 1, None), (0, 0, 0), (1, 0, 2), (2, -1, 0)]
"""`in_dims`, `out_dims`, and that of a `vmap` around it."""


def _batch(m: Any, place: Any, transposed: bool, requires: bool) -> Any:
    shape = (2, 3, 4) if place[2] is None else (2, 3, 4, 4)
    x = m.arange(float(24 * (4 if len(shape) > 3 else 1))).view(shape) - 8
    x = (x.transpose(0, 1) if transposed else x).clone()
    return x.requires_grad_() * 1 if requires else x


def _run(m: Any, fn: Function, place: Any, x: Any) -> list[Any] | str:
    dim, out, around = place
    run = m.func.vmap(lambda x: fn(m, x), dim, out)
    try:
        found = (run if around is None else m.func.vmap(run, around))(x)
    except (RuntimeError, ValueError) as error:
        return type(error).__name__
    return list(found) if isinstance(found, tuple | list) else [found]


def _overlaps(y: Any) -> bool:
    """Whether elements may share memory: what a write does then depends on its order."""
    ranges = sorted((step, n) for step, n in zip(y.stride(), y.shape) if n > 1)
    reach = 0
    for step, n in ranges:
        if step <= reach:
            return True
        reach += step * (n - 1)
    return False


def _shares(m: Any, outs: list[Any], x: Any) -> list[Any]:
    """Which results a write to the input changes, and what a write to the first one changes."""
    with m.no_grad():
        before = [y.detach().resolve_conj().clone() for y in outs]
        x.add_(10)
        moved = [not m.equal(y.detach(), old) for y, old in zip(outs, before)]
        if _overlaps(outs[0]):
            return [moved]
        outs[0].zero_()
        return [moved, digest(m, x)[-1]]


def _observed(m: Any, fn: Function, place: Any, transposed: bool, requires: bool) -> Any:
    x = _batch(m, place, transposed, requires)
    outs = _run(m, fn, place, x)
    if isinstance(outs, str):
        return outs
    memory = x.untyped_storage().data_ptr()
    inside = [y.untyped_storage().data_ptr() == memory for y in outs]
    laid = [
        [list(y.shape), list(y.stride()), y.storage_offset(), y is x, y._base is x, y.requires_grad]
        for y, lies in zip(outs, inside)
        if lies
    ]
    return [inside, laid, *_shares(m, outs, x)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_shares_memory_as_in_torch(name: str, same: Any) -> None:
    def run(m: Any) -> Any:
        kinds = [(place, False, False) for place in PLACES]
        kinds += [(place, True, True) for place in PLACES[::2]]
        return [_observed(m, FUNCTIONS[name], *kind) for kind in kinds]

    same(run, name)


@pytest.mark.parametrize("kind", ["view", "copy"])
def test_the_table_is_of_views_and_of_copies(kind: str) -> None:
    """So that nothing in it is compared that is no view in the first place."""
    import torchgrad_jax as m

    for name, fn in FUNCTIONS.items():
        if name.startswith(kind) and "transposed" not in name:
            inside = _observed(m, fn, PLACES[0], False, False)[0]
            assert all(lies is (kind == "view") for lies in inside), name
