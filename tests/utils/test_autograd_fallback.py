"""Operators with a kernel and no gradient: what a backward pass through them says, compared with torch."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()
_counter = itertools.count()


@contextmanager
def _operators(m: Any, mode: str, **kernels: tuple[str, Any]) -> Iterator[Any]:
    """The namespace of operators with schemas and kernels, under a mode of the fallback."""
    name = f"fallback{next(_counter)}"
    library = m.library.Library(name, "FRAGMENT")
    before = m._C._get_autograd_fallback_mode()
    m._C._set_autograd_fallback_mode(mode)
    try:
        for op, (schema, kernel) in kernels.items():
            library.define(f"{op}{schema}")
            library.impl(op, kernel, "CPU")
        yield getattr(m.ops, name)
    finally:
        m._C._set_autograd_fallback_mode(before)


def _attempt(fn: Any) -> Any:
    """What a call gives or raises, and the first words of what it warns of."""
    import re
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome = fn()
        except RuntimeError as error:
            outcome = str(error)
    return outcome, [re.sub(r"^fallback\d+", "ns", str(w.message)) for w in caught]


@program
def modes(m):
    before = m._C._get_autograd_fallback_mode()
    m._C._set_autograd_fallback_mode("nothing")
    inside = m._C._get_autograd_fallback_mode()
    m._C._set_autograd_fallback_mode("warn")
    return before, inside, m._C._get_autograd_fallback_mode()


@program
def results_without_history(m):
    answers = []
    for mode in ("nothing", "warn"):
        with _operators(m, mode, f=("(Tensor a, Tensor b, int c) -> Tensor", lambda a, b, c: a.detach() + c)) as ns:
            x, y = m.ones(2), m.ones(2, requires_grad=True)
            out = ns.f(x, y, 1)
            with m.no_grad():
                quiet = ns.f(x, y, 1).requires_grad
            node = out.grad_fn
            answers += [
                out,
                node and node.name(),
                node and [e and e[0] and e[0].name() for e in node.next_functions],
                _attempt(lambda: out.sum().backward()),  # noqa: B023
                y.grad,
                quiet,
                ns.f(x, x, 1).requires_grad,
                _attempt(lambda: m.autograd.grad((ns.f(x, y, 1) * 2).sum(), y, allow_unused=True)),  # noqa: B023
            ]
    return answers


@program
def results_with_the_history_of_the_kernel(m):
    with _operators(
        m, "warn", f=("(Tensor a) -> Tensor", lambda a: a * 2), v=("(Tensor(a) a) -> Tensor(a)", lambda a: a.view(-1))
    ) as ns:
        x = m.ones(2, requires_grad=True)
        return (_attempt(lambda: ns.f(x).sum().backward()), _attempt(lambda: ns.v(x).sum().backward()), x.grad)


@program
def several_results(m):
    with _operators(
        m,
        "warn",
        pair=("(Tensor a) -> (Tensor, Tensor)", lambda a: (a.detach() * 2, a.detach() * 3)),
        many=("(Tensor a) -> Tensor[]", lambda a: [a.detach() * 2, a.detach().long()]),
        whole=("(Tensor a) -> Tensor", lambda a: a.detach().long()),
        joined=("(Tensor[] a) -> Tensor", lambda a: a[0].detach() + a[1].detach()),
        maybe=("(Tensor? a, Tensor b) -> Tensor", lambda a, b: b.detach() * 2),
    ) as ns:
        x = m.ones(2, requires_grad=True)
        pair, many = ns.pair(x), ns.many(x)
        return (
            pair,
            [t.output_nr for t in pair],
            many,
            ns.whole(x),
            ns.joined([x, x]),
            ns.maybe(None, x),
            ns.maybe(x, m.ones(2)),
            _attempt(lambda: (pair[0] + pair[1]).sum().backward()),
            x.grad,
        )


@program
def kernels_that_write(m):
    def kernel(a, b):
        with m.no_grad():
            return a.sin_()

    with _operators(m, "warn", f=("(Tensor(a!) self, Tensor y) -> Tensor(a!)", kernel)) as ns:
        leaf = m.ones(2, requires_grad=True)
        x, plain, other = leaf.clone(), m.ones(2), m.ones(2, requires_grad=True)
        same = ns.f(x, m.ones(2)) is x, ns.f(plain, other) is plain
        return same, x, plain.requires_grad, _attempt(lambda: x.sum().backward()), leaf.grad
