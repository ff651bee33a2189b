"""The warning about Functions that save what they computed in `forward`: in a recorded pass it counts as a constant."""

import gc
import warnings
import weakref

import pytest

import torchgrad_jax as torch
import torchgrad_jax.nn.functional as F
from torchgrad_jax import autograd, nn
from torchgrad_jax.autograd.function import Function, once_differentiable

x = torch.tensor([0.5, 1.5, -2.0])
scale = torch.tensor([1.0, 2.0, 3.0])


def saving(saved, returned=lambda x, s: x * 2, backward=None):
    """A Function of one tensor that saves one."""

    class Saving(Function):
        @staticmethod
        def forward(ctx, x):
            s = saved(x)
            ctx.save_for_backward(s)
            return returned(x, s)

        @staticmethod
        def backward(ctx, *g):
            (s,) = ctx.saved_tensors
            return g[0] * 2 if s is None or not s.is_floating_point() else g[0] * 2 * s.sum()

    if backward is not None:
        Saving.backward = staticmethod(backward)
    return Saving


def recorded(fn, *inputs, passes=1, create=True):
    """The warnings of recorded passes through a function."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(passes):
            given = [t.detach().clone().requires_grad_() for t in inputs or (x,)]
            out = fn(*given)
            first = out[0] if isinstance(out, tuple) else out
            autograd.grad(first.sum(), given, create_graph=create, allow_unused=True)
    return [str(w.message) for w in caught]


INTERMEDIATES = {
    "a product": lambda x: x * x,
    "several steps": lambda x: (x.exp() + 1).log() * scale,
    "a composite": lambda x: F.layer_norm(x, (3,)),
    "a reduction": lambda x: x.norm(),
    "a value beside its place": lambda x: x.max(0)[0],
    "sorted values": lambda x: x.sort()[0],
    "a view": lambda x: x.view(3, 1),
    "a part": lambda x: x[:2],
    "a copy": lambda x: x.clone(),
    "a detached alias": lambda x: x.detach(),
    "another dtype": lambda x: x.double(),
    "written in place": lambda x: torch.zeros(3).add_(x),
    "copied in place": lambda x: torch.empty(3).copy_(x),
    "written to a part": lambda x: _with_part(x),
    "a random product": lambda x: x * torch.rand(3),
    "gated by a mask": lambda x: torch.where(x > 0, x, 0.0),
    "joined": lambda x: torch.cat([scale, x]),
    "a product of a custom Function": lambda x: saving(lambda t: None).apply(x),
}

OTHERS = {
    "nothing": lambda x: None,
    "the input": lambda x: x,
    "a mask": lambda x: x > 0,
    "a mask of numbers": lambda x: (x > 0).float(),
    "a mask of two values": lambda x: torch.where(x > 0, 1.0, 0.5),
    "a drawn mask": lambda x: torch.empty_like(x).bernoulli_(0.5),
    "a drawn mask that is scaled": lambda x: (torch.rand_like(x) > 0.5).to(x.dtype) / 0.5,
    "dropout's mask": lambda x: F.dropout(torch.ones_like(x), 0.5),
    "signs": lambda x: x.sign(),
    "rounded": lambda x: x.round(),
    "whole parts": lambda x: torch.floor(x) * 2 + 1,
    "places": lambda x: x.argmax(),
    "an order": lambda x: x.sort()[1],
    "integers": lambda x: x.long(),
    "ones": torch.ones_like,
    "zeros": lambda x: torch.zeros(x.shape),
    "a constant": lambda x: scale,
    "computed of constants": lambda x: (scale * 2).exp(),
    "a constant of this size": lambda x: torch.full_like(x, float(len(x))),
    "made of a number": lambda x: torch.ones(3) * x.sum().item(),
    "noise": lambda x: torch.randn_like(x),
}


def _with_part(x):
    out = torch.zeros(5)
    out[1:4] = x
    return out


@pytest.mark.parametrize("saved", INTERMEDIATES.values(), ids=INTERMEDIATES)
def test_an_intermediate_warns_once(saved):
    fn = saving(saved)
    (message,) = recorded(fn.apply, passes=4)
    assert message.startswith("Saving.backward reads saved tensor 0, of shape [")


@pytest.mark.parametrize("saved", OTHERS.values(), ids=OTHERS)
def test_anything_else_does_not(saved):
    assert recorded(saving(saved).apply, passes=4) == []


def test_outputs_do_not():
    assert recorded(saving(lambda x: x.exp(), lambda x, s: s).apply, passes=3) == []
    assert recorded(saving(lambda x: x.exp(), lambda x, s: (x * 2, s)).apply, passes=3) == []


def test_an_output_without_a_gradient_does_not():
    class Marked(Function):
        @staticmethod
        def forward(ctx, x):
            s = x * x
            ctx.mark_non_differentiable(s)
            ctx.save_for_backward(s)
            return x * 2, s

        @staticmethod
        def backward(ctx, g, _):
            (s,) = ctx.saved_tensors
            return g * 2 + 0 * s

    assert recorded(Marked.apply, passes=3) == []


class Scaled(Function):
    """A product that also saves what it computed of its second factor alone."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w * 2)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w / 2, g * x


