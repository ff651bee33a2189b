"""Functions that move dimensions of an example in place: those of the batch that the caller has move as well."""

from __future__ import annotations

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _looks(t):
    return t, t.stride(), t._version


def _batch(m):
    return m.arange(24.0).view(2, 3, 4)


def _along_each(m, functions, batch=_batch, versions=True):
    """What comes out, and what the caller's tensor is then, along each dimension."""
    seen = {}
    for name, fn in functions.items():
        for dim in range(batch(m).dim()):
            given = batch(m)
            out = m.func.vmap(fn, in_dims=dim)(given)
            seen[f"{name} along {dim}"] = (_looks(out)[:2], _looks(given)[: 2 + versions], out is given)
    return seen


@program
def the_example_itself(m):
    return _along_each(
        m,
        {
            "t": lambda x: x.t_(),
            "transpose": lambda x: x.transpose_(0, -1),
            "swapdims": lambda x: x.swapdims_(1, 0),
            "unsqueeze": lambda x: x.unsqueeze_(0),
            "between": lambda x: x.unsqueeze_(1),
            "last": lambda x: x.unsqueeze_(-1),
            "nothing": lambda x: x.squeeze_(0),
            "there and back": lambda x: x.unsqueeze_(1).squeeze_(1),
            "two": lambda x: x.unsqueeze_(0).transpose_(0, 2),
            "same": lambda x: x.transpose_(1, 1),
        },
    )


@program
def squeezed(m):
    def batch(m):
        return m.arange(2.0).view(1, 2, 1)

    functions = {str(dims): lambda x, dims=dims: x.squeeze_(dims) for dims in (0, 1, -1, -2, (0, 1))}
    return _along_each(m, functions, batch)


@program
def dimensions_of_any_size(m):
    """Also where the stride of a new dimension is that of another one."""
    return [
        _along_each(m, functions, lambda m, shape=shape: m.arange(float(m.Size(shape).numel())).view(shape))
        for shape in ((2, 3, 1), (1, 1, 1), (2, 1, 3, 2), (3, 2, 2, 2), (2, 4, 2, 1), (0, 2, 1))
        for functions in ({str(d): lambda x, d=d: x.unsqueeze_(d) for d in (0, 1, 2, -1)},)
    ]


@program
def what_is_made_of_it(m):
    return _along_each(
        m,
        {
            "product": lambda x: x.unsqueeze_(0) * 1,
            "view": lambda x: x.t_()[0],
            "sum": lambda x: x.t_().sum(0),
            "view before": lambda x: (x[0], x.t_())[0],
            "of a view": lambda x: x[0].unsqueeze_(0),
            "detached": lambda x: x.detach().t_(),
            "view of all": lambda x: x.t_().t(),
        },
        versions=False,
    )


@program
def written_to_as_well(m):
    def seen(fn, dim=0):
        given = _batch(m)
        return m.func.vmap(fn, in_dims=dim)(given), given, given.stride()

    functions = (
        lambda x: x.unsqueeze_(0).add_(1),
        lambda x: x.add_(1).unsqueeze_(0),
        lambda x: x.t_().mul_(2).t_().sum(0),
        lambda x: x.t_().add_(x.sum()),
    )
    return [seen(fn, dim) for fn in functions for dim in range(3)]


@program
def batches_of_batches(m):
    vmap, seen = m.func.vmap, []
    for inner in (0, 1):
        for outer in range(3):
            given = m.arange(120.0).view(2, 3, 4, 5)
            out = vmap(vmap(lambda x: x.unsqueeze_(0).transpose_(0, 2), inner), outer)(given)
            seen += [_looks(out)[:2], _looks(given)]
    return seen


@program
def other_tensors_of_the_caller(m):
    """A view of the caller's changes, its base does not; with chunks, nothing of the caller's does."""
    whole = _batch(m)
    part = whole[0:1]
    out = m.func.vmap(lambda x: x.t_())(part)
    chunked = _batch(m)
    stacked = m.func.vmap(lambda x: x.unsqueeze_(0), chunk_size=1)(chunked)
    return out, part, part._base is whole, whole, stacked, chunked


@program
def leaves(m):
    return complaint(lambda: m.func.vmap(lambda x: x.t_())(m.ones(2, 3, 4, requires_grad=True)))
