"""torch.utils.checkpoint: trade computing again for memory.

A checkpointed function does not keep what its operations would save for backward; the backward pass
runs it again to get that back.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from .._core.arrays import devices
from .._core.errors import warn
from .._core.random import keys
from .._core.signals import contextmanager, restore
from .._core.state import GRAD, MODES
from .._engine.graph.history import requires_grad_of
from .._engine.memory.tensor import Tensor, tensors_in
from .._functions import random as _random
from ..amp import autocast_mode
from ..autograd import _is_checkpoint_valid, backward as _backward
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, no_grad
from ..autograd.graph import saved_tensors_hooks
from ._operation_log import Logs
from ._recompute import CheckpointError as CheckpointError, Frame, GraphExecGroup as GraphExecGroup, kept_apart
from ._selective import (
    SAC_IGNORED_OPS as SAC_IGNORED_OPS,
    CheckpointPolicy as CheckpointPolicy,
    SelectiveCheckpointContext as SelectiveCheckpointContext,
    create_selective_checkpoint_contexts as create_selective_checkpoint_contexts,
)

_device = devices.device  # under a name that no parameter of torch's hides


class _Overrides:
    """What the two `set_checkpoint_*` contexts say; None leaves it to the call."""

    early_stop: bool | None = None
    debug: bool | None = None


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Generator[None, None, None]:
    """Within it, checkpoints stop recomputing at the last tensor that is needed, or do not.

    It is the forward that has to run within it.

    Args:
        enable: whether to stop early.
    """
    before = _Overrides.early_stop
    try:
        _Overrides.early_stop = enable
        yield
    finally:
        _Overrides.early_stop = before


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Generator[None, None, None]:
    """Within it, every checkpoint behaves as with ``debug=enabled``.

    Args:
        enabled: None leaves it to each call.
    """
    before = _Overrides.debug
    try:
        _Overrides.debug = enabled
        yield
    finally:
        _Overrides.debug = before


# --- devices and their random numbers -------------------------------------------------------------


class DefaultDeviceType:
    """The accelerator whose random state is looked after when no argument says which."""

    _default_device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Choose it.

        Args:
            device: a device type.
        """
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """The chosen one; else that of the accelerator in use, or "cpu"."""
        if not DefaultDeviceType._default_device_type:
            DefaultDeviceType._default_device_type = devices.default_device().type
        return DefaultDeviceType._default_device_type


def _infer_device_type(*args: Any) -> str:
    found = [t._m.device.type for t in tensors_in(args) if t._m.device.type != "cpu"]
    if len(set(found)) > 1:
        warn.to_user(
            "Tensor arguments, excluding CPU tensors, are detected on at least two types of devices. Device state will "
            "only be saved for devices of a single device type, and the remaining devices will be ignored. "
            "Consequently, if any checkpointed functions involve randomness, this may result in incorrect gradients. "
            "(Note that if CUDA devices are among the devices detected, it will be prioritized; otherwise, the first "
            f"device encountered will be selected.)\nDevice types: {sorted(set(found))} first device type: {found[0]}"
        )
    return DefaultDeviceType.get_device_type() if not found else "cuda" if "cuda" in found else found[0]


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Indices of the accelerators that hold any of the arguments, and their random states.

    Args:
        args: tensors, and whatever else; lists, tuples and dicts are looked into.
    """
    kind = _infer_device_type(*args)
    ids = [t._m.device.index or 0 for t in tensors_in(args) if t._m.device.type not in ("cpu", "meta")]
    return ids, [_random.default_for(_device(kind, i)).get_state() for i in ids]


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Restore random states of accelerators.

    Args:
        devices: indices.
        states: as many states.
        device_type: their type; that of `DefaultDeviceType` where None.
    """
    kind = DefaultDeviceType.get_device_type() if device_type is None else device_type
    if kind == "meta":
        return
    for index, state in zip(devices, states, strict=False):
        _random.default_for(_device(kind, index)).set_state(state)


MORE_SURROUNDINGS: list[Callable[[], Callable[[], contextlib.AbstractContextManager[None]]]] = []
"""Each is called in a checkpoint's forward, and gives a function that makes a context for the recomputation."""


