"""What a profile consists of, as in torch.autograd.profiler_util: events, their sums, and lists of them."""

from __future__ import annotations

import bisect
import ctypes
import enum
import functools
import json
import sys
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, NamedTuple

from .._core.errors import warn
from .._core.files.atomic import replacing
from ._chrome_trace import trace
from ._profiler_table import build_table, columns_of, format_time, html_table, width_of

OPERATION, NODE, STRETCH = 0, 1, 7
"""Values of `FunctionEvent.scope`: an operation or what the engine does at a node, a node's own work, a named block."""
MEMORY = "[memory]"
"""The name of events that tell of memory alone."""

DeviceType = enum.Enum(
    "DeviceType",
    "CPU CUDA MKLDNN OPENGL OPENCL IDEEP HIP FPGA MAIA XLA Vulkan Metal XPU MPS Meta HPU VE Lazy IPU MTIA PrivateUse1",
    start=0,
)
"""Where an event happened. Recorded events are all of the host: the kernels of devices are not recorded."""


def _as_text(name: str) -> property:
    return property(lambda self: format_time(getattr(self, name)))


def _old_name(old: str, new: str, advice: str = ". Use") -> property:
    """A property under an old name, which warns."""

    def get(self: Any) -> Any:
        warn.to_user(f"`{old}` is deprecated{advice} `{new}` instead.", FutureWarning)
        return getattr(self, new)

    return property(get)


def _without_children(name: str) -> Any:
    """A total less that of the children. What began on one thread and ended on another has no share of its own."""

    def get(self: Any) -> Any:
        if self.is_async or (self.device_type is not DeviceType.CPU and name != "device_time_total"):
            return 0
        return getattr(self, name) - sum(getattr(c, name) for c in self.cpu_children)

    return property(get)


class FormattedTimesMixin:
    """Times of an event or of a sum of events: per call, and as text."""

    key: str | None
    count: int
    input_shapes: Any
    cpu_time_total: float
    device_time_total: float
    cpu_time_str = _as_text("cpu_time")
    device_time_str = _as_text("device_time")
    cpu_time_total_str = _as_text("cpu_time_total")
    device_time_total_str = _as_text("device_time_total")
    self_cpu_time_total_str = _as_text("self_cpu_time_total")
    self_device_time_total_str = _as_text("self_device_time_total")
    cuda_time = _old_name("cuda_time", "device_time", ", please use")

    @property
    def cpu_time(self) -> float:
        """Microseconds per call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds of kernels per call."""
        return self.device_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        times = f"self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str}"
        return f"<{type(self).__name__} {self.key} count={self.count} {times} input_shapes={self.input_shapes}>"


class Interval:
    """A stretch of time in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """Return how long it is."""
        return self.end - self.start


class Kernel(NamedTuple):
    """A kernel of a device that a call started: its name, the device's number, and its microseconds."""

    name: Any
    device: int
    duration: float


EventMetadata = namedtuple(
    "EventMetadata",
    "registers_per_thread shared_memory grid block priority blocks_per_sm warps_per_sm occupancy est_occupancy_pct "
    "queued graph_id graph_node_id stream context channel channel_type bytes bandwidth_gb_s collective_name dtype "
    "in_msg_nelems out_msg_nelems in_split_size out_split_size global_rank_start global_rank_stride group_size "
    "process_group_name process_group_desc group_ranks rank src_rank dst_rank seq is_async",
)
"""What a tracer of devices tells of a kernel, a copy or a collective. None is here, so no recorded event has it."""


