"""What hooks and backward functions do in Python waits for the backward pass, also of compiled functions."""

# ruff: noqa: T201 - what is printed is what is tested

import warnings
from contextlib import redirect_stdout
from io import StringIO

import pytest

import torchgrad_jax as torch


class Recorder:
    """What a hook or a backward function leaves behind, however it does that."""

    def __init__(self):
        self.seen, self.count, self.last, self.held = [], 0, None, {}

    def read(self):
        """All of it, as plain values."""
        last = None if self.last is None else self.last.tolist()
        return [g.tolist() for g in self.seen], self.count, last, sorted(self.held)


def _count(recorder, g):
    recorder.count += 1


def _keep_last(recorder, g):
    recorder.last = g


EFFECTS = {
    "appends the gradient": lambda r, g: r.seen.append(g),
    "appends a part of it": lambda r, g: r.seen.append(g.detach()[:1] * 2),
    "counts": _count,
    "keeps it as an attribute": _keep_last,
    "fills a dict": lambda r, g: r.held.__setitem__(len(r.held), 1.0),
    "prints": lambda r, g: print("passed", g.shape),
    "reads a value": lambda r, g: r.held.__setitem__(float(g.sum()), 1.0),
}


def _by_hook(effect, recorder):
    def step(x):
        h = x * 2
        h.register_hook(lambda g: effect(recorder, g))
        return h.exp()

    return step


def _by_node_hook(effect, recorder):
    def step(x):
        h = x * 2
        h.grad_fn.register_prehook(lambda grads: effect(recorder, grads[0]))
        return h.exp()

    return step


def _by_function(effect, recorder):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            effect(recorder, g)
            return g * 2

    return lambda x: Doubled.apply(x).exp()


PLACES = {"hook": _by_hook, "hook of a node": _by_node_hook, "backward function": _by_function}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", EFFECTS)
def test_an_effect_comes_with_the_backward_pass(place, name):
    """One pass of three calls, so that what comes with a call is told from what comes with a pass."""
    runs = []
    for form in (lambda f: f, torch.compile):
        recorder, printed = Recorder(), StringIO()
        step = form(PLACES[place](EFFECTS[name], recorder))
        states = []
        x = torch.arange(3.0).requires_grad_()
        with redirect_stdout(printed), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.compile: .* runs eagerly")
            for k in range(3):
                out = step(x)
                states.append((recorder.read(), printed.getvalue()))
                if k == 1:
                    out.sum().backward()
                states.append((recorder.read(), printed.getvalue()))
        runs.append((states, x.grad.tolist()))
    assert runs[0] == runs[1]
    assert states[2] != states[3]


class NoWayBack(torch.autograd.Function):
    """A function whose gradient nobody wrote."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise ValueError("there is no way back")


def _used_twice(x):
    y = x.exp()
    y.sum().backward()
    return y


def _written_after_use(x):
    y = x.exp()
    z = y.sin()
    y.detach().add_(1)
    return z


FAILING = {
    "an operator without a derivative": lambda x: x // 2,
    "a Function without one": NoWayBack.apply,
    "a graph that was used": _used_twice,
    "a value that was overwritten": _written_after_use,
}


@pytest.mark.parametrize("name", FAILING)
def test_a_pass_that_raises_does_not_keep_the_call_from_running(name):
    """The call gives its results; the error comes with the pass, and other results have their gradients."""
    errors = []
    for form in (lambda f: f, torch.compile):
        x = torch.arange(1.0, 5.0).requires_grad_()
        step = form(lambda x: (FAILING[name](x), x * 3))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.compile: .* runs eagerly")
            for _ in range(2):
                bad, good = step(x)
                x.grad = None
                good.sum().backward()
                assert x.grad.tolist() == [3, 3, 3, 3]
        with pytest.raises((RuntimeError, ValueError), match=r"\w") as caught:
            bad.sum().backward()
        errors.append((type(caught.value), str(caught.value)))
    assert errors[0] == errors[1]


def test_the_reason_is_told_once():
    step = torch.compile(lambda x: x // 2)
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="graph of its results raises RuntimeError: derivative for"):
        step(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(x)


def test_a_view_of_several_that_were_written_since_is_returned():
    """Only its `grad_fn` cannot be told, which the call does not ask for."""
    for form in (lambda f: f, torch.compile):
        x = torch.arange(4.0).requires_grad_()

        def step(x):
            first, second = x.split(2)
            with torch.no_grad():
                x.mul_(2)
            return first.detach() * 1, second

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.compile: .* runs eagerly")
            _, second = form(step)(x)
        assert second.tolist() == [4, 6]
        with pytest.raises(RuntimeError, match=r"Output 1 of Split.* is a view and its base"):
            _ = second.grad_fn


WITH_A_GRAPH = {
    "a product": lambda w, x: (w * x).sum(),
    "a row": lambda w, x: w[0],
    "a leaf": lambda w, x: (w * x).detach().requires_grad_(),
    "a gradient": lambda w, x: torch.autograd.grad((w * w * x).sum(), w, create_graph=True)[0],
}


@pytest.mark.parametrize("name", WITH_A_GRAPH)
def test_enable_grad_inside_of_a_function_that_is_called_without(name):
    w = torch.ones(2, 2, requires_grad=True)

    def step(x):
        with torch.enable_grad():
            inside = WITH_A_GRAPH[name](w, x)
        return inside, w * x

    def run(f):
        found = []
        for k in range(4):
            with torch.set_grad_enabled(k % 2 == 1):
                inside, outside = f(torch.full((2,), k + 1.0))
            (inside.sum() * 3).backward()
            found += [w.grad, inside.grad if inside.is_leaf else None, outside.requires_grad]
            w.grad = None
        return [g.tolist() if isinstance(g, torch.Tensor) else g for g in found]

    f = torch.compile(step)
    assert run(f) == run(step)
    assert f.counts == {"traced": 2, "run": 4, "eager": 0}
