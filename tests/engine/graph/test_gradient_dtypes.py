"""Gradients of functions that convert what they are given, by `dtype`."""

from __future__ import annotations

from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def functions_with_a_dtype(m):
    seen = {}
    for name in ("sum", "mean", "prod", "nansum", "cumsum", "cumprod", "softmax", "log_softmax"):
        for args in ((), (0,), (1,)):
            if name[:3] in ("cum", "sof", "log") and not args:
                continue
            for dtype in (m.float32, m.float64):
                x = m.ones(3, 2, requires_grad=True)
                out = getattr(x, name)(*args, dtype=dtype)
                ct = m.ones(out.shape, dtype=dtype, requires_grad=True)
                (plain,) = m.autograd.grad(out, x, ct, retain_graph=True)
                (recorded,) = m.autograd.grad(out, x, ct, create_graph=True)
                looks = plain.detach() * 1, recorded.detach() * 1
                seen[f"{name}{args} {dtype.itemsize}"] = looks
    return seen
