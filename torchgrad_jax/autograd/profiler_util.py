"""What a profile consists of, as in torch.autograd.profiler_util: events, their averages, lists of them."""

from __future__ import annotations

import bisect
import enum
import json
from collections import defaultdict, namedtuple
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .._core.errors import warn
from .._core.files.atomic import replacing
from ._profiler_table import build_table, format_time

MEMORY_EVENT_NAME = "[memory]"
_METRICS = [f"self_{kind}_time_total" for kind in ("cpu", "cuda", "xpu", "privateuse1")]
_UNSAFE_IN_STACKS = str.maketrans(" ;\t\n", "____")


class DeviceType(enum.Enum):
    """Where an event happened. Events here are all of the host: device kernels are not traced."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


Kernel = namedtuple("Kernel", ["name", "device", "duration"])


class Interval:
    """A stretch of time in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start


class EventMetadata(NamedTuple):
    """What a device tracer tells about a kernel or a transfer; None where it does not."""

    registers_per_thread: int | None
    shared_memory: int | None
    grid: list[int] | None
    block: list[int] | None
    priority: int | None
    blocks_per_sm: float | None
    warps_per_sm: float | None
    occupancy: dict[str, Any] | None
    est_occupancy_pct: float | None
    queued: int | None
    graph_id: int | None
    graph_node_id: int | None
    stream: int | None
    context: int | None
    channel: int | None
    channel_type: int | None
    bytes: int | None
    bandwidth_gb_s: float | None
    collective_name: str | None
    dtype: str | None
    in_msg_nelems: int | None
    out_msg_nelems: int | None
    in_split_size: str | None
    out_split_size: str | None
    global_rank_start: int | None
    global_rank_stride: int | None
    group_size: int | None
    process_group_name: str | None
    process_group_desc: str | None
    group_ranks: str | None
    rank: int | None
    src_rank: int | None
    dst_rank: int | None
    seq: int | None
    is_async: bool | None


_format_time = format_time  # the name that programs import it by


def _as_text(name: str) -> property:
    return property(lambda self: format_time(getattr(self, name)))


def _old_name(old: str, new: str, text: str | None = None) -> property:
    """A property that warns and gives another."""
    message = text or f"`{old}` is deprecated. Use `{new}` instead."

    def get(self: Any) -> Any:
        warn.to_user(message, FutureWarning)
        return getattr(self, new)

    return property(get)


class FormattedTimesMixin:
    """Times of an event or an average: per call, and as text."""

    count: int
    cpu_time_total: Any
    device_time_total: Any
    cpu_time_str = _as_text("cpu_time")
    device_time_str = _as_text("device_time")
    cpu_time_total_str = _as_text("cpu_time_total")
    device_time_total_str = _as_text("device_time_total")
    self_cpu_time_total_str = _as_text("self_cpu_time_total")
    self_device_time_total_str = _as_text("self_device_time_total")

    @property
    def cpu_time(self) -> float:
        """Microseconds per call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds on a device per call."""
        return self.device_time_total / self.count if self.count else 0.0

    cuda_time = _old_name("cuda_time", "device_time", "`cuda_time` is deprecated, please use `device_time` instead.")


