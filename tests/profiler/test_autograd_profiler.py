"""torch.autograd.profiler: names and nesting of events and what they tell, compared with torch."""

import contextlib
import threading

from tests.autograd.programs import leaf
from tests.profiler.helpers import outline, profiler
from tests.programs import Programs, result_or_error

program = Programs()
test_same_as_torch = program.test()


@program
def forward_and_backward(m):
    x, y = leaf(m, 1.0, 2.0), leaf(m, 3.0, 4.0)
    with profiler(m).profile() as prof:
        ((x * y).sin() - x.exp()).sum().backward()
    return outline(prof.function_events)


@program
def all_sorts_of_operators(m):
    x = m.arange(6.0).reshape(2, 3) + 1
    with profiler(m).profile() as prof:
        a = x + x
        a.add_(1)
        a[0].mul_(2)
        a.t().reshape(6)
        a.zero_()
        a.fill_(2.0)
        a = x.clone()
        a.copy_(x)
        m.cat([x, x])
        m.stack([x, x])
        a = (x / 2, 2 - x, x**2, x.pow(3), x.exp(), -x, x.mean(1), x.max(), x.argmax(1), x > 0)
        m.where(x > 2, x, x)
        x.view(3, 2)
        x.softmax(1)
        x.to(m.float64)
        x.detach()
        x.sum().item()
        m.zeros(3)
        m.ones(2)
        m.randn(2)
    return outline(prof.function_events)


@program
def layers(m):
    F = m.nn.functional
    w, b, x = m.ones(3, 4, requires_grad=True), m.ones(3, requires_grad=True), m.ones(2, 4)
    t = m.tensor([0, 2])
    with profiler(m).profile() as prof:
        h = F.relu(F.linear(x, w, b))
        F.cross_entropy(h, t).backward()
    events = prof.function_events
    inside = [c.name for e in events if e.name == "aten::linear" for c in e.cpu_children]
    return outline(events), inside


@program
def named_stretches(m):
    x = leaf(m, 1.0)
    P = profiler(m)

    @P.record_function("decorated")
    def f(a):
        return a * 2

    with P.profile() as prof:
        with P.record_function("outer", "more"):
            with P.record_function("inner"):
                y = f(x)
            y.sum().backward()
        f(x)
    return outline(prof.function_events)


@program
def stretch_left_by_an_exception(m):
    P, x = profiler(m), leaf(m, 1.0)
    with P.profile() as prof:
        with contextlib.suppress(KeyError), P.record_function("fails"):
            x.exp()
            raise KeyError
        x.sin()
    return outline(prof.function_events)


@program
def stretch_outside_of_the_profile(m):
    P, x = profiler(m), leaf(m, 1.0)
    with P.record_function("around"), P.profile() as prof:
        x.exp()
    return outline(prof.function_events)


