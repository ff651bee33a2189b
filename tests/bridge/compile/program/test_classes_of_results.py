"""Results of a compiled function have the class and the attributes that they have in eager code."""

from types import SimpleNamespace

import pytest

import torchgrad_jax as torch


class Marked(torch.Tensor):
    """A class of a user's."""


def tagged(x):
    x.tag = "a"
    return x


def _of_an_argument(w, kept):
    return lambda x: (x * 2, x[1:], x.detach(), x.view(3, 1), x.sum())


def _with_views(w, kept):
    def f(x):
        y = x * 2
        return y, y[0], y.as_subclass(torch.Tensor), y.detach()

    return f


def _with_a_graph(w, kept):
    return lambda x: (x * w, (x * w)[1:], w[1:], w)


def _of_a_tensor_outside(w, kept):
    t = torch.arange(3.0).as_subclass(Marked)
    return lambda x: (t[1:], t, t * 2, w.detach().as_subclass(Marked))


def _parameters_and_buffers(w, kept):
    return lambda x: (
        torch.nn.Parameter(x * 2, requires_grad=False),
        torch.nn.Parameter(x * 3),
        torch.nn.Buffer(x * 4, persistent=False),
    )


def _with_attributes(w, kept):
    return lambda x: (tagged(x * 2), tagged(x * w), tagged(x.view(-1)))


def _with_a_tensor_for_an_attribute(w, kept):
    def f(x):
        y = x * 2
        y.tag = x + 1
        return (y,)

    return f


def _leaves_that_are_views(w, kept):
    def f(x):
        y = x * 2
        first, *_ = y.detach().view(3, 1).unbind()
        return y, first.requires_grad_(), y.detach()[1:].requires_grad_()

    return f


def _kept_outside(w, kept):
    def f(x):
        kept.last = tagged((x * 2).as_subclass(Marked))
        return (x,)

    return f


EVERY = (
    _of_an_argument,
    _with_views,
    _with_a_graph,
    _of_a_tensor_outside,
    _parameters_and_buffers,
    _with_attributes,
    _with_a_tensor_for_an_attribute,
    _leaves_that_are_views,
    _kept_outside,
)


def look(x):
    """What a tensor holds, is and has."""
    attributes = {k: look(v) if isinstance(v, torch.Tensor) else v for k, v in vars(x).items()}
    return type(x), x.tolist(), x.requires_grad, x.is_leaf, attributes


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("cls", [torch.Tensor, Marked])
@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__.strip("_"))
def test_results_have_their_class_and_attributes(make, cls):
    found = []
    for form in (lambda f: f, torch.compile):
        w, kept = torch.nn.Parameter(torch.ones(3)), SimpleNamespace(last=torch.zeros(3))
        run = form(make(w, kept))
        for _ in range(2):
            outs = run(torch.tensor([1.0, -2.0, 3.0]).as_subclass(cls))
            found.append([*map(look, outs), look(kept.last)])
    assert found[2:] == found[:2]