@dataclass(repr=False, eq=False)
class FunctionEvent(FormattedTimesMixin):
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
        kernels: what `append_kernel` noted; the kernels of devices are not recorded.
        others: what torch's tracers tell. Events that are recorded here leave them as they are.
    """

    id: int
    name: str
    thread: int
    start_us: InitVar[float]
    end_us: InitVar[float]
    overload_name: str | None = None
    fwd_thread: int | None = None
    input_shapes: Any = None
    stack: Any = None
    scope: int = OPERATION
    use_device: str | None = None
    cpu_memory_usage: int = 0
    device_memory_usage: int = 0
    is_async: bool = False
    is_remote: bool = False
    sequence_nr: int = -1
    node_id: int = -1
    device_type: DeviceType = DeviceType.CPU
    device_index: int = 0
    device_resource_id: int | None = None
    is_legacy: bool = False
    flops: int | None = None
    trace_name: str | None = None
    concrete_inputs: Any = None
    kwinputs: Any = None
    is_user_annotation: bool = False
    is_python_function: bool = False
    activity_type: str | None = None
    metadata_json: str | None = None
    flow_id: int | None = None
    flow_type: int | None = None
    flow_start: bool | None = None
    external_id: int = 0
    linked_correlation_id: int = 0
    extra_meta: InitVar[Any] = None
    structured_input_shapes: Any = None
    structured_input_strides: Any = None
    input_dtypes: Any = None
    python_id: int = -1
    python_parent_id: int = -1
    python_module_id: int = -1
    count: int = field(default=1, init=False)
    kernels: list[Kernel] = field(default_factory=list, init=False)
    cpu_children: list[FunctionEvent] = field(default_factory=list, init=False)
    cpu_parent: FunctionEvent | None = field(default=None, init=False)
    event_metadata: EventMetadata | None = field(default=None, init=False)

    def __post_init__(self, start_us: float, end_us: float, extra_meta: Any) -> None:
        if extra_meta:
            raise NotImplementedError("FunctionEvent(extra_meta=...) is not supported: devices are not traced here")
        self.time_range = Interval(start_us, end_us)
        if self.device_resource_id is None:
            self.device_resource_id = self.thread

    @property
    def key(self) -> str:  # type: ignore[override]
        """What calls are grouped by: the name."""
        return self.name

    def append_kernel(self, name: Any, device: int, duration: float) -> None:
        """Note a kernel that this call started."""
        self._require_host(self)
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Note a call that ran directly in this one."""
        self._require_host(self, child)
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Note the call that this one ran directly in."""
        self._require_host(self, parent)
        self.cpu_parent = parent

    @staticmethod
    def _require_host(*events: Any) -> None:
        for e in events:
            if not isinstance(e, FunctionEvent) or e.device_type is not DeviceType.CPU:
                raise AssertionError(f"Expected a FunctionEvent with device_type CPU, not {e!r}")

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds, children included."""
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds of the kernels, those of children included; 0 where `use_device` names no device."""
        if self.is_async or not self.use_device:
            return 0
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        within = () if self.is_legacy else self.cpu_children
        return sum(k.duration for k in self.kernels) + sum(c.device_time_total for c in within)

    self_cpu_time_total = _without_children("cpu_time_total")
    self_device_time_total = _without_children("device_time_total")
    self_cpu_memory_usage = _without_children("cpu_memory_usage")
    self_device_memory_usage = _without_children("device_memory_usage")
    cuda_time_total = _old_name("cuda_time_total", "device_time_total")
    self_cuda_time_total = _old_name("self_cuda_time_total", "self_device_time_total")
    self_cuda_memory_usage = _old_name("self_cuda_memory_usage", "self_device_memory_usage")


_SUMMED = (
    "count", "cpu_time_total", "device_time_total", "self_cpu_time_total", "self_device_time_total",
    "cpu_memory_usage", "device_memory_usage", "self_cpu_memory_usage", "self_device_memory_usage",
)  # fmt: skip
_COPIED = (
    "key", "node_id", "is_async", "is_remote", "cpu_parent", "cpu_children", "overload_name", "input_shapes", "stack",
    "scope", "device_type", "is_legacy", "use_device", "is_user_annotation",
)  # fmt: skip


class FunctionEventAvg(FormattedTimesMixin):
    """All calls of one name: the sums of what they took, and their number."""

    key: str | None = None
    node_id = count = flops = 0
    cpu_time_total: float = 0
    device_time_total: float = 0
    self_cpu_time_total: float = 0
    self_device_time_total: float = 0
    cpu_memory_usage = device_memory_usage = self_cpu_memory_usage = self_device_memory_usage = 0
    is_async = is_remote = is_legacy = is_user_annotation = False
    input_shapes: Any = None
    stack: Any = None
    use_device: str | None = None
    overload_name: str | None = None
    scope: int | None = None
    cpu_children: list[FunctionEvent] | None = None
    cpu_parent: FunctionEvent | None = None
    device_type = DeviceType.CPU

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add a call, or another sum, of the same name."""
        if self.key is None:
            for name in _COPIED:
                setattr(self, name, getattr(other, name))
        if not isinstance(other, FunctionEvent | FunctionEventAvg) or other.key != self.key:
            raise AssertionError(f"Expected a FunctionEvent or FunctionEventAvg of {self.key}, not {other!r}")
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops += other.flops or 0
        return self

    __iadd__ = add


