"""What a program says about compiling as a whole: the stance, the default backend, whether errors end it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from ..._core.errors.messages import InvalidBackend
from ..._core.signals import uninterrupted

EAGER = ("eager", "eager_noexcept", "eager_debug", "pre_dispatch_eager")
"""Backends that run a function eagerly."""
XLA = (
    "inductor", "openxla", "cudagraphs", "tvm", "aot_eager", "aot_ts", "ts", "aot_eager_default_partitioner",
    "aot_eager_decomp_partition", "invoke_subgraph",
)  # fmt: skip
"""Backends of torch that all mean XLA here."""
STANCES = (
    "default",
    "eager_then_compile",
    "aot_eager_then_compile",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
)


class Policy:
    """What holds for all compiled functions of the process."""

    __slots__ = (
        "assume_static", "automatic_dynamic", "backend", "compiled", "graph_breaks", "recompile_limit", "stance",
        "suppress_errors", "verbose",
    )  # fmt: skip

    def __init__(self) -> None:
        self.stance: str | None = None
        """None is the default one."""
        self.backend: str | None = None
        """The backend of a function for which none is named; None is "inductor"."""
        self.recompile_limit = 64
        """How many programs a function keeps for which no other number is named."""
        self.automatic_dynamic = self.assume_static = True
        """Without a meaning: each shape is compiled for itself, with the same results."""
        self.verbose = False
        """Without a meaning: errors show all of the stack."""
        self.compiled: weakref.WeakSet[Any] = weakref.WeakSet()
        """All compiled functions."""
        self.graph_breaks = False
        """As `suppress_errors`, but without a warning: torch breaks graphs silently."""
        self.suppress_errors = False
        """Whether a function that cannot be compiled runs eagerly."""


POLICY = Policy()


class set_stance:
    """Say how compiled functions are to run from now on; also a context and a decorator.

    Args:
        stance: "default"; "force_eager" runs functions eagerly; "eager_on_recompile" does so where
            nothing compiled fits the arguments, and "fail_on_recompile" raises there; "eager_then_compile" runs a
            function eagerly the first time.
        skip_guard_eval_unsafe: False; what a compiled function depends on is always looked at.
        force_backend: None.

    Example:
        >>> import torchgrad_jax as torch
        >>> f = torch.compile(lambda x: x * 2)
        >>> with torch.compiler.set_stance("force_eager"):
        ...     _ = f(torch.ones(2))
        >>> f.counts["eager"]
        1
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance not in STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        if skip_guard_eval_unsafe:
            raise NotImplementedError("torch.compiler.set_stance: skip_guard_eval_unsafe=True")
        if force_backend is not None:
            if stance != "default":
                raise RuntimeError("non-default stance cannot have force_backend set")
            raise NotImplementedError("torch.compiler.set_stance: force_backend is not supported")
        self._now = None if stance == "default" else stance
        self._before = POLICY.stance
        POLICY.stance = self._now

    @uninterrupted
    def __enter__(self) -> None:
        POLICY.stance = self._now

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        POLICY.stance = self._before

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs in this stance; the one before this object was made holds again at once."""
        POLICY.stance = self._before

        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            before, POLICY.stance = POLICY.stance, self._now
            try:
                return fn(*args, **kwargs)
            finally:
                POLICY.stance = before

        return inside


class ProgramCounter:
    """A backend that counts the programs of the functions that are compiled with it; XLA compiles them."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin to count from 0."""
        self.frame_count = self.op_count = 0

    def count(self, operators: int) -> None:
        """A program of so many operators was made."""
        self.frame_count += 1
        self.op_count += operators


def set_default_backend(backend: Any) -> None:
    """Name the backend of functions that are compiled without naming one; None stands for "inductor"."""
    POLICY.backend = None if backend is None else checked_backend(backend)


def get_default_backend() -> str:
    """Return the backend of functions that are compiled without naming one."""
    return POLICY.backend or "inductor"


def checked_backend(backend: Any) -> str:
    """The name of a backend that there is."""
    if isinstance(backend, ProgramCounter):
        return "inductor"
    if isinstance(backend, str):
        if backend in EAGER or backend in XLA:
            return backend
        raise InvalidBackend(backend)
    raise NotImplementedError(
        "torch.compile: backend must be one of torch's by name; a function is lowered to XLA whole, and there is no "
        f"graph of torch's operators to hand to {backend!r}"
    )


def checked_mode(mode: Any, options: Any) -> bool:
    """Whether the options ask for checks of values; raises for modes and options that there are not."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode not in (None, EXACT, *_MODES):
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if options is not None and not isinstance(options, dict):
        raise AttributeError(f"{type(options).__name__!r} object has no attribute 'items'")
    for name in options or ():
        if str(name).replace("-", "_") not in _OPTIONS:
            raise RuntimeError(f"Unexpected optimization option {name}, known options are {list(_OPTIONS)}")
    return (options or {}).get("checks", True)


_OPTIONS = (
    "checks", "coordinate_descent_tuning", "epilogue_fusion", "fallback_random", "guard_filter_fn", "max_autotune",
    "shape_padding", "trace.enabled", "trace.graph_diagram", "triton.cudagraph_trees", "triton.cudagraphs",
)  # fmt: skip
"""Options of `compile`; all but the first are torch's, and mean nothing to XLA."""
EXACT = "exact"
"""The mode whose programs give eager code's bits."""
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
"""Torch's modes."""
