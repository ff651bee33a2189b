"""`Variable`, the engine's entry points, and the names of torch._C that public code uses; compared with torch."""

import pytest

import torchgrad_jax as tg
from tests.autograd.programs import leaf
from tests.programs import Programs, attempt

program = Programs()
test_same_as_torch = program.test()


# --- Variable -------------------------------------------------------------------------------------


@program
def variables(m):
    variable, x = m.autograd.Variable, m.ones(2)
    made = [variable(x), variable(x, True), variable(), variable(data=x), variable(leaf(m, 1.0) * 2)]
    return made, [type(v).__name__ for v in made], [v.data_ptr() == x.data_ptr() for v in made[:2]]


@program
def variables_share_the_counter(m):
    x = m.ones(2)
    v = m.autograd.Variable(x)
    x.add_(1)
    return v, v._version, v._is_view()


@program
def variables_of_classes(m):
    mine = type("Mine", (m.Tensor,), {})
    variable = m.autograd.Variable
    return type(variable(m.ones(1).as_subclass(mine))).__name__, type(variable(m.nn.Parameter(m.ones(1)))).__name__


@program
def isinstance_of_variable(m):
    variable = m.autograd.Variable
    cases = [m.ones(1), m.nn.Parameter(m.ones(1)), variable(m.ones(1)), 3, None]
    return ([isinstance(c, variable) for c in cases], type(variable).__name__, issubclass(m.Tensor, variable))


@program
def variables_refuse(m):
    variable, x = m.autograd.Variable, m.ones(1)
    return [
        attempt(lambda: variable(3)),
        attempt(lambda: variable([1.0])),
        attempt(lambda: variable(m.tensor([1]), True)),
        attempt(lambda: variable(x, None)),
        attempt(lambda: variable(x, name=3)),
        attempt(lambda: variable(x, _grad_fn=3)),
        attempt(lambda: variable(x, requires_grad=True, volatile=True)),
        attempt(lambda: m.autograd.variable(1, a=2)),
    ]


@program
def volatile_warns(m):
    return m.autograd.Variable(m.ones(1), volatile=True)


# --- the engine -----------------------------------------------------------------------------------


@program
def callbacks_run_in_order_at_the_end(m):
    engine, log = m.autograd.Variable._execution_engine, []
    x = leaf(m, 1.0)
    y = x * 2

    def first():
        log.append(("first", x.grad is not None, m._C._current_graph_task_id() >= 0))
        engine.queue_callback(lambda: log.append("third"))

    def hook(g):
        log.append("y")
        engine.queue_callback(first)
        engine.queue_callback(lambda: log.append("second"))

    y.register_hook(hook)
    x.register_hook(lambda g: log.append("x"))
    y.sum().backward()
    return log


@program
def callbacks_of_nested_passes(m):
    engine, log = m.autograd.Variable._execution_engine, []
    x, z = leaf(m, 1.0), leaf(m, 1.0)
    y = x * 2

    def hook(g):
        engine.queue_callback(lambda: log.append("outer"))
        with m.enable_grad():
            w = z * 3
            w.register_hook(lambda g: engine.queue_callback(lambda: log.append("inner")))
            w.sum().backward()
        log.append("back")

    y.register_hook(hook)
    x.register_hook(lambda g: log.append("x"))
    y.sum().backward()
    return log, x.grad, z.grad


@program
def a_callback_that_raises(m):
    engine, log = m.autograd.Variable._execution_engine, []
    x = leaf(m, 1.0)
    y = x * 2

    def bad():
        raise ValueError("bad")

    def hook(g):
        engine.queue_callback(bad)
        engine.queue_callback(lambda: log.append("after"))

    y.register_hook(hook)
    return attempt(lambda: y.sum().backward()), log, x.grad, m._C._current_graph_task_id()


@program
def callbacks_of_a_pass_that_raised(m):
    engine, log = m.autograd.Variable._execution_engine, []
    y = leaf(m, 1.0) * 2

    def hook(g):
        engine.queue_callback(lambda: log.append("callback"))
        raise ValueError("hook")

    y.register_hook(hook)
    return attempt(lambda: y.sum().backward()), log, attempt(lambda: engine.queue_callback(hook))


@program
def what_a_callback_finds(m):
    engine, seen = m.autograd.Variable._execution_engine, []
    y = leaf(m, 1.0) * 2

    def callback():
        seen.append((m._C._current_autograd_node(), m.is_grad_enabled()))

    y.register_hook(lambda g: engine.queue_callback(callback))
    y.sum().backward()
    return seen


@program.raises
def callbacks_need_a_pass(m):
    m.autograd.Variable._execution_engine.queue_callback(lambda: None)