class _Surroundings:
    """What a recomputation must find as the forward found it: random states, the default device, autocast.

    `MORE_SURROUNDINGS` adds to that, for instance the copies that FSDP puts in the place of a module's parameters.
    """

    def __init__(self, preserve_rng: bool, args: Sequence[Any]) -> None:
        _infer_device_type(*args)  # which may warn
        self.stack = MODES.device_stack
        self.autocast = autocast_mode.settings()
        self.more = [found() for found in MORE_SURROUNDINGS]
        self.states: list[tuple[Any, Any]] = []
        self.keys, self.drawn = None, 0
        self.program: Any = None
        if preserve_rng:
            if MODES.keys is not None:
                self.keys, self.drawn = MODES.keys, MODES.keys.drawn
            found = {t._m.device for t in tensors_in(args)}
            used = [d for d in found if d.type not in ("cpu", "meta")]
            generators = [_random.default_generator, *map(_random.default_for, used)]
            self.states = [(g, g.snapshot()) for g in generators]
            self.program = _program()
            self.next_draw = 0 if self.program is None else self.program.next_draw

    @contextmanager
    def again(self) -> Generator[None, None, None]:
        """Within it, everything is as it was; afterwards, as it is now."""
        now = [(g, g.snapshot()) for g, _ in self.states]
        stack = MODES.device_stack

        def put_back() -> None:
            for generator, state in now:
                generator.resume(state)

        try:
            for generator, state in self.states:
                generator.resume(state)
            MODES.device_stack = self.stack
            with (
                autocast_mode.restored(self.autocast),
                keys.resumed(self.keys, self.drawn),
                self._drawing_again(),
                contextlib.ExitStack() as entered,
            ):
                for context in self.more:
                    entered.enter_context(context())
                yield
        finally:
            MODES.device_stack = stack
            restore(put_back)

    @contextmanager
    def _drawing_again(self) -> Generator[None, None, None]:
        """Within it, the program that is being compiled meets the numbers again that it has drawn since."""
        program = self.program
        if program is None or program is not _program():
            yield
            return
        now, program.next_draw = program.next_draw, self.next_draw
        try:
            yield
        finally:
            program.next_draw = now


def _program() -> Any:
    """The run whose random numbers are drawn later, each time the compiled program runs; None outside of one."""
    run = MODES.run
    while not (run.at_once or run.may_write_outside):
        run = run.around["run"]
    return run.uses if run.may_write_outside else None


# --- the reentrant variant ------------------------------------------------------------------------


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same values outside of the graph; what required a gradient still does.

    Args:
        inputs: tensors and other things; only tensors are touched.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(_detached(v) if isinstance(v, Tensor) else v for v in inputs)


def _detached(t: Tensor) -> Tensor:
    out = t.detach()
    out.requires_grad = t.requires_grad
    return out


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn when no input requires a gradient.

    Args:
        inputs: the arguments of a reentrant checkpoint.
    """
    if not any(requires_grad_of(v) for v in inputs if isinstance(v, Tensor)):
        warn.to_user("None of the inputs have requires_grad=True. Gradients will be None")


class CheckpointFunction(Function):
    """The reentrant checkpoint: a custom Function whose backward runs a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        """Run without recording; keep the arguments."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = _Surroundings(preserve_rng_state, args)
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in args]
        ctx.tensor_indices = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.tensor_indices])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *args: Any) -> Any:
        """Run again, recording, and backpropagate through that."""
        if not _is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.inputs)
        for i, t in zip(ctx.tensor_indices, ctx.saved_tensors):
            inputs[i] = kept_apart(t)
        with ctx.surroundings.again():
            detached = detach_variable(tuple(inputs))
            with enable_grad():
                out = ctx.run_function(*detached)
        outs = (out,) if isinstance(out, Tensor) else out
        pairs = [(o, g) for o, g in zip(outs, args) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        _backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None, *[v.grad if isinstance(v, Tensor) else None for v in detached]


# --- checkpoint -----------------------------------------------------------------------------------


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def _facts(t: Tensor) -> dict[str, Any]:
    return {"shape": t.shape, "dtype": t.dtype, "device": t.device}


_DETERMINISM: dict[str, Callable[[Tensor], Any]] = {"default": _facts, "none": lambda t: None}


def checkpoint(
    function: Callable[..., Any] | None = None,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Run a function, and run it again in backward rather than keep what its operations would save.

    Args:
        function: what to run; it must do the same each time. Without it, `checkpoint(use_reentrant=False)` is a
            decorator: each call of the function or method that it is put on is checkpointed.
        args: its arguments.
        use_reentrant: False is the better choice: it records the graph, so that `grad`, keyword
            arguments, nested structures, hooks and higher derivatives work, and stops recomputing as
            soon as everything is there. True records nothing in the forward. None warns and means True.
        context_fn: gives two contexts, for the forward and for the recomputation.
        determinism_check: "default" compares shape, dtype and device of what is recomputed; "none"
            does not.
        debug: say in the error which operations ran in the forward and which in the recomputation.
        early_stop: stop recomputing at the last tensor that is needed.
        preserve_rng_state: (keyword) draw the same random numbers again; True unless given.
        kwargs: more arguments of the function (not with ``use_reentrant=True``).

    Returns:
        What the function returns.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> y = checkpoint(lambda a: a.sin().exp(), x, use_reentrant=False)
        >>> y.sum().backward()
        >>> @checkpoint(use_reentrant=False)
        ... def block(a):
        ...     return a.sin().exp()
        >>> block(x).sum().backward()
    """
    if function is None:
        given = {"use_reentrant": use_reentrant, "context_fn": context_fn, "determinism_check": determinism_check}
        return _decorator({**given, "debug": debug, "early_stop": early_stop, **kwargs}, args)
    if use_reentrant is None:
        warn.to_user(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, "
            "calling checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but "
            "if you need to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for "
            "more details on the differences between the two variants."
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        debug = debug if _Overrides.debug is None else _Overrides.debug
        return _checkpoint(function, args, kwargs, preserve, context_fn, determinism_check, debug, early_stop)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve, *args)