@program
def custom_functions_and_hooks(m):
    class Double(m.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g.exp()

    x = leaf(m, 1.0)
    with profiler(m).profile() as prof:
        y = Double.apply(x)
        y.register_hook(lambda g: g.sin())
        y.grad_fn.register_hook(lambda gi, go: (gi[0].cos(),))
        y.sum().backward()
    return outline(prof.function_events)


@program
def gradients_of_inputs(m):
    x, y = leaf(m, 1.0), leaf(m, 2.0)
    with profiler(m).profile() as prof:
        m.autograd.grad((x * y).sum(), x)
    return outline(prof.function_events)


@program
def recorded_backward(m):
    x = leaf(m, 1.0)
    with profiler(m).profile() as prof:
        (g,) = m.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()
    return [e.name for e in prof.function_events if e.scope == 1], x


@program
def optimizer_names_come_from_record_function(m):
    P = profiler(m)
    with P.profile() as prof, P.record_function("Optimizer.step#SGD.step"):
        m.ones(1).mul_(2)
    wanted = ("Optimizer.step#SGD.step", "aten::ones", "aten::mul_")
    return [(e.key, e.count, e.is_user_annotation) for e in prof.key_averages() if e.key in wanted]


@program
def nothing_recorded(m):
    P = profiler(m)
    with P.profile(enabled=False) as prof:
        m.ones(2)
    with P.profile() as empty:
        pass
    return (
        prof,
        len(empty.function_events),
        empty.table(),
        str(empty),
        (empty.total_average().key, empty.total_average().count),
        (empty.self_cpu_time_total),
    )


@program
def only_this_thread(m):
    x = leaf(m, 1.0)
    with profiler(m).profile() as prof:
        t = threading.Thread(target=lambda: x.exp())
        t.start()
        t.join()
        x.sin()
    return outline(prof.function_events)


@program
def scopes_and_sequence_numbers(m):
    x, y = leaf(m, 1.0), m.ones(1)
    P = profiler(m)
    with P.profile() as prof, P.record_function("all"):
        (x * y).exp().sum().backward()
        y.sin()
    found = {}
    for e in prof.function_events:
        if e.name in ("all", "aten::mul", "aten::exp", "MulBackward0", "ExpBackward0", "SumBackward0") and (
            e.name not in found
        ):
            found[e.name] = e
    accumulate = next(e for e in prof.function_events if e.name == "torch::autograd::AccumulateGrad")
    return [
        {n: (e.scope, e.thread == found["all"].thread, e.fwd_thread == e.thread) for n, e in found.items()},
        found["aten::mul"].sequence_nr == found["MulBackward0"].sequence_nr,
        found["aten::exp"].sequence_nr == found["ExpBackward0"].sequence_nr,
        found["ExpBackward0"].sequence_nr - found["MulBackward0"].sequence_nr,
        (accumulate.scope, accumulate.sequence_nr, accumulate.fwd_thread),
        found["all"].sequence_nr,
    ]


@program
def shapes(m):
    x, w = m.ones(2, 3, requires_grad=True), m.ones(3, 4)
    with profiler(m).profile(record_shapes=True) as prof:
        ((x @ w) * 2).sum().backward()
    wanted = ("aten::mm", "aten::mul", "MulBackward0", "MmBackward0", "SumBackward0")
    first = {}
    for e in prof.function_events:
        if e.name in wanted:
            first.setdefault(e.name, [s for s in e.input_shapes if s])
    with profiler(m).profile() as without:
        x.exp()
    return first, without.function_events[0].input_shapes


@program
def averages(m):
    x = m.ones(2, 3)
    y = m.ones(4)
    with profiler(m).profile(record_shapes=True) as prof:
        for t in (x, x, y):
            t.exp()
        x.sin()
    by_name = {e.key: (e.count, e.input_shapes) for e in prof.key_averages()}
    by_shape = [(e.key, e.count, e.input_shapes) for e in prof.key_averages(group_by_input_shape=True)]
    total = prof.total_average()
    return by_name, by_shape, total.key, total.count, type(prof.key_averages()).__name__


@program
def times_add_up(m):
    P = profiler(m)
    with P.profile() as prof, P.record_function("all"):
        m.ones(3).exp()
    (top,) = [e for e in prof.function_events if e.cpu_parent is None]
    own = sum(e.self_cpu_time_total for e in prof.function_events)
    return [
        abs(own - top.cpu_time_total) < 1e-3,
        abs(prof.self_cpu_time_total - own) < 1e-3,
        top.cpu_time_total > 0,
        all(e.time_range.start <= e.time_range.end for e in prof.function_events),
        all(
            e.cpu_parent.time_range.start <= e.time_range.start and e.time_range.end <= e.cpu_parent.time_range.end
            for e in prof.function_events
            if e.cpu_parent is not None
        ),
    ]


@program
def memory(m):
    x, w = m.ones(4, 8, requires_grad=True), m.ones(8, 2)
    with profiler(m).profile(profile_memory=True) as prof:
        y = x @ w
        z = y.exp()
        z.add_(z)
        z.view(8)
        z = None  # its bytes go
        g = m.autograd.grad(y.sum(), x)
    events = prof.function_events
    made = {}
    for e in events:
        if e.name in ("aten::mm", "aten::exp", "aten::view"):
            made.setdefault(e.name, e.cpu_memory_usage)
    gone = [e.cpu_memory_usage for e in events if e.name == "[memory]"]
    return made, -32 in gone, g[0].shape


@program
def floating_point_operations(m):
    a, b, c = m.ones(2, 3), m.ones(3, 4), m.ones(4)
    x, w = m.ones(2, 3, 8, 8), m.ones(4, 3, 3, 3)
    batch = m.ones(5, 2, 3)
    with profiler(m).profile(with_flops=True) as prof:
        m.mm(a, b)
        m.addmm(c, a, b)
        m.bmm(batch, batch.transpose(1, 2))
        a * a
        a + 1
        m.nn.functional.conv2d(x, w, stride=2, padding=1)
        a.exp()
    wanted = ("aten::mm", "aten::addmm", "aten::bmm", "aten::mul", "aten::add", "aten::conv2d", "aten::exp")
    return {e.key: e.flops for e in prof.key_averages() if e.key in wanted}


@program
def arguments(m):
    P = profiler(m)
    with P.profile() as prof:
        pass
    other = P.profile(use_device="cuda")
    return [
        result_or_error(prof.__enter__),
        repr(P.profile()),
        result_or_error(lambda: prof.export_stacks("nowhere")),
        other.use_device,
        P.profile(with_flops=True).record_shapes,
    ]
