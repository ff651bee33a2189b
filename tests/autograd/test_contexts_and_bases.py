"""Smaller rules of autograd: contexts, hooks after writes, layouts of recorded gradients, replayed views."""

import logging
from typing import Any

from tests.autograd.functions import function
from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


# --- Functions ------------------------------------------------------------------------------------


@program
def materialize_grads_can_only_be_set(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            F.read = attempt(getattr, ctx, "materialize_grads")
            F.missing = attempt(getattr, ctx, "no_such_name")
            ctx.materialize_grads = False
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, *grads):
            F.seen = grads
            return grads[0]

    F.apply(leaf(m, 1, 2))[0].sum().backward()
    return F.read, F.missing, F.seen


def _with_frozen_results(m: Any, everywhere: bool, frozen_too: bool) -> Any:
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(everywhere)
            ctx._materialize_non_diff_grads = frozen_too
            out = x * 2, x > 1, x.argmax(), x + 1, x * 3
            ctx.mark_non_differentiable(out[3])
            return out

        @staticmethod
        def backward(ctx, *grads):
            F.seen = [g if g is None else (g.tolist(), g._version) for g in grads[1:]]
            return grads[0] * 2

    x = leaf(m, 1, 2)
    F.apply(x)[0].sum().backward()
    return F.seen, x.grad


@program
def zeros_for_results_without_a_gradient(m):
    return [_with_frozen_results(m, a, b) for a in (True, False) for b in (True, False)]


# --- hooks ----------------------------------------------------------------------------------------


@program
def a_write_takes_the_dict_of_hooks_away(m):
    x = leaf(m, 1, 2, 3)
    base = x * 2
    part = base[:2]
    for t in (part, base):
        t.register_hook(lambda g: None)
    part.mul_(2)
    first = part._backward_hooks is None, base._backward_hooks is None
    base = x * 2
    part = base[:2]
    part.register_hook(lambda g: None)
    base.mul_(2)
    before = part._backward_hooks is None
    return first, before, part.grad_fn is not None, part._backward_hooks is None


@program
def hooks_stay_with_the_value_that_was_written_over(m):
    x, seen = leaf(m, 1, 2), []
    y = x * 2
    early = y.register_hook(lambda g: seen.append(("early", g.tolist())))
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("late", g.tolist())))
    y.mul_(5)
    y.sum().backward()
    early.remove()
    z = x * 2
    gone = z.register_hook(lambda g: seen.append(("gone", g.tolist())))
    z.mul_(2)
    gone.remove()
    z.sum().backward()
    return seen, x.grad


@program
def reshaping_in_place_keeps_the_dict_of_hooks(m):
    y, seen = leaf(m, 1, 2) * 2, []
    y.register_hook(lambda g: seen.append(list(g.shape)))
    y.unsqueeze_(0)
    kept = y._backward_hooks is None
    y.sum().backward()
    return kept, seen


@program
def a_log_of_the_nodes_that_run(m):
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    log, handler = logging.getLogger("torch.autograd.graph"), Keep()
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        x = leaf(m, 1, 2)
        (x * 2).exp().sum().backward()
        m.autograd.grad((x * 2).unbind()[0], x)
        m.autograd.grad(m.cat([x, x]).to(m.complex64).abs().sum(), x)
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]
    x.sum().backward()
    return lines


# --- recorded gradients ---------------------------------------------------------------------------


@program
def values_of_gradients_that_overlap(m):
    x = m.arange(6.0).view(2, 3).requires_grad_()
    y, seen = x * 1, []
    y.register_hook(lambda g: seen.append((g + 1, g * g, g.clone(), g.t(), g.contiguous().stride())))
    (g,) = m.autograd.grad((y.sum(1) ** 2).sum() + y.sum(), x, create_graph=True)
    g.pow(2).sum().backward()
    return seen, g, x.grad


# --- replayed views -------------------------------------------------------------------------------


@program
def a_view_of_another_base(m):
    x = leaf(m, 1, 2, 3, 4)
    b = x * 1
    other = m.arange(4.0) + 10
    parts = (
        b[:2],
        b.view(2, 2),
        b.view(2, 2).t(),
        b.view(2, 2)[0],
        b.unbind()[1],
        b.expand(2, 4),
        b.split(2)[1],
        b.as_strided((2,), (2,), 1),
        b.unsqueeze(0),
        b[::2],
        b.detach()[1:],
        b,
        b.clone(),
    )
    seen = [v._view_func(other) for v in parts]
    return [None if v is None else (v, v.stride(), v._is_view(), v._base is other) for v in seen]


@program
def bases_that_do_not_fit(m):
    v = (leaf(m, 1, 2, 3, 4) * 1)[:2]
    return [
        v._view_func(m.ones(3)),
        v._view_func(m.arange(8.0)[::2]),
        v._view_func(m.arange(8.0)[4:]),
        v._view_func(m.arange(4.0).double()),
        v._view_func_unsafe(m.arange(4)),
        attempt(v._rev_view_func_unsafe, m.ones(2)),
    ]


@program
def a_replayed_view_has_a_gradient(m):
    x = leaf(m, 1, 2, 3, 4)
    v = (x * 1).view(2, 2)[1]
    y = x * 3
    w = v._view_func(y)
    name = w.grad_fn
    w.mul_(2)
    y.sum().backward()
    pairs = m.view_as_real(m.ones(2, dtype=m.complex64))[0]
    return w, y, name, x.grad, pairs._view_func(m.ones(2, dtype=m.complex64) * 2)


# --- inference tensors ----------------------------------------------------------------------------


@program
def detaching_an_inference_tensor_in_place_does_nothing(m):
    with m.inference_mode():
        x = m.ones(2).requires_grad_()
    return x.detach_() is x, x.requires_grad


# --- gradcheck ------------------------------------------------------------------------------------


@program
def directions_of_fast_gradcheck(m):
    Wrong = function(m, lambda ctx, x, y: x * 2 + y, lambda ctx, g: (g * 3, g), name="Wrong")
    x = m.tensor([0.25, 0.5], dtype=m.float64, requires_grad=True)
    y = m.tensor([1.0, 2.0], dtype=m.float64, requires_grad=True)
    outcome, _ = attempt(m.autograd.gradcheck, Wrong.apply, (x, y), fast_mode=True)
    lines = outcome[1].splitlines()[:3]
    return [line.partition(":")[0] for line in lines], [round(float(t.split(":")[1]), 6) for t in lines[1:]]


# --- arguments that are something else ------------------------------------------------------------


@program
def edges_of_no_node(m):
    edge = m.autograd.graph.GradientEdge
    x = leaf(m, 1, 2)
    y = x * 2
    s = y.sum()
    answers = [
        attempt(m.autograd.grad, s, e, retain_graph=True)
        for e in (edge(3, 1), edge(None, 0), edge(y.grad_fn, "a"), edge(y.grad_fn, 1.5))
    ]
    return [
        *answers,
        attempt(m.autograd.backward, s, inputs=[edge("a", 0)]),
        attempt(m.autograd.grad, edge(3, 0), x, m.ones(2))[0][0],
    ]


@program
def version_counters_of_something_else(m):
    set_to = m._C._autograd._unsafe_set_version_counter
    x = m.ones(2)
    given = ((1, 2), ([x], 3), ((x,), ("a",)), ((3,), (1,)), ((x,), (1, 2)), ((x,), (-1,)), ((x,), (4,)))
    return [attempt(set_to, *a) for a in given], x._version