def test_what_depends_on_inputs_without_a_gradient_does_not():
    class Same(Scaled):
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            t = x.clone().requires_grad_()
            autograd.grad(Same.apply(t, scale).sum(), t, create_graph=True)


def test_the_message_says_which():
    (message,) = recorded(Scaled.apply, x, scale, passes=2)
    assert "Scaled.backward reads saved tensor 1, of shape [3], in a pass with create_graph=True" in message


def test_plain_passes_do_not():
    fn = saving(lambda x: x * x)
    assert recorded(fn.apply, passes=3, create=False) == []
    assert len(recorded(fn.apply, passes=3)) == 1  # the first of these has a forward that nobody watched


def test_a_backward_that_is_never_recorded_does_not():
    def read(ctx, g):
        (s,) = ctx.saved_tensors
        return g * s

    def read_apart(ctx, g):
        with torch.no_grad():
            (s,) = ctx.saved_tensors
        return g * s

    assert recorded(saving(lambda x: x * x, backward=once_differentiable(read)).apply, passes=3) == []
    assert recorded(saving(lambda x: x * x, backward=read_apart).apply, passes=3) == []
    assert recorded(saving(lambda x: x * x, backward=lambda ctx, g: g).apply, passes=3) == []


def test_beside_setup_context():
    class Square(Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0] * 2)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    assert len(recorded(Square.apply, passes=3)) == 1


def test_under_other_modes():
    for context in (lambda: torch.autocast("cpu"), lambda: autograd.graph.saved_tensors_hooks(same, same)):
        fn = saving(lambda x: x * x)

        def inside(t, fn=fn, context=context):
            with context():
                return fn.apply(t)

        assert len(recorded(inside, passes=3)) == 1


def same(t):
    return t


def test_the_way_out_has_right_second_derivatives():
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            square = x * x
            ctx.save_for_backward(x, square)
            return square * x, square

        @staticmethod
        def backward(ctx, g, to_square):
            x, square = ctx.saved_tensors
            return 3 * square * g + 2 * x * to_square

    class Again(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * (x * x) * g

    for apply in (lambda t: Cube.apply(t)[0], Again.apply):
        assert recorded(apply, passes=3) == []
        t = x.double().requires_grad_()
        assert autograd.gradcheck(apply, t)
        assert autograd.gradgradcheck(apply, t)


def test_the_trap_itself():
    """What the warning is about: the first derivative is right, and the second is not."""
    square = saving(lambda x: x * x, lambda x, s: s * x, lambda ctx, g: 3 * ctx.saved_tensors[0] * g)
    t = x.double().requires_grad_()
    assert autograd.gradcheck(square.apply, t)
    with pytest.warns(UserWarning, match="counts as a constant"):
        assert not autograd.gradgradcheck(square.apply, t, raise_exception=False)


def test_nothing_is_kept_alive():
    fn = saving(lambda x: x * x)
    t = x.clone().requires_grad_()
    between = t * 2
    out, seen = fn.apply(between), weakref.ref(between._st)
    del between
    gc.collect()
    assert seen() is None
    assert out.grad_fn._watch is not None
    out.sum().backward()
    assert out.grad_fn._watch is None


def test_functions_of_the_package_do_not():
    images = torch.rand(1, 4, 3, 3)
    assert recorded(nn.CrossMapLRN2d(2), images, passes=2) == []
    assert recorded(lambda a: torch.distributions.Dirichlet(a).rsample(), torch.rand(3) + 1, passes=2) == []
    assert recorded(lambda t: torch.utils.checkpoint.checkpoint(torch.sin, t, use_reentrant=False), passes=2) == []
