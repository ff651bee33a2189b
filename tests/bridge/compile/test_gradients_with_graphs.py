"""Gradients that have a graph themselves: `backward(create_graph=True)` and batched gradients in compiled functions."""

import pytest

import torchgrad_jax as torch


def _penalty_on_the_gradient(w, x):
    (w**3 * x).sum().backward(create_graph=True)
    w.grad.pow(2).sum().backward()


def _penalty_on_a_gradient_made_anew(w, x):
    w.grad = None
    _penalty_on_the_gradient(w, x)


def _gradient_is_detached_at_the_end(w, x):
    _penalty_on_the_gradient(w, x)
    w.grad = w.grad.detach()


def _graph_is_left(w, x):
    (w**3 * x).sum().backward(create_graph=True)


def _graph_is_left_each_time_anew(w, x):
    w.grad = None
    _graph_is_left(w, x)


def _returned(w, x):
    _penalty_on_a_gradient_made_anew(w, x)
    return w.grad


def _set_to_what_has_a_graph(w, x):
    w.grad = w * x


def _set_to_a_leaf(w, x):
    w.grad = torch.ones(2, requires_grad=True)


def _hessian_in_the_direction_of_the_gradient(w, x):
    _graph_is_left_each_time_anew(w, x)
    (h,) = torch.autograd.grad(w.grad, w, w.grad.detach())
    with torch.no_grad():
        w -= 0.1 * w.grad / h.abs().clamp(min=1)


STEPS = [
    _penalty_on_the_gradient,
    _penalty_on_a_gradient_made_anew,
    _gradient_is_detached_at_the_end,
    _graph_is_left,
    _graph_is_left_each_time_anew,
    _returned,
    _set_to_what_has_a_graph,
    _set_to_a_leaf,
    _hessian_in_the_direction_of_the_gradient,
]


def _outcome(call):
    """What a call returns, or the error that it raises."""
    try:
        return call()
    except RuntimeError as error:
        return str(error)


def _seen(step, is_argument, form):
    """What somebody sees who calls `step` twice, and then differentiates the gradient that it left."""
    w = torch.tensor([1.0, -2.0], requires_grad=True)
    x = torch.tensor([0.5, 3.0])
    compiled = form(step if is_argument else lambda x: step(w, x))
    call = (lambda: compiled(w, x)) if is_argument else (lambda: compiled(x))
    found = []
    for _ in range(2):
        out = _outcome(call)
        if isinstance(out, str):  # what eager code did before the error, a compiled function did not
            return [*found, out]
        g = w.grad
        found.append((out is g or out, w.tolist(), g.tolist(), g.requires_grad, g.is_leaf))
    error = _outcome(lambda: w.grad.sum().backward())
    w.grad = None
    out = _outcome(call)
    return [*found, error, out is w.grad or out, w.grad.tolist()]


@pytest.mark.filterwarnings("ignore:Using backward", "ignore:torch.compile")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_argument", [True, False], ids=["argument", "from outside"])
def test_a_gradient_keeps_its_graph(step, is_argument):
    eager, compiled = (_seen(step, is_argument, form) for form in (lambda f: f, torch.compile))
    assert compiled == eager


@pytest.mark.filterwarnings("ignore:Using backward", "ignore:torch.compile")
@pytest.mark.parametrize(
    "step",
    [
        _penalty_on_a_gradient_made_anew,
        _gradient_is_detached_at_the_end,
        _returned,
        _hessian_in_the_direction_of_the_gradient,
    ],
)
def test_a_graph_that_is_used_up_needs_no_run_as_it_is_written(step):
    w = torch.tensor([1.0, -2.0], requires_grad=True)
    compiled = torch.compile(lambda x: step(w, x), fullgraph=True)
    for _ in range(3):
        w.grad = None
        compiled(torch.tensor([0.5, 3.0]))
    assert compiled.counts["traced"] == 1


