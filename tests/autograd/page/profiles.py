"""Rows of torch.autograd.profiler and profiler_util: profiles, their options, events, and files of nvprof."""

import contextlib
import importlib
import json
import sqlite3
import tempfile
import warnings
from pathlib import Path

from compat_suite import api
from tests.autograd.page.rows import Rows, leaf, text_of_error
from tests.profiler.helpers import outline

PROFILER, UTIL = Rows(), Rows()


def profiler(m):
    return importlib.import_module(f"{m.__name__}.autograd.profiler")


def util(m):
    return importlib.import_module(f"{m.__name__}.autograd.profiler_util")


def recorded(m, **options):
    """A profile of a block with two operations and a pass."""
    P = profiler(m)
    with P.profile(**options) as prof, P.record_function("block"):
        leaf(m, 1, 2).exp().sum().backward()
    return prof


NAMES = {"block", "aten::exp", "aten::sum", "SumBackward0", "ExpBackward0"}
"""What is compared: torch's nodes run operations of their own."""


def names(events):
    return [e.name for e in events if e.name in NAMES]


# --- profile --------------------------------------------------------------------------------------


@PROFILER("profile: example")
def profile(m):
    with profiler(m).profile() as prof:
        for _ in range(10):
            (m.ones(1, 1, requires_grad=True) ** 2).backward()
    table = prof.key_averages().table(sort_by="self_cpu_time_total")
    return {e.key: e.count for e in prof.key_averages() if "Pow" in e.key}, "PowBackward0" in table


@PROFILER("record_function: example")
def record_function(m):
    P, x = profiler(m), m.ones(1, 1, requires_grad=True)
    with P.profile() as prof:
        y = x**2
        with P.record_function("label-z"):
            y**3
        y.backward()
    return outline(prof.function_events)


@PROFILER("record_function(name, args)")
def record_function_by_name(m):
    P = profiler(m)
    with P.profile() as prof, P.record_function(name="block", args="3"):
        m.ones(1)
    return outline(prof.function_events)


def with_lines(m, **options):
    """torch keeps lines in events only where `verbose` asks for it."""
    return recorded(m, experimental_config=m._C._profiler._ExperimentalConfig(verbose=True), **options)


def multiplied(m, **options):
    with profiler(m).profile(**options) as prof:
        m.ones(2, 3) * 2
    return prof.function_events


def off(m):
    prof = profiler(m).profile(enabled=False)
    with prof as entered:
        pass
    return entered


PROFILER |= {
    "profile(enabled)": off,
    "profile(use_kineto)": lambda m: names(recorded(m, use_kineto=True).function_events),
    "profile(use_cpu)": lambda m: [
        text_of_error(lambda k=k: profiler(m).profile(use_cpu=False, use_kineto=k)) for k in (False, True)
    ],
    "profile(use_cuda)": lambda m: recorded(m, use_cuda=True).use_device,
    "profile(use_device)": lambda m: [
        text_of_error(lambda d=d, k=k: profiler(m).profile(use_device=d, use_kineto=k).use_device)
        for d in ("cuda", "xpu", "hpu", "mtia", "toaster", "cpu", None)
        for k in (False, True)
    ],
    "profile(with_modules)": lambda m: names(recorded(m, with_modules=True).function_events),
    "profile(record_shapes)": lambda m: [
        [e.input_shapes for e in recorded(m, record_shapes=flag).function_events if e.name == "aten::exp"]
        for flag in (True, False)
    ],
    "profile(with_flops)": lambda m: [
        [e.flops or 0 for e in multiplied(m, with_flops=flag) if e.name == "aten::mul"] for flag in (True, False)
    ],
    "profile(profile_memory)": lambda m: [
        [e.cpu_memory_usage for e in recorded(m, profile_memory=flag).function_events if e.name == "aten::exp"]
        for flag in (True, False)
    ],
    "profile(with_stack)": lambda m: [
        ["recorded" in str(e.stack) for e in with_lines(m, with_stack=flag).function_events if e.name == "aten::exp"]
        for flag in (True, False)
    ],
    "profile(post_processing_timeout_s)": lambda m: [
        text_of_error(lambda s=s: names(recorded(m, post_processing_timeout_s=s).function_events)) for s in (-1, 60.0)
    ],
    "profile.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)": lambda m: [
        (e.key, e.count, e.input_shapes)
        for e in recorded(m, record_shapes=True).key_averages(
            group_by_input_shape=True, group_by_stack_n=0, group_by_overload_name=False
        )
        if e.key == "aten::exp"
    ],
}  # fmt: skip


