"""retain_grad, and hooks on tensors that are then written to, compared with torch."""

from tests.autograd.hooked import Log
from tests.autograd.programs import leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def retain_grad(m):
    x = leaf(m, 2.0)
    y = x * 3
    y.retain_grad()
    y.retain_grad()
    (y * y).backward()
    return y, y.retains_grad, x.retains_grad


@program
def retain_grad_of_leaf(m):
    x = leaf(m, 2.0)
    x.retain_grad()
    return x.retains_grad


@program.raises
def retain_grad_without_grad(m):
    m.ones(1).retain_grad()


@program
def retain_grad_sees_hooks(m):
    x = leaf(m, 2.0)
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    (y * y).backward()
    return y, x


@program
def retain_grad_then_inplace(m):
    x = leaf(m, 2.0)
    y = x * 3
    y.retain_grad()
    y.mul_(5)
    (y * 2).backward()
    return y, x


@program
def retain_grad_after_inplace(m):
    x = leaf(m, 2.0)
    y = x * 3
    y.mul_(5)
    y.retain_grad()
    (y * 2).backward()
    return y, x


@program
def hook_then_inplace(m):
    log = Log()
    x = leaf(m, 2.0)
    y = x * 3
    y.register_hook(log.hook("before"))
    y.mul_(5)
    y.register_hook(log.hook("after"))
    (y * 2).backward()
    return log


@program
def hook_on_view(m):
    log = Log()
    x = leaf(m, 1.0, 2.0, 3.0)
    y = x * 1
    v = y[1:]
    v.register_hook(log.hook("v", lambda g: g * 10))
    y.register_hook(log.hook("y"))
    (v * 2).sum().backward()
    return log, x


@program
def hook_on_view_then_inplace(m):
    log = Log()
    x = leaf(m, 1.0, 2.0, 3.0)
    y = x * 1
    v = y[1:]
    v.register_hook(log.hook("v before"))
    y.register_hook(log.hook("y before"))
    v.mul_(2)
    v.register_hook(log.hook("v after"))
    y.register_hook(log.hook("y after"))
    (y * 3).sum().backward(retain_graph=True)
    log.append("second")
    v.sum().backward()
    return log, x


@program
def retain_on_base_then_view_inplace(m):
    x = leaf(m, 1.0, 2.0, 3.0)
    y = x * 1
    y.retain_grad()
    v = y[1:]
    v.retain_grad()
    v.mul_(2)
    (y * 3).sum().backward()
    return y.grad, v.grad, x


@program
def hook_on_leaf_survives_inplace_under_no_grad(m):
    log = Log()
    x = leaf(m, 2.0)
    x.register_hook(log.hook("x"))
    with m.no_grad():
        x.mul_(2)
    (x * x).backward()
    return log


@program
def hook_on_becoming_non_leaf(m):
    log = Log()
    x = m.tensor([2.0])
    w = leaf(m, 3.0)
    x.mul_(w)
    x.register_hook(log.hook("x"))
    (x * 2).backward()
    return log


@program
def hooks_stay_behind_views_in_place(m):
    """Transposing in place, say, gives a node of its own; hooks are those of the one before, later ones too."""
    found = []
    moves = (
        lambda t: t.squeeze_(),
        lambda t: t.unsqueeze_(0),
        lambda t: t.t_(),
        lambda t: t.mul_(2),
        lambda t: t.as_strided_((2,), (1,)),
        lambda t: t.transpose_(0, 1),
        lambda t: t.mul_(3).squeeze_(),
    )
    for move in moves:
        for retained, hooked, limited in ((1, 0, 0), (1, 0, 1), (0, 1, 0), (0, 1, 1), (1, 1, 0)):
            log = Log()
            x = leaf(m, 1.0, 1.0, -2.0)
            y = x.sin().reshape(1, 3)[:]
            if retained:
                y.retain_grad()
            if hooked:
                y.register_hook(log.hook("before"))
            move(y)
            y.sum().backward(inputs=[y] if limited else None, retain_graph=True)
            first = None if y.grad is None else y.grad.clone()
            y.register_hook(log.hook("after"))
            y.sum().backward(retain_graph=True)
            found.append((y.retains_grad, first, y.grad, log, x.grad))
    return found
