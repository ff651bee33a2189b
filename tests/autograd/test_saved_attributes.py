"""The attributes by which nodes show what they saved, tensors and numbers, compared with torch."""

from typing import Any

import pytest

import torchgrad_jax
from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def shown(*results: Any) -> list[Any]:
    """For the node of each result: its name, and all that it says that it saved."""
    out = []
    for result in results:
        node = result.grad_fn
        names = sorted(n for n in dir(node) if n.startswith(("_saved_", "_raw_saved_")))
        values = {n: getattr(node, n) for n in names if n.startswith("_saved_")}
        out.append((node.name(), names, values))
    return out


@program
def reductions(m):
    x = leaf(m, 1, 2, 3, 4).view(2, 2) * 1
    return shown(
        x.sum(),
        x.sum(-1),
        x.sum((0, -1), keepdim=True),
        x.mean(),
        x.mean(0),
        x.prod(-1),
        x.std(-1),
        x.var(),
        x.max(-1)[0],
        x.amax(-1),
        x.logsumexp(0),
        x.norm(),
        x.cumsum(-1),
        x.softmax(-1),
        x.median(0)[0],
    )


@program
def writes_by_masks(m):
    """One value where a mask of all or of the first dimensions is true: the node saves the mask."""
    mask = m.tensor([[True, False], [True, True]])
    out = []
    for at, value in ((mask, 0.0), (mask[0], leaf(m, 5.0)), (mask, leaf(m, 6.0)[0]), ((mask,), 2)):
        x = leaf(m, 1.0, 2.0, 3.0, 4.0)
        y = x.view(2, 2) * 1
        y[at] = value
        out += shown(y)
        (y * y).sum().backward()
        out += [x.grad, getattr(value, "grad", None) if at is not mask else None]
    return out


@program
def views(m):
    x = leaf(m, 1, 2, 3, 4, 5, 6).view(2, 3) * 1
    return shown(
        x.view(-1),
        x.transpose(-1, 0),
        x.t(),
        x.permute(1, 0),
        x.unsqueeze(-1),
        x.squeeze(0),
        x[-1],
        x.select(1, 2),
        x.diagonal(-1),
        x.expand(2, 2, 3),
        x.unfold(-1, 2, 1),
        x.unbind(-1)[0],
        x.as_strided((2, 2), (1, 1), 1),
        x.repeat(1, 2),
        x.roll(-1, -1),
        x.flip(-1),
    )


@program
def joins_and_places(m):
    x = leaf(m, 1, 2, 3, 4).view(2, 2) * 1
    at = m.tensor([[0], [1]])
    return shown(
        m.cat([x, x], -1),
        m.stack([x, x], -1),
        x.gather(-1, at),
        x.index_select(-1, m.tensor([0])),
        x.scatter(-1, at, 1.0),
        x.tril(-1),
        x.masked_fill(x > 2, 0.0),
        x[[0]],
        m.where(x > 1, x, x),
        x.index_add(0, m.tensor([0]), m.ones(1, 2)),
        x.topk(1, -1)[0],
        x.sort(-1)[0],
    )


@program
def factors(m):
    x, y = leaf(m, 1, 2), leaf(m, 3, 4)
    return shown(
        x.add(y, alpha=3), x + 1, x * 2, x * y, x * y.detach(), x / 2, 2 / x, x**2, x**y, x.clamp(1.5), x.clamp(0, 1),
        x.clamp(max=1), x.lerp(y, 0.5), x.addcmul(x, y, value=2), x.addcdiv(x, y), x.addcmul(x, y.detach()),
    )  # fmt: skip


@program
def products(m):
    x = leaf(m, 1, 2, 3, 4).view(2, 2) * 1
    w = m.tensor([[1.0, 2.0], [3.0, 4.0]])
    return shown(x @ w, x @ x, m.addmm(x, x, w), m.addmm(w, x, w, beta=2, alpha=3), m.mv(x, w[0]))


@program
def layers(m):
    f = m.nn.functional
    x = leaf(m, 1, 2, 3, 4).view(1, 1, 2, 2) * 1
    w = m.ones(1, 1, 2, 2, requires_grad=True)
    rows = x.view(2, 2)
    results = (
        f.conv2d(x, w),
        f.conv2d(x, w, m.ones(1)),
        f.avg_pool2d(x, 2),
        f.interpolate(x, scale_factor=2),
        f.gelu(x),
        f.leaky_relu(x),
        f.nll_loss(rows, m.tensor([0, 1])),
        f.mse_loss(rows, m.ones(2, 2)),
        f.glu(rows),
        f.pad(x, (-1, 1)),
        f.embedding(m.tensor([0]), rows),
        f.pad(x, (1, 1, 1, 1), mode="reflect"),
        f.huber_loss(rows, m.ones(2, 2)),
    )
    return [(name, {n: v for n, v in values.items() if not hasattr(v, "shape")}) for name, _, values in shown(*results)]


@program
def values_that_are_not_there(m):
    x, y = leaf(m, 1, 2), m.tensor([3.0, 4.0])
    node = (x * y).grad_fn
    raw = node._raw_saved_self
    answers = [
        node._saved_self,
        attempt(raw.register_hooks, lambda t: t, lambda t: t),
        attempt(getattr, node, "_saved_nothing"),
        attempt(getattr, x.sum(0).grad_fn, "_raw_saved_dim"),
        attempt(getattr, x.sum(0).grad_fn, "_saved_self"),
    ]
    product = x * y
    product.sum().backward()
    freed = product.grad_fn
    return [*answers, attempt(getattr, freed, "_saved_self"), attempt(getattr, freed, "_saved_other")]


@program
def parts_that_were_written_show_nothing(m):
    y = leaf(m, 1, 2) * 1
    y[0].mul_(y[1])
    return [n for n in dir(y.grad_fn) if "_saved_" in n]


@program
def values_written_by_a_mask(m):
    mask, value = m.tensor([[True, False], [False, True]]), leaf(m, 5)
    x = leaf(m, 1, 2, 3, 4).view(2, 2) * 1
    x[mask] = 0
    by_row = leaf(m, 1, 2, 3, 4).view(2, 2) * 1
    by_row[:, mask[0]] = value
    first = leaf(m, 1, 2, 3, 4).view(2, 2) * 1
    first.index_put_((mask[1],), first[:1, :1])
    out = shown(x, by_row, first, leaf(m, 1, 2).index_put((mask[0],), value.view(())))
    by_row.sum().backward()
    return out, x, by_row, first, value.grad


@pytest.mark.parametrize("name", ["start", "step", "dim", "self_sym_sizes"])
def test_slices_show_where_they_begin(name):
    """The place that a slice was resolved to; torch keeps what was written, and the end of it too."""
    x = torchgrad_jax.ones(5, requires_grad=True)
    node = x[-3:-1:2].grad_fn
    expected = {"start": 2, "step": 2, "dim": 0, "self_sym_sizes": (5,)}
    assert getattr(node, f"_saved_{name}") == expected[name]
