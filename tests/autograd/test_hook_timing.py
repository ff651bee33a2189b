"""Hooks that come, go, raise or run passes of their own while a pass runs, compared with torch."""

import pickle

from tests.autograd.hooked import Log, _module_level
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
def removes_itself(m):
    log = Log()
    x = leaf(m, 1.0)
    y = x * 2
    handle = y.register_hook(lambda g: (log.append("ran"), handle.remove())[0])
    y.register_hook(log.hook("other"))
    y.backward(retain_graph=True)
    y.backward()
    return log


@program
def added_during_the_pass(m):
    log = Log()
    x = leaf(m, 1.0)
    y = x * 2
    y.register_hook(lambda g: (log.append("y"), x.register_hook(log.hook("x")))[1] and None)
    y.backward()
    return log


@program
def added_to_the_same_during_the_pass(m):
    log = Log()
    x = leaf(m, 1.0)
    y = x * 2

    def hook(g):
        log.append("first")
        y.register_hook(log.hook("second"))

    y.register_hook(hook)
    y.backward(retain_graph=True)
    y.backward()
    return len(log)


@program
def with_statement(m):
    log = Log()
    x = leaf(m, 1.0)
    with x.register_hook(log.hook("inside")):
        (x * 2).backward()
    (x * 2).backward()
    return log


@program
def handle_pickles(m):
    x = leaf(m, 1.0)
    h = x.register_hook(_module_level)
    state = h.__getstate__()
    h.__setstate__(state)
    copy = pickle.loads(pickle.dumps(type(h)({})))
    h.remove()
    copy.remove()
    return len(state), isinstance(state[0], dict), copy.id > h.id, type(h).__name__


@program
def inside_a_hook(m):
    log = Log()
    x = leaf(m, 3.0)

    def hook(g):
        log.append(m.is_grad_enabled())
        with m.enable_grad():
            a = leaf(m, 2.0)
            (a * a * a).backward()
        log.append(a.grad.tolist())

    y = x * x
    y.register_hook(hook)
    y.backward()
    return log, x


@program
def backward_through_the_same_graph_inside_a_hook(m):
    x = leaf(m, 3.0)
    y = x * x
    seen = []

    def hook(g):
        if not seen:
            seen.append(1)
            y.backward(retain_graph=True)

    z = y * 1
    z.register_hook(hook)
    z.backward()
    return x


@program
def grad_mode_in_hooks(m):
    log = Log()
    x = leaf(m, 3.0)
    y = x * x
    y.register_hook(lambda g: log.append((m.is_grad_enabled(), g.requires_grad)))
    m.autograd.grad(y, x, retain_graph=True)
    m.autograd.grad(y, x, create_graph=True)
    return log


@program
def hook_in_recorded_pass(m):
    x = leaf(m, 3.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (g,) = m.autograd.grad(y, x, create_graph=True)
    return g.tolist(), m.autograd.grad(g, x)


@program
def hook_raises(m):
    x = leaf(m, 1.0)
    y = x * 2

    def hook(g):
        raise KeyError("in hook")

    h = y.register_hook(hook)
    try:
        y.backward(retain_graph=True)
    except KeyError as e:
        h.remove()
        y.backward()
        return e, x, m.is_grad_enabled()


@program
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
def grad_with_prehooks_on_inputs(m):
    log = Log()
    x = leaf(m, 2.0)
    y = x * 3
    y.grad_fn.register_prehook(log.hook("pre", lambda gs: (gs[0] * 10,)))
    y.grad_fn.register_hook(log.hook("post"))
    z = y * y
    return m.autograd.grad(z, y, retain_graph=True), m.autograd.grad(z, [y, x]), log


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