def _decorator(options: dict[str, Any], args: Sequence[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`checkpoint` with its options set, and without a function."""
    if args:
        raise TypeError("checkpoint: None is no function; without arguments at all it is a decorator")
    if unknown := [n for n in options if n not in _OPTIONS]:
        raise ValueError("Unexpected keyword arguments: " + ",".join(unknown))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function):
            raise TypeError(f"checkpoint: a decorator takes a function, and got {function!r}")

        @functools.wraps(function)
        def checkpointed(*given: Any, **named: Any) -> Any:
            if not named.keys().isdisjoint(_OPTIONS):  # the function has an argument of such a name
                return checkpoint(functools.partial(function, **named), *given, **options)
            return checkpoint(function, *given, **options, **named)

        return checkpointed

    return decorate


_OPTIONS = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")


def _checkpoint(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    preserve: bool,
    context_fn: Any,
    determinism_check: str,
    debug: bool,
    early_stop: bool,
) -> Any:
    """The variant that is not reentrant: slots in place of saved tensors."""
    logs = None
    if debug:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        logs = Logs()
        context_fn = logs.contexts
    if determinism_check not in _DETERMINISM:
        raise ValueError(f"determinism_check should be one of {list(_DETERMINISM)}, but got {determinism_check}")
    forward_context, recompute_context = context_fn()
    surroundings = _Surroundings(preserve, args)
    if not MODES.bits & GRAD:
        return function(*args, **kwargs)

    def recompute(*inputs: Any) -> None:
        with surroundings.again(), recompute_context:
            function(*inputs, **kwargs)

    stop = early_stop if _Overrides.early_stop is None else _Overrides.early_stop
    frame = Frame(recompute, args, stop, _DETERMINISM[determinism_check])
    unpack = frame.unpack if logs is None else logs.explaining(frame.unpack)
    with saved_tensors_hooks(frame.pack, unpack), forward_context:
        out = function(*args, **kwargs)
        frame.finished = True
    if not frame.finished:
        raise RuntimeError(
            "torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception raised during "
            "the checkpointed forward. This is not supported because checkpoint cannot return a value for a failed "
            "forward."
        )
    return out


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run functions one after another, in segments of which all but the last are checkpointed.

    Args:
        functions: an `nn.Sequential`, or a list of modules or functions of one argument.
        segments: how many segments.
        input: what the first function gets.
        use_reentrant: see `checkpoint`.
        preserve_rng_state: (keyword) see `checkpoint`.

    Returns:
        What the last function returns.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> steps = [torch.sin, torch.exp, torch.cos, torch.sum]
        >>> checkpoint_sequential(steps, 2, x, use_reentrant=False).backward()
    """
    if use_reentrant is None:
        warn.to_user(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. In "
            "version 2.9 we will raise an exception if use_reentrant is not passed. use_reentrant=False is "
            "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True. "
            "Refer to docs for more details on the differences between the two variants."
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    # By name, since modules are a layer above this one.
    if any(c.__name__ == "Sequential" for c in type(functions).__mro__):
        functions = list(functions.children())

    def segment(first: int, end: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for i in range(first, end):
                value = functions[i](value)
            return value

        return run

    size = len(functions) // segments
    done = 0
    for done in range(size, size * segments, size):
        input = checkpoint(segment(done - size, done), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return segment(done, len(functions))(input)


__all__ = [
    "SAC_IGNORED_OPS", "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType",
    "GraphExecGroup", "SelectiveCheckpointContext", "check_backward_validity", "checkpoint", "checkpoint_sequential",
    "create_selective_checkpoint_contexts", "detach_variable", "get_device_states", "noop_context_fn",
    "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip
