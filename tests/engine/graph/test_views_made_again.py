"""Views that were made before, of tensors alike, are the same in each mode as those made for the first time."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()

VIEWS = {
    "transposed": lambda m, x: x.t(),
    "one row": lambda m, x: x[0],
    "a column": lambda m, x: x[:, 1],
    "flat": lambda m, x: x.view(4),
    "parts": lambda m, x: x.chunk(2)[1],
    "expanded": lambda m, x: x[0].expand(3, 2),
    "a view of a view": lambda m, x: x.t()[1],
    "real": lambda m, x: m.view_as_real(m.view_as_complex(x)),
    "conjugated": lambda m, x: m.view_as_complex(x).conj()[0],
    "negative": lambda m, x: m.view_as_complex(x).conj().imag,
}


def _modes(m: Any) -> dict[str, Any]:
    return {
        "recording": nullcontext,
        "no_grad": m.no_grad,
        "inference_mode": m.inference_mode,
        "hooks of saved tensors": lambda: m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    }


def _facts(m: Any, v: Any) -> list[Any]:
    """What a view is, and what happens to who writes to it and differentiates."""
    node = type(v.grad_fn).__name__ if not v.is_inference() and v.requires_grad else None
    facts = [v.detach().resolve_conj().resolve_neg().clone(), v.stride(), v.storage_offset(), v.is_inference()]
    facts += [v.requires_grad, node, v.is_conj(), v.is_neg(), v._is_view(), v._base is None]
    facts.append(None if v.is_inference() else v._version)
    facts.append(complaint(lambda: v.mul_(2)))
    facts.append(None if v.is_inference() else v._version)
    return facts


def _seen(m: Any, make: Any) -> list[Any]:
    out = []
    for name, mode in _modes(m).items():
        for what, view in VIEWS.items():
            for _ in range(3):
                x = make()
                with mode():
                    v = view(m, x)
                    inside = v.is_inference(), v.requires_grad
                out.append((name, what, inside, _facts(m, v), x.detach().clone()))
    return out


@program
def of_results(m):
    x = m.arange(4.0, dtype=m.float64).view(2, 2).requires_grad_()
    return _seen(m, lambda: x * 1)


@program
def of_leaves_that_require_none(m):
    return _seen(m, lambda: m.arange(4.0, dtype=m.float64).view(2, 2).clone())


@program
def of_leaves(m):
    return _seen(m, lambda: m.arange(4.0, dtype=m.float64).view(2, 2).clone().requires_grad_())


@program
def of_inference_tensors(m):
    def make():
        with m.inference_mode():
            return m.arange(4.0, dtype=m.float64).view(2, 2).clone()

    return _seen(m, make)


@program
def products_with_views_of_parameters(m):
    """A layer under each mode, whose weight is a view of what requires a gradient."""
    out = []
    w = m.arange(6.0, dtype=m.float64).view(3, 2).requires_grad_()
    x = m.ones(4, 2, dtype=m.float64)
    for name, mode in _modes(m).items():
        for _ in range(3):
            with mode():
                y = m.addmm(w.detach()[:, 0], x, w.t()).relu()
                z = y * w.t()[0]
            out.append((name, z.detach().clone(), z.requires_grad, z.is_inference()))
    return out


@program
def gradients_through_reinterpreted_views(m):
    out = []
    x = m.arange(4.0, dtype=m.float64).view(2, 2).requires_grad_()
    for _ in range(3):
        c = m.view_as_complex(x * 1)
        r = m.view_as_real(c.conj().resolve_conj())
        c.conj()[0].mul_(2j)
        y = (c.abs() * r[:, 1]).sum() + m.view_as_real(c)[1].sum()
        x.grad = None
        y.backward()
        out.append((y.detach(), x.grad))
    return out
