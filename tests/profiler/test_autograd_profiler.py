"""torch.autograd.profiler: which events there are, how they nest, what they tell, and their tables."""

import contextlib
import json
import sqlite3
import threading
import warnings
from typing import Any

import pytest

import torchgrad_jax
from tests.profiler.helpers import module, outline, profiler

tg: Any = torchgrad_jax

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_same_as_torch(fn, same):
    same(fn)


def leaf(m, *values):
    return m.tensor(list(values), requires_grad=True)


def error(run):
    try:
        return run()
    except Exception as e:
        return type(e).__name__, str(e)


# --- names and nesting ----------------------------------------------------------------------------


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
    return prof, len(empty.function_events), empty.table(), str(empty), repr(empty.total_average()), (
        empty.self_cpu_time_total
    )  # fmt: skip


@program
def only_this_thread(m):
    x = leaf(m, 1.0)
    with profiler(m).profile() as prof:
        t = threading.Thread(target=lambda: x.exp())
        t.start()
        t.join()
        x.sin()
    return outline(prof.function_events)


# --- what events tell -----------------------------------------------------------------------------


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
        ):  # fmt: skip
            found[e.name] = e
    accumulate = next(
        e for e in prof.function_events if e.name == "torch::autograd::AccumulateGrad"
    )
    return [
        {n: (e.scope, e.thread == found["all"].thread, e.fwd_thread == e.thread) for n, e in found.items()},
        found["aten::mul"].sequence_nr == found["MulBackward0"].sequence_nr,
        found["aten::exp"].sequence_nr == found["ExpBackward0"].sequence_nr,
        found["ExpBackward0"].sequence_nr - found["MulBackward0"].sequence_nr,
        (accumulate.scope, accumulate.sequence_nr, accumulate.fwd_thread),
        found["all"].sequence_nr,
    ]  # fmt: skip


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
    by_shape = [
        (e.key, e.count, e.input_shapes) for e in prof.key_averages(group_by_input_shape=True)
    ]
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
        abs(own - top.cpu_time_total) < 1e-3, abs(prof.self_cpu_time_total - own) < 1e-3, top.cpu_time_total > 0,
        all(e.time_range.start <= e.time_range.end for e in prof.function_events),
        all(
            e.cpu_parent.time_range.start <= e.time_range.start and e.time_range.end <= e.cpu_parent.time_range.end
            for e in prof.function_events if e.cpu_parent is not None
        ),
    ]  # fmt: skip


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
    wanted = (
        "aten::mm",
        "aten::addmm",
        "aten::bmm",
        "aten::mul",
        "aten::add",
        "aten::conv2d",
        "aten::exp",
    )
    return {e.key: e.flops for e in prof.key_averages() if e.key in wanted}


# --- arguments and errors -------------------------------------------------------------------------


@program
def arguments(m):
    P = profiler(m)
    with P.profile() as prof:
        pass
    other = P.profile(use_device="cuda")
    return [
        error(prof.__enter__),
        repr(P.profile()),
        error(lambda: P.profile(use_cpu=False)),
        error(lambda: P.profile(use_cpu=False, use_kineto=True)),
        error(lambda: P.profile(post_processing_timeout_s=-1)),
        error(lambda: prof.export_stacks("nowhere")),
        P.profile(use_device="toaster").use_device,
        P.profile(use_cuda=True).use_device,
        other.use_device,
        P.profile(with_flops=True).record_shapes,
    ]


@program
def used_again(m):
    P = profiler(m)
    kinds = []
    for keep in (False, True):
        prof = P.profile(acc_events=keep)
        for _ in range(2):
            prof._prepare_trace()
            prof._start_trace()
            m.ones(1).exp()
            prof.__exit__(None, None, None)
        kinds.append([e.name for e in prof.function_events].count("aten::exp"))
    return kinds


@program
def unique_keys(m):
    once = profiler(m).EnforceUnique()
    once.see("a", 1)
    once.see("a", 2)
    return error(lambda: once.see("a", 1)), sorted(once.seen)


@program
def steps_of_several(m):
    T = profiler(m).KinetoStepTracker
    start = T.current_step()
    T.init_step_count("x")
    T.init_step_count("y")
    counts = [T.increment_step(n) - start for n in ("x", "y", "x", "x", "z")]
    return (
        counts,
        T.erase_step_count("x"),
        T.erase_step_count("x"),
        T.erase_step_count("y"),
        T.erase_step_count("z"),
    )


