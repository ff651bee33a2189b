"""Modes of the running thread, and the few settings that are process-wide as in torch."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter, is_
from typing import Any

from .signals import contextmanager

GRAD = 1
"""Bit of `Modes.bits`: operations are recorded."""
INFERENCE = 2
"""Bit of `Modes.bits`: inference mode; new tensors are inference tensors."""
DUAL = 4
"""Bit of `Modes.bits`: a forward-mode level is open."""
IN_RUN = 8
"""Bit of `Modes.bits`: tensor code is being turned into a JAX function."""
OBSERVED = 16
"""Bit of `Modes.bits`: somebody watches each operation (anomaly mode, profiler)."""
PACKING = 32
"""Bit of `Modes.bits`: saved tensors go through pack and unpack hooks."""
FUNCTION_MODE = 64
"""Bit of `Modes.bits`: a `__torch_function__` mode is active. Public functions have asked it before they read this."""
CUT = 128
"""Bit of `Modes.bits`: recording was turned off in code that JAX traces, whose derivatives are to stop too."""

FAKE = 512
"""Bit of `Modes.bits`: new tensors are fake ones, and operators take no others."""
TRANSFORM = 256
"""Bit of `Modes.bits`: a function runs that a transform of `func` was given."""
UNDER_JAX = 1024
"""Bit of `Modes.bits`: JAX may be tracing the code that runs, see `_core.jax.running_transforms`."""
SAYS_GRAD = 2048
"""Bit of `Modes.bits`: inside of inference mode, `is_grad_enabled` says that operations are recorded."""
WINDOWS = 4096
"""Bit of `Modes.bits`: kernels are put into windows, see `_engine.run.windows`."""
DEFERS = WINDOWS | GRAD | INFERENCE | SAYS_GRAD | PACKING | FUNCTION_MODE | TRANSFORM
"""The bits beside which they are. In any other mode a kernel runs when it is called, also with `WINDOWS`."""


class Modes(threading.local):
    """The modes of the current thread, which every operation obeys.

    `bits` is one integer so that the hot path needs one attribute read: 0 and 1 (recording off
    and on) are the plain cases, anything above takes the general path.

    Python handles signals where functions begin and after calls, so a context that sets a mode does so last when it
    begins and first when it ends. Modes that go together are set in one statement, in which nothing is called:
    `MODES.own |= {"fake": mode, "bits": bits}`.
    """

    own: dict[str, Any] = property(attrgetter("__dict__"), is_)  # type: ignore[assignment]
    """The modes that this thread has set. `|=` changes the dictionary itself, so that nothing is left to assign; both
    functions are written in C, where no signal is handled."""
    bits: int = GRAD

    # --- backward passes and what nodes save

    pack_hooks: tuple[Any, ...] = ()
    hooks_disabled: str | None = None
    """Why hooks of saved tensors are refused, if they are."""
    grad_layout: bool = True
    """Whether gradients take the layout of their leaves."""
    multithreading: bool = True
    graph_task: Any = None
    """The backward pass that runs."""
    keys: Any = None
    """The `keys.KeyStream` that draws take their numbers from."""

    # --- who watches: the first two are set on the class, since a process has one anomaly mode

    anomaly: Any = None
    anomaly_checks_nan: bool = True
    observers: tuple[Any, ...] = ()
    """See `events`."""
    function_modes: tuple[Any, ...] = ()
    functions_disabled: int = 0
    """See `_engine.overrides`, also for the next."""
    skip_function: bool = False

    # --- how tensor code runs, and in which transforms

    windows: Any = None
    """The `_engine.run.windows.Windows` of the thread, where it has some."""

    run: Any = None
    """The run that the code is in; `_engine.modes.runs` puts that of ordinary code here."""
    runs: tuple[Any, ...] = ()
    """The traced runs that the code is in, from outside in."""
    transforms: int = 0
    """How many levels of func.grad and its kin the running function is inside of."""
    level: int = 0
    """A number of the innermost of them; later ones have higher numbers."""
    birth: int = 0
    """The same of the innermost of them and of the runs of `vmap`: new storages bear it."""
    transforming_levels: Any = None
    """The module `func._levels`; it puts itself here, for all threads."""
    given: frozenset[int] = frozenset()
    """Identities of the storages that the innermost of them got as arguments."""

    # --- derivatives along tangents

    forward_grad: bool = True
    dual_level: int = -1
    dual_open: list[Any] = []
    """Belongs to all threads, like the level."""
    tangents: Any = None
    """The module `_engine.tensor.dual`; it puts itself here, for all threads."""
    transposing: bool = False
    """A backward pass runs for the sake of a derivative along tangents."""
    transposed: list[int] | None = None
    """None, but in a function whose derivative along tangents is taken by such passes: when it switched recording.

    It turned recording off before the node of the first number, on before that of the second, and so on. Operations are
    recorded all the same, since tangents pass `no_grad`.
    """

    # --- where new tensors are made

    fake: Any = None
    """The mode in which new tensors are fake ones, see `devices.FakeDevice`."""
    device_stack: tuple[Any, ...] = ()
    default_device: Any = None
    gpu: int = 0
    """Which GPU "cuda" is, see `torch.cuda.set_device`."""
    platform: str | None = None
    """The platform that code is traced for, if it is another one than JAX has: see `_core.jax.target`."""
    target: Any = None
    """The hardware that programs are made for, if it is not here: see `_core.jax.target`."""

    # --- what JAX traces

    traced: bool = False
    """Set on the class, for good, once JAX put a tracer into a tensor."""
    open_traces: Any = None
    """Identities of the traces that JAX began in this thread and has not dropped."""
    undo: list[Any] = []
    """How to undo what traced code wrote outside of it, see `_engine.memory.escapes`."""
    sealed: bool = False
    """An operator made by `from_jax` is being compiled, see `_engine.tensor.attributes`."""

    def transforming(self) -> bool:
        """Return whether a transform of torch.func is running: `vmap`, or one that differentiates."""
        return bool(self.transforms) or (bool(self.runs) and any(run.batch is not None for run in self.runs))


MODES = Modes()


@contextmanager
def recording() -> Iterator[None]:
    """Operations are recorded inside.

    Code that is traced for its derivatives runs again where somebody asks for them, which may be a pass that records
    nothing.
    """
    before = MODES.bits
    MODES.bits |= GRAD
    try:
        yield
    finally:
        MODES.bits = MODES.bits & ~GRAD | before & GRAD


TORCH_VERSIONS = ("2.13", "2.14")
"""Versions of torch between whose derivatives a program may choose, see `interop.torch_version`."""


def checked_version(given: Any, what: str) -> tuple[int, int]:
    """A version as two numbers."""
    if given not in TORCH_VERSIONS:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, TORCH_VERSIONS))}, and is {given!r}")
    major, minor = given.split(".")
    return int(major), int(minor)


@dataclass
class Settings:
    """Process-wide settings."""

    default_dtype: Any = None  # filled by dtypes
    deterministic: bool = False
    deterministic_warn_only: bool = False
    equal_bits: bool = os.environ.get("TORCHGRAD_JAX_EQUAL_BITS", "0") not in ("", "0")
    """Whether equal backward passes give equal bits also where `deterministic` is off."""
    torch_version: tuple[int, int] = checked_version(
        os.environ.get("TORCHGRAD_JAX_TORCH_VERSION") or TORCH_VERSIONS[0], "TORCHGRAD_JAX_TORCH_VERSION"
    )
    """The version of torch whose derivatives new graphs have, where versions differ."""
    warn_always: bool = False
    float32_products: str = "highest"
    flash_sdp: bool = True
    mem_efficient_sdp: bool = True
    math_sdp: bool = True
    cudnn_sdp: bool = True
    """Which kernels of attention a program allows; see `_functions.attention`."""


SETTINGS = Settings()

ATTENTION = ("flash_sdp", "mem_efficient_sdp", "math_sdp", "cudnn_sdp")


@contextmanager
def allowed_kernels(given: dict[str, bool]) -> Iterator[None]:
    """A program inside of a `with` block allows these kernels of attention, see `ATTENTION`."""
    before, settings = {name: getattr(SETTINGS, name) for name in ATTENTION}, vars(SETTINGS)
    try:
        settings.update(given)
        yield
    finally:
        settings.update(before)


_sequence = itertools.count()
next_sequence_nr = _sequence.__next__
"""Number of the next recorded node; torch counts per thread, one counter keeps order total."""

next_level = itertools.count(1).__next__
"""Number of the transform or the run of `vmap` that begins."""


WRITE_LOCK = threading.RLock()
"""Held from reading a storage to writing what was computed of it: several threads may write to one tensor.

`compile` holds it while it traces a function, for its tensors hold tracers then, and from choosing a program to writing
its results."""
