"""Views: metadata, sharing in both directions, and their place in the graph."""

import gc

import pytest

import torchgrad_jax
from tests.differential import everything
from tests.engine.helpers import Programs, attempt, leaf, tree

VIEWS = {
    "row": lambda m, x: x[1],
    "negative_row": lambda m, x: x[-1],
    "column": lambda m, x: x[:, 1],
    "slice": lambda m, x: x[:, 1:3],
    "step": lambda m, x: x[:, ::2],
    "whole": lambda m, x: x[:],
    "none_index": lambda m, x: x[None, :, None],
    "ellipsis": lambda m, x: x[..., 0],
    "empty_slice": lambda m, x: x[2:],
    "scalar_element": lambda m, x: x[1, 2],
    "transpose": lambda m, x: x.transpose(0, 1),
    "t": lambda m, x: x.t(),
    "permute": lambda m, x: x.permute(1, 0),
    "T": lambda m, x: x.T,
    "view_flat": lambda m, x: x.view(-1),
    "view_shape": lambda m, x: x.view(4, 2),
    "reshape": lambda m, x: x.reshape(2, 2, 2),
    "reshape_same": lambda m, x: x.reshape(2, 4),
    "flatten": lambda m, x: x.flatten(),
    "unflatten": lambda m, x: x.unflatten(1, (2, 2)),
    "narrow": lambda m, x: x.narrow(1, 1, 2),
    "select": lambda m, x: x.select(1, 3),
    "unsqueeze": lambda m, x: x.unsqueeze(1),
    "squeeze": lambda m, x: x.unsqueeze(0).squeeze(0),
    "squeeze_nothing": lambda m, x: x.squeeze(),
    "movedim": lambda m, x: x.movedim(0, 1),
    "diagonal": lambda m, x: x.diagonal(),
    "diagonal_offset": lambda m, x: x.diagonal(1),
    "unfold": lambda m, x: x.unfold(1, 2, 2),
    "as_strided": lambda m, x: x.as_strided((2, 2), (4, 2), 1),
    "split": lambda m, x: x.split(3, 1)[1],
    "chunk": lambda m, x: x.chunk(2, 1)[0],
    "tensor_split": lambda m, x: x.tensor_split(3, 1)[1],
    "unbind": lambda m, x: x.unbind(0)[1],
    "view_as": lambda m, x: x.view_as(x),
    "swapaxes": lambda m, x: x.swapaxes(0, 1),
    "alias_of_alias": lambda m, x: x.t()[1:].t()[:, ::2],
    "detach": lambda m, x: x.detach(),
    "data": lambda m, x: x.data,
    "real_of_conjugate": lambda m, x: m.view_as_complex(x.view(2, 2, 2)).conj().real,
    "imag_of_conjugate": lambda m, x: m.view_as_complex(x.view(2, 2, 2)).conj().imag,
    "imag_of_complex": lambda m, x: m.view_as_complex(x.view(2, 2, 2)).imag,
    "view_as_real": lambda m, x: m.view_as_real(m.view_as_complex(x.view(2, 2, 2))),
    "conj": lambda m, x: m.view_as_complex(x.view(2, 2, 2)).conj(),
}
SHARED = {
    "expand": lambda m, x: x[:, :1].expand(2, 3),
    "expand_new_dim": lambda m, x: x.expand(2, 2, 4),
    "broadcast_to": lambda m, x: m.broadcast_to(x[0], (3, 4)),
    "overlapping_as_strided": lambda m, x: x.as_strided((3, 2), (1, 1)),
    "overlapping_unfold": lambda m, x: x.unfold(1, 3, 1),
}
"""Views in which elements share their place."""
ALL = VIEWS | SHARED
PROGRAMS = Programs()
each = pytest.mark.parametrize("name", ALL)
each_plain = pytest.mark.parametrize("name", VIEWS)


@each
def test_metadata(name, same):
    def run(m):
        x = leaf(m, 2, 4, requires_grad=False)
        v = ALL[name](m, x)
        return (everything(v), v._base is x, v.data_ptr() - x.data_ptr() == v.storage_offset() * 4, everything(x))

    same(run, f"metadata_{name}")


@each_plain
def test_writes_are_seen_both_ways(name, same):
    def run(m):
        x = leaf(m, 2, 4, requires_grad=False)
        v = VIEWS[name](m, x)
        v.mul_(10)
        first = [everything(x), everything(v)]
        x.add_(1)
        return first, everything(x), everything(v)

    same(run, f"writes_{name}")


