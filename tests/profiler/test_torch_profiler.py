"""torch.profiler: activities, schedules, steps, handlers of traces."""

import gzip
import json
import warnings
from typing import Any

import pytest

import torchgrad_jax
from tests.profiler.helpers import module, outline
from tests.programs import Programs, result_or_error

tg: Any = torchgrad_jax

program = Programs()
test_same_as_torch = program.test()


def profiler(m) -> Any:
    return module(m, "profiler")


@program
def names(m):
    P = profiler(m)
    return [
        {a.name: a.value for a in P.ProfilerActivity.__members__.values()},
        [P.ProfilerAction[n].value for n in ("NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE")],
        dict(sorted((n, d.value) for n, d in P.DeviceType.__members__.items())),
        str(P.ProfilerActivity.CPU),
        str(P.DeviceType.CPU),
        sorted(map(str, P.supported_activities())),
        P.record_function is m.autograd.profiler.record_function,
    ]


@program
def schedules(m):
    S = profiler(m).schedule
    plans = [
        S(wait=1, warmup=1, active=2, repeat=2, skip_first=1),
        S(wait=0, warmup=1, active=1),
        S(wait=2, warmup=1, active=3, skip_first=2, skip_first_wait=1),
        S(wait=0, warmup=0, active=1, repeat=3),
    ]
    return [[plan(step).name for step in range(16)] for plan in plans], [
        result_or_error(lambda: plans[0](-1)),
        result_or_error(lambda: S(wait=1, warmup=0, active=0)),
        result_or_error(lambda: S(wait=-1, warmup=0, active=1)),
    ]


@program
def simplest_use(m):
    P = profiler(m)
    x = m.ones(2, 3, requires_grad=True)
    with P.profile(record_shapes=True) as prof:
        with P.record_function("forward"):
            y = (x * x).sum()
        y.backward()
    averages = {e.key: e.count for e in prof.key_averages()}
    return outline(prof.events()), averages["aten::mul"] >= 1, averages["MulBackward0"]


def _steps(m, plan, steps, **kwargs):
    # The warning comes once per process, so not in every test.
    warnings.filterwarnings("ignore", "Warning: Profiler clears")
    P = profiler(m)
    log = []

    def ready(prof):
        keys = ("ProfilerStep*", "aten::exp")
        log.append((prof.step_num, {e.key: e.count for e in prof.key_averages() if e.key in keys}))

    with P.profile(schedule=plan, on_trace_ready=ready, **kwargs) as prof:
        for _ in range(steps):
            m.ones(1).exp()
            prof.step()
    return log, prof.step_num, prof.current_action.name


@program
def cycles(m):
    S = profiler(m).schedule
    return [
        _steps(m, S(wait=1, warmup=1, active=2, repeat=2), 9),
        _steps(m, S(wait=0, warmup=1, active=1), 5),
        _steps(m, S(wait=0, warmup=1, active=3), 5),
        _steps(m, S(wait=1, warmup=1, active=1, repeat=1), 2),
        _steps(m, None, 3),
    ]


@program
def cycles_without_warmup(m):
    return _steps(m, profiler(m).schedule(wait=0, warmup=0, active=2), 5)


@program
def cycles_that_accumulate(m):
    return _steps(m, profiler(m).schedule(wait=1, warmup=1, active=1), 6, acc_events=True)


@program
def steps_without_a_schedule(m):
    P = profiler(m)
    with P.profile() as prof:
        for _ in range(2):
            m.ones(1).exp()
            prof.step()
    return outline(prof.events()), prof.step_num


@program
def strange_schedules(m):
    A = profiler(m).ProfilerAction
    plans = ([A.RECORD, A.NONE], [A.RECORD_AND_SAVE] * 3, [A.NONE, A.RECORD, A.RECORD_AND_SAVE, A.WARMUP, A.RECORD])
    return [_steps(m, lambda i, p=p: p[min(i, len(p) - 1)], len(p)) for p in plans]


@program
def start_and_stop(m):
    prof = profiler(m).profile()
    prof.start()
    m.ones(1).exp()
    prof.stop()
    return outline(prof.events())