@program
def checkpoints_are_valid(m):
    engine, seen = m.autograd.Variable._execution_engine, []

    def watch(register):
        for how in ("grad", "backward", "inputs"):
            x = leaf(m, 1.0)
            y = x * 2
            register(x, y, lambda *args, how=how: seen.append((how, engine.is_checkpoint_valid())))
            if how == "grad":
                m.autograd.grad(y.sum(), x)
            else:
                y.sum().backward(inputs=[x] if how == "inputs" else None)

    watch(lambda x, y, look: y.register_hook(look))
    watch(lambda x, y, look: x.register_hook(look))
    watch(lambda x, y, look: y.grad_fn.register_prehook(look))
    watch(lambda x, y, look: y.grad_fn.register_hook(look))
    watch(lambda x, y, look: x.register_post_accumulate_grad_hook(look))
    watch(lambda x, y, look: y.register_hook(lambda g: engine.queue_callback(look)))
    return engine.is_checkpoint_valid(), seen


# --- torch._C -------------------------------------------------------------------------------------


@program
def the_running_pass(m):
    c, seen = m._C, []

    class Watched(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append(c._current_autograd_node() is ctx)
            seen.append(c._autograd._get_current_graph_task_keep_graph())
            return g

    x = leaf(m, 1.0)
    y = x * 2
    node = y.grad_fn
    y.register_hook(lambda g: seen.append(c._current_autograd_node() is node))
    node.register_hook(lambda gi, go: seen.append(c._current_autograd_node() is node))
    x.register_hook(lambda g: seen.append(c._current_autograd_node().name()))
    y.register_hook(lambda g: seen.append(c._will_engine_execute_node(node)))
    Watched.apply(y).sum().backward()
    return seen, c._current_graph_task_id(), c._current_autograd_node()


@program
def will_engine_execute_node(m):
    will = m._C._will_engine_execute_node
    return attempt(lambda: will(None)), attempt(lambda: will((leaf(m, 1.0) * 2).grad_fn))


@program
def hooks_on_saved_tensors(m):
    a = m._C._autograd
    seen = [a._saved_tensors_hooks_is_enabled(), a._saved_tensors_hooks_get_disabled_error_message()]
    a._saved_tensors_hooks_disable("no hooks")
    seen += [a._saved_tensors_hooks_is_enabled(), a._saved_tensors_hooks_get_disabled_error_message()]
    seen.append(attempt(lambda: a._push_saved_tensors_default_hooks(lambda x: x, lambda x: x)))
    a._saved_tensors_hooks_enable()
    seen.append(a._top_saved_tensors_default_hooks(True))
    packed = []
    a._push_saved_tensors_default_hooks(lambda x: packed.append(x) or x, lambda x: x)
    try:
        y = leaf(m, 2.0).exp()
        seen.append(len(a._top_saved_tensors_default_hooks(True)))
    finally:
        a._pop_saved_tensors_default_hooks()
    return seen, y, packed


@program
def version_counters(m):
    x = m.ones(2)
    m._C._autograd._unsafe_set_version_counter((x,), (5,))
    seen = [x._version]
    m._C._increment_version((x,))
    return (seen, x._version, attempt(lambda: m._C._autograd._unsafe_set_version_counter((x,), (-1,))))


@program
def switches(m):
    c, seen = m._C, []
    for name in ("grad", "fwd_grad", "multithreading"):
        switch = getattr(c, f"_set_{name}_enabled")
        ask = getattr(c, f"_is_{name}_enabled", None) or m.is_grad_enabled
        before = ask()
        switch(not before)
        seen.append((name, before, ask()))
        switch(before)
        seen.append(ask())
    x = m.ones(2, 3)
    aliases = [c._is_alias_of(x, y) for y in (x.t(), x.detach(), x.clone())]
    graphs = [isinstance(x, kind) for kind in (c.Graph, c.Value)]
    seen += [aliases, graphs, c._is_tracing(), c._get_default_device()]
    return seen, c._get_tracing_state(), c._log_api_usage_once("x")


@program
def overrides_state(m):
    c = m._C
    with c.DisableTorchFunctionSubclass():
        inner = [
            c._is_torch_function_enabled(),
            c._is_torch_function_all_disabled(),
            c._get_torch_function_state().name,
        ]
    return (inner, c._is_torch_function_enabled(), c._get_torch_function_state().name, c._len_torch_function_stack())


@program
def accumulate_grad_nodes(m):
    node = (leaf(m, 1.0) * 2).grad_fn.next_functions[0][0]
    return isinstance(node, m._C._functions.AccumulateGrad), type(node).__name__


@program
def types(m):
    c, x = m._C, m.ones(1)
    return [
        isinstance(x, c.TensorBase),
        issubclass(m.nn.Parameter, c.TensorBase),
        c.Size is m.Size,
        c.dtype is m.dtype,
        c.device is m.device,
        c.Generator is m.Generator,
        issubclass(type(m.Tensor), type),
        issubclass(m.autograd.Function, c._FunctionBase),
        isinstance(m.autograd.Variable._execution_engine, c._ImperativeEngine),
    ]


@pytest.mark.parametrize("where", ["_C", "_C._autograd", "_C._functions"])
def test_other_names_raise(where):
    module = tg
    for part in where.split("."):
        module = getattr(module, part)
    with pytest.raises(AttributeError, match=f"torchgrad_jax does not implement torch.{where}.nothing"):
        module.nothing
