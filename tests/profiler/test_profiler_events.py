"""Events and lists of them made by hand, and what is printed of them, compared with torch."""

from typing import Any

import pytest

import torchgrad_jax
from tests.profiler.helpers import module
from tests.programs import Programs

tg: Any = torchgrad_jax

program = Programs()
test_same_as_torch = program.test()


def _event(m, i, name, start, end, **more):
    thread, scope = more.pop("thread", 1), more.pop("scope", 0)
    util = module(m, "autograd.profiler_util")
    event = util.FunctionEvent(id=i, name=name, thread=thread, start_us=start, end_us=end, scope=scope)
    for key, value in {"input_shapes": [], "stack": [], "flops": 0, "overload_name": "", **more}.items():
        setattr(event, key, value)
    return event


def _events(m, flops=False, **more):
    util = module(m, "autograd.profiler_util")
    counts = (1500, 30000, 10) if flops else (0, 0, 0)
    if flops and m.__name__ == "torch":
        more["with_flops"] = True
    found = util.EventList(
        [
            _event(m, 1, "forward", 0, 3_000_000, is_user_annotation=True, scope=7),
            _event(m, 2, "aten::mul", 10, 1500, input_shapes=[[2, 3], []], flops=counts[0], cpu_memory_usage=3 << 20),
            _event(
                m, 3, "aten::mul", 1600, 1800.5, input_shapes=[[20, 30], [30]], flops=counts[1], cpu_memory_usage=-2000
            ),
            _event(m, 4, "aten::a_very_long_name_" + "x" * 60, 1900, 2500, input_shapes=[[1] * 40]),
            _event(m, 5, "aten::mul", 2000, 2100, input_shapes=[[2, 3], []], flops=counts[2], cpu_memory_usage=12),
            _event(m, 6, "aten::elsewhere", 2600, 2610, thread=2),
        ],
        **more,
    )
    found._build_tree()
    return found


@program
def tables(m):
    plain, rich = _events(m), _events(m, profile_memory=True, flops=True)
    texts = [
        plain.table(),
        rich.table(),
        plain.table(sort_by="cpu_time_total", row_limit=2),
        plain.table(row_limit=-1),
        plain.table(header="Title"),
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
        (e.name, e.cpu_parent and e.cpu_parent.id, [c.id for c in e.cpu_children], e.self_cpu_time_total)
        for e in sorted(found, key=lambda e: e.id)
    ]


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
def sums(m):
    found = _events(m)
    average = next(e for e in found.key_averages() if e.key == "aten::mul")
    names = ("count", "cpu_time_total", "cpu_time", "self_cpu_time_total", "cpu_memory_usage", "cpu_time_str")
    total = found.total_average()
    return [getattr(average, n) for n in names], [getattr(total, n) for n in names], found.self_cpu_time_total


def test_top_level_events():
    table = _events(tg).table(top_level_events_only=True)
    assert "forward" in table
    assert "aten::elsewhere" in table
    assert "aten::mul" not in table
    assert len(table.splitlines()) == len(_events(tg).table().splitlines()) - 4 + 2


@pytest.mark.parametrize("key", ["self_cuda_time_total", "cuda_time", "cuda_memory_usage", "self_xpu_memory_usage"])
def test_what_devices_took_is_nothing_to_sort_by(key):
    averages = _events(tg).key_averages()
    assert averages.table(sort_by=key) == averages.table()


def test_bytes_on_a_device_have_columns():
    found = tg.autograd.profiler_util.EventList([_event(tg, 1, "aten::mul", 0, 1, device_memory_usage=2048)])
    assert "Device Mem" not in found.table()
    found._profile_memory = True
    assert "2.00 KB" in found.table()


def test_metrics_of_devices_are_refused():
    with pytest.raises(ValueError, match="self_cuda_time_total"):
        _events(tg).export_stacks("nowhere", "self_cuda_time_total")
