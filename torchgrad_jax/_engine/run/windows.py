"""Windows: kernels that are put down when they are called, and start together when a value is read.

    with torch.interop.eager("windows"):
        y = (x * w).sin()     # two steps of the window of this thread; `y` holds a `Pending`
        z = y.sum()           # a third one
        print(z)              # reads a value: the window runs, and the next call begins another one

All that is known before a kernel runs is known at the call: shapes, dtypes, versions, whether a gradient is recorded.
So errors about these are raised there, and nothing but the start of XLA is put off.

A storage may hold a `Pending` in the place of an array. Reading `Storage.array` gives the array, for which the
window runs (`memory/tensor.py`). So code that knows nothing of windows is right, and only what hands arrays to kernels
asks for what a storage holds (`memory/strided.py`, `operand`).

The program alone says where a window ends: where a value is read that takes more than a few steps, at the end of a
backward pass or of an optimizer's step, and after so many steps or bytes. Time and counts of calls say nothing, so that
processes that run the same program cut it at the same places.
"""

from __future__ import annotations

import os
import sys
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from weakref import ref

import jax
import numpy as np

from ..._core.arrays import placement, summands
from ..._core.arrays.meta import Meta
from ..._core.errors.messages import _PACKAGE, users_frame
from ..._core.jax.private import ArrayImpl, current_trace
from ..._core.signals import contextmanager
from ..._core.state import DEFERS, MODES, WINDOWS
from . import window_counts, window_programs
from .compile_failures import is_users
from .kernel import Kernel
from .window_programs import Step

MOST_STEPS = 512
"""A window of so many steps runs."""
MOST_BYTES = 1 << 28
"""A window whose results take so many bytes runs: it holds what its steps read, also what strict eager would free."""
_NUMBERS = frozenset((bool, int, float, complex))
PUT_OFF = frozenset(("xla", "xla alone", ""))
"""Who computes a kernel, see `kernel.By`, that becomes a step also where it reads nothing of the window."""
FEW = 4
"""A value that takes at most so many steps is computed alone when it is read, and its window goes on."""
WAITED_FOR = "the program waits for what it has started"
"""The cause of `synchronize`."""
_NO_TRACE = current_trace()
_MANY, _SEVERAL = placement.MANY, summands.SEVERAL


class Pending:
    """Stands for an array that a step of a window will give."""

    __slots__ = ("__weakref__", "array", "error", "meta", "number", "window")

    def __init__(self, window: Window, number: int, m: Meta) -> None:
        self.window: Window | None = window
        self.number, self.meta = number, m
        self.array: Any = None
        self.error: BaseException | None = None

    def arrive(self) -> Any:
        """Return the array, for which the window runs if it did not yet, or raise what its step raised."""
        window = self.window
        if window is not None and not window.compute(self):
            window.run(window_counts.READ)
        if self.error is not None:
            raise self.error
        return self.array

    # What checks of values ask for. Of shape and dtype nothing has to run.
    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.meta.shape

    @property
    def dtype(self) -> Any:
        """NumPy's dtype."""
        return self.meta.dtype.np

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return self.meta.ndim

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self.meta.numel

    @property
    def aval(self) -> Any:
        """What JAX knows of the array."""
        return jax.core.ShapedArray(self.shape, self.dtype)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.arrive(), dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.arrive(), name)


def arrived(x: Any) -> Any:
    """Return an array, which may be pending, or anything else as it is."""
    return x.arrive() if x.__class__ is Pending else x


class _Entry(NamedTuple):
    """A step of a window."""

    step: Step
    results: list[ref[Pending]]
    place: Any
    """Where in the user's code it was called."""
    end: int
    """The number of the value after its results."""

    def held(self) -> list[Pending]:
        """Return the results that somebody holds."""
        return [p for r in self.results if (p := r()) is not None]


@contextmanager
def _outside_of_traces() -> Iterator[None]:
    """Compute what is outside of a trace of JAX's outside of it, also where JAX is tracing."""
    if current_trace() is _NO_TRACE:
        yield
        return
    from jax.extend.core import set_current_trace

    with set_current_trace(_NO_TRACE):
        yield


_HAVE_VALUES = frozenset((np.ndarray, ArrayImpl, Pending, *_NUMBERS))