@program
def memory_records(m):
    class Record:
        def __init__(self, at):
            self.at = at

        def start_ns(self):
            return self.at

    acc = profiler(m).MemRecordsAcc([[Record(t), False] for t in (30, 10, 20, 40)])
    return [[r[0].at for r in acc.in_interval(a, b)] for a, b in ((10, 20), (0, 5), (15, 100))]


@program
def the_oldest_profiler(m):
    P = module(m, "autograd.profiler_legacy")
    x = leaf(m, 1.0)
    prof = P.profile(record_shapes=True)
    before = (
        error(prof.table),
        repr(prof),
        str(prof),
        prof.function_events,
        error(prof.key_averages),
    )
    with prof:
        x.exp().sum().backward()
    names = {e.key: e.count for e in prof.key_averages()}
    return before, outline(prof.function_events), names["ExpBackward0"], error(prof.__enter__), error(
        lambda: prof.export_stacks("nowhere")
    )  # fmt: skip


# --- lists of events made by hand -----------------------------------------------------------------


def _event(m, i, name, start, end, **more):
    util = module(m, "autograd.profiler_util")
    more = {
        "overload_name": "",
        "input_shapes": [],
        "stack": [],
        "trace_name": name,
        "flops": 0,
        **more,
    }
    return util.FunctionEvent(
        id=i, name=name, thread=more.pop("thread", 1), start_us=start, end_us=end, **more
    )


def _events(m, **more):
    util = module(m, "autograd.profiler_util")
    found = util.EventList(
        [
            _event(m, 1, "forward", 0, 3_000_000, is_user_annotation=True, scope=7),
            _event(m, 2, "aten::mul", 10, 1500, input_shapes=[[2, 3], []], flops=1500, cpu_memory_usage=3 << 20),
            _event(m, 3, "aten::mul", 1600, 1800.5, input_shapes=[[20, 30], [30]], flops=30000, cpu_memory_usage=-2000),
            _event(m, 4, "aten::a_very_long_name_" + "x" * 60, 1900, 2500, input_shapes=[[1] * 40]),
            _event(m, 5, "aten::mul", 2000, 2100, input_shapes=[[2, 3], []], flops=10, cpu_memory_usage=12),
            _event(m, 6, "aten::elsewhere", 20, 30, thread=2),
        ],
        **more,
    )  # fmt: skip
    found._build_tree()
    return found


@program
def tables(m):
    plain, rich = _events(m), _events(m, profile_memory=True, with_flops=True)
    texts = [
        plain.table(), rich.table(), plain.table(sort_by="cpu_time_total", row_limit=2), plain.table(row_limit=-1),
        plain.table(header="Title", top_level_events_only=True), plain.table(time_unit="ms"),
        plain.table(max_name_column_width=20, max_shapes_column_width=12), rich.key_averages().table(),
        rich.key_averages(group_by_input_shapes=True).table(sort_by="count"), str(plain), plain.table(time_unit="s"),
        plain.table(sort_by="self_cuda_time_total"),
    ]  # fmt: skip
    return [t.splitlines() for t in texts]


@program
def table_with_callers(m):
    util = module(m, "autograd.profiler_util")
    found = util.EventList(
        [
            _event(m, 1, "aten::a", 0, 10, stack=["inner.py(3): f", "outer.py(4): g"]),
            _event(m, 2, "aten::b", 20, 30, stack=["x" * 100 + ".py(3): f"]),
            _event(m, 3, "aten::b", 40, 50, stack=[]),
        ]
    )
    found._build_tree()
    by_line = found.key_averages(group_by_stack_n=1)
    return found.table().splitlines(), by_line.table().splitlines(), [e.count for e in by_line]


@program
def trees(m):
    found = _events(m)
    return [
        (
            e.name,
            e.cpu_parent and e.cpu_parent.id,
            [c.id for c in e.cpu_children],
            e.self_cpu_time_total,
        )
        for e in found
    ]


@program
def an_only_child_of_the_same_name_is_its_parent(m):
    util = module(m, "autograd.profiler_util")
    found = util.EventList(
        [_event(m, i, "same", i, 100 - i) for i in range(3)] + [_event(m, 9, "leaf", 5, 6)]
    )
    found._build_tree()
    return [(e.id, [c.id for c in e.cpu_children]) for e in found]


