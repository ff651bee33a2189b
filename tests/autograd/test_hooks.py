"""Hooks on tensors and nodes: when they run and what they may return, compared with torch."""

import gc
import weakref

from tests.autograd.functions import function
from tests.autograd.hooked import Log
from tests.autograd.programs import leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


@program
def leaf_hook(m):
    log = Log()
    x = leaf(m, 1.0, 2.0)
    x.register_hook(log.hook("x"))
    (x * x).sum().backward()
    return log, x


@program
def leaf_hook_replaces(m):
    x = leaf(m, 1.0, 2.0)
    x.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    (x * x).sum().backward()
    return x


@program
def non_leaf_hook_replaces(m):
    log = Log()
    x = leaf(m, 1.0, 2.0)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.register_hook(log.hook("y"))
    y.sum().backward()
    return x, log


@program
def hook_sees_the_sum(m):
    log = Log()
    x = leaf(m, 1.0)
    y = x * 2
    y.register_hook(log.hook("y"))
    x.register_hook(log.hook("x"))
    (y * 3 + y * 4 + x).backward()
    return log


@program
def order_on_one_tensor(m):
    log = Log()
    x = leaf(m, 1.0)
    y = x * 2
    y.register_hook(log.hook("tensor 1"))
    y.grad_fn.register_prehook(log.hook("pre 1"))
    y.grad_fn.register_hook(log.hook("post 1"))
    y.retain_grad()
    y.register_hook(log.hook("tensor 2", lambda g: g * 2))
    y.grad_fn.register_prehook(log.hook("pre 2", lambda gs: (gs[0] * 5,)))
    y.grad_fn.register_hook(log.hook("post 2", lambda gi, go: (gi[0] * 7, None)))
    y.backward()
    return log, x, y


@program
def order_on_leaf(m):
    log = Log()
    x = leaf(m, 1.0)
    y = x * 2
    acc = y.grad_fn.next_functions[0][0]
    x.register_post_accumulate_grad_hook(log.hook("post accumulate 1"))
    acc.register_hook(log.hook("node post"))
    acc.register_prehook(log.hook("node pre"))
    x.register_hook(log.hook("tensor"))
    x.register_post_accumulate_grad_hook(log.hook("post accumulate 2"))
    y.backward()
    return log, x


@program
def accumulate_node_hooks_change(m):
    x = leaf(m, 1.0)
    y = x * 2
    acc = y.grad_fn.next_functions[0][0]
    acc.register_prehook(lambda gs: (gs[0] * 10,))
    y.backward()
    return x


@program
def order_across_nodes(m):
    log = Log()
    x, w = leaf(m, 1.0), leaf(m, 2.0)
    y = x * w
    z = y.exp()
    for name, t in (("x", x), ("w", w), ("y", y), ("z", z)):
        t.register_hook(log.hook(name))
    (z + y).sum().backward()
    return [name for name, _ in log]


@program
def post_accumulate(m):
    log = Log()
    x = leaf(m, 1.0, 2.0)
    x.register_post_accumulate_grad_hook(lambda t: log.append((t is x, t.grad.tolist())))
    (x * x).sum().backward()
    (x * x).sum().backward()
    return log


@program
def post_accumulate_clears(m):
    x = leaf(m, 1.0, 2.0)

    def step(p):
        with m.no_grad():
            p.sub_(p.grad)
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * x).sum().backward()
    return x.tolist(), x.grad


@program.raises
def node_hook_wrong_count(m):
    y = leaf(m, 1.0) * leaf(m, 2.0)
    y.grad_fn.register_hook(lambda gi, go: (gi[0],))
    y.backward()


@program
def node_hook_drops_gradient(m):
    x, w = leaf(m, 1.0), leaf(m, 2.0)
    y = x * w
    y.grad_fn.register_hook(lambda gi, go: (None, gi[1]))
    y.backward()
    return x, w


@program.raises
def undefined_gradient_cannot_be_replaced(m):
    a, b = (leaf(m, 1.0, 2.0) * 2).unbind(0)
    a.register_hook(lambda g: m.ones(()))
    b.backward()


@program
def leaf_with_undefined_gradient(m):
    log = Log()
    F = function(m, lambda ctx, x, y: x * y, lambda ctx, g: (None, g))
    x, y = leaf(m, 1.0), leaf(m, 2.0)
    x.register_hook(log.hook("x"))
    x.register_post_accumulate_grad_hook(lambda t: log.append("post accumulate"))
    out = F.apply(x, y)
    acc = out.grad_fn.next_functions[0][0]
    acc.register_prehook(log.hook("pre"))
    acc.register_hook(log.hook("post"))
    out.backward()
    return log, x, y


@program
def node_hook_arguments(m):
    log = Log()
    x = leaf(m, 1.0)
    y = x * 2
    y.grad_fn.register_hook(log.hook("post"))
    y.grad_fn.register_prehook(log.hook("pre"))
    y.backward()
    return log


@program
def node_with_undefined_gradients(m):
    log = Log()
    x = m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    a, b = x.unbind(0)
    a.grad_fn.register_prehook(log.hook("pre"))
    a.grad_fn.register_hook(log.hook("post"))
    a.register_hook(log.hook("a"))
    b.register_hook(log.hook("b"))
    b.sum().backward()
    return log


@program
def backward_hooks_attribute(m):
    x = leaf(m, 1.0)
    before = x._backward_hooks
    h = x.register_hook(lambda g: g)
    return before, isinstance(x._backward_hooks, dict), list(x._backward_hooks) == [h.id]


@program
def output_hook(m):
    log = Log()
    x = leaf(m, 2.0)
    y = x * 3
    y.register_hook(log.hook("y", lambda g: g * 2))
    y.backward()
    return log, x


@program
def gradient_in_hook_is_not_the_grad(m):
    seen = []
    x = leaf(m, 2.0)
    x.register_hook(seen.append)
    (x * 3).backward()
    with m.no_grad():
        seen[0].mul_(0)
    return x


@program
def deleted_output_still_hooks(m):
    log = Log()
    x = leaf(m, 2.0)
    y = x * 3
    y.register_hook(log.hook("y"))
    z = y * 2
    del y
    gc.collect()
    z.backward()
    return log


@program
def partial_function_hook_on_two_tensors(m):
    log = Log()
    x, w = leaf(m, 2.0), leaf(m, 3.0)
    h = log.hook("both")
    x.register_hook(h)
    w.register_hook(h)
    (x * w).backward()
    return sorted(str(e) for e in log)


@program
def handle_of_dead_tensor(m):
    x = leaf(m, 2.0)
    h = x.register_hook(lambda g: g)
    del x
    gc.collect()
    h.remove()
    return True


@program
def hook_keeps_no_tensor_alive(m):
    x = leaf(m, 2.0)
    y = x * 3
    y.register_hook(lambda g: g)
    y.retain_grad()
    ref = weakref.ref(y)
    del y
    gc.collect()
    return ref() is None


@program
def deep_reentrancy(m):
    log = []
    depth = 30

    def again(n):
        with m.enable_grad():
            y = leaf(m, 1.0) * 2
        y.register_hook(lambda g: (log.append(n), again(n - 1) if n else None)[0] and None)
        y.backward()

    again(depth)
    return log
