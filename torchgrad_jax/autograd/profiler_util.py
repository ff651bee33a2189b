"""What a profile consists of, as in torch.autograd.profiler_util: events, their sums, and lists of them."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from .._core.files.atomic import replacing
from ._profiler_table import build_table, columns_of, format_time, width_of

OPERATION, NODE, STRETCH = 0, 1, 7
"""Values of `FunctionEvent.scope`: an operation or what the engine does at a node, a node's own work, a named block."""
MEMORY = "[memory]"
"""The name of events that tell of memory alone."""

DeviceType = enum.Enum(
    "DeviceType",
    "CPU CUDA MKLDNN OPENGL OPENCL IDEEP HIP FPGA MAIA XLA Vulkan Metal XPU MPS Meta HPU VE Lazy IPU MTIA PrivateUse1",
    start=0,
)
"""Where an event happened. Events here are all of the host: the kernels of devices are not recorded."""


def _as_text(name: str) -> property:
    return property(lambda self: format_time(getattr(self, name)))


def _without_children(name: str) -> Any:
    """A total less that of the children."""
    return property(lambda self: getattr(self, name) - sum(getattr(c, name) for c in self.cpu_children))


class _Times:
    """What an event and a sum of events have in common."""

    key: str
    count: int
    input_shapes: Any
    cpu_time_total: float
    self_cpu_time_total: float
    cpu_time_str = _as_text("cpu_time")
    cpu_time_total_str = _as_text("cpu_time_total")
    self_cpu_time_total_str = _as_text("self_cpu_time_total")
    device_type = DeviceType.CPU
    use_device: str | None = None
    is_async = is_remote = is_legacy = False
    # The kernels of devices are not recorded, so they take no time. Programs know these names, and the old ones.
    device_time = device_time_total = self_device_time_total = 0.0
    cuda_time = cuda_time_total = self_cuda_time_total = 0.0

    @property
    def cpu_time(self) -> float:
        """Microseconds per call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        times = f"self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str}"
        return f"<{type(self).__name__} {self.key} count={self.count} {times} input_shapes={self.input_shapes}>"


class Interval:
    """A stretch of time in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start


class FunctionEvent(_Times):
    """One call of an operation, a node or a named block.

    Attributes:
        name, key: such as ``aten::mul``, ``MulBackward0`` or what `record_function` was given; `trace_name` has a
            step's number.
        time_range: from when to when, in microseconds since the profile began.
        thread, fwd_thread: numbers of the thread, and of the one that ran a node's forward.
        cpu_parent, cpu_children: what it ran in, and what ran in it.
        input_shapes: shapes of the arguments; ``[]`` for what is not a tensor.
        scope: 0 for operations, 1 for nodes of the graph, 7 for named blocks.
        sequence_nr: number of the node that an operation recorded, or that a node is; -1 for none.
        cpu_memory_usage, device_memory_usage: bytes of tensors made less bytes of tensors gone while it ran.
        flops: floating point operations, where there is a formula.
        stack: the caller's lines, innermost first.
    """

    count = 1
    sequence_nr = -1
    fwd_thread = flops = cpu_memory_usage = device_memory_usage = 0
    kernels: Sequence[Any] = ()

    def __init__(
        self, id: int, name: str, thread: int, start_us: float = 0, end_us: float = 0, scope: int = OPERATION
    ) -> None:
        self.id, self.trace_name, self.thread, self.scope = id, name, thread, scope
        self.name = self.key = "ProfilerStep*" if name.startswith("ProfilerStep#") else name
        self.is_user_annotation = scope == STRETCH
        self.time_range = Interval(start_us, end_us)
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.input_shapes: list[Any] = []
        self.stack: list[str] = []

    @property
    def cpu_time_total(self) -> float:
        """Microseconds, children included."""
        return self.time_range.elapsed_us()

    self_cpu_time_total = _without_children("cpu_time_total")
    self_cpu_memory_usage = _without_children("cpu_memory_usage")
    self_device_memory_usage = _without_children("device_memory_usage")


class FunctionEventAvg(_Times):
    """All calls of one name: the sums of what they took, and their number."""

    def __init__(self, key: str, events: Sequence[FunctionEvent]) -> None:
        self.key, self.count = key, len(events)
        first = events[0] if events else None
        self.cpu_parent = first and first.cpu_parent
        self.scope, self.is_user_annotation = first and first.scope, bool(first and first.is_user_annotation)
        self.input_shapes: Any = first.input_shapes if first else []
        self.stack: list[str] = first.stack if first else []

        def total(name: str) -> Any:
            return sum(getattr(e, name) for e in events)

        self.cpu_time_total, self.self_cpu_time_total = total("cpu_time_total"), total("self_cpu_time_total")
        self.cpu_memory_usage, self.self_cpu_memory_usage = total("cpu_memory_usage"), total("self_cpu_memory_usage")
        self.device_memory_usage = total("device_memory_usage")
        self.self_device_memory_usage = total("self_device_memory_usage")
        self.flops = total("flops")


