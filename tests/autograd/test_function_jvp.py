"""Functions in forward mode, compared with torch."""

import warnings

from tests.autograd.functions import doubles_in_place, function
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def jvp_of_dirty(m):
    fw = m.autograd.forward_ad
    F = function(m, lambda ctx, x: doubles_in_place(ctx, x), jvp=lambda ctx, t: t.mul_(2))
    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0]), m.tensor([1.0]))
        b = F.apply(a)
        return fw.unpack_dual(b), a is b


@program
def jvp_view(m):
    fw = m.autograd.forward_ad
    F = function(m, lambda ctx, x: x[:1], jvp=lambda ctx, t: t[:1])
    with fw.dual_level():
        a = fw.make_dual(m.tensor([2.0, 3.0]), m.tensor([1.0, 5.0]))
        return fw.unpack_dual(F.apply(a))


def _saving(m, backward, forward, split, requires_grad):
    """What a Function sees in its methods of what it saved: as given, in jvp, and in backward."""
    fw, seen = m.autograd.forward_ad, []

    def show(where, ctx):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            both = ctx.saved_tensors, ctx.saved_variables
        seen.extend([None if v is None else (v.tolist(), v.requires_grad) for v in values] for values in both)
        seen.append((where, len(ctx._raw_saved_tensors)))

    def save(ctx, inputs, output):
        choice = {"x": inputs[:1], "y": inputs[1:], "both": inputs, "output": (output,), "none": (None,), "empty": ()}
        if backward:
            ctx.save_for_backward(*choice[backward])
        if forward:
            ctx.save_for_forward(*choice[forward])
        show("forward", ctx)

    class F(m.autograd.Function):
        @staticmethod
        def jvp(ctx, tx, ty):
            show("jvp", ctx)
            return tx * 2

        @staticmethod
        def backward(ctx, g):
            show("backward", ctx)
            return g, g

    def forward_of(ctx, x, y):
        out = x * y
        save(ctx, (x, y), out)
        return out

    if split:
        F.forward, F.setup_context = staticmethod(lambda x, y: x * y), staticmethod(save)
    else:
        F.forward = staticmethod(forward_of)
    with fw.dual_level():
        x = fw.make_dual(m.tensor([2.0], requires_grad=requires_grad), m.tensor([1.0]))
        out = F.apply(x, m.tensor([5.0]))
        seen.append(fw.unpack_dual(out).tangent.tolist())
        if requires_grad:
            show("node", out.grad_fn)
            out.sum().backward()
    return seen


@program
def what_is_saved_for_forward_and_for_backward_is_kept_apart(m):
    choices = (None, "x", "y", "both", "output", "none", "empty")
    return [
        _saving(m, backward, forward, split, requires_grad)
        for backward in choices
        for forward in choices
        for split in (False, True)
        for requires_grad in (False, True)
    ]
