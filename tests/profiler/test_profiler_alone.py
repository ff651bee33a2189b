"""The profiler on its own: files, memory, threads of control, and what it leaves behind."""

import importlib
import json
import sqlite3
from typing import Any

import pytest

import torchgrad_jax
from tests.autograd.page.profiles import database
from tests.programs import result_or_error

tg: Any = torchgrad_jax


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
    prof.add_metadata("note", "kept")
    prof.export_chrome_trace(str(path))
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


def test_used_again():
    for keep, times in ((False, 1), (True, 2)):
        prof = tg.profiler.profile(acc_events=keep)
        for _ in range(2):
            prof.start()
            tg.ones(1).exp()
            prof.stop()
        events = prof.events()
        assert [e.name for e in events].count("aten::exp") == times
        assert events[0].time_range.start <= events[-1].time_range.start


def test_events_of_a_profile_that_goes_on():
    with tg.autograd.profiler.profile() as prof:
        x = tg.ones(1)
        assert [e.name for e in prof.function_events] == ["aten::ones"]
        x.exp()
    assert [e.name for e in prof.function_events] == ["aten::ones", "aten::exp"]


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


def test_unsupported_arguments_are_refused():
    tg.profiler.profile(execution_trace_observer=None)
    for name in ("execution_trace_observer", "use_kineto"):
        with pytest.raises(NotImplementedError, match=name):
            tg.profiler.profile(**{name: object()})
    with pytest.raises(TypeError, match="execution_trace_observer"):
        tg.autograd.profiler.profile(execution_trace_observer=None)


@pytest.mark.parametrize("profile", [tg.autograd.profiler.profile, tg.profiler.profile])
@pytest.mark.parametrize("name", ["profile_all_threads", "record_python_gc_info", "performance_events"])
def test_what_would_record_more_is_refused(profile, name):
    Config = tg._C._profiler._ExperimentalConfig
    profile(experimental_config=Config(verbose=True, enable_cuda_sync_events=True))
    with pytest.raises(NotImplementedError, match=name):
        profile(experimental_config=Config(**{name: ["cycles"]}))


def test_trace_alone(tmp_path):
    with tg.profiler.profile(experimental_config=tg._C._profiler._ExperimentalConfig(trace_only=True)) as prof:
        tg.ones(1).exp()
    for wanted in (prof.events, prof.key_averages):
        with pytest.raises(RuntimeError, match="trace_only=True"):
            wanted()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"aten::ones", "aten::exp"} <= {r["name"] for r in rows}


def test_what_a_trace_says_of_itself(tmp_path):
    prof = tg.autograd.profiler.profile(custom_trace_id_callback=lambda: "mine", use_mtia=False)
    with prof:
        tg.ones(1)
    for python, said in ((True, [1]), (False, None)):
        prof.export_chrome_trace(tmp_path / "trace.json", {"more": "[1]"}, python)
        data = json.loads((tmp_path / "trace.json").read_text())
        assert (data["trace_id"], data.get("more")) == ("mine", said)
    with pytest.raises(AssertionError, match="MTIA"):
        tg.autograd.profiler.profile(use_mtia=True)


def test_names_that_are_not_there_say_so():
    with pytest.raises(AttributeError, match=r"torch\.autograd\.profiler\.nonsense"):
        tg.autograd.profiler.nonsense
    with pytest.raises(AttributeError, match=r"torch\.profiler\.profile\.nonsense"):
        tg.profiler.profile().nonsense


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("drop table StringTable", "no such table: StringTable"),
        ("alter table CUPTI_ACTIVITY_KIND_MARKER rename column timestamp to time", "no such column: a.timestamp"),
        ("insert into CUPTI_ACTIVITY_KIND_MARKER values (10, 1, 101)", r"duplicate key: \(10,\)"),
        ("update CUPTI_ACTIVITY_KIND_RUNTIME set cbid = 17", "Expected cbid to be 211, but got 17"),
        ("delete from StringTable where _id_ = 2", "range 11 has the name 2, which is no text"),
        ("update StringTable set value = null", "has the name 3, which is no text"),
    ],
)
def test_files_of_nvprof_that_are_bad_say_why(tmp_path, change, text):
    path = tmp_path / "a file?.nvprof"
    database(path, [change])
    with pytest.raises(Exception, match=text) as caught:
        tg.autograd.profiler.load_nvprof(path)
    if isinstance(caught.value, sqlite3.Error):
        assert str(path) in str(caught.value)


def test_no_file_of_nvprof_says_so_and_makes_none(tmp_path):
    path = tmp_path / "missing"
    with pytest.raises(sqlite3.OperationalError, match="missing cannot be read as a file of nvprof"):
        tg.autograd.profiler.load_nvprof(str(path))
    assert not path.exists()
    path.write_text("no database" * 100)
    with pytest.raises(sqlite3.DatabaseError, match="cannot be read as a file of nvprof: file is not a database"):
        tg.autograd.profiler.load_nvprof(str(path))


def test_names_stay_where_the_library_of_cpp_is_not_there(monkeypatch):
    util = importlib.import_module("torchgrad_jax.autograd.profiler_util")
    assert util.demangled("_Z3foov") == "foo()"
    monkeypatch.setattr(util, "_demangler", lambda: None)
    assert util.demangled("_Z3foov") == "_Z3foov"


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