@each
def test_gradient(name, same):
    def run(m):
        x = leaf(m, 2, 4)
        v = ALL[name](m, x)
        graph = tree(v.grad_fn)
        if v.requires_grad:
            (v.abs() if v.is_complex() else v).square().sum().backward()
        return everything(v), graph, everything(x)

    same(run, f"gradient_{name}")


@each_plain
def test_write_to_a_view_of_a_computed_tensor(name, same):
    def run(m):
        x = leaf(m, 2, 4)
        y = x * 2
        v = VIEWS[name](m, y)
        error = attempt(lambda: v.mul_(3) and None)
        if error is not None:
            return error, everything(y)
        seen = [everything(v), everything(y), tree(v.grad_fn), tree(y.grad_fn)]
        y.square().sum().backward()
        return seen, everything(x)

    same(run, f"rebase_{name}")


@pytest.mark.parametrize("name", SHARED)
def test_writes_to_shared_places(name, same):
    def run(m):
        x = leaf(m, 2, 4, requires_grad=False)
        v = SHARED[name](m, x)
        # Torch lets odd strides pass, and fill_ always.
        write = v.fill_ if 0 not in v.stride() else v.add_
        return attempt(lambda: write(1)), everything(x), v.clone().stride()

    same(run, f"overlap_{name}")


test_same_as_torch = PROGRAMS.test()


@PROGRAMS
def views_in_another_dtype_behind_an_offset(m):
    """They see what is written to the base afterwards, and the base what is written to them."""
    base = m.arange(12.0)
    parts = base[4:].view(2, 4)
    views = [base[2:].view(m.float64), base[3:].view(m.int16), parts[1].view(m.complex64), parts.view(m.int32)[1, 2:]]
    offsets = [v.storage_offset() for v in views]
    base.mul_(2)
    seen = [v.clone() for v in views]
    views[0][1] = 0
    views[3].zero_()
    return offsets, seen, base, parts


@PROGRAMS
def base_of_a_view_of_a_view(m):
    x = leaf(m, 2, 4, requires_grad=False)
    v = x[1]
    w = v[1:]
    return w._base is x, v._base is x, x._base, w.data_ptr() == x.data_ptr() + 5 * 4


@PROGRAMS
def two_views_of_one_tensor(m):
    y = leaf(m, 2, 4) * 1
    a, b = y[0], y[:, 1]
    a.mul_(2)
    b.add_(5)
    (a.sum() * b.sum()).backward()
    return [everything(t) for t in (y, a, b)], tree(a.grad_fn), tree(b.grad_fn)


@PROGRAMS
def view_regenerates_after_its_base_was_written(m):
    x = leaf(m, 4)
    y = x * 1
    v = y[1:3]
    before = v.grad_fn.name()
    y.mul_(3)
    after = tree(v.grad_fn)
    v.sum().backward()
    return before, after, everything(x), everything(v)


@PROGRAMS
def view_kept_across_several_writes(m):
    x = leaf(m, 4)
    y = x * 1
    v = y[:2]
    for k in range(3):
        v.mul_(k + 1)
        y.add_(1)
    (v * y[2:]).sum().backward()
    return everything(x), everything(v), v.grad_fn.name(), y.grad_fn.name()


@PROGRAMS
def base_requires_grad_after_the_view_was_made(m):
    y = m.zeros(4)
    v = y[:2]
    w = leaf(m, 2)
    y[2:].copy_(w)
    (v.sum() + y.sum()).backward()
    return everything(y), everything(v), everything(w), tree(v.grad_fn)


@PROGRAMS
def write_of_a_tensor_that_requires_grad_into_a_plain_view(m):
    y = m.zeros(2, 2)
    v = y[0]
    w = leaf(m, 2)
    v.mul_(w)
    v += w
    y.sum().backward()
    return everything(y), everything(v), everything(w), tree(y.grad_fn)


@PROGRAMS
def view_of_a_view_written(m):
    x = leaf(m, 2, 4)
    y = x.sin()
    v = y.t()[1:3]
    w = v[:, 0]
    w.neg_()
    y.sum().backward()
    return [everything(t) for t in (x, v, w, y)], tree(y.grad_fn), tree(v.grad_fn)


@PROGRAMS
def view_of_a_leaf_is_not_written(m):
    x = leaf(m, 4)
    v = x[1:]
    return (
        attempt(lambda: v.add_(1)),
        attempt(lambda: x[0].zero_()),
        attempt(lambda: v.view(3).mul_(2)),
        everything(x),
    )


