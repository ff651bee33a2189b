"""The profiler on its own: files, memory, threads of control, and what it leaves behind."""

import contextlib
import json
import sqlite3
from typing import Any

import pytest

import torchgrad_jax
from tests.programs import result_or_error

tg: Any = torchgrad_jax


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


@pytest.mark.parametrize(
    "change, message",
    [
        ("", None),
        ("update CUPTI_ACTIVITY_KIND_RUNTIME set cbid = 13", "Expected cbid to be 211"),
        ("insert into CUPTI_ACTIVITY_KIND_MARKER values (5, 2, 100)", "duplicate key"),
    ],
)
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
        ("first", 10, [("k", 0, 7)]),
        ("second", 100, [("l", 0, 2)]),
    ]


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
        assert "test_profiler_alone.py(" in innermost


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
            raised = result_or_error(y.backward)
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
    assert [e.name for e in outer.function_events] == ["aten::ones"] * 2 + ["aten::exp", "aten::ones"]
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
        ("aten::ones", 1024),
        ("aten::exp", 1024),
        ("aten::t", 0),
        ("[memory]", -1024),
        ("[memory]", -1024),
    ]
    assert "1.00 KB" in prof.key_averages().table()


@pytest.mark.parametrize("name", ["emit_nvtx", "emit_itt"])
def test_ranges_for_other_tools_are_refused(name):
    emit = getattr(tg.autograd.profiler, name)
    with emit(enabled=False):
        pass
    with pytest.raises(NotImplementedError, match=name), emit():
        pass


@pytest.mark.parametrize("kwargs", [{"experimental_config": object()}, {"activity_filters": {1: {"x"}}}])
def test_unsupported_arguments_are_refused(kwargs):
    with pytest.raises(NotImplementedError, match=next(iter(kwargs))):
        tg.autograd.profiler.profile(**kwargs)


def test_values_that_are_being_traced_can_be_profiled():
    import jax

    def f(a):
        from torchgrad_jax._engine.memory.tensor import wrap_array

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