class Window:
    """Steps of a thread on one device that have not run yet."""

    __slots__ = ("bytes", "closed", "computed", "device", "inputs", "known", "lock", "owner", "steps")

    def __init__(self, owner: Windows, device: Any) -> None:
        self.owner, self.device = owner, device
        self.steps: list[_Entry] = []
        self.inputs: list[Any] = []
        self.known: dict[int, int] = {}
        """How steps refer to inputs, by identity."""
        self.computed: dict[int, Any] = {}
        """Values that were computed alone, by number."""
        self.bytes = 0
        self.closed = False
        """Whether it takes no more steps, since it runs or ran."""
        self.lock = threading.RLock()

    def ref_of(self, x: Any) -> int:
        """Return how a step refers to a value of the window, or to an array or a number from outside."""
        kind = x.__class__
        if kind is Pending:
            return x.number
        if kind in _NUMBERS:  # each is an input of its own, so that equal ones make no other program
            self.inputs.append(x)
            return -len(self.inputs)
        found = self.known.get(id(x))
        if found is None:
            self.inputs.append(x)
            found = self.known[id(x)] = -len(self.inputs)
        return found

    def add(self, step: Step, outs: Sequence[Meta]) -> list[Pending] | None:
        """Put down a step; return what stands for its results, or None if the window is closed."""
        with self.lock:
            if self.closed:  # a thread that was given one of its values has read it
                return None
            at = self.steps[-1].end if self.steps else 0
            made = [Pending(self, at + k, m) for k, m in enumerate(outs)]
            self.steps.append(_Entry(step, [ref(p) for p in made], _users_place(), at + len(made)))
        for m in outs:
            self.bytes += m.numel * m.dtype.itemsize
        return made

    def compute(self, p: Pending) -> bool:
        """Compute one value alone if few steps lead to it; return whether it is there.

        What a check of an operator looks at is often a view of an input: the window goes on.
        """
        with self.lock:
            needed = None if self.closed else self._leading_to(p.number)
            if needed is None:
                return p.window is None
            try:
                with _outside_of_traces():
                    return self._compute(needed)
            except Exception as error:  # the window says which step raised it
                if is_users(error):
                    raise
                return False

    def _leading_to(self, number: int) -> list[int] | None:
        """The steps that lead to a value, if they are few."""
        ends, found, left = [s.end for s in self.steps], set[int](), [number]
        while left:
            k = bisect_right(ends, left.pop())
            found.add(k)
            if len(found) > FEW:
                return None
            left += [r for r in self.steps[k].step[1] if r >= 0 and r not in self.computed]
        return sorted(found)

    def _compute(self, needed: Sequence[int]) -> bool:
        values = dict(self.computed)
        for k in needed:
            kernel, refs, n = self.steps[k].step
            outs = (kernel.run or kernel)(*[values[r] if r >= 0 else self.inputs[-r - 1] for r in refs])
            at = self.steps[k].end - abs(n)
            values.update(enumerate([outs] if n < 0 else outs, at))
        for k in needed:
            for p in self.steps[k].held():
                self.computed[p.number] = p.array = values[p.number]
                p.window = None
        window_counts.note_alone(len(needed))
        return True

    def run(self, cause: str) -> None:
        """Compute what somebody holds. The next step begins another window.

        What the steps give is pure, so that a run which a signal interrupts has done nothing, and the next read runs
        them again.
        """
        with self.lock:
            self.closed = True
            self.owner.leave(self)
            if self.steps:
                with _outside_of_traces():
                    self._run(cause)

    def _run(self, cause: str) -> None:
        held = {p.number: p for entry in self.steps for p in entry.held() if p.window is not None}
        steps, inputs = tuple([entry.step for entry in self.steps]), self.inputs
        if self.computed:
            names = {number: -k for k, number in enumerate(self.computed, len(inputs) + 1)}
            steps = tuple([(kernel, tuple([names.get(r, r) for r in refs]), n) for kernel, refs, n in steps])
            inputs = [*inputs, *self.computed.values()]
        program, arrays = window_programs.run(steps, inputs, tuple(held), self.owner.fused, self.device)
        error = None
        if arrays is None:
            error = self._one_by_one(steps, inputs, held)
        else:
            for p, array in zip(held.values(), arrays):
                p.array = array
        window_counts.note(cause, len(steps), program if arrays is not None else None, _reader)
        for p in held.values():
            p.window = None
        self.steps, self.inputs, self.known, self.computed = [], [], {}, {}
        if error is not None:
            raise error

    def _one_by_one(self, steps: Sequence[Step], inputs: Sequence[Any], held: dict[int, Pending]) -> Exception | None:
        """Run the steps one by one; return the first error. What needs a failed step's results has its error, too."""
        values, errors = window_programs.one_by_one(steps, inputs, frozenset(held))
        for number, p in held.items():
            value = values[number]
            if value.__class__ is window_programs.Failed:
                p.error = value.error
            else:
                p.array = value
        for k, error in errors:
            place = _shown(self.steps[k].place)
            error.add_note(f"Raised by `{steps[k][0].name}`, a step of a window, called at {place}")
        return errors[0][1] if errors else None


