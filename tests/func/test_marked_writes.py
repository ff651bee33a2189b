"""Functions that write to some of several inputs and mark them, with a rule of their own that turns its arguments."""

from __future__ import annotations

from typing import Any

import pytest


def _times(ctx: Any, x: Any, y: Any) -> Any:
    return x.mul_(y)


def _both(ctx: Any, x: Any, y: Any) -> Any:
    return x.add_(y), y.sub_(1)


def _beside(ctx: Any, x: Any, y: Any) -> Any:
    x.add_(y)
    return x, x * y


def _second(ctx: Any, x: Any, y: Any) -> Any:
    return y.mul_(x)


WRITES: dict[Any, tuple[int, ...]] = {_times: (0,), _both: (0, 1), _beside: (0,), _second: (1,)}
"""Which inputs each writes to."""
MAPPED = {
    "both": ((0, 0), 0),
    "first": ((0, None), 0),
    "second": ((None, 0), 0),
    "along 1": ((1, 1), 0),
    "turned": ((0, 0), 1),
    "of copies": ((0, 0), 0),
    "differentiated": ((0, 0), 0),
}


def _function(m: Any, write: Any) -> Any:
    class F(m.autograd.Function):
        @staticmethod
        def forward(x, y):
            return write(None, x, y)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(*[inputs[i] for i in WRITES[write]])

        @staticmethod
        def backward(ctx, *g):
            return g[0] * 3, g[-1] * 5

        @staticmethod
        def vmap(info, in_dims, x, y):
            def batched(t, d):
                return t.expand(info.batch_size, *t.shape).clone() if d is None else t.movedim(d, 0)

            out = F.apply(batched(x, in_dims[0]), batched(y, in_dims[1]))
            return out, (0,) * len(out) if isinstance(out, tuple) else 0

    return F


def _total(out: Any) -> Any:
    return sum(t.sum() for t in out) if isinstance(out, tuple) else out.sum()


@pytest.mark.parametrize("how", MAPPED)
@pytest.mark.parametrize("write", WRITES, ids=lambda w: w.__name__)
def test_same_writes(write: Any, how: str, same: Any) -> None:
    def run(m: Any) -> Any:
        apply = _function(m, write).apply
        (first, second), out_dim = MAPPED[how]
        x, y = m.arange(6.0).view(2, 3) + 1, m.arange(6.0).view(2, 3) / 2 - 1
        given = [x[0] if first is None else x, y[0] if second is None else y]

        def f(x: Any, y: Any) -> Any:
            return apply(x * 1, y * 1) if how in ("of copies", "differentiated") else apply(x, y)

        run = m.func.vmap(f, (first, second), out_dim)
        if how == "differentiated":
            return m.func.grad(lambda x, y: _total(run(x, y)), (0, 1))(*given)
        return run(*given), x, y, x._version, y._version

    same(run, f"{write.__name__} {how}")