@pytest.mark.filterwarnings("ignore:Using backward", "ignore:torch.compile")
def test_a_program_is_not_for_a_gradient_that_has_a_graph():
    """It was made for a gradient without one, and would lose the graph."""
    found = []
    for form in (lambda f: f, torch.compile):
        w = torch.tensor([1.0, -2.0], requires_grad=True)
        step = form(lambda x, w=w: (w * x).sum().backward(create_graph=True))
        w.grad = torch.ones(2)
        x = torch.tensor([0.5, 3.0])
        for _ in range(2):
            step(x)
        w.grad = w * w
        step(x)
        found.append((w.grad.tolist(), torch.autograd.grad(w.grad.sum(), w)[0].tolist()))
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore:Using backward", "ignore:torch.compile")
def test_many_steps_that_go_on_from_a_used_up_graph_raise():
    w = torch.tensor([1.0, -2.0], requires_grad=True)
    step = torch.compile(lambda x: _penalty_on_the_gradient(w, x))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        step.many(torch.ones(4, 2))


# --- results whose graph was used up --------------------------------------------------------------


def _used_up(w, x):
    loss = (w**3 * x).sum()
    loss.backward()
    return loss * 2, (w * x).sum()


def _shared(w, x):
    y = w.exp()
    (y**2).sum().backward()
    return y * x.detach(), y


def _leaf_of_its_own(w, x):
    own = (w.detach() * 2).requires_grad_()
    loss = (own**3 * x * w).sum()
    loss.backward()
    return loss, w * 2


ASKED = {
    "both, for the weight": lambda a, b, w, x: torch.autograd.grad([a.sum(), b.sum()], w),
    "both, for what may be unused": lambda a, b, w, x: torch.autograd.grad(
        [a.sum(), b.sum()], [w, x], allow_unused=True
    ),
    "the first": lambda a, b, w, x: torch.autograd.grad(a.sum(), [x, w], allow_unused=True),
    "the second": lambda a, b, w, x: torch.autograd.grad(b.sum(), w),
    "a pass": lambda a, b, w, x: (a.sum() + b.sum()).backward(),
    "what is independent": lambda a, b, w, x: torch.autograd.grad(a.sum() + (x * x).sum(), x),
    "where it leads": lambda a, b, w, x: [a.requires_grad, a.grad_fn.name()],
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("function", [_used_up, _shared, _leaf_of_its_own])
@pytest.mark.parametrize("is_argument", [True, False], ids=["argument", "from outside"])
def test_a_pass_does_not_go_around_a_used_up_graph(function, asked, is_argument):
    """It was left out of `autograd.grad`, which gave the gradient of the rest."""
    found = []
    for form in (lambda f: f, lambda f: torch.compile(f, fullgraph=True)):
        w = torch.tensor([1.0, -2.0], requires_grad=True)
        x = torch.tensor([0.5, 3.0], requires_grad=True)
        f = form(function if is_argument else lambda x, w=w: function(w, x))
        for _ in range(2):
            a, b = f(w, x) if is_argument else f(x)
            out = _outcome(lambda a=a, b=b, w=w, x=x: asked(a, b, w, x))
            if isinstance(out, tuple):
                out = [None if g is None else g.tolist() for g in out]
            found.append(out)
    assert found[2:] == found[:2]


# --- a pass for each row --------------------------------------------------------------------------


def _hooked(x):
    y = x * x
    y.register_hook(lambda g: g * 2)
    return y


FUNCTIONS = {
    "a number": lambda x: x.sum(),
    "one operator": torch.sin,
    "several": lambda x: (x.clamp(min=0.0) * x).exp(),
    "a hook": _hooked,
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("rows_need_a_gradient", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_batched_gradients(function, rows_need_a_gradient, create_graph):
    def f(x, unused, rows):
        y = function(x)
        constant = torch.eye(3, 3) if y.ndim else torch.ones(3)
        found = torch.autograd.grad(y, x, constant, is_grads_batched=True, retain_graph=True, create_graph=create_graph)
        return *found, *torch.autograd.grad(
            y, (unused, x), rows, is_grads_batched=True, allow_unused=True, create_graph=create_graph
        )

    seen = []
    for form in (lambda f: f, lambda f: torch.compile(f, fullgraph=True)):
        called = form(f)
        for _ in range(2):
            x = torch.tensor([1.0, -0.5, 2.0], requires_grad=True)
            rows = torch.ones(2, *function(x).shape, requires_grad=rows_need_a_gradient)
            found = called(x, torch.ones(2, requires_grad=True), rows)
            seen.append([None if g is None else (g.tolist(), g.requires_grad) for g in found])
    for got in seen[1:]:
        assert [g and g[1] for g in got] == [g and g[1] for g in seen[0]]
        torch.testing.assert_close([g and g[0] for g in got], [g and g[0] for g in seen[0]])
