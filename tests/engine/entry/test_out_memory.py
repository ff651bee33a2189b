"""Which memory an ``out=`` tensor may share with what is read, and with itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _ways(m: Any, fn: Callable[[Any, Any], Any], *shape: int, dtype: Any = None) -> list[Any]:
    """What comes of results beside the input, in its first elements, in one element, in itself and in a view of it."""
    n = 1
    for size in shape:
        n *= size

    def ones() -> Any:
        return m.ones(n + 1, dtype=dtype)

    def beside() -> None:
        a = ones()
        fn(a[1:].view(shape), a[:-1].view(shape))

    def inside() -> None:
        a = ones()
        fn(a[1:].view(shape), a[2:4])

    def alone() -> None:
        fn(ones()[1:].view(shape), ones()[:1].view([1] * len(shape)).expand(shape))

    def itself(view: bool) -> None:
        a = ones()[1:].view(shape)
        fn(a, a.view(shape) if view else a)

    def turned() -> None:
        a = m.ones(3, 3, dtype=dtype)
        fn(a, a.t())

    tries = [beside, alone, lambda: itself(False), lambda: itself(True)]
    tries += [inside] if shape == (3,) else [turned] if shape == (3, 3) else []
    with warnings.catch_warnings():  # of what is resized
        warnings.simplefilter("ignore")
        return [complaint(t) for t in tries]


@program
def elementwise_ones_may_write_to_what_they_read_but_not_beside_it(m):
    o = m.ones(3)
    one = [m.sin, m.neg, m.abs, m.round, m.logical_not, m.logit, m.nan_to_num, m.special.erfcx, m.frac]
    found = {f.__name__: _ways(m, lambda x, out, f=f: f(x, out=out), 3) for f in one}
    two = (m.add, m.sub, m.mul, m.div, m.pow, m.eq, m.atan2, m.maximum, m.fmod, m.floor_divide, m.xlogy, m.hypot)
    for f in two:
        found[f"{f.__name__} 0"] = _ways(m, lambda x, out, f=f: f(x, o, out=out), 3)
        found[f"{f.__name__} 1"] = _ways(m, lambda x, out, f=f: f(o, x, out=out), 3)
        found[f"{f.__name__} 2"] = _ways(m, lambda x, out, f=f: f(x, 2, out=out) if f is not m.atan2 else 0, 3)
    return [[k, v] for k, v in found.items()]


@program
def so_do_those_with_more_operands_and_those_along_a_dimension(m):
    o, yes = m.ones(3), m.ones(3) > 0
    cases = (
        lambda x, out: m.addcmul(x, o, o, out=out),
        lambda x, out: m.addcdiv(o, o, x, out=out),
        lambda x, out: m.lerp(x, o, 0.5, out=out),
        lambda x, out: m.clamp(x, 0.0, out=out),
        lambda x, out: m.clamp(x, o, out=out),
        lambda x, out: m.where(yes, x, o, out=out),
        lambda x, out: m.where(yes, o, x, out=out),
        lambda x, out: m.polygamma(1, x, out=out),
        lambda x, out: m.div(x, o, rounding_mode="floor", out=out),
        lambda x, out: m.cumsum(x, 0, out=out),
        lambda x, out: m.cumprod(x, 0, out=out),
        lambda x, out: m.logcumsumexp(x, 0, out=out),
        lambda x, out: m.add(x, x.double(), out=out),
        lambda x, out: m.ldexp(x, m.ones(3), out=out),
    )
    return [_ways(m, f, 3) for f in cases]


@program
def those_that_copy_their_first_argument_look_at_it_alone_or_at_all(m):
    o, at, s, b = m.ones(3), m.arange(3), m.ones(3, 3), m.ones(2, 3, 3)
    flat = (
        lambda x, out: m.addmv(x, s, o, out=out),
        lambda x, out: m.index_copy(x, 0, at, o, out=out),
        lambda x, out: m.index_add(x, 0, at, o, out=out),
        lambda x, out: m.scatter(x, 0, at, o, out=out),
        lambda x, out: m.scatter(x, 0, at, 2.0, out=out),
        lambda x, out: m.scatter_add(x, 0, at, o, out=out),
    )
    square = (
        lambda x, out: m.addmm(x, s, s, out=out),
        lambda x, out: m.addr(x, o, o, out=out),
        lambda x, out: m.addbmm(x, b, b, out=out),
    )
    found = [_ways(m, f, 3)[:-1] for f in flat]  # the last: they do not resize
    return found + [_ways(m, f, 3, 3)[:-1] for f in square]


@program
def gaps_mirrors_sizes_and_dtypes(m):
    def reals() -> Any:
        return m.arange(8.0)

    def complexes() -> Any:
        return m.ones(4, dtype=m.complex64)

    a, b, c, i = reals(), reals(), complexes(), m.arange(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            complaint(lambda: m.add(a[::2], 1, out=a[1::2])),
            complaint(lambda: m.add(b, 1, out=b[4:])),
            complaint(lambda: m.add(b[4:], 1, out=b)),
            complaint(lambda: m.add(m.zeros(0), 1, out=m.zeros(0))),
            complaint(lambda: m.add(c[1:].conj(), 1, out=c[:-1])),
            complaint(lambda: m.div(i[1:], 2, out=i[:-1])),
            a,
        ]


@program
def gradients_whose_elements_share_memory_take_no_sum(m):
    """Unless the pass is recorded, where they are added out of place."""

    def added(grad: Any, again: int = 1, dtype: Any = None, **how: Any) -> Any:
        x = m.ones(grad.shape, dtype=dtype, requires_grad=True)
        x.grad = grad
        for _ in range(again):
            y = x
            for _ in range(40):
                y = y * 1
            y.sum().backward(**how)
        return x.grad.detach()

    found = [
        complaint(lambda grad=grad, again=again: added(grad(), again))
        for grad in (
            lambda: m.ones(1).expand(2),
            lambda: m.ones(1, 2).expand(2, 2),
            lambda: m.ones(()).expand(1),
            lambda: m.ones(1).expand(0),
            lambda: m.ones(2).expand(1, 2),
        )
        for again in (1, 4)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a cycle
        return found, added(m.ones(1).expand(2), create_graph=True), added(m.ones(2).expand(1, 2))


@program
def tensors_to_write_to_of_several_results(m):
    """Which dtypes, counts and devices of ``out=`` are refused: the class of the error of each."""
    x = m.arange(6.0).reshape(2, 3)

    def kind(call: Callable[[], Any]) -> str:
        try:
            call()
        except Exception as error:
            return type(error).__name__
        return "written"

    def tries(dtype: Any, device: str) -> list[str]:
        def out(*shape: int) -> Any:
            return m.empty(shape, dtype=dtype, device=device)

        def index(*shape: int) -> Any:
            return m.empty(shape, dtype=m.int64, device=device)

        norm = (x, None, None, None, None, True, 0.1, 1e-5)
        return [
            kind(lambda: m.native_batch_norm(*norm, out=(out(2, 3), out(3), out(3)))),
            kind(lambda: m.split_with_sizes_copy(x, [1, 2], 1, out=[out(2, 1), out(2, 2)])),
            kind(lambda: m.split_with_sizes_copy(x, [1, 2], 1, out=[out(2, 1)])),
            kind(lambda: m.unbind_copy(x, out=[out(3), out(3)])),
            kind(lambda: m.unbind_copy(x, out=[out(3)])),
            kind(lambda: m.unbind_copy(x, out=out(3))),
            kind(lambda: m.sort(x, out=(out(2, 3), index(2, 3)))),
            kind(lambda: m.sort(x, out=(out(2, 3),))),
            kind(lambda: m.topk(x, 2, out=(out(2, 2), index(2, 2)))),
            kind(lambda: m.kthvalue(x, 1, out=(out(2), index(2)))),
            kind(lambda: m.nonzero(x, out=out(5, 2))),
            kind(lambda: m.linalg.pinv(x, out=out(3, 2))),
            kind(lambda: m.add(x, x, out=out(2, 3))),
            kind(lambda: m.sum(x, 0, out=out(3))),
            kind(lambda: m.cat([x, x], out=out(4, 3))),
            kind(lambda: m.mm(x, x.T, out=out(2, 2))),
        ]

    dtypes = (m.float32, m.float64, m.int64, m.bool)
    return [tries(dtype, device) for dtype in dtypes for device in ("cpu", "meta")]
