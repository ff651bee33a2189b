"""Hooks that come, go, raise or run passes of their own while a pass runs, compared with torch."""

from tests.autograd.hooked import Log
from tests.autograd.programs import leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def removed(m):
    log = Log()
    x = leaf(m, 1.0)
    h = x.register_hook(log.hook("one"))
    x.register_hook(log.hook("two"))
    h.remove()
    h.remove()
    (x * 2).backward()
    return log


@program
def removed_during_the_pass(m):
    log = Log()
    x = leaf(m, 1.0)
    handles = []
    x.register_hook(lambda g: (log.append("one"), handles[1].remove())[0])
    handles += [None, x.register_hook(log.hook("two"))]
    y = x * 2
    for _ in range(2):
        y.backward(retain_graph=True)
    return log


@program
def added_during_the_pass(m):
    log = Log()
    x = leaf(m, 1.0)
    y = x * 2
    y.register_hook(lambda g: (log.append("y"), x.register_hook(log.hook("x")))[1] and None)
    y.backward()
    return log


@program.raises
def post_hook_raises(m):
    x = leaf(m, 1.0)
    y = x.exp()

    def hook(gi, go):
        raise KeyError("in hook")

    y.grad_fn.register_hook(hook)
    y.backward()


@program
def grad_with_hooks_on_inputs(m):
    x = leaf(m, 2.0)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g * 100)
    z = y * y
    return [m.autograd.grad(z, wanted, retain_graph=True) for wanted in ([y, x], y, x)]


@program
def backward_inputs_with_hooks(m):
    log = Log()
    x, w = leaf(m, 2.0), leaf(m, 5.0)
    y = x * w
    x.register_hook(log.hook("x"))
    w.register_hook(log.hook("w"))
    y.register_hook(log.hook("y"))
    w.register_post_accumulate_grad_hook(lambda t: log.append("post w"))
    x.register_post_accumulate_grad_hook(lambda t: log.append("post x"))
    (y * y).backward(inputs=[x])
    return log, x, w


@program
def backward_inputs_non_leaf_with_hooks(m):
    log = Log()
    x = leaf(m, 2.0)
    y = x * 3
    y.register_hook(log.hook("y", lambda g: g * 10))
    (y * y).backward(inputs=[y])
    return log, x, y