class EventList(list[Any]):
    """Events of a profile, or sums of them, with tables and files of them."""

    def __init__(self, events: Iterable[Any] = (), *, profile_memory: bool = False) -> None:
        super().__init__(events)
        self._profile_memory = profile_memory

    def __str__(self) -> str:
        return self.table()

    # -- the tree
    def _build_tree(self) -> None:
        """Find out what ran in what."""
        self.sort(key=lambda e: (e.time_range.start, -e.time_range.end, e.id))
        self._nest()
        self._lend_stacks()

    def _nest(self) -> None:
        """An event belongs to the shortest one of its thread that spans it."""
        threads: dict[int, list[FunctionEvent]] = defaultdict(list)
        for e in self:
            open_, own = threads[e.thread], e.time_range
            while open_ and not own.start < open_[-1].time_range.end >= own.end:
                open_.pop()
            e.cpu_parent, e.cpu_children = open_[-1] if open_ else None, []
            if open_:
                open_[-1].cpu_children.append(e)
            open_.append(e)

    def _lend_stacks(self) -> None:
        """What runs in a node's backward shows the lines of the node's forward."""
        forward: dict[int, list[str]] = {}
        nodes = [(e, _node_above(e)) for e in self]
        for e, node in nodes:
            if node is None and e.sequence_nr >= 0:
                forward.setdefault(e.sequence_nr, e.stack)
        for e, node in nodes:
            if node is not None:
                e.stack = forward.get(node.sequence_nr, [])

    # -- sums
    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each counted once."""
        return sum(e.self_cpu_time_total for e in self)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """One `FunctionEventAvg` for all events of a name.

        Different shapes of the arguments are told apart with `group_by_input_shapes`, and different callers by
        `group_by_stack_n` of the innermost lines. Events have no overloads to be told apart.
        """
        groups: dict[Any, list[FunctionEvent]] = defaultdict(list)
        for e in self:
            shapes = str(e.input_shapes) if group_by_input_shapes else ""
            groups[e.key, e.is_user_annotation, shapes, *e.stack[:group_by_stack_n]].append(e)
        sums = [FunctionEventAvg(key[0], group) for key, group in groups.items()]
        for total in sums:
            total.stack = total.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                total.input_shapes = ""
        return EventList(sums, profile_memory=self._profile_memory)

    def total_average(self) -> FunctionEventAvg:
        """The sum of everything, under the key "Total"."""
        return FunctionEventAvg("Total", self)

    # -- texts and files
    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as a text table.

        Args:
            sort_by: an attribute, largest first: ``cpu_time_total``, ``self_cpu_time_total``,
                ``cpu_time``, ``cpu_memory_usage``, ``count`` ...
            row_limit: at most so many rows; -1 for all.
            header: a line above the table.
            top_level_events_only: leave out what ran in something else.
            time_unit: "s", "ms" or "us" for all times.
        """
        if not self:
            return ""
        events = list(self)
        if sort_by is not None:
            name = sort_by.replace("cuda", "device").replace("xpu", "device")
            events.sort(key=lambda e: getattr(e, name), reverse=True)
        rows = [e for e in events if not top_level_events_only or e.cpu_parent is None]
        titles = [] if header is None else [header]
        titles += ["This table shows what ran in nothing else."] if top_level_events_only else []
        widths = (max_name_column_width, max_shapes_column_width)
        columns = columns_of(events, *widths, memory=self._profile_memory, unit=time_unit)
        source_width = width_of((line for e in events for line in e.stack), max_src_column_width)
        text = build_table(columns, rows if row_limit < 0 else rows[:row_limit], titles, source_width)
        return f"{text}Self CPU time total: {format_time(self.self_cpu_time_total, time_unit)}\n"

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write callers' lines with the time spent there, as flame graph tools read it."""
        if metric != "self_cpu_time_total":
            raise ValueError(f"export_stacks: the metric is self_cpu_time_total, not {metric}: devices are not timed")
        with replacing(path, "w") as file:
            for e in self:
                value = int(e.self_cpu_time_total)
                if e.stack and value > 0:
                    lines = (line.translate(_UNSAFE_IN_STACKS) for line in reversed(e.stack))
                    file.write(f"{';'.join(lines)} {value}\n")


_UNSAFE_IN_STACKS = str.maketrans(" ;\t\n", "____")


def _node_above(e: FunctionEvent | None) -> FunctionEvent | None:
    """The node of the graph that an event ran in."""
    while e is not None and e.scope != NODE:
        e = e.cpu_parent
    return e


__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]