@PROGRAMS
def views_made_without_grad(m):
    x = leaf(m, 4)
    y = x * 1
    with m.no_grad():
        v = y[1:]
    out = [attempt(lambda: v.add_(1)), everything(v)]
    with m.no_grad():
        v.add_(1)
    return out, everything(v), everything(y)


@PROGRAMS
def view_of_a_plain_tensor_made_without_grad(m):
    y = m.zeros(3)
    with m.no_grad():
        v = y[1:]
    w = leaf(m, 2)
    return attempt(lambda: v.mul_(w)), everything(y)


@PROGRAMS
def multi_view_after_its_base_was_written(m):
    y = leaf(m, 2, 4) * 1
    a, _ = y.unbind(0)
    y.add_(1)
    return attempt(lambda: a.grad_fn), attempt(lambda: (a * 2).sum()), a.tolist()


@PROGRAMS
def iteration_gives_views(m):
    y = m.zeros(3, 2)
    for i, row in enumerate(y):
        row.fill_(i)
    return y, [everything(r) for r in y]


@PROGRAMS
def detach_shares_memory_and_version(m):
    x = leaf(m, 3)
    y = x * 2
    d = y.detach()
    d.zero_()
    return everything(y), everything(d), d._base, d._is_view()


@PROGRAMS
def data_shares_memory_and_not_the_version(m):
    x = leaf(m, 3)
    x.data.add_(1)
    x.data[0] = 7
    return everything(x), x.data._version


@PROGRAMS
def view_of_detached_is_a_view_of_it(m):
    x = leaf(m, 4)
    d = x.detach()
    v = d[1:]
    v.zero_()
    return everything(v), v._base is d, everything(x)


@PROGRAMS
def assigned_data(m):
    x = leaf(m, 3)
    x.data = m.ones(2, 2)
    return everything(x)


@PROGRAMS
def view_of_view_dtype(m):
    x = leaf(m, 2, 4, requires_grad=False)
    v = x.view(m.int32)
    v.zero_()
    return (everything(x), v, v.stride(), v._version, attempt(lambda: x.t().view(m.int64)), x.view(m.int64).shape)


@PROGRAMS
def views_that_torch_refuses(m):
    x = leaf(m, 2, 4, requires_grad=False)
    steps = [
        lambda: x.t().view(8),
        lambda: x.view(3, 3),
        lambda: x.view(-1, -1),
        lambda: x.view(-1, 3),
        lambda: x.expand(3, 4),
        lambda: x.narrow(1, 2, 3),
        lambda: x.select(2, 0),
        lambda: x.unfold(1, 5, 1),
        lambda: x.as_strided((3, 3), (4, 1)),
        lambda: x.as_strided((1,), (1,), 8),
        lambda: x.diagonal(0, 1, 1),
        lambda: x[2],
        lambda: x[:, 4],
        lambda: x[0, 0, 0],
        lambda: x.transpose(0, 2),
        lambda: x.permute(0, 0),
        lambda: x.permute(0),
        lambda: x.squeeze(3),
        lambda: x.unsqueeze(4),
    ]
    return [attempt(s) for s in steps]


@PROGRAMS
def conjugate_as_real(m):
    z = m.view_as_complex(leaf(m, 2, 2))
    resolved = m.view_as_real(z.conj().resolve_conj())
    return attempt(lambda: m.view_as_real(z.conj())), resolved, tree(resolved.grad_fn)


@PROGRAMS
def empty_views(m):
    x = leaf(m, 0, 3)
    v = x.t()[1:].view(0)
    v.sum().backward()
    return everything(x), everything(v)


@PROGRAMS
def zero_dim_views(m):
    x = m.tensor(3.0, requires_grad=True)
    y = x * 1
    y.view(1).mul_(4)
    y.reshape(1, 1).sum().backward()
    return everything(x), everything(y), tree(y.grad_fn)


def test_reading_a_view_again_costs_nothing_until_a_write():
    x = torchgrad_jax.zeros(600, 600)  # smaller ones are NumPy's, which has no kernel to save
    v = x.t()
    first = v.__jax_array__()
    assert v.__jax_array__() is first
    x.add_(1)
    second = v.__jax_array__()
    assert second is not first
    assert v.__jax_array__() is second


def test_a_view_keeps_its_storage_and_not_more():
    x = torchgrad_jax.zeros(2, 3)
    v = x[0]
    st = x._st
    del x
    gc.collect()
    assert v._st is st
    assert v.tolist() == [0, 0, 0]
