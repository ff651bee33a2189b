"""Events and lists of them made by hand, and what is printed of them, compared with torch."""

import warnings

from tests.profiler.helpers import module
from tests.programs import Programs, result_or_error

program = Programs()
test_same_as_torch = program.test()


def _event(m, i, name, start, end, **more):
    util = module(m, "autograd.profiler_util")
    more = {"overload_name": "", "input_shapes": [], "stack": [], "trace_name": name, "flops": 0, **more}
    return util.FunctionEvent(id=i, name=name, thread=more.pop("thread", 1), start_us=start, end_us=end, **more)


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
    )
    found._build_tree()
    return found


@program
def tables(m):
    plain, rich = _events(m), _events(m, profile_memory=True, with_flops=True)
    texts = [
        plain.table(),
        rich.table(),
        plain.table(sort_by="cpu_time_total", row_limit=2),
        plain.table(row_limit=-1),
        plain.table(header="Title", top_level_events_only=True),
        plain.table(time_unit="ms"),
        plain.table(max_name_column_width=20, max_shapes_column_width=12),
        rich.key_averages().table(),
        rich.key_averages(group_by_input_shapes=True).table(sort_by="count"),
        str(plain),
        plain.table(time_unit="s"),
        plain.table(sort_by="self_cuda_time_total"),
    ]
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
        (e.name, e.cpu_parent and e.cpu_parent.id, [c.id for c in e.cpu_children], e.self_cpu_time_total) for e in found
    ]


@program
def an_only_child_of_the_same_name_is_its_parent(m):
    util = module(m, "autograd.profiler_util")
    found = util.EventList([_event(m, i, "same", i, 100 - i) for i in range(3)] + [_event(m, 9, "leaf", 5, 6)])
    found._build_tree()
    return [(e.id, [c.id for c in e.cpu_children]) for e in found]


@program
def callers_of_a_backward(m):
    util = module(m, "autograd.profiler_util")
    found = util.EventList(
        [
            _event(m, 1, "aten::mul", 0, 1, stack=["forward.py(1): f"], sequence_nr=7, fwd_thread=0),
            _event(m, 2, "MulBackward0", 5, 9, stack=["other"], scope=1, sequence_nr=7, fwd_thread=1),
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
        old = (e.cuda_time, e.cuda_time_total, e.self_cuda_time_total, e.self_cuda_memory_usage, e.metadata_json)
    return repr(e), repr(avg), old, e.cpu_time_str, e.key, e.device_resource_id, e.count


@program
def old_names_warn(m):
    e = _event(m, 1, "aten::mul", 1, 3.5)
    return (e.cuda_time, e.cuda_time_total, e.self_cuda_time_total, e.self_cuda_memory_usage, e.metadata_json)


@program
def wrong_use_of_events(m):
    util = module(m, "autograd.profiler_util")
    D = module(m, "profiler").DeviceType
    kernel = _event(m, 1, "kernel", 0, 1, device_type=D.CUDA)
    host = _event(m, 2, "host", 0, 1)
    avg = util.FunctionEventAvg().add(host)
    return [
        result_or_error(lambda: kernel.append_kernel("k", 0, 1)),
        result_or_error(lambda: kernel.set_cpu_parent(host)),
        result_or_error(lambda: host.append_cpu_child(3)),
        result_or_error(lambda: host.set_cpu_parent(kernel)),
        result_or_error(lambda: avg.add(_event(m, 3, "other", 0, 1))),
        result_or_error(lambda: util.EventList().key_averages()),
        result_or_error(lambda: util.EventList().export_stacks("nowhere", "time")),
        util.EventList().supported_export_stacks_metrics(),
        kernel.cpu_time_total,
        kernel.self_cpu_time_total,
    ]


@program
def device_times(m):
    util = module(m, "autograd.profiler_util")
    parent = _event(m, 1, "aten::a", 0, 100, use_device="cuda")
    child = _event(m, 2, "aten::b", 10, 20, use_device="cuda", device_memory_usage=2048)
    parent.append_kernel("k", 0, 5)
    child.append_kernel("l", 0, 7.5)
    found = util.EventList([parent, child], use_device="cuda", profile_memory=True)
    found._build_tree()
    return (
        parent.device_time_total,
        parent.self_device_time_total,
        parent.device_time,
        child.device_time_str,
        (found.table().splitlines()),
    )