class FunctionEvent(FormattedTimesMixin):
    """One call of an operator, a node or a named stretch.

    Attributes:
        name: such as ``aten::mul``, ``MulBackward0`` or what `record_function` was given.
        time_range: from when to when, in microseconds since the profile began.
        thread, fwd_thread: numbers of the thread, and of the one that ran a node's forward.
        cpu_parent, cpu_children: what it ran in, and what ran in it.
        input_shapes: shapes of the arguments; ``[]`` for what is not a tensor.
        scope: 0 for operators, 1 for nodes of the graph, 7 for named stretches.
        sequence_nr: number of the node that an operator recorded, or that a node is; -1 for none.
        cpu_memory_usage: bytes of tensors made less bytes of tensors gone while it ran.
        flops: floating point operations, where there is a formula.
        stack: the caller's lines, innermost first.
    """

    def __init__(
        self, id: int, name: str, thread: int, start_us: float, end_us: float, overload_name: str | None = None,
        fwd_thread: int | None = None, input_shapes: Any = None, stack: Any = None, scope: int = 0,
        use_device: str | None = None, cpu_memory_usage: int = 0, device_memory_usage: int = 0,
        is_async: bool = False, is_remote: bool = False, sequence_nr: int = -1, node_id: int = -1,
        device_type: DeviceType = DeviceType.CPU, device_index: int = 0, device_resource_id: int | None = None,
        is_legacy: bool = False, flops: int | None = None, trace_name: str | None = None, concrete_inputs: Any = None,
        kwinputs: Any = None, is_user_annotation: bool = False, is_python_function: bool = False,
        activity_type: str | None = None, metadata_json: str | None = None, flow_id: int | None = None,
        flow_type: int | None = None, flow_start: bool | None = None, external_id: int = 0,
        linked_correlation_id: int = 0, extra_meta: Any = None, structured_input_shapes: Any = None,
        structured_input_strides: Any = None, input_dtypes: Any = None, python_id: int = -1,
        python_parent_id: int = -1, python_module_id: int = -1,
    ) -> None:  # fmt: skip
        given = dict(locals())
        for key in ("self", "start_us", "end_us", "metadata_json", "extra_meta", "__class__"):
            given.pop(key, None)
        self.__dict__.update(given)
        if extra_meta:
            raise NotImplementedError("FunctionEvent(extra_meta=...): there are no device traces here")
        self.time_range = Interval(start_us, end_us)
        self.kernels: list[Any] = []
        self.count = 1
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.self_cpu_percent: Any = -1
        self.total_cpu_percent: Any = -1
        self.total_device_percent: Any = -1
        self.event_metadata: EventMetadata | None = None
        self._metadata_json = metadata_json

    # Set from the arguments above.
    id: int
    name: str
    thread: int
    scope: int
    node_id: int
    overload_name: str
    trace_name: str | None
    fwd_thread: int | None
    input_shapes: Any
    stack: Any
    use_device: str | None
    cpu_memory_usage: int
    device_memory_usage: int
    is_async: bool
    is_remote: bool
    is_legacy: bool
    sequence_nr: int
    device_type: DeviceType
    flops: int | None
    is_user_annotation: bool
    activity_type: str | None

    @property
    def key(self) -> str:
        """What calls are grouped by."""
        return self.name

    def _expect_host(self) -> None:
        if self.device_type is not DeviceType.CPU:
            raise AssertionError("Expected device_type to be CPU")

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Note a kernel that this call launched."""
        self._expect_host()
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Note a call that ran directly in this one."""
        self._expect_host()
        if not isinstance(child, FunctionEvent):
            raise AssertionError("Expected child to be a FunctionEvent")
        if child.device_type is not DeviceType.CPU:
            raise AssertionError("Expected child device_type to be CPU")
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Note the call that this one ran directly in."""
        self._expect_host()
        if not isinstance(parent, FunctionEvent):
            raise AssertionError("Expected parent to be a FunctionEvent")
        if parent.device_type is not DeviceType.CPU:
            raise AssertionError("Expected parent device_type to be CPU")
        self.cpu_parent = parent

    def _own(self, name: str) -> Any:
        """A total less that of the children."""
        if self.is_async or self.device_type is not DeviceType.CPU:
            return 0
        return getattr(self, name) - sum(getattr(c, name) for c in self.cpu_children)

    @property
    def cpu_time_total(self) -> float:
        """Microseconds, children included."""
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds, children excluded."""
        return self._own("cpu_time_total")

    @property
    def device_time_total(self) -> float:
        """Microseconds of the kernels noted with `append_kernel`, children included."""
        if self.is_async or not self.use_device:
            return 0
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        mine = sum(k.duration for k in self.kernels)
        return mine if self.is_legacy else mine + sum(c.device_time_total for c in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """The same, children excluded."""
        if self.is_async or not self.use_device:
            return 0
        whole = self.device_time_total
        if self.device_type is not DeviceType.CPU:
            return whole
        return whole - sum(c.device_time_total for c in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes, children excluded."""
        return self._own("cpu_memory_usage")

    @property
    def self_device_memory_usage(self) -> int:
        """Bytes on a device, children excluded."""
        return self._own("device_memory_usage")

    metadata_json = _old_name(
        "metadata_json", "_metadata_json", "`metadata_json` is deprecated. Use `event_metadata` instead."
    )
    cuda_time_total = _old_name("cuda_time_total", "device_time_total")
    self_cuda_time_total = _old_name("self_cuda_time_total", "self_device_time_total")
    self_cuda_memory_usage = _old_name("self_cuda_memory_usage", "self_device_memory_usage")

    def __repr__(self) -> str:
        device = self.use_device
        facts = {
            "id": self.id,
            "name": self.name,
            "overload_name": self.overload_name,
            "device_type": self.device_type,
            "node_id": self.node_id,
            "cpu_time": self.cpu_time_str,
            "start_us": self.time_range.start,
            "end_us": self.time_range.end,
            "cpu_children": [c.id for c in self.cpu_children],
            f"{device}_time": self.device_time_str,
            "name ": self.name,
            "thread": self.thread,
            "input_shapes": self.input_shapes,
            "cpu_memory_usage": self.cpu_memory_usage,
            f"{device}_memory_usage": self.device_memory_usage,
            "is_async": self.is_async,
            "is_remote": self.is_remote,
            "seq_nr": self.sequence_nr,
            "is_legacy": self.is_legacy,
        }
        return f"<FunctionEvent {' '.join(f'{k.strip()}={v}' for k, v in facts.items())}>"


_SUMMED = (
    "cpu_time_total",
    "device_time_total",
    "self_cpu_time_total",
    "self_device_time_total",
    "cpu_memory_usage",
    "device_memory_usage",
    "self_cpu_memory_usage",
    "self_device_memory_usage",
    "count",
)
_COPIED = (
    "key",
    "node_id",
    "is_async",
    "is_remote",
    "cpu_parent",
    "cpu_children",
    "overload_name",
    "input_shapes",
    "stack",
    "scope",
    "device_type",
    "is_legacy",
    "use_device",
    "is_user_annotation",
)


class FunctionEventAvg(FormattedTimesMixin):
    """All calls with one key: the sums of what they took, their number, and the averages."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.node_id = 0
        self.is_async = self.is_remote = self.is_legacy = False
        self.use_device: str | None = None
        self.count = 0
        self.cpu_time_total: Any = 0
        self.device_time_total: Any = 0
        self.self_cpu_time_total: Any = 0
        self.self_device_time_total: Any = 0
        self.cpu_memory_usage = self.device_memory_usage = 0
        self.self_cpu_memory_usage = self.self_device_memory_usage = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: Any = None
        self.scope: int | None = None
        self.cpu_children: Any = None
        self.cpu_parent: FunctionEvent | None = None
        self.device_type = DeviceType.CPU
        self.flops: Any = 0

    def add(self, other: Any) -> FunctionEventAvg:
        """Add a call, or another sum, of the same key."""
        if self.key is None:
            for name in _COPIED:
                setattr(self, name, getattr(other, name))
        if not isinstance(other, FunctionEvent | FunctionEventAvg):
            raise AssertionError("Expected other to be a FunctionEvent or FunctionEventAvg")
        if other.key != self.key:
            raise AssertionError(f"Expected keys to match, but got {other.key} vs {self.key}")
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops = other.flops if self.flops is None else self.flops + (other.flops or 0)
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>"
        )


class EventList(list[Any]):
    """Events of a profile, or averages of them, with tables and files of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._use_device = kwargs.pop("use_device", None)
        self._profile_memory = kwargs.pop("profile_memory", False)
        self._with_flops = kwargs.pop("with_flops", False)
        super().__init__(*args, **kwargs)
        self._tree_built = False

    def _like(self, events: Iterable[Any]) -> EventList:
        return EventList(
            events, use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops
        )

    def __str__(self) -> str:
        return self.table()

    # -- the tree
    def _build_tree(self) -> None:
        """Find out what ran in what."""
        self._nest()
        self._merge_repeated()
        self._lend_stacks()
        self._tree_built = True

    def _nest(self) -> None:
        """An event belongs to the shortest one of its thread that spans it."""
        threads: dict[Any, list[FunctionEvent]] = defaultdict(list)
        for e in self:
            if not e.is_async and e.device_type is DeviceType.CPU:
                threads[e.thread, e.node_id].append(e)
        for events in threads.values():
            events.sort(key=lambda e: (e.time_range.start, -e.time_range.end))
            open_: list[FunctionEvent] = []
            for e in events:
                while open_ and not _spans(open_[-1].time_range, e.time_range):
                    open_.pop()
                if open_:
                    if e.cpu_parent is not None:
                        raise AssertionError(f"There is already a CPU parent event for {e.key}")
                    open_[-1].append_cpu_child(e)
                    e.set_cpu_parent(open_[-1])
                open_.append(e)

    def _merge_repeated(self) -> None:
        """An only child with its parent's name is the same call, seen twice."""
        gone: set[int] = set()
        for e in self:  # parents come before their children
            up = e.cpu_parent
            if up is not None and up.name == e.name and len(up.cpu_children) == 1:
                up.cpu_children, up.kernels = e.cpu_children, e.kernels
                for child in e.cpu_children:
                    child.cpu_parent = up
                gone.add(id(e))
        self[:] = [e for e in self if id(e) not in gone]

    def _lend_stacks(self) -> None:
        """What runs in a node's backward shows the lines of the node's forward."""
        forward: dict[Any, Any] = {}
        nodes = [(e, _node_above(e)) for e in self]
        for e, node in nodes:
            if node is None and e.stack is not None:
                forward.setdefault((e.sequence_nr, e.thread), e.stack)
        for e, node in nodes:
            if node is not None:
                e.stack = forward.get((node.sequence_nr, node.fwd_thread), [])

    # -- sums
    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each counted once."""
        return sum(e.self_cpu_time_total for e in self)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """One `FunctionEventAvg` for all events of a name.

        Args:
            group_by_input_shapes: tell different shapes of the arguments apart.
            group_by_stack_n: tell different callers apart, by so many of the innermost lines.
            group_by_overload_name: tell overloads apart; events here have none.
        """
        if not self._tree_built:
            raise AssertionError("Expected tree to be built before calling key_averages")
        sums: dict[Any, FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for e in self:
            key = [e.key, e.node_id, e.device_type, e.is_legacy, e.is_user_annotation]
            if group_by_overload_name:
                key.append(e.overload_name)
            if group_by_input_shapes:
                key.append(str(e.input_shapes))
            sums[*key, *(e.stack[:group_by_stack_n] if group_by_stack_n > 0 else ())].add(e)
        out = self._like(sums.values())
        for avg in out:
            avg.stack = (avg.stack or [])[:group_by_stack_n]
            if not group_by_input_shapes:
                avg.input_shapes = ""
            if not group_by_overload_name:
                avg.overload_name = ""
        return out

    def total_average(self) -> FunctionEventAvg:
        """The sum of everything, under the key "Total"."""
        total = FunctionEventAvg()
        for e in self:
            total.add(e)
            total.key = None
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
            max_src_column_width, max_name_column_width, max_shapes_column_width: widths.
            header: a line above the table.
            top_level_events_only: leave out what ran in something else.
            time_unit: "s", "ms" or "us" for all times.
        """
        return build_table(
            self,
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
        )

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing, as a plain list.

        Args:
            path: the file.
        """
        rows = [
            {
                "name": e.trace_name,
                "ph": "X",
                "ts": e.time_range.start,
                "dur": e.time_range.elapsed_us(),
                "tid": e.thread,
                "pid": "CPU functions",
                "args": {},
            }
            for e in self
            if e.trace_name is not None
        ]
        with replacing(path, "w") as f:
            json.dump(rows, f)

    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` can count."""
        return list(_METRICS)

    def export_stacks(self, path: str, metric: str) -> None:
        """Write callers' lines with the time spent there, as flame graph tools read it.

        Args:
            path: the file.
            metric: ``self_cpu_time_total`` or another of `supported_export_stacks_metrics`.
        """
        if metric not in _METRICS:
            raise ValueError(f"metric should be one of: {_METRICS}")
        name = metric if "cpu" in metric else "self_device_time_total"
        with replacing(path, "w") as f:
            for e in self:
                value = int(getattr(e, name))
                if e.stack and value > 0:
                    lines = (line.translate(_UNSAFE_IN_STACKS) for line in reversed(e.stack))
                    f.write(f"{';'.join(lines)} {value}\n")


def _spans(outer: Interval, inner: Interval) -> bool:
    return inner.start < outer.end and inner.end <= outer.end


def _node_above(e: FunctionEvent | None) -> FunctionEvent | None:
    """The node of the graph that an event ran in."""
    while e is not None and e.scope != 1:
        e = e.cpu_parent
    return e


class StringTable(defaultdict[str, str]):
    """Names of events by what the tracer called them; nothing is mangled here."""

    def __missing__(self, key: str) -> str:
        self[key] = key
        return key


class MemRecordsAcc:
    """Finds the records, each a list of which the first entry knows its ``start_ns()``, of an interval."""

    def __init__(self, mem_records: Sequence[Any]) -> None:
        self._records = sorted(mem_records, key=_start_of)
        self._starts = [_start_of(r) for r in self._records]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """The records from `start_ns` to `end_ns`, both included."""
        first = bisect.bisect_left(self._starts, start_ns)
        yield from self._records[first : bisect.bisect_right(self._starts, end_ns)]


def _start_of(record: Any) -> int:
    return record[0].start_ns()


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