class EventList(list[Any]):
    """Events of a profile, or sums of them, with tables and files of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._use_device: str | None = kwargs.pop("use_device", None)
        self._profile_memory: bool = kwargs.pop("profile_memory", False)
        self._with_flops: bool = kwargs.pop("with_flops", False)
        self._tree_built = False
        super().__init__(*args, **kwargs)

    def __str__(self) -> str:
        return self.table()

    # -- the tree
    def _build_tree(self) -> None:
        """Find out what ran in what."""
        self.sort(key=lambda e: (e.time_range.start, -e.time_range.end, e.id))
        self._nest()
        self._lend_stacks()
        self._tree_built = True

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
        if not self._tree_built:
            raise AssertionError("Expected tree to be built before calling key_averages")
        sums: dict[Any, FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for e in self:
            shapes = str(e.input_shapes) if group_by_input_shapes else ""
            sums[e.key, e.is_user_annotation, shapes, *(e.stack or [])[:group_by_stack_n]].add(e)
        for total in sums.values():
            total.stack = (total.stack or [])[:group_by_stack_n]
            if not group_by_input_shapes:
                total.input_shapes = ""
        return EventList(sums.values(), use_device=self._use_device, profile_memory=self._profile_memory)

    def total_average(self) -> FunctionEventAvg:
        """The sum of everything, under the key "Total"."""
        total = FunctionEventAvg()
        for e in self:
            total.add(e)
            total.key = None  # so that the next one is taken whatever its name is
        total.key = "Total"
        return total

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
        source_width = width_of((line for e in events for line in e.stack or ()), max_src_column_width)
        text = build_table(columns, rows if row_limit < 0 else rows[:row_limit], titles, source_width)
        return f"{text}Self CPU time total: {format_time(self.self_cpu_time_total, time_unit)}\n"

    def _repr_html_(self) -> str:
        """Return the events that took longest as a table, which a notebook shows."""
        events = sorted(self, key=lambda e: e.self_cpu_time_total, reverse=True)
        columns = columns_of(events, 55, 80, memory=self._profile_memory, unit=None)
        return html_table(columns, events[:20])

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing or https://ui.perfetto.dev, as a list of them."""
        with replacing(path, "w") as file:
            json.dump(trace(self, (), {})["traceEvents"], file)

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return what `export_stacks` can count."""
        return ["self_cpu_time_total"]

    def export_stacks(self, path: str, metric: str) -> None:
        """Write callers' lines with the time spent there, as flame graph tools read it."""
        if metric not in self.supported_export_stacks_metrics():
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


# --- names and records of other tracers -----------------------------------------------------------


class StringTable(defaultdict[str, str]):
    """Readable names by the names of a trace: ``foo()`` for ``_Z3foov``, which is how C++ compilers write it.

    Example:
        >>> StringTable()["aten::mul"]
        'aten::mul'
    """

    def __missing__(self, key: str) -> str:
        self[key] = demangled(key) if len(key) > 1 else key
        return self[key]


def demangled(name: str) -> str:
    """A name of C++ as it stands in the source; other names, and all where the C++ library is not there, stay."""
    translate = _demangler()
    return translate(name) if translate else name


@functools.lru_cache(1)
def _demangler() -> Callable[[str], str] | None:
    """`abi::__cxa_demangle` of the system's C++ library."""
    try:
        library = ctypes.CDLL("libc++.1.dylib" if sys.platform == "darwin" else "libstdc++.so.6")
        demangle, free = library["__cxa_demangle"], library["free"]
    except (OSError, AttributeError):
        return None
    demangle.restype, demangle.argtypes = ctypes.c_void_p, [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
    free.restype, free.argtypes = None, [ctypes.c_void_p]

    def translate(name: str) -> str:
        found = demangle(name.encode(), None, None, None)
        if not found:
            return name
        try:
            return ctypes.string_at(found).decode()
        finally:
            free(found)

    return translate


class MemRecordsAcc:
    """Finds records of an interval. A record is a list whose first entry knows its ``start_ns()``."""

    def __init__(self, mem_records: Sequence[Any]) -> None:
        self._records = sorted(mem_records, key=lambda r: r[0].start_ns())
        self._starts = [r[0].start_ns() for r in self._records]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """Give the records from `start_ns` to `end_ns`, both included, by time."""
        first = bisect.bisect_left(self._starts, start_ns)
        yield from self._records[first : bisect.bisect_right(self._starts, end_ns)]


__all__ = [
    "EventList",
    "EventMetadata",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
]