@PROFILER(
    "profile.table(sort_by, row_limit, max_src_column_width, max_name_column_width, max_shapes_column_width, header, "
    "top_level_events_only)"
)
def table(m):
    text = recorded(m).table(
        sort_by="count", row_limit=0, max_src_column_width=9, max_name_column_width=20, max_shapes_column_width=9,
        header="Title", top_level_events_only=False,
    )  # fmt: skip
    return text.splitlines()[1:2]


@PROFILER("profile(experimental_config)")
def experimental_config(m):
    Config = m._C._profiler._ExperimentalConfig
    P = profiler(m)
    verbose = names(recorded(m, experimental_config=Config(verbose=True)).function_events)
    traced = recorded(m, experimental_config=Config(trace_only=True))
    both = P.profile(experimental_config=Config(trace_only=True), with_stack=True)
    return verbose, [
        text_of_error(lambda: traced.function_events),
        text_of_error(traced.key_averages),
        both.experimental_config.trace_only,
        names_in_trace(traced),
        text_of_error(lambda: P.profile(experimental_config=3)),
    ]


@PROFILER("profile(acc_events)")
def acc_events(m):
    """Both libraries refuse a second `with`, and begin and end again by these methods."""
    seen = []
    for flag in (False, True):
        prof = m.profiler.profile(acc_events=flag, activities=[m.profiler.ProfilerActivity.CPU])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                prof.start()
                m.ones(1).exp()
                prof.stop()
        seen.append([e.name for e in prof.events()].count("aten::exp"))
    profiler(m).profile(acc_events=True)
    return seen


@PROFILER("profile(activity_filters)")
def activity_filters(m):
    cpu = m.profiler.ProfilerActivity.CPU
    return names(recorded(m, activity_filters={cpu: {"CPU_OP"}}).function_events)


@PROFILER("profile(custom_trace_id_callback), profile.create_trace_id, profile.default_trace_id")
def trace_ids(m):
    prof, other = recorded(m, custom_trace_id_callback=lambda: "mine"), profiler(m).profile()
    made = other.default_trace_id()
    return prof.trace_id, prof.create_trace_id(), other.trace_id, len(made), int(made, 16) > 0


