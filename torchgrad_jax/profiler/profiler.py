"""The profiler with activities, schedules and handlers of finished traces."""

from __future__ import annotations

import enum
import gzip
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

from .._core.errors import warn
from .._core.files.atomic import replacing
from ..autograd import profiler as prof

PROFILER_STEP_NAME = "ProfilerStep"


class ProfilerActivity(enum.Enum):
    """What can be asked for; only the host's activity is recorded."""

    CPU = 0
    XPU = 1
    MTIA = 4
    CUDA = 2
    HPU = 3
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a schedule says about a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


NONE, WARMUP, RECORD, SAVE, STOPPED = ProfilerAction
_DEVICES = {
    ProfilerActivity.CUDA: "cuda",
    ProfilerActivity.XPU: "xpu",
    ProfilerActivity.MTIA: "mtia",
    ProfilerActivity.HPU: "hpu",
    ProfilerActivity.PrivateUse1: "privateuseone",
}


def supported_activities() -> set[ProfilerActivity]:
    """What is recorded: the host's activity."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A schedule of cycles: wait, warm up, record.

    Args:
        wait: steps of a cycle in which nothing happens.
        warmup: steps that follow, to be left out of the results.
        active: steps that are recorded; at the end of the last the trace is ready.
        repeat: so many cycles; 0 for ever.
        skip_first: steps before the first cycle.
        skip_first_wait: not 0: the first cycle does not wait.

    Returns:
        A function from the number of a step to what to do in it.

    Example:
        >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
        >>> [plan(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warn.to_user("Profiler won't be using warmup, this can skew profiler results")
    cycle = wait + warmup + active

    def plan(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return NONE
        at = step - skip_first + (wait if skip_first_wait else 0)
        if 0 < repeat <= at / cycle:
            return NONE
        at %= cycle
        if at < wait:
            return NONE
        return WARMUP if at < wait + warmup else SAVE if at == cycle - 1 else RECORD

    return plan


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[Any], None]:
    """For `on_trace_ready`: write each trace into a folder, named as TensorBoard's plugin expects.

    Args:
        dir_name: the folder, made when missing.
        worker_name: the beginning of the files' names; host and process where None.
        use_gzip: compress the files.
        use_python_export: accepted; there is one way to write.
    """

    def handle(profiler: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        profiler.export_chrome_trace(os.path.join(dir_name, name))

    return handle


def _parsed(activities: Iterable[Any]) -> set[ProfilerActivity]:
    found: set[ProfilerActivity] = set()
    for item in activities:
        if isinstance(item, dict):
            keys = list(item)
            if any(item.values()):
                raise NotImplementedError(f"profile(activities=[{item}]): activities cannot be filtered by type here")
        elif isinstance(item, ProfilerActivity):
            keys = [item]
        else:
            raise TypeError(f"Expected ProfilerActivity or dict, got {type(item)}")
        for key in keys:
            if key in found:
                raise ValueError(f"Activity {key} specified more than once")
            found.add(key)
    return found


_warned: set[str] = set()


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warn.to_user(text)


class _KinetoProfile:
    """The part of `profile` that starts, stops and answers."""

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = supported_activities() if activities is None else _parsed(activities)
        for name, value in (
            ("experimental_config", experimental_config),
            ("execution_trace_observer", execution_trace_observer),
        ):
            if value is not None:
                raise NotImplementedError(f"profile({name}=...) is not supported")
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.experimental_config = self.execution_trace_observer = None
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.use_device = next((d for a, d in _DEVICES.items() if a in self.activities), None)
        self.profiler: prof.profile | None = None
        self.preset_metadata: dict[str, str] = {}
        self._metadata: dict[str, str] = {}

    def _ready(self, what: str) -> prof.profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {what}")
        return self.profiler

    # -- recording
    def start(self) -> None:
        """Begin to record."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """End it."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Get ready, without recording."""
        if self.profiler is not None and not self.acc_events:
            _warn_once(
                "Warning: Profiler clears events at the end of each cycle. Only events from the current cycle will be "
                "reported. To keep events across cycles, set acc_events=True."
            )
        if self.profiler is None or not self.acc_events:
            self.profiler = prof.profile(
                use_cpu=ProfilerActivity.CPU in self.activities,
                use_device=self.use_device,
                use_kineto=True,
                record_shapes=self.record_shapes,
                with_flops=self.with_flops,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                with_modules=self.with_modules,
                acc_events=self.acc_events,
                custom_trace_id_callback=self.custom_trace_id_callback,
                post_processing_timeout_s=self.post_processing_timeout_s,
            )
        self.profiler._prepare_trace()

    def start_trace(self) -> None:
        """Record from now on."""
        self._ready("starting trace")._start_trace()
        for name in ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops"):
            if getattr(self, name):
                self.add_metadata_json(name, "1")
        for key, value in self.preset_metadata.items():
            self.add_metadata_json(key, value)

    def stop_trace(self) -> None:
        """Record no more."""
        self._ready("stopping trace").__exit__(None, None, None)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Pause or resume recording.

        Args:
            enable: whether to record from now on.
            activities: what.
        """
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    # -- results
    def events(self) -> prof.EventList:
        """All events by time."""
        return self._ready("accessing events").function_events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> prof.EventList:
        """One entry per name; see `EventList.key_averages`."""
        return self._ready("getting key averages").key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write a trace for chrome://tracing or https://ui.perfetto.dev.

        Args:
            path: the file; compressed if it ends with ``.gz``.
            use_python_export: accepted; there is one way to write.
        """
        profiler = self._ready("exporting chrome trace")
        path = os.fspath(path)
        if not path.endswith(".gz"):
            profiler.export_chrome_trace(path, self._metadata)
            return
        with tempfile.TemporaryDirectory() as folder:
            plain = os.path.join(folder, os.path.basename(path)[:-3])
            profiler.export_chrome_trace(plain, self._metadata)
            with open(plain, "rb") as source, replacing(path) as whole, gzip.open(whole, "wb") as out:
                out.writelines(source)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write callers' lines with the time spent there; see `EventList.export_stacks`.

        Args:
            path: the file.
            metric: what to count.
        """
        self._ready("exporting stacks").export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Refused: categories of memory are not known here; `profile_memory` gives bytes per event."""
        raise NotImplementedError(
            "export_memory_timeline: use profile_memory=True, whose bytes are in the table and in the trace"
        )

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace.

        Args:
            key: its name.
            value: the text.
        """
        self.add_metadata_json(key, json.dumps(value))

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a value into the trace.

        Args:
            key: its name.
            value: as JSON.
        """
        json.loads(value)
        self._metadata[key] = value

    def preset_metadata_json(self, key: str, value: str) -> None:
        """The same for when recording starts.

        Args:
            key: its name.
            value: as JSON.
        """
        self.preset_metadata[key] = value


