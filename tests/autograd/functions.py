"""Functions of the user that several tests apply."""

from tests.autograd.programs import leaf
from tests.own_gradients import saving_input


def cube(m):
    return saving_input(m, "Cube", lambda x: x * x * x, lambda x, g: g * 3 * x * x)


def with_backward(m, backward, forward=None, name="MyFn"):
    """A Function of two tensors, by default their product, with the given backward."""
    return type(m.autograd.Function)(
        name,
        (m.autograd.Function,),
        {"forward": staticmethod(forward or (lambda ctx, x, y: x * y)), "backward": staticmethod(backward)},
    )


def run_backward(m, backward, forward=None, args=None):
    """Apply such a Function and go backward through it."""
    x, y = leaf(m, 1.0, 2.0), leaf(m, 3.0, 4.0)
    out = with_backward(m, backward, forward).apply(*(args or (x, y)))
    out.sum().backward()
    return out, x, y


def doubles_in_place(ctx, x):
    x.mul_(2)
    ctx.mark_dirty(x)
    return x


def function(m, fwd, bwd=None, name="F", **kw):
    """A Function of the given name, methods and attributes."""
    d = {"forward": staticmethod(fwd)}
    if bwd:
        d["backward"] = staticmethod(bwd)
    d.update({k: (staticmethod(v) if callable(v) else v) for k, v in kw.items()})
    return type(name, (m.autograd.Function,), d)
