"""The profiler with activities, schedules and handlers of finished traces."""

from __future__ import annotations

import enum
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from .._core.errors import warn
from .._core.signals import uninterrupted
from ..autograd.profiler import EventList, Recording, record_function, warn_of_device


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


NONE, WARMUP, RECORD, SAVE = ProfilerAction


def supported_activities() -> set[ProfilerActivity]:
    """Return what is recorded: the host's activity."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Make a schedule of cycles (wait, warm up, record): a function from the number of a step to what to do in it.

    Args:
        wait: steps of a cycle in which nothing happens.
        warmup: steps that follow, to be left out of the results.
        active: steps that are recorded; at the end of the last the trace is ready.
        repeat: so many cycles; 0 for ever.
        skip_first: steps before the first cycle.
        skip_first_wait: not 0: the first cycle does not wait.

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


def _default_schedule_fn(step: int) -> ProfilerAction:
    """Record every step."""
    return RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """Return a function for `on_trace_ready` that writes each trace into a folder, named as TensorBoard expects.

    Args:
        dir_name: the folder, made when missing.
        worker_name: the beginning of the files' names; host and process where None.
        use_gzip: compress the files.
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
    """The activities that are asked for; a warning for those of devices."""
    found = set(activities)
    for item in found:
        if not isinstance(item, ProfilerActivity):
            raise TypeError(f"Expected ProfilerActivity, got {type(item)}")
    if not found:
        raise AssertionError("No valid profiler activities found")
    for item in found - supported_activities():
        warn_of_device(item.name)
    return found


class profile(Recording):
    """Records what the thread does within it, or during the steps that a schedule says.

    Args:
        activities: `ProfilerActivity` values; kernels of devices are not recorded, with a warning.
        schedule: a function from the step's number to a `ProfilerAction`; see `schedule`.
        on_trace_ready: called with this object at the end of each cycle.
        record_shapes, profile_memory, with_stack, with_flops, with_modules: as in `torch.autograd.profiler.profile`.
        acc_events: keep the events of earlier cycles.
        experimental_config: as in `torch.autograd.profiler.profile`.
        others: torch's other options (`execution_trace_observer`, ...) are refused, unless None.

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
        acc_events: bool = False,
        experimental_config: Any = None,
        **others: Any,
    ) -> None:
        for name, value in others.items():
            if value is not None:
                raise NotImplementedError(f"profile({name}=...) is not supported")
        super().__init__(record_shapes, profile_memory, with_stack, with_flops, acc_events, experimental_config)
        self.activities = supported_activities() if activities is None else _parsed(activities)
        self.with_modules = with_modules
        self.schedule = schedule or _default_schedule_fn
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.step_rec_fn: record_function | None = None
        self.current_action = self.schedule(0)

    def __enter__(self) -> profile:
        try:
            self.start()
        except BaseException:  # a signal's, say
            self._stop_recording()
            raise
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        try:
            self.stop()
        finally:  # what a signal in `step` or here left
            self._stop_recording()

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
        before, self.current_action = self.current_action, self.schedule(self.step_num + 1)
        self.step_num += 1
        self._go(before, self.current_action)
        self._open_step()

    def _open_step(self) -> None:
        if self.record_steps:
            step = record_function(f"ProfilerStep#{self.step_num}")
            step.__enter__()
            self.step_rec_fn = step

    def _close_step(self) -> None:
        step, self.step_rec_fn = self.step_rec_fn, None
        if step is not None:
            step.__exit__(None, None, None)

    def _go(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """From one step's action to the next one's; None is the end."""
        records = after in (RECORD, SAVE)
        if before is RECORD and after in (NONE, WARMUP):
            warn.to_user(f"Incorrect schedule: {before.name} followed by {after.name}")
        if before is SAVE or (before is RECORD and not records):
            self._stop_recording()
            if (before is SAVE or after is None) and self.on_trace_ready is not None:
                self.on_trace_ready(self)
        if records and before is not RECORD:
            self._record()

    def events(self) -> EventList:
        """Return all events by time."""
        return self._result("accessing events")