@program
def arguments(m):
    P = profiler(m)
    cpu = P.ProfilerActivity.CPU
    fresh = P.profile()
    return [
        result_or_error(lambda: P.profile(activities=[])),
        result_or_error(lambda: P.profile(activities=[cpu, 3]))[0],
        result_or_error(fresh.events),
        result_or_error(fresh.key_averages),
        result_or_error(lambda: fresh.export_chrome_trace("nowhere")),
        result_or_error(lambda: fresh.export_stacks("nowhere")),
        fresh.step_num,
    ]


@program
def activity_that_is_not_there(m):
    P = profiler(m)
    with P.profile(activities=[P.ProfilerActivity.CPU, P.ProfilerActivity.CUDA]) as prof:
        m.ones(1).exp()
    return outline(prof.events())


# --- ours alone -----------------------------------------------------------------------------------


def test_handler_writes_one_file_per_cycle(tmp_path):
    P = tg.profiler
    folder = tmp_path / "new" / "folder"
    for zipped in (False, True):
        handler = P.tensorboard_trace_handler(str(folder), worker_name=f"w{zipped}", use_gzip=zipped)
        plan = P.schedule(wait=0, warmup=1, active=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that events of a cycle go, once per process
            with P.profile(schedule=plan, on_trace_ready=handler) as prof:
                for _ in range(4):
                    tg.ones(1).exp()
                    prof.step()
    plain = sorted(folder.glob("wFalse.*.pt.trace.json"))
    packed = sorted(folder.glob("wTrue.*.pt.trace.json.gz"))
    assert len(plain) == len(packed) == 2
    for text in [p.read_bytes() for p in plain] + [gzip.decompress(p.read_bytes()) for p in packed]:
        names = [r["name"] for r in json.loads(text)["traceEvents"]]
        assert "aten::exp" in names
        assert any(n.startswith("ProfilerStep#") for n in names)


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with tg.profiler.profile() as prof:
        pass
    with pytest.raises(RuntimeError, match="Can't create directory"):
        tg.profiler.tensorboard_trace_handler(str(tmp_path / "file" / "inside"))(prof)


def test_metadata_is_in_the_trace(tmp_path):
    prof = tg.profiler.profile(record_shapes=True)
    with prof:
        prof.add_metadata("text", 'with "quotes"')
        prof.add_metadata_json("list", "[1, 2]")
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    data = json.loads(path.read_text())
    assert (data["list"], data["text"]) == ([1, 2], 'with "quotes"')
    assert data["record_shapes"] == 1
    with pytest.raises(json.JSONDecodeError):
        prof.add_metadata_json("broken", "{")


def test_recording_followed_by_warmup_is_told_and_survived():
    # torch crashes at the next recording.
    A = tg.profiler.ProfilerAction
    plan = [A.RECORD, A.WARMUP, A.RECORD_AND_SAVE]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log, *_ = _steps(tg, lambda i: plan[min(i, 2)], 3)
    assert "Incorrect schedule: RECORD followed by WARMUP" in [str(w.message) for w in caught]
    assert [counts["aten::exp"] for _, counts in log[:1]] == [1]


def test_steps_by_name():
    P = tg.profiler
    with P.profile(schedule=P.schedule(wait=0, warmup=1, active=2)) as prof:
        for _ in range(3):
            tg.ones(1).exp()
            prof.step()
    steps = [(e.name, e.trace_name) for e in prof.events() if "Step" in e.name]
    assert steps == [("ProfilerStep*", "ProfilerStep#1"), ("ProfilerStep*", "ProfilerStep#2")]


def test_what_is_not_there_says_so():
    P = tg.profiler
    assert P.kineto_available() is False
    with pytest.raises(AttributeError, match=r"torch\.profiler\.ExecutionTraceObserver"):
        P.ExecutionTraceObserver()
    with pytest.raises(AttributeError, match="export_memory_timeline"):
        P.profile().export_memory_timeline("nowhere")
    from torchgrad_jax.profiler import itt

    assert itt.is_available() is False