@program
def callers_of_a_backward(m):
    util = module(m, "autograd.profiler_util")
    found = util.EventList(
        [
            _event(
                m, 1, "aten::mul", 0, 1, stack=["forward.py(1): f"], sequence_nr=7, fwd_thread=0
            ),
            _event(
                m, 2, "MulBackward0", 5, 9, stack=["other"], scope=1, sequence_nr=7, fwd_thread=1
            ),
            _event(m, 3, "aten::mul", 6, 7, stack=["other"]),
        ]
    )
    found._build_tree()
    return [e.stack for e in found]


@program
def texts_of_events(m):
    e = _event(m, 1, "aten::mul", 1, 3.5)
    avg = _events(m).key_averages()[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = (
            e.cuda_time,
            e.cuda_time_total,
            e.self_cuda_time_total,
            e.self_cuda_memory_usage,
            e.metadata_json,
        )
    return repr(e), repr(avg), old, e.cpu_time_str, e.key, e.device_resource_id, e.count


@program
def old_names_warn(m):
    e = _event(m, 1, "aten::mul", 1, 3.5)
    return (
        e.cuda_time,
        e.cuda_time_total,
        e.self_cuda_time_total,
        e.self_cuda_memory_usage,
        e.metadata_json,
    )


@program
def wrong_use_of_events(m):
    util = module(m, "autograd.profiler_util")
    D = module(m, "profiler").DeviceType
    kernel = _event(m, 1, "kernel", 0, 1, device_type=D.CUDA)
    host = _event(m, 2, "host", 0, 1)
    avg = util.FunctionEventAvg().add(host)
    return [
        error(lambda: kernel.append_kernel("k", 0, 1)), error(lambda: kernel.set_cpu_parent(host)),
        error(lambda: host.append_cpu_child(3)), error(lambda: host.set_cpu_parent(kernel)),
        error(lambda: avg.add(_event(m, 3, "other", 0, 1))), error(lambda: util.EventList().key_averages()),
        error(lambda: util.EventList().export_stacks("nowhere", "time")),
        util.EventList().supported_export_stacks_metrics(), kernel.cpu_time_total, kernel.self_cpu_time_total,
    ]  # fmt: skip


@program
def device_times(m):
    util = module(m, "autograd.profiler_util")
    parent = _event(m, 1, "aten::a", 0, 100, use_device="cuda")
    child = _event(m, 2, "aten::b", 10, 20, use_device="cuda", device_memory_usage=2048)
    parent.append_kernel("k", 0, 5)
    child.append_kernel("l", 0, 7.5)
    found = util.EventList([parent, child], use_device="cuda", profile_memory=True)
    found._build_tree()
    return parent.device_time_total, parent.self_device_time_total, parent.device_time, child.device_time_str, (
        found.table().splitlines()
    )  # fmt: skip


# --- files ----------------------------------------------------------------------------------------


def _nvprof(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(
            """
            create table StringTable (_id_ integer, value text);
            insert into StringTable values (1, 'first'), (2, 'second');
            create table CUPTI_ACTIVITY_KIND_MARKER (id integer, name integer, timestamp integer);
            insert into CUPTI_ACTIVITY_KIND_MARKER values (5, 2, 100), (5, 0, 200), (4, 1, 10), (4, 0, 50);
            create table CUPTI_ACTIVITY_KIND_RUNTIME (_id_ integer, cbid integer, start integer, end integer,
                correlationId integer);
            insert into CUPTI_ACTIVITY_KIND_RUNTIME values (1, 211, 20, 30, 77), (2, 211, 110, 120, 78);
            create table CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (correlationId integer, start integer, end integer,
                name text);
            insert into CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL values (77, 22, 29, 'k'), (78, 111, 113, 'l');
            """
        )
        db.commit()


@pytest.mark.parametrize("change, message", [
    ("", None),
    ("update CUPTI_ACTIVITY_KIND_RUNTIME set cbid = 13", "Expected cbid to be 211"),
    ("insert into CUPTI_ACTIVITY_KIND_MARKER values (5, 2, 100)", "duplicate key"),
])  # fmt: skip
def test_files_of_nvprof(tmp_path, change, message):
    path = str(tmp_path / "trace.nvprof")
    _nvprof(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(change)
    P = tg.autograd.profiler
    if message is not None:
        with pytest.raises((AssertionError, RuntimeError), match=message):
            P.load_nvprof(path)
        return
    found = P.load_nvprof(path)
    assert [(e.name, e.time_range.start, [tuple(k) for k in e.kernels]) for e in found] == [
        ("first", 10, [("k", 0, 7)]), ("second", 100, [("l", 0, 2)]),
    ]  # fmt: skip


def test_export_stacks_writes_what_flame_graphs_read(tmp_path):
    def called():
        return tg.ones(200, 200) @ tg.ones(200, 200)

    with tg.autograd.profiler.profile(with_stack=True) as prof:
        called()
    path = tmp_path / "stacks.txt"
    prof.export_stacks(str(path))
    lines = path.read_text().splitlines()
    assert lines
    for line in lines:
        stack, _, time = line.rpartition(" ")
        assert int(time) > 0
        innermost = stack.rpartition(";")[2]
        assert innermost.endswith(":_called")
        assert "test_autograd_profiler.py(" in innermost


def test_callers_are_those_of_the_user():
    x = tg.ones(3, requires_grad=True)
    with tg.autograd.profiler.profile(with_stack=True) as prof:
        x.exp().sum().backward()
    exp = next(e for e in prof.function_events if e.name == "aten::exp")
    node = next(e for e in prof.function_events if e.name == "ExpBackward0")
    assert "test_callers_are_those_of_the_user" in exp.stack[0]
    assert not any("torchgrad_jax/_engine" in line for line in exp.stack)
    assert node.stack == exp.stack  # a node shows where its forward was called


def test_chrome_trace_is_in_the_trace_event_format(tmp_path):
    x, w = tg.ones(4, 4, requires_grad=True), tg.ones(4, 4)
    P = tg.autograd.profiler
    options = {"record_shapes": True, "profile_memory": True, "with_stack": True}
    with P.profile(**options) as prof, P.record_function('a "quoted" name'):
        (x @ w).exp().sum().backward()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path), metadata={"note": '"kept"'})
    data = json.loads(path.read_text())
    assert (data["schemaVersion"], data["displayTimeUnit"], data["note"]) == (1, "ms", "kept")
    rows = data["traceEvents"]
    for row in rows:
        assert {"ph", "name", "pid", "tid", "ts"} <= set(row), row
        assert row["ph"] in "XMisf"
        if row["ph"] == "X":
            assert row["dur"] >= 0
            assert row["cat"] in ("cpu_op", "user_annotation")
    spans = [r for r in rows if r["ph"] == "X"]
    assert len(spans) == len([e for e in prof.function_events if e.name != "[memory]"])
    mm = next(r for r in spans if r["name"] == "aten::mm")
    assert mm["args"]["Input Dims"] == [[4, 4], [4, 4]]
    assert mm["args"]["Input type"] == ["float"] * 2
    arrows = {ph: {r["id"]: r for r in rows if r["ph"] == ph} for ph in "sf"}
    assert set(arrows["s"]) == set(arrows["f"])
    assert len(arrows["s"]) == 3
    nodes = {r["args"]["External id"]: r for r in spans if r["name"].endswith("Backward0")}
    for i, start in arrows["s"].items():
        source = next(r for r in spans if r["ts"] == start["ts"])
        assert nodes[i]["args"]["Sequence number"] == source["args"]["Sequence number"]
    bytes_ = [r["args"]["Total Allocated"] for r in rows if r["ph"] == "i"]
    assert max(bytes_) >= 128
    assert min(bytes_) >= 0


def test_events_as_a_plain_list(tmp_path):
    with tg.autograd.profiler.profile() as prof:
        tg.ones(2).exp()
    path = tmp_path / "list.json"
    prof.function_events.export_chrome_trace(str(path))
    rows = json.loads(path.read_text())
    assert [r["name"] for r in rows] == ["aten::ones", "aten::exp"]
    assert all(r["ph"] == "X" and r["pid"] == "CPU functions" for r in rows)


# --- ours alone -----------------------------------------------------------------------------------


def test_off_costs_no_mode():
    from torchgrad_jax._core.state import MODES

    bits = MODES.bits
    with tg.autograd.profiler.profile():
        assert MODES.observers
    assert (MODES.bits, MODES.observers) == (bits, ())


def test_left_behind_by_an_exception():
    from torchgrad_jax._core.state import MODES

    bits = MODES.bits
    prof = tg.autograd.profiler.profile()

    def fails():
        with prof:
            tg.ones(2).exp()
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        fails()
    assert (MODES.bits, MODES.observers) == (bits, ())
    assert [e.name for e in prof.function_events] == ["aten::ones", "aten::exp"]


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_together_with_anomaly_mode():
    from torchgrad_jax._core.state import MODES

    bits = MODES.bits
    x = tg.zeros(1, requires_grad=True)
    with tg.autograd.profiler.profile() as prof, tg.autograd.detect_anomaly():
        y = (x.sqrt() * 0).sum()
        with pytest.warns(UserWarning, match="Error detected in SqrtBackward0"):
            raised = error(y.backward)
        x.exp()
    names = [e.name for e in prof.function_events]
    assert raised[1].startswith("Function 'SqrtBackward0' returned nan")
    assert "SqrtBackward0" in names
    assert names[-1] == "aten::exp"
    assert MODES.bits == bits


def test_gradients_do_not_change_under_the_profiler():
    def run():
        x, w = tg.arange(6.0).reshape(2, 3).requires_grad_(), tg.ones(3, requires_grad=True)
        y = (x * w).sin()
        (y.sum() + y[0].exp().sum()).backward()
        return x.grad, w.grad, x.grad._version, x.grad.stride(), w.grad._version

    plain = run()
    with tg.autograd.profiler.profile(profile_memory=True, record_shapes=True):
        seen = run()
    assert plain[0].flatten().tolist() == pytest.approx(seen[0].flatten().tolist(), rel=1e-6)
    assert plain[1].tolist() == pytest.approx(seen[1].tolist(), rel=1e-6)
    assert plain[2:] == seen[2:]


def test_profiles_within_each_other_all_record():
    P = tg.autograd.profiler
    with P.profile() as outer:
        tg.ones(1)
        with P.profile() as inner:
            tg.ones(2).exp()
        tg.ones(3)
    assert [e.name for e in outer.function_events] == ["aten::ones"] * 2 + [
        "aten::exp",
        "aten::ones",
    ]
    assert [e.name for e in inner.function_events] == ["aten::ones", "aten::exp"]


def test_pausing():
    from torchgrad_jax.profiler import ProfilerActivity

    with tg.autograd.profiler.profile() as prof:
        x = tg.ones(1)
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
        x.exp()
        prof.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
        x.sin()
    assert [e.name for e in prof.function_events] == ["aten::ones", "aten::sin"]


def test_memory_comes_and_goes():
    with tg.autograd.profiler.profile(profile_memory=True) as prof:
        x = tg.ones(256)
        y = x.exp()
        y.t()
        del x, y
    events = prof.function_events
    assert [(e.name, e.cpu_memory_usage) for e in events] == [
        ("aten::ones", 1024), ("aten::exp", 1024), ("aten::t", 0), ("[memory]", -1024), ("[memory]", -1024),
    ]  # fmt: skip
    assert "1.00 KB" in prof.key_averages().table()


@pytest.mark.parametrize("name", ["emit_nvtx", "emit_itt"])
def test_ranges_for_other_tools_are_refused(name):
    emit = getattr(tg.autograd.profiler, name)
    with emit(enabled=False):
        pass
    with pytest.raises(NotImplementedError, match=name), emit():
        pass


@pytest.mark.parametrize(
    "kwargs", [{"experimental_config": object()}, {"activity_filters": {1: {"x"}}}]
)
def test_unsupported_arguments_are_refused(kwargs):
    with pytest.raises(NotImplementedError, match=next(iter(kwargs))):
        tg.autograd.profiler.profile(**kwargs)


def test_values_that_are_being_traced_can_be_profiled():
    import jax

    def f(a):
        from torchgrad_jax._engine.tensor import wrap_array

        return wrap_array(a).exp()._st.array

    with tg.autograd.profiler.profile() as prof:
        jax.make_jaxpr(f)(jax.numpy.ones(2))
    assert [e.name for e in prof.function_events] == ["aten::exp"]


def test_transforms_go_by_their_own_name():
    with tg.autograd.profiler.profile() as prof:
        tg.func.vmap(lambda a: a.sin())(tg.ones(2, 3))
    names = [e.name for e in prof.function_events]
    assert names[0] == "aten::ones"
    assert "vmap" in names
    assert "aten::vmap" not in names