def names_in_trace(prof, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        prof.export_chrome_trace(path=str(path), **options)
        found = json.loads(path.read_text())
    rows = found["traceEvents"] if isinstance(found, dict) else found
    return sorted({r["name"] for r in rows} & NAMES)


PROFILER["profile.export_chrome_trace(path, metadata, use_python_export)"] = lambda m: [
    names_in_trace(recorded(m)), names_in_trace(recorded(m), metadata={"a": "1"}, use_python_export=True),
]  # fmt: skip


@PROFILER("profile.export_stacks(path, metric)")
def export_stacks(m):
    refused = text_of_error(lambda: recorded(m).export_stacks(path="nowhere", metric="self_cpu_time_total"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stacks"
        recorded(m, with_stack=True).export_stacks(path=str(path), metric="self_cpu_time_total")
        return refused, path.exists()


@PROFILER("profile.function_events, profile.self_cpu_time_total, profile.total_average")
def sums(m):
    prof = recorded(m)
    events, total = prof.function_events, prof.total_average()
    whole = sum(e.self_cpu_time_total for e in events)
    return type(events).__name__, abs(prof.self_cpu_time_total - whole) < 1e-3, total.key, total.count == len(events)


@PROFILER("profile.toggle_collection_dynamic(enabled, activities)")
def toggle(m):
    cpu, cuda = m.profiler.ProfilerActivity.CPU, m.profiler.ProfilerActivity.CUDA
    x = m.ones(2)
    with profiler(m).profile() as prof:
        x.exp()
        prof.toggle_collection_dynamic(enabled=False, activities=[cpu])
        x.sin()
        prof.toggle_collection_dynamic(enabled=True, activities=[cpu])
        x.cos()
    return [e.name for e in prof.function_events if e.name in ("aten::exp", "aten::sin", "aten::cos")], cuda.name


# --- what belongs to other tools ------------------------------------------------------------------


@PROFILER("emit_nvtx(enabled, record_shapes), emit_itt(enabled, record_shapes)")
def ranges_that_are_off(m):
    P, seen = profiler(m), []
    for emit in (P.emit_nvtx, P.emit_itt):
        with emit(enabled=False, record_shapes=True) as entered:
            seen.append((m.ones(1), entered))
    return seen


@PROFILER("emit_nvtx: example, emit_itt: example")
def ranges_of_tools_that_are_not_there(m):
    """There is no CUDA here, so that torch raises for the first. For the second, it emits ranges that no tool takes."""
    with contextlib.suppress(NotImplementedError, AssertionError, RuntimeError), profiler(m).emit_nvtx():
        return "entered"
    return profiler(m).emit_nvtx.__name__, profiler(m).emit_itt.__name__


@PROFILER("EnforceUnique, EnforceUnique.see")
def enforce_unique(m):
    once = profiler(m).EnforceUnique()
    once.see(1, "a"), once.see("a", 1), once.see()
    return [text_of_error(lambda k=k: once.see(*k)) for k in ((1, "a"), (), (2,))], len(once.seen)


@PROFILER(
    "KinetoStepTracker.init_step_count(requester), KinetoStepTracker.erase_step_count(requester), "
    "KinetoStepTracker.increment_step(requester), KinetoStepTracker.current_step"
)
def step_tracker(m):
    class T(profiler(m).KinetoStepTracker):
        _current_step, _step_dict = 0, {}

    T.init_step_count(requester="profiler")
    seen = [T.increment_step(requester=r) for r in ("profiler", "a", "a", "b", "profiler", "a", "a")]
    T._step_dict["late"] = 9
    seen.append(T.increment_step("late"))
    return seen, T.current_step(), [T.erase_step_count(requester=r) for r in ("a", "a")], T._step_dict


def database(path, broken=()):
    """A file as nvprof writes it: three ranges, one within another, two kernels, and calls that start none."""
    tables = {
        "StringTable (_id_ integer, value text)": [
            (1, "aten::mul, seq = 1"), (2, "MulBackward0"), (3, "_ZN2at3addERKNS_6TensorE"), (4, "kernel"),
        ],
        "CUPTI_ACTIVITY_KIND_MARKER (id integer, name integer, timestamp integer)": [
            (12, 3, 500), (12, 0, 560), (10, 1, 100), (11, 2, 120), (11, 0, 180), (10, 0, 300),
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME (_id_ integer, cbid integer, start integer, end integer, correlationId integer)": [
            (1, 211, 130, 140, 7), (2, 211, 200, 210, 8), (3, 17, 220, 230, 9), (4, 211, 600, 610, 8),
        ],
        "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (name integer, start integer, end integer, correlationId integer)": [
            (4, 150, 175, 7), (4, 215, 290, 8),
        ],
    }  # fmt: skip
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for table, rows in tables.items():
            db.execute(f"create table {table}")
            name, marks = table.partition(" ")[0], ", ".join("?" * len(rows[0]))
            db.executemany(f"insert into {name} values ({marks})", rows)
        for statement in broken:
            db.execute(statement)


def read(m, name, broken=(), raw=None):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.nvprof"
        if raw is None:
            database(path, broken)
        else:
            path.write_bytes(raw)
        return getattr(profiler(m), name)(path=str(path))


def facts(events):
    kinds = ("id", "node_id", "name", "thread", "cpu_time_total", "device_time_total", "count", "kernels")
    return [[*(getattr(e, k) for k in kinds), e.time_range.start, e.time_range.end] for e in events]


PROFILER["parse_nvprof_trace(path)"] = lambda m: facts(read(m, "parse_nvprof_trace"))


@PROFILER("load_nvprof(path)")
def load_nvprof(m):
    events = read(m, "load_nvprof")
    flat = (
        facts(events),
        text_of_error(events.key_averages),
        events.table(time_unit="us", row_limit=1).splitlines()[-1:],
    )
    events._build_tree()
    nested = [(e.name, e.cpu_parent and e.cpu_parent.name, e.self_cpu_time_total) for e in events]
    return type(events).__name__, flat, nested


BROKEN = {
    "a table is missing": ("drop table StringTable",),
    "a table of kernels is missing": ("drop table CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL",),
    "a column is missing": ("alter table CUPTI_ACTIVITY_KIND_MARKER rename column timestamp to time",),
    "a range stands there twice": ("insert into CUPTI_ACTIVITY_KIND_MARKER values (10, 1, 101)",),
    "a kernel was started in another way": ("update CUPTI_ACTIVITY_KIND_RUNTIME set cbid = 17",),
    "a range has no name": ("delete from StringTable where _id_ = 2",),
}


@PROFILER("load_nvprof: bad files")
def bad_files(m):
    kinds = {name: text_of_error(lambda b=b: read(m, "load_nvprof", b))[0] for name, b in BROKEN.items()}
    kinds["no database"] = text_of_error(lambda: read(m, "load_nvprof", raw=b"no database" * 100))[0]
    kinds["empty"] = text_of_error(lambda: read(m, "load_nvprof", raw=b""))[0]
    kinds["a folder"] = text_of_error(lambda: profiler(m).load_nvprof(tempfile.gettempdir()))[0]
    return kinds


# --- events ---------------------------------------------------------------------------------------

OPTIONS = {
    "overload_name": "Tensor", "fwd_thread": 3, "input_shapes": [[2]], "stack": ["line"], "scope": 1,
    "use_device": "cuda", "cpu_memory_usage": 8, "device_memory_usage": 16, "is_async": False, "is_remote": True,
    "sequence_nr": 4, "node_id": 5, "device_index": 1, "device_resource_id": 6, "is_legacy": False, "flops": 7,
    "trace_name": "traced", "concrete_inputs": [1], "kwinputs": {"a": 1}, "is_user_annotation": True,
    "is_python_function": True, "activity_type": "cpu_op", "flow_id": 8, "flow_type": 9, "flow_start": True,
    "external_id": 10, "linked_correlation_id": 11, "structured_input_shapes": [[2]],
    "structured_input_strides": [[1]], "input_dtypes": ["float"], "python_id": 12, "python_parent_id": 13,
    "python_module_id": 14,
}  # fmt: skip


@UTIL(
    f"FunctionEvent(id, name, thread, start_us, end_us, device_type, metadata_json, extra_meta, {', '.join(OPTIONS)})"
)
def event_options(m):
    U, D = util(m), m.profiler.DeviceType
    made = U.FunctionEvent(
        id=1, name="aten::mul", thread=2, start_us=10, end_us=25, device_type=D.CPU, metadata_json="{}",
        extra_meta=None, **OPTIONS,
    )  # fmt: skip
    plain = U.FunctionEvent(1, "aten::mul", 2, 10, 25)
    return [[getattr(e, name) for name in (*OPTIONS, "id", "name", "thread", "key", "count")] for e in (made, plain)]


def event(m, i, name, start, end, **more):
    more = {"stack": [], "input_shapes": [], "trace_name": name, "overload_name": "", "flops": 0, **more}
    return util(m).FunctionEvent(i, name, 1, start, end, **more)


@UTIL(
    "FunctionEvent.append_kernel(name, device, duration), FunctionEvent.append_cpu_child(child), "
    "FunctionEvent.set_cpu_parent(parent), FunctionEvent.cpu_time, FunctionEvent.cpu_time_str, "
    "FunctionEvent.cpu_time_total, FunctionEvent.cpu_time_total_str, FunctionEvent.device_time, "
    "FunctionEvent.device_time_str, FunctionEvent.device_time_total, FunctionEvent.device_time_total_str, "
    "FunctionEvent.key, FunctionEvent.self_cpu_memory_usage, FunctionEvent.self_cpu_time_total, "
    "FunctionEvent.self_cpu_time_total_str, FunctionEvent.self_device_memory_usage, "
    "FunctionEvent.self_device_time_total, FunctionEvent.self_device_time_total_str"
)
def event_members(m):
    D = m.profiler.DeviceType
    up = event(m, 1, "up", 0, 100, use_device="cuda", cpu_memory_usage=64, device_memory_usage=32)
    down = event(m, 2, "down", 10, 30, use_device="cuda", cpu_memory_usage=16, device_memory_usage=8)
    up.append_kernel(name="k", device=0, duration=5), down.append_kernel("l", 0, 7.5)
    up.append_cpu_child(child=down), down.set_cpu_parent(parent=up)
    kernel, moving = (
        event(m, 3, "k", 0, 9, device_type=D.CUDA, use_device="cuda"),
        event(m, 4, "a", 0, 9, is_async=True),
    )
    wanted = (
        "cpu_time cpu_time_str cpu_time_total cpu_time_total_str device_time device_time_str device_time_total "
        "device_time_total_str key self_cpu_memory_usage self_cpu_time_total self_cpu_time_total_str "
        "self_device_memory_usage self_device_time_total self_device_time_total_str"
    )
    wrong = [
        text_of_error(lambda: kernel.append_kernel("k", 0, 1))[0], text_of_error(lambda: up.append_cpu_child(3))[0],
        text_of_error(lambda: up.set_cpu_parent(kernel))[0],
    ]  # fmt: skip
    return [[getattr(e, name) for name in wanted.split()] for e in (up, down, kernel, moving)], up.kernels, wrong


@UTIL(
    "FunctionEvent.cuda_time, FunctionEvent.cuda_time_total, FunctionEvent.self_cuda_time_total, "
    "FunctionEvent.self_cuda_memory_usage, FunctionEvent.metadata_json"
)
def old_names(m):
    e = event(m, 1, "a", 0, 10, use_device="cuda", device_memory_usage=4, metadata_json="{}")
    e.append_kernel("k", 0, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        json_text = e.metadata_json
    return e.cuda_time, e.cuda_time_total, e.self_cuda_time_total, e.self_cuda_memory_usage, json_text


def some_events(m, **options):
    events = [
        event(m, 1, "block", 0, 3_000_000, is_user_annotation=True, scope=7),
        event(m, 2, "aten::mul", 10, 1500, input_shapes=[[2, 3], []], cpu_memory_usage=3 << 20, stack=["a.py(1): f"]),
        event(m, 3, "aten::mul", 1600, 1800.5, input_shapes=[[20, 30], [30]], cpu_memory_usage=-2000),
    ]
    found = util(m).EventList(events, **options)
    found._build_tree()
    return found


UTIL |= {
    "EventList": lambda m: [
        len(util(m).EventList()), len(some_events(m, use_device=None, profile_memory=True, with_flops=False)),
        text_of_error(lambda: util(m).EventList().key_averages()),
    ],
    "EventList.table(sort_by, row_limit, max_src_column_width, max_name_column_width, max_shapes_column_width, "
    "header, time_unit)": lambda m: some_events(m).table(
        sort_by="cpu_time_total", row_limit=2, max_src_column_width=9, max_name_column_width=20,
        max_shapes_column_width=9, header="Title", time_unit="ms",
    ).splitlines(),
    "EventList.table(top_level_events_only)": lambda m: [
        "aten::mul" in some_events(m).table(top_level_events_only=flag) for flag in (True, False)
    ],
    "EventList.key_averages(group_by_input_shapes, group_by_stack_n, group_by_overload_name)": lambda m: [
        [(a.key, a.count, a.input_shapes, a.stack) for a in some_events(m).key_averages(**options)]
        for options in (
            {}, {"group_by_input_shapes": True}, {"group_by_stack_n": 1}, {"group_by_overload_name": True},
        )
    ],
    "EventList.self_cpu_time_total, EventList.total_average": lambda m: [
        some_events(m).self_cpu_time_total, some_events(m).total_average().count, some_events(m).total_average().key,
    ],
    "Interval(start, end), Interval.elapsed_us": lambda m: util(m).Interval(start=2, end=5.5).elapsed_us(),
    "Kernel(name, device, duration), Kernel.name, Kernel.device, Kernel.duration": lambda m: [
        (k, k.name, k.device, k.duration) for k in (util(m).Kernel(name="k", device=0, duration=1.5),)
    ],
    "StringTable.default_factory": lambda m: (
        table := util(m).StringTable(),
        [table[k] for k in ("t", "", "aten::mul", "_Z3foov", "_ZN2at3addERKNS_6TensorE", "_Znonsense")],
        len(table), table.default_factory,
    )[1:],
}  # fmt: skip


@UTIL("EventList.export_chrome_trace(path)")
def export_events(m):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        some_events(m).export_chrome_trace(path=str(path))
        rows = json.loads(path.read_text())
    return [(r["name"], r["ts"], r["dur"], r["tid"]) for r in rows if r["ph"] == "X"]


@UTIL("EventList.export_stacks(path, metric), EventList.supported_export_stacks_metrics")
def export_stacks_of_events(m):
    found = some_events(m)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stacks"
        found.export_stacks(path=str(path), metric="self_cpu_time_total")
        text = path.read_text()
    known = found.supported_export_stacks_metrics()
    return text, known[0], text_of_error(lambda: found.export_stacks("nowhere", "nonsense"))[0]


@UTIL(
    "FunctionEventAvg.add(other), FunctionEventAvg.cpu_time, FunctionEventAvg.cpu_time_str, "
    "FunctionEventAvg.cpu_time_total_str, FunctionEventAvg.device_time, FunctionEventAvg.device_time_str, "
    "FunctionEventAvg.device_time_total_str, FunctionEventAvg.self_cpu_time_total_str, "
    "FunctionEventAvg.self_device_time_total_str, FunctionEventAvg.cuda_time, FormattedTimesMixin"
)
def averages(m):
    avg = util(m).FunctionEventAvg()
    first = event(m, 1, "a", 0, 10, use_device="cuda", flops=3, cpu_memory_usage=8)
    first.append_kernel("k", 0, 5)
    avg.add(other=first)
    avg += event(m, 2, "a", 20, 25, flops=None)
    avg += avg
    wanted = (
        "key count flops cpu_time cpu_time_str cpu_time_total cpu_time_total_str device_time device_time_str "
        "device_time_total_str self_cpu_time_total_str self_device_time_total_str cpu_memory_usage cuda_time"
    )
    wrong = [text_of_error(lambda o=o: avg.add(o))[0] for o in (event(m, 3, "b", 0, 1),)]
    return [getattr(avg, n) for n in wanted.split()], wrong, isinstance(avg, util(m).FormattedTimesMixin)


@UTIL("MemRecordsAcc(mem_records), MemRecordsAcc.in_interval(start_ns, end_ns)")
def memory_records(m):
    class At(int):
        def start_ns(self):
            return int(self)

    records = [[At(t), name] for t, name in ((30, "c"), (10, "a"), (20, "b"), (20, "d"))]
    acc, none = util(m).MemRecordsAcc(mem_records=records), util(m).MemRecordsAcc([])
    spans = ((10, 20), (11, 19), (20, 90), (30, 10))
    found = [[r[1] for r in acc.in_interval(start_ns=a, end_ns=b)] for a, b in spans]
    return found, list(none.in_interval(0, 9))


METADATA = [p[0] for p in api.recorded()["torch.autograd.profiler_util"]["EventMetadata"]["signature"]]


@UTIL(f"EventMetadata({', '.join(METADATA)}), {', '.join(f'EventMetadata.{name}' for name in METADATA)}")
def event_metadata(m):
    made = util(m).EventMetadata(**{name: i for i, name in enumerate(METADATA)})
    return [getattr(made, name) for name in METADATA], event(m, 1, "a", 0, 1).event_metadata