class Windows:
    """The windows of a thread: at most one for each device."""

    __slots__ = ("_open", "fused")

    def __init__(self, fused: bool = False) -> None:
        self._open: dict[Any, Window] = {}
        self.fused = fused
        """Whether XLA may fuse across kernels, which gives other last bits."""

    def call(self, kernel: Kernel, xs: Sequence[Any], outs: Sequence[Meta], single: bool) -> Any:
        """Return what a kernel gives: values of a window, or arrays where it had better run at once.

        A kernel becomes a step where XLA computes it, or where it reads what the window has not computed yet.

        Args:
            kernel: the kernel.
            xs: its arguments: arrays, pending ones among them, and numbers.
            outs: what its results look like.
            single: whether it gives its one result, and not a list.
        """
        if kernel.by == "given":
            return kernel.run(*xs)  # type: ignore[misc] - nobody has to find out who computes it
        if not outs or outs[0].device.type == "meta":
            return (kernel.run or kernel)(*map(arrived, xs))
        window = self._open.get(outs[0].device)
        if window is None or window.closed:  # by a run that a signal interrupted
            window = self._open[outs[0].device] = Window(self, outs[0].device)
        given, defers = [], kernel.by in PUT_OFF
        for x in xs:
            if x.__class__ is Pending:
                if x.window is window:
                    defers = True
                else:  # it was computed, or belongs to another thread or device
                    x = x.arrive()
            given.append(x)
        if not defers or kernel.effects or not _HAVE_VALUES.issuperset(map(type, given)):
            return (kernel.run or kernel)(*map(arrived, given))
        if kernel.untraced:  # what cannot be traced raises here
            kernel.trace([jax.ShapeDtypeStruct(x.shape, x.dtype) if x.__class__ is Pending else x for x in given])
            return self.call(kernel, given, outs, single)
        step = kernel, tuple(map(window.ref_of, given)), -1 if single else len(outs)
        made = window.add(step, outs)
        if made is None:
            return self.call(kernel, given, outs, single)
        if len(window.steps) >= MOST_STEPS:
            window.run(f"it has {MOST_STEPS} steps")
        elif window.bytes >= MOST_BYTES:
            window.run(f"its results take {MOST_BYTES >> 20} MB")
        return made[0] if single else made

    def leave(self, window: Window) -> None:
        """Put no more steps into a window."""
        if self._open.get(window.device) is window:
            del self._open[window.device]

    def run(self, cause: str) -> None:
        """Run all windows of the thread. Where several raise, the first error is raised when all have run."""
        error = None
        for window in [*self._open.values()]:
            try:
                window.run(cause)
            except Exception as raised:
                error = error or raised
        if error is not None:
            raise error


def defers(mode: int) -> bool:
    """Return whether kernels become steps of windows in a mode.

    They do not where somebody watches each of them, where JAX traces, and where tensors are spread over devices.
    """
    return bool(mode & WINDOWS and not mode & ~DEFERS and not _MANY and not _SEVERAL) and MODES.run.at_once


def call(kernel: Kernel, xs: Sequence[Any], outs: Sequence[Meta], single: bool) -> Any:
    """`Windows.call` for this thread's."""
    return (MODES.windows or _of_thread()).call(kernel, xs, outs, single)


def forward(plan: Any, xs: Sequence[Any]) -> Any:
    """Return what the forward of a plan gives."""
    if plan.check is not None:
        plan.check(xs)
    return call(plan.kernel, xs, plan.outs, plan.single)


def cut(cause: str) -> None:
    """Run the windows of this thread, which end here."""
    mine = MODES.windows
    if mine is not None:
        mine.run(cause)


def before_fork() -> None:
    """Run the windows of a thread that forks: XLA computes nothing in the new process."""
    cut("the process forks")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork)


def _of_thread() -> Windows:
    """The windows of a thread for which nobody asked, where all threads have some."""
    MODES.windows = mine = Windows(DEFAULT.fused)
    return mine


class _Default:
    """How windows run in threads that do not say it."""

    fused = False


DEFAULT = _Default()


def _users_place() -> tuple[Any, int] | None:
    """Where the user's code is: its code object and the number of the instruction."""
    frame: Any = sys._getframe(3)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def _shown(place: tuple[Any, int] | None) -> str:
    """A place as file and line."""
    if place is None:
        return "an unknown line"
    code, at = place
    line = next((n for begin, end, n in code.co_lines() if begin <= at < end), None)
    return f"{code.co_filename}:{line}"


def _reader() -> tuple[str, str]:
    """What the user's code calls that ends a window, and where: a function's name, a file and a line."""
    frame: Any = sys._getframe(1)
    name, user = "", users_frame()
    while frame is not None and frame is not user:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            name = frame.f_code.co_name
        frame = frame.f_back
    return name, "an unknown line" if user is None else f"{user.f_code.co_filename}:{user.f_lineno}"
