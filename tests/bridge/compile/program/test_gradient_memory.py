"""Compiled steps reuse the memory of the last gradients for the next ones, unless somebody still holds those."""

import numpy as np
import pytest

import torchgrad_jax as tg

SIZE = (200, 200)


def made():
    w = tg.linspace(-1, 1, 40_000).view(SIZE).clone().requires_grad_()
    b = tg.zeros(200, requires_grad=True)

    @tg.compile
    def step(x):
        for p in (w, b):
            p.grad = None
        loss = (x @ w + b).square().mean()
        loss.backward()
        assert w.grad is not None
        with tg.no_grad():
            w.sub_(w.grad)
        return loss

    return w, b, step


def place(t):
    return t._st.array.unsafe_buffer_pointer()


def test_memory_is_used_again():
    w, _, step = made()
    x = tg.ones(3, 200)
    step(x)
    before, weights, values = place(w.grad), place(w), w.grad.tolist()
    step(x)
    assert place(w.grad) == before
    assert place(w) == weights
    assert w.grad.tolist() != values
    assert step.counts["traced"] == 1


KEEP = {
    "the gradient": lambda w: w.grad,
    "a view": lambda w: w.grad[1:],
    "a detached gradient": lambda w: w.grad.detach(),
    "its storage": lambda w: w.grad.untyped_storage(),
    "its array": lambda w: w.grad.__jax_array__(),
    "a NumPy array": lambda w: np.asarray(w.grad),
    "a list of gradients": lambda w: [w.grad],
    "a DLPack import": lambda w: np.from_dlpack(w.grad),
}


@pytest.mark.parametrize("keep", KEEP)
def test_what_is_held_stays(keep):
    w, _, step = made()
    x = tg.ones(3, 200)
    step(x)
    held = KEEP[keep](w)
    seen = held[0] if isinstance(held, list) else held
    before = seen.tolist()
    first = w.grad.tolist()
    for _ in range(3):
        step(x)
    assert seen.tolist() == before
    assert w.grad.tolist() != first


def test_the_same_numbers_as_eager_code():
    w, b, step = made()
    v, c, _ = made()
    x = tg.arange(600.0).view(3, 200) / 600
    for _ in range(3):
        loss = step(x)
        for p in (v, c):
            p.grad = None
        want = (x @ v + c).square().mean()
        want.backward()
        assert v.grad is not None
        with tg.no_grad():
            v.sub_(v.grad)
        tg.testing.assert_close(loss, want.detach())
        tg.testing.assert_close(w.grad, v.grad)
        tg.testing.assert_close(b.grad, c.grad)
        tg.testing.assert_close(w, v)
