"""How the results of `vmap` lie in memory: as those of operators on the whole batch, wherever its dimension was."""

from __future__ import annotations

from tests.programs import Programs, digest

program = Programs()
test_same_as_torch = program.test()


def _inputs(m):
    """Batches, and the dimensions to go along."""
    x = m.arange(6.0).view(2, 3)
    z = m.arange(24.0).view(2, 3, 4)
    q = m.arange(120.0).view(2, 3, 4, 5)
    return (
        (x, (0, 1)),
        (x.t(), (0, 1)),
        (m.arange(12.0).view(4, 3)[::2], (0, 1)),
        (z, (0, 1, 2)),
        (z.permute(2, 0, 1), (0, 1, 2)),
        (z.transpose(0, 1), (0, 1, 2)),
        (x.unsqueeze(-1).expand(2, 3, 2), (0, 1)),
        (q, (0, 3)),
        (q.permute(0, 2, 3, 1), (1, 3)),
    )


def _looks(m, t):
    return *digest(m, t), [0 if size == 1 else stride for size, stride in zip(t.shape, t.stride())]


def _every(m, functions):
    return {
        f"{name} of {i} along {dim}": _looks(m, m.func.vmap(fn, in_dims=dim)(batch))
        for i, (batch, dims) in enumerate(_inputs(m))
        for dim in dims
        for name, fn in functions.items()
    }


@program
def elementwise_functions(m):
    """The order of dimensions in memory is kept, the batch's among them."""
    return _every(
        m,
        {
            "mul": lambda u: u * 2,
            "add": lambda u: u + m.arange(float(u.shape[-1])),
            "clone": lambda u: u.clone(),
            "relu": m.relu,
            "where": lambda u: m.where(u > 1, u, -u),
            "zeros_like": lambda u: m.zeros_like(u) + u,
            "gt": lambda u: u > 1,
            "double": lambda u: u.double(),
            "in place": lambda u: (u * 2).add_(u).mul_(u),
            "full_like": lambda u: m.full_like(u, 2.0) * u,
            "empty_like": lambda u: m.empty_like(u).copy_(u),
            "unsqueeze": lambda u: (u * 2).unsqueeze(0) + u,
            "mT": lambda u: u.mT * 2 if u.dim() > 1 else u,
            "lerp": lambda u: m.lerp(u, u * 2, 0.5),
            "detach": lambda u: u.detach() * 2,
        },
    )


@program
def results_with_the_batch_last(m):
    return [_looks(m, m.func.vmap(m.neg, in_dims=d, out_dims=-1)(b)) for b, dims in _inputs(m) for d in dims]


@program
def other_functions(m):
    """What is no elementwise operator makes memory in which the batch comes first."""
    return _every(
        m,
        {
            "sum": lambda u: u.sum(-1),
            "softmax": lambda u: u.softmax(-1),
            "flip": lambda u: u.flip(-1),
            "cat": lambda u: m.cat([u, u], -1),
            "reshape": lambda u: (u * 2).reshape(-1),
            "contiguous": lambda u: (u * 2).contiguous() * 1,
            "matmul": lambda u: u @ u.mT if u.dim() > 1 else u @ u,
            "stack": lambda u: m.stack([u, u]),
            "new_zeros": lambda u: u.new_zeros(u.shape) + u,
            "slice": lambda u: (u * 2)[..., 1:] * 3,
            "mean": lambda u: u.mean(),
        },
    )


@program
def pairs(m):
    """Two batches that lie differently, and one beside what is the same for all examples."""
    x = m.arange(6.0).view(2, 3)
    batches = (x.t(), x.t().contiguous(), x.t().expand(3, 2))
    functions = (m.mul, m.sub, m.maximum, lambda a, b: m.where(a > b, a, b))
    return [
        _looks(m, m.func.vmap(fn, in_dims=dims)(a, b))
        for a in batches
        for b in batches
        for dims in ((0, 0), (1, 1), (0, None), (None, 0))
        for fn in functions
    ]


@program
def functions_of_one_tensor_along_shared_memory(m):
    """The batch stays where it is for functions of one tensor, which shows where its examples are one in memory."""
    batch = m.arange(6.0).view(2, 3).unsqueeze(-1).expand(2, 3, 2)
    functions = (m.sin, lambda u: u.clone(), lambda u: -u, lambda u: u.exp().sin(), lambda u: u * 2)
    return [_looks(m, m.func.vmap(fn, in_dims=2)(batch)) for fn in functions]


@program
def gradients_that_are_the_same_for_all_examples(m):
    """Their seeds were made like the batch, so that each example has memory of its own."""
    vmap, grad, jacrev, jacfwd, vjp = (m.func.vmap, m.func.grad, m.func.jacrev, m.func.jacfwd, m.func.vjp)
    x, c, y = m.ones(2, 3), m.full((3,), 2.0), m.ones(2, 4, 3)

    def double(x):
        return x * 2

    def total(x, *rest):
        return (x * 2).sum()

    results = (
        vmap(jacrev(double))(x),
        vmap(grad(total))(x),
        *vmap(grad(total, (0, 1)))(x, x),
        vmap(jacfwd(double))(x),
        vmap(jacrev(jacrev(lambda x: (x * x).sum())))(x),
        vmap(grad(lambda x: m.dot(x, c)))(x),
        vmap(grad(total), out_dims=1)(x),
        vmap(vmap(grad(total)))(y),
        vmap(grad(lambda x: total(x.t())), 1)(y),
        *vmap(lambda x: vjp(double, x)[1](x))(x),
        *vmap(lambda x: m.func.jvp(lambda x: x.detach(), (x,), (c,)))(x),
    )
    return list(results)


@program
def gradients_that_are_the_same_for_all_examples_written_to(m):
    x = m.ones(2, 3)
    rows = m.func.vmap(m.func.jacrev(lambda x: x * 2))(x)
    rows[0] += 1
    each = m.func.vmap(m.func.grad(lambda x: (x * 2).sum()))(x)
    inside = m.func.vmap(lambda x: m.func.jacrev(lambda x: x * 2)(x)[0].add_(x))(x)
    return rows, each.mul_(2), inside
