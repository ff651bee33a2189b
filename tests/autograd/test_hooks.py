"""Hooks on tensors and nodes: order, replacement, removal, errors; compared with torch."""

import gc
import pickle
import weakref

import pytest

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_same_as_torch(fn, same):
    same(fn)


def leaf(m, *values):
    return m.tensor(list(values), requires_grad=True)


class Log(list):
    def hook(self, name, result=None):
        def fn(*args):
            self.append((name, [_plain(a) for a in args]))
            return result(*args) if result else None

        return fn


def _plain(a):
    if a is None:
        return None
    return [_plain(x) for x in a] if isinstance(a, tuple) else (a.tolist(), a.requires_grad)


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


@program
def post_accumulate_returns(m):
    x = leaf(m, 1.0)
    x.register_post_accumulate_grad_hook(lambda t: t)
    x.backward()


@program
def post_accumulate_on_non_leaf(m):
    (leaf(m, 1.0) * 2).register_post_accumulate_grad_hook(lambda t: None)


@program
def post_accumulate_without_grad(m):
    m.ones(1).register_post_accumulate_grad_hook(lambda t: None)


@program
def post_accumulate_under_grad(m):
    log = Log()
    x = leaf(m, 1.0)
    x.register_post_accumulate_grad_hook(lambda t: log.append("ran"))
    m.autograd.grad(x * 2, x)
    return log


@program
def hook_without_grad(m):
    m.ones(1).register_hook(lambda g: g)


@program
def hook_not_callable(m):
    x = leaf(m, 1.0)
    x.register_hook(3)
    (x * 2).backward()


@program
def hook_returns_wrong_type(m):
    x = leaf(m, 1.0)
    x.register_hook(lambda g: 3)
    (x * 2).backward()


@program
def hook_returns_wrong_shape(m):
    x = leaf(m, 1.0)
    x.register_hook(lambda g: m.ones(2))
    (x * 2).backward()


@program
def hook_returns_wrong_dtype(m):
    x = leaf(m, 1.0)
    x.register_hook(lambda g: g.double())
    (x * 2).backward()


@program
def node_hook_wrong_count(m):
    y = leaf(m, 1.0) * leaf(m, 2.0)
    y.grad_fn.register_hook(lambda gi, go: (gi[0],))
    y.backward()


@program
def node_prehook_wrong_count(m):
    y = leaf(m, 1.0) * leaf(m, 2.0)
    y.grad_fn.register_prehook(lambda go: (go[0], go[0]))
    y.backward()


@program
def node_hook_returns_tensor(m):
    x = leaf(m, 1.0)
    y = x.exp()
    y.grad_fn.register_hook(lambda gi, go: gi[0] * 2)
    y.backward()
    return x


@program
def node_hook_wrong_type(m):
    y = leaf(m, 1.0).exp()
    y.grad_fn.register_hook(lambda gi, go: ("a",))
    y.backward()


@program
def node_hook_drops_gradient(m):
    x, w = leaf(m, 1.0), leaf(m, 2.0)
    y = x * w
    y.grad_fn.register_hook(lambda gi, go: (None, gi[1]))
    y.backward()
    return x, w


@program
def node_prehook_returns_tensor(m):
    y = leaf(m, 1.0).exp()
    y.grad_fn.register_prehook(lambda go: go[0])
    y.backward()


@program
def node_prehook_drops_gradient(m):
    x = leaf(m, 1.0)
    y = x.exp()
    y.grad_fn.register_prehook(lambda go: (None,))
    y.backward()
    return x


@program
def undefined_gradient_cannot_be_replaced(m):
    a, b = (leaf(m, 1.0, 2.0) * 2).unbind(0)
    a.register_hook(lambda g: m.ones(()))
    b.backward()


@program
def leaf_with_undefined_gradient(m):
    log = Log()

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return None, g

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


def _module_level(g):
    return g


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


@program
def retain_grad(m):
    x = leaf(m, 2.0)
    y = x * 3
    y.retain_grad()
    y.retain_grad()
    (y * y).backward()
    return y, y.retains_grad, x.retains_grad


@program
def retain_grad_accumulates(m):
    x = leaf(m, 2.0)
    y = x * 3
    y.retain_grad()
    z = y * y
    z.backward(retain_graph=True)
    z.backward()
    return y


@program
def retain_grad_of_leaf(m):
    x = leaf(m, 2.0)
    x.retain_grad()
    return x.retains_grad


@program
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
def writes_gradient_in_place(m):
    x = leaf(m, 2.0)
    y = x * 3

    def hook(g):
        g.mul_(10)

    y.register_hook(hook)
    (y * 2).backward()
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
def utils_hooks(m):
    hooks = __import__(m.__name__ + ".utils.hooks", fromlist=["x"])
    x = leaf(m, 1.0)
    h = x.register_hook(lambda g: g)
    names = ("unserializable_hook", "warn_if_has_hooks")
    return isinstance(h, hooks.RemovableHandle), [hasattr(hooks, n) for n in names]


@program
def unserializable_hook(m):
    hooks = __import__(m.__name__ + ".utils.hooks", fromlist=["x"])

    @hooks.unserializable_hook
    def f(g):
        return g

    x = leaf(m, 1.0)
    x.register_hook(f)
    hooks.warn_if_has_hooks(x)
    return f.__torch_unserializable__


@program
def serializing_warns(m):
    hooks = __import__(m.__name__ + ".utils.hooks", fromlist=["x"])
    x = leaf(m, 1.0)
    x.register_hook(_module_level)
    hooks.warn_if_has_hooks(x)


@program
def deep_reentrancy(m):
    log = []
    depth = 30

    def again(n):
        x = leaf(m, 1.0)
        y = x * 2
        y.register_hook(lambda g: (log.append(n), again(n - 1) if n else None)[0] and None)
        y.backward()

    again(depth)
    return log
