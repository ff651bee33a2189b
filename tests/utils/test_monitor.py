"""torch.monitor: statistics over windows of time, and events; against torch."""

import datetime
import importlib

import pytest

import torchgrad_jax as tg
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()

LONG = datetime.timedelta(days=1000)


def part(m):
    return importlib.import_module(f"{m.__name__}.monitor")


def watched(m, run):
    """What a run told the handlers."""
    monitor, seen = part(m), []
    handle = monitor.register_event_handler(lambda event: seen.append((event.name, dict(sorted(event.data.items())))))
    try:
        found = run(monitor)
    finally:
        monitor.unregister_event_handler(handle)
    return found, seen


def by_name(found):
    return {str(k): v for k, v in sorted(found.items(), key=lambda item: int(item[0]))}


@program
def a_window_that_is_full(m):
    def run(monitor):
        a = monitor.Aggregation
        stat = monitor.Stat("loss", (a.SUM, a.COUNT, a.MAX, a.MIN, a.MEAN, a.VALUE), LONG, 3)
        before = by_name(stat.get())
        counts = []
        for v in (2, 3.5, 1, 9):
            stat.add(v)
            counts.append(stat.count)
        return before, counts, by_name(stat.get()), stat.name

    return watched(m, run)


@program
def a_statistic_that_is_deleted_tells_what_it_has(m):
    def run(monitor):
        stat = monitor.Stat("x", [monitor.MEAN, monitor.COUNT], LONG)
        stat.add(1)
        stat.add(4)
        del stat
        monitor.Stat("empty", [monitor.SUM], LONG)

    return watched(m, run)


@program
def events_reach_handlers_in_order(m):
    monitor, seen = part(m), []
    first = monitor.register_event_handler(lambda event: seen.append("first"))
    second = monitor.register_event_handler(lambda event: seen.append(event))
    event = monitor.Event("step", datetime.datetime(2026, 1, 2), {"a": 1, "b": 2.5, "c": True, "d": "x"})
    monitor.log_event(event)
    monitor.unregister_event_handler(first)
    monitor.log_event(event)
    monitor.unregister_event_handler(second)
    monitor.log_event(event)
    return [s if isinstance(s, str) else s is event for s in seen], sorted(event.data.items()), event.timestamp.year


@program
def an_error_of_a_handler_reaches_the_caller(m):
    monitor = part(m)

    def fail(event):
        raise ValueError("no")

    handle = monitor.register_event_handler(fail)
    try:
        monitor.log_event(monitor.Event("a", datetime.datetime(2026, 1, 2), {}))
    except ValueError as error:
        return str(error)
    finally:
        monitor.unregister_event_handler(handle)


@program
def names_of_aggregations(m):
    a = part(m).Aggregation
    return [(str(v), repr(v), int(v), v.name) for v in a.__members__.values()], a(4) == part(m).SUM, part(m).STAT_EVENT


@program
def wrong_kinds(m):
    monitor, now = part(m), datetime.datetime(2026, 1, 2)
    stat = monitor.Stat("a", [monitor.SUM], LONG)
    calls = (
        lambda: monitor.Stat("a", [], 5),
        lambda: stat.add("x"),
        lambda: monitor.Event("n", 1, {}),
        lambda: monitor.Event("n", now, {"a": None}),
        lambda: monitor.Event("n", now, {1: 1}),
        lambda: monitor.log_event(3),
        lambda: monitor.register_event_handler(3),
        lambda: monitor.unregister_event_handler(3),
        lambda: monitor._WaitCounter(3),
        lambda: monitor.data_value_t(),
    )
    found = []
    for call in calls:
        try:
            call()
        except TypeError:
            found.append("TypeError")
    return found


@program
def waiting_is_marked(m):
    with part(m)._WaitCounter("save").guard() as inside:
        return inside


@program
def scalars_of_statistics_reach_a_writer(m):
    class Writer:
        def __init__(self):
            self.seen = []

        def add_scalar(self, name, value, walltime):
            self.seen.append((name, value, walltime > 0))

    monitor, writer = part(m), Writer()
    handler = monitor.TensorboardEventHandler(writer)
    handler(monitor.Event("other", datetime.datetime(2026, 1, 2), {"a": 1.0}))
    handler(monitor.Event(monitor.STAT_EVENT, datetime.datetime(2026, 1, 2), {"a": 1.0}))
    return writer.seen


def test_a_window_ends_with_time(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(tg.monitor.time, "time", lambda: clock[0])
    stat = tg.monitor.Stat("x", [tg.monitor.SUM, tg.monitor.MAX], datetime.timedelta(seconds=10))
    stat.add(1)
    clock[0] += 9
    stat.add(2)
    assert stat.count == 2
    clock[0] += 2
    assert (stat.count, stat.get()) == (0, {tg.monitor.SUM: 3.0, tg.monitor.MAX: 2.0})
    stat.add(5)
    clock[0] += 10
    assert stat.get() == {tg.monitor.SUM: 5.0, tg.monitor.MAX: 5.0}


def test_a_handle_may_be_taken_back_twice():
    handle = tg.monitor.register_event_handler(print)
    tg.monitor.unregister_event_handler(handle)
    tg.monitor.unregister_event_handler(handle)
    with pytest.raises(TypeError, match="incompatible"):
        tg.monitor.Stat("a", "sum", LONG)  # pyright: ignore[reportArgumentType] - wrong on purpose
