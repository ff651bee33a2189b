"""Gradients that are set between calls of a compiled function: parts of a larger memory, or one memory with others."""

import pytest

import torchgrad_jax as torch


def _backward(p, q, c):
    def f(x):
        (p * x + q * x * 2).sum().backward()
        return p.grad * 1

    return f


def _write(p, q, c):
    def f(x):
        p.grad.mul_(2)
        q.grad.add_(x)
        return p.grad + q.grad

    return f


def _read(p, q, c):
    return lambda x: p.grad * x + q.grad


def _norm(p, q, c):
    return lambda x: torch.nn.utils.clip_grad_norm_([p, q], 1.0)


def _with_what_it_knows(p, q, c):
    def f(x):
        p.grad.mul_(2)
        c.add_(x)
        return p.grad + c * q.grad

    return f


def _step(p, q, c):
    optimizer = torch.optim.SGD([p, q], lr=0.1, momentum=0.9)

    def f(x):
        optimizer.step()
        return p * x + q

    return f


def _knows_only_the_leaf(p, q, c):
    return lambda x: (p * x * q + c).detach()


def parts(p, q, c):
    flat = torch.arange(6.0)
    p.grad, q.grad = flat[:3], flat[3:]
    return flat


def one(p, q, c):
    p.grad = q.grad = torch.arange(3.0)


def known(p, q, c):
    p.grad, q.grad = c, torch.ones(3)


def shown(p, q, c):
    p.grad, q.grad = c.view(1, 3)[0], torch.ones(6)[2:5]


def renewed(p, q, c):
    p.grad, q.grad = torch.ones(3), torch.full((3,), 5.0)


WAYS = {
    "parts": (parts, renewed, parts),
    "one": (one, renewed, one),
    "known": (known, renewed, known, renewed),
    "shown": (shown, renewed),
    "renewed": (renewed, parts, one, known, shown, renewed),
}


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("ways", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("make", [_backward, _write, _read, _norm, _with_what_it_knows, _step, _knows_only_the_leaf])
def test_a_call_takes_the_gradients_that_are_there(make, ways):
    found = []
    for form in (lambda f: f, torch.compile):
        p, q = (torch.nn.Parameter(torch.full((3,), float(k))) for k in (1, 2))
        c = torch.full((3,), 0.5)
        f = form(make(p, q, c))
        for way in ways:
            flat = way(p, q, c)
            for _ in range(2):
                out = f(torch.tensor([1.0, -2.0, 3.0]))
                seen = (out, p, q, p.grad, q.grad, c, *([] if flat is None else [flat]))
                found.append([t.detach().clone() for t in seen])
    half = len(found) // 2
    for expected, got in zip(found[:half], found[half:], strict=True):
        torch.testing.assert_close(got, expected)


def test_a_gradient_that_the_function_knows_itself_is_returned_whatever_the_leaf_has():
    p, c = torch.nn.Parameter(torch.ones(3)), torch.ones(3)
    p.grad = c
    f = torch.compile(lambda x: (c, p * x + c))
    for gradient in (c, torch.full((3,), 5.0), None):
        p.grad = gradient
        known, out = f(torch.ones(3))
        assert known is c
        assert out.tolist() == [2.0, 2.0, 2.0]


def test_gradients_with_memory_of_their_own_need_one_program():
    p = torch.nn.Parameter(torch.ones(3))
    f = torch.compile(lambda x: p.grad.mul_(2) + x)
    for k in range(5):
        p.grad = torch.full((3,), float(k)) if k % 2 else torch.full((3,), float(k)).detach()
        assert f(torch.ones(3)).tolist() == [2.0 * k + 1] * 3
    assert f.counts["traced"] == 1
