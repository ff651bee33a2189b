"""Tensors that carry a mask; compared with torch."""

import warnings
from functools import partial

from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def quietly(fn):
    def run(m):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fn(m)

    run.__name__ = fn.__name__
    return program(run)


def attempt(fn):
    try:
        return shown(fn())
    except (RuntimeError, TypeError, ValueError) as error:
        return type(error).__name__, str(error)


def made(m, requires_grad=False, mask=((True, False, True), (False, True, True))):
    data = m.tensor([[1.5, -2.0, 3.0], [4.0, 0.5, -6.0]])
    return m.masked.masked_tensor(data, m.tensor(mask), requires_grad=requires_grad)


def shown(x):
    """What counts of a result: elements that a mask leaves out are not compared."""
    if isinstance(x, list | tuple):
        return [shown(v) for v in x]
    if type(x).__name__ != "MaskedTensor":
        return x
    mask = x.get_mask()
    return (x.get_data().detach().masked_fill(~mask, 0), mask, mask.stride(), repr(x), x.requires_grad)


FIRST_ONLY = ((True, False, True), (False, False, False))


@quietly
def one_argument(m):
    x = made(m)
    same = x.neg_()
    return (
        [shown(f(made(m))) for f in (m.exp, m.abs, m.sqrt, m.isnan, m.Tensor.sigmoid)],
        shown(x),
        same is x,
        shown(made(m).clamp(0, 1)),
        shown(made(m) ** 2),
        shown(-made(m)),
    )


@quietly
def two_arguments(m):
    x, plain = made(m), m.ones(2, 3) * 2
    y = made(m)
    y += 1
    return [
        shown(v)
        for v in (
            x + x,
            x * plain,
            plain - x,
            x / 2,
            1 / x,
            x < 1,
            x == 3,
            m.maximum(x, plain),
            y,
            x + m.ones(3),
            made(m)[0] + plain,
            x < made(m, mask=FIRST_ONLY),
        )
    ]


@quietly
def reductions(m):
    names = ("sum", "mean", "amin", "amax", "argmin", "argmax", "prod", "all", "var", "std")
    x, y = made(m), made(m, mask=FIRST_ONLY)
    return [
        (n, [shown(getattr(v, n)(*a)) for v in (x, y) for a in ((), (1,), (0, True))], shown(getattr(m, n)(x)))
        for n in names
    ] + [shown(x.sum(1, dtype=m.float64)), shown(x.softmax(-1)), shown(x.sum((0, 1)))]


@quietly
def places(m):
    x = made(m)
    return [
        shown(v)
        for v in (
            x[0], x[:, 1:], x[m.tensor([1, 0])], x[0, 0], x.t(), x.mT, x.view(3, 2), x.reshape(-1), x.unsqueeze(0),
            x.split(1), x.chunk(2), m.cat([x, x]), m.stack([x, x]), x.narrow(1, 0, 2), x.unfold(1, 2, 1),
            x[:1].expand(2, 3), x.t().contiguous(), x.double(), x.to(m.int64), x.clone(), m.ones_like(x),
            m.where(x.get_mask(), x, made(m, mask=FIRST_ONLY)), m.where(x.get_mask(), x, m.zeros(2, 3)),
        )
    ]  # fmt: skip


@quietly
def answers(m):
    x = made(m)
    kind = m.masked.MaskedTensor
    return (
        x.shape,
        x.size(0),
        x.dim(),
        x.numel(),
        len(x),
        str(x.dtype),
        x.is_floating_point(),
        x.is_contiguous(),
        m.masked.is_masked_tensor(x),
        m.masked.is_masked_tensor(x.get_data()),
        isinstance(x, m.Tensor),
        kind.__name__,
        x.to_tensor(7.0),
        x[0, 0].item(),
        repr(x.sum()),
        repr(made(m)[None]),
        repr(m.masked.masked_tensor(m.arange(3), m.tensor([True, False, True]))),
    )


@quietly
def gradients(m):
    def of(fn):
        x = made(m, True)
        fn(x).backward()
        return shown(x.grad), type(x.grad).__name__

    x = made(m, True)
    return (
        [
            of(fn)
            for fn in (
                lambda x: x.sum(),
                lambda x: x.mean(),
                lambda x: (x * x).sum(),
                lambda x: x.exp().sum(),
                lambda x: x.prod(),
                lambda x: x.amax(),
                lambda x: x.var(),
                lambda x: (x.softmax(-1) ** 2).sum(),
                lambda x: x.to_tensor(0.0).sum(),
                lambda x: x.get_data().sum(),
                lambda x: m.cat([x, x]).sum(),
            )
        ],
        shown(m.autograd.grad((x * 2).sum(), x)),
        [f(x).grad_fn.name() for f in (m.exp, lambda x: x + 1, lambda x: x[0], lambda x: x.get_data())],
    )


@quietly
def no_nan_where_a_mask_is(m):
    x = m.tensor([-10.0, -5.0, 0.0, 50.0, 100.0])
    mask = x < 0
    kept = m.masked.masked_tensor(x, mask, requires_grad=True)
    others = m.masked.masked_tensor(m.ones_like(x), ~mask, requires_grad=True)
    y = m.where(mask, m.exp(kept), others)
    y.sum().backward()
    return shown(y), shown(kept.grad), shown(others.grad)


@quietly
def from_a_graph(m):
    data = m.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = m.masked.as_masked_tensor(data, m.tensor([True, False, True]))
    (x * 3).sum().backward()
    return shown(x), x.grad_fn.name(), data.grad[0].item(), data.grad[2].item()


@quietly
def refusals(m):
    new, mask = m.masked.masked_tensor, m.tensor([[True, False, True], [False, True, True]])
    x, data = made(m), m.ones(2, 3)
    other = made(m, mask=FIRST_ONLY)
    calls = [
        partial(new, [1.0], mask),
        partial(new, data, [True]),
        partial(new, x, mask),
        partial(new, data, x),
        partial(new, data, mask.float()),
        partial(new, data, mask[0]),
        partial(new, data, mask[:1]),
        partial(new, data.to(m.complex64), mask),
        partial(new, data.bfloat16(), mask),
        partial(m.add, x, other),
        partial(m.lt, x, other),
        partial(m.pow, x, x),
        partial(x.amin, -1, dtype=m.float64),
        partial(m.add, x, x, alpha=2),
    ]
    return [attempt(call) for call in calls]


@program
def warnings_when_made(m):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        m.masked.masked_tensor(m.ones(2, requires_grad=True), m.ones(2, dtype=m.bool))
    return [(w.category.__name__, str(w.message)) for w in seen]