class profile(_KinetoProfile):
    """Records what the thread does within it, or during the steps that a schedule says.

    Args:
        activities: `ProfilerActivity` values; kernels of devices are not recorded, with a warning.
        schedule: a function from the step's number to a `ProfilerAction`; see `schedule`.
        on_trace_ready: called with this object at the end of each cycle.
        record_shapes: keep the shapes of arguments.
        profile_memory: keep track of the bytes of tensors.
        with_stack: keep the caller's lines.
        with_flops: count floating point operations of matrix products, 2d convolutions, `mul`, `add`.
        with_modules: without effect, as in torch's eager mode.
        experimental_config, execution_trace_observer: not supported.
        acc_events: keep the events of earlier cycles.
        use_cuda: the old way to ask for CUDA activity.
        custom_trace_id_callback: makes the id of a trace.
        post_processing_timeout_s: accepted; making events of spans takes no time to speak of.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.ones(3, requires_grad=True)
        >>> with profile(record_shapes=True) as p:
        ...     y = x.exp() * 2
        >>> [(e.name, e.input_shapes[0]) for e in p.events()]
        [('aten::exp', [3]), ('aten::mul', [3])]
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        if use_cuda is not None:
            warn.to_user("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning)
        if activities is not None:
            activities = list(activities)
            named = [a for a in activities if isinstance(a, ProfilerActivity | dict)]
            if not named and not use_cuda:
                raise AssertionError("No valid profiler activities found")
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.schedule = schedule or (lambda step: RECORD)
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.step_rec_fn: prof.record_function | None = None
        self.current_action = self._planned(0)
        prof.KinetoStepTracker.init_step_count(PROFILER_STEP_NAME)

    def _planned(self, step: int) -> ProfilerAction:
        action = self.schedule(step)
        if action is STOPPED:
            raise ValueError(
                "ProfilerAction.DEVICE_STOPPED is set internally by the profiler and must not be returned by a "
                "user-provided schedule"
            )
        return action

    def __enter__(self) -> profile:
        try:
            self.start()
        except BaseException:  # a signal's, say
            self._stop_recording()
            raise
        return self

    def _stop_recording(self) -> None:
        if self.profiler is not None:
            self.profiler._stop_recording()

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        try:
            self.stop()
        finally:  # what a signal in `step` or here left
            self._stop_recording()
        prof.KinetoStepTracker.erase_step_count(PROFILER_STEP_NAME)

    def start(self) -> None:
        """Begin with the first step."""
        self._go(NONE, self.current_action)
        self._open_step()

    def stop(self) -> None:
        """End the last step."""
        self._close_step()
        self._go(self.current_action, None)

    def step(self) -> None:
        """Say that the next step begins."""
        self._close_step()
        before = self.current_action
        action = self._planned(self.step_num + 1)  # which may raise; nothing has changed yet
        self.step_num += 1
        self.current_action = action
        self._go(before, action)
        self._open_step()

    def _open_step(self) -> None:
        if self.record_steps:
            step = prof.record_function(f"{PROFILER_STEP_NAME}#{self.step_num}")
            step.__enter__()
            self.step_rec_fn = step

    def _close_step(self) -> None:
        step, self.step_rec_fn = self.step_rec_fn, None
        if step is not None:
            step.__exit__(None, None, None)

    def _go(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """From one step's action to the next one's; None is the end."""
        recording = before in (RECORD, SAVE)
        records = after in (RECORD, SAVE)
        if (before, after) in ((WARMUP, NONE), (RECORD, NONE), (RECORD, WARMUP)):
            assert after is not None
            warn.to_user(f"Incorrect schedule: {before.name} followed by {after.name}")
        if before is WARMUP and after in (None, NONE):
            self.start_trace()
            self.stop_trace()
        if recording and (before is SAVE or not records):
            self.stop_trace()
            if before is SAVE or after is None:
                self._trace_ready()
            recording = False
        if after is not None and after is not NONE and not recording and before is not WARMUP:
            self.prepare_trace()
        if records and not recording:
            self.start_trace()

    def _trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Choose what makes the ids of the traces to come.

        Args:
            callback: gives an id.
        """
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The id of the current trace."""
        return None if self.profiler is None else self.profiler.trace_id


class ExecutionTraceObserver:
    """Refused: execution traces, which are replayed by other tools, are not written here."""

    def __init__(self) -> None:
        raise NotImplementedError(
            "ExecutionTraceObserver: execution traces are not written here; export_chrome_trace writes what ran"
        )
