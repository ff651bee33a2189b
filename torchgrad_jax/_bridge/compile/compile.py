"""compile: a function over tensors with all it does to the outside, as one XLA program."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..._core.errors.messages import Unsupported
from ..._core.jax import caches
from .buckets import Bucketed
from .compiled import Compiled as Compiled
from .stance import EAGER, EXACT, POLICY, ProgramCounter, checked_backend, checked_mode, get_default_backend


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | ProgramCounter | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
    checks: bool | None = None,
    buckets: dict[str, Any] | None = None,
    shapes: dict[str, str] | None = None,
    verify: int | str | None = None,
) -> Any:
    """Compile a function (or module) with all that it does: results, writes, gradients, random draws.

    The first call with arguments of some kind runs the Python code once, on tracers, to find the steps that it
    takes and the tensors from outside that it reads and writes; later calls run those steps as one XLA
    program. A whole training step with `backward()` and `optimizer.step()` may be compiled.

    Args:
        model: a function or an `nn.Module`. Left out, `compile` is a decorator with arguments.
        fullgraph: a function is always compiled whole; True raises for one that cannot be even with
            `torch._dynamo.config.suppress_errors`, and for generators, which otherwise run eagerly.
        dynamic: with True, on a CPU, calls with sizes that are new run eagerly, and a size is compiled that a hundred
            calls had. With None this begins after eight sizes, and with False each size is compiled at once.
        backend: "inductor" and the other names of torch all mean XLA; "eager" runs the function as it is. A
            function is refused: there is no graph of torch's operators for it.
        mode: "exact" makes a compiled call give the bits of the eager one: it starts the kernels that eager code
            starts, many of them together, and XLA fuses nothing across them. The other names of torch's are accepted,
            and all mean the same.
        options: `checks`, as below; those of torch's that its documentation names are accepted, others refused.
        name: accepted.
        disable: return the function as it is.
        recompile_limit: how many programs are kept; a warning tells once when one is forgotten for another.
        isolate_recompiles: accepted; functions never share programs.
        shapes_spec: None.
        checks: whether what an eager call checks (indices in range, divisors, factorizations, probabilities) is
            checked, and raises before anything is written. False saves that; such a step then gives what
            XLA gives. `options={"checks": False}` says the same.
        buckets: sizes by the name of a dimension, as `{"length": (64, 128)}`: tensors are padded with zeros to the
            next of these. For each name the function is given a tensor of bools, `length_mask`, that says what is
            no padding.
        verify: before every so many runs the function is traced again, and has to give the program that is in use;
            `StaleProgramError` says where the two part. "warn" checks each run, warns, and runs the function
            eagerly; 0 is for no check. `TORCHGRAD_JAX_VERIFY` in the environment says it for every compiled function.
            Left out, a function is checked within one per cent of its time, warns, and is retraced.
        shapes: the dimensions of the arguments that `buckets` names, as `{"x": "_, length", "y": "..., length"}`.

    Returns:
        The compiled function. Its `counts` tell how often it was traced and run.

    Raises:
        RuntimeError: when called, if the function needs values of tensors to go on.

    Example:
        >>> import torchgrad_jax as torch
        >>> f = torch.compile(lambda x: (x.sin() ** 2).sum())
        >>> f(torch.zeros(3))
        tensor(0.)
    """
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            name=name,
            disable=disable,
            recompile_limit=recompile_limit,
            isolate_recompiles=isolate_recompiles,
            shapes_spec=shapes_spec,
            checks=checks,
            buckets=buckets,
            shapes=shapes,
            verify=verify,
        )
    asked = checked_mode(mode, options)
    counter = backend if isinstance(backend, ProgramCounter) else None
    backend = get_default_backend() if backend is None else checked_backend(backend)
    _check_arguments(model, dynamic, shapes_spec)
    if buckets or shapes:
        if hasattr(model, "named_parameters"):
            raise TypeError("torch.compile: buckets are for functions; compile one that calls the module")
        plain = compile(
            model,
            fullgraph=fullgraph,
            backend=counter or backend,
            mode=mode,
            options=options,
            disable=disable,
            recompile_limit=recompile_limit,
            checks=checks,
            verify=verify,
        )
        return Bucketed(plain, model, buckets or {}, shapes)
    if disable or backend in EAGER:
        return model
    settings: dict[str, Any] = {"fullgraph": bool(fullgraph), "limit": recompile_limit, "verify": verify}
    if counter is not None:
        settings["counter"] = counter
    settings["checks"] = bool(asked if checks is None else checks)
    if mode == EXACT:
        settings["exact"] = True
    if dynamic is not None:
        settings["dynamic"] = dynamic
    if hasattr(model, "named_parameters") and not isinstance(model, type):
        return of_module(model, settings)
    return of_function(model, settings)


def _check_arguments(model: Any, dynamic: Any, shapes_spec: Any) -> None:
    """Refuse what `compile` cannot do."""
    if dynamic is not None and not isinstance(dynamic, bool):
        raise AssertionError(f"Expected enable to be a bool, got {type(dynamic)}")
    if shapes_spec is not None:
        raise NotImplementedError("torch.compile: shapes_spec is not supported; each shape is compiled for itself")
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")


def _programs() -> caches.CacheInfo:
    """How many programs all compiled functions keep; the limit is the number in force for each of them."""
    every = list(POLICY.compiled)
    kept = sum(len(programs) for f in every for programs in list(f.programs.by_key.values()))
    runs, traced = (sum(f.counts[what] for f in every) for what in ("run", "traced"))
    evicted = sum(f.programs.evicted for f in every)
    return caches.CacheInfo(kept, POLICY.recompile_limit, max(runs - traced, 0), traced, evicted)


def _forget_programs() -> None:
    for f in list(POLICY.compiled):
        f.reset()


caches.OTHERS["programs"] = (_programs, _forget_programs)


def of_function(fn: Any, settings: dict[str, Any]) -> Compiled:
    """The compiled form of a function; a generator runs eagerly."""
    written = inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn)
    if written and settings["fullgraph"]:
        raise Unsupported("torch.compile cannot compile a generator or a coroutine")
    return Compiled(fn, **settings, written=written)


def of_module(model: Any, settings: dict[str, Any]) -> Any:
    """The compiled form of a module; `nn`, without which there are none, puts its own here."""
    return Compiled(model, **settings)
