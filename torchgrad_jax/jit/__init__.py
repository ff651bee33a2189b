"""torch.jit: TorchScript is out of scope. What `script` and `trace` return runs in Python."""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, Final as Final

from .._core.errors import warn
from .._core.errors.messages import NO_SCRIPT as _NO_SCRIPT, missing as _missing
from .._core.signals import contextmanager
from .._engine.memory.tensor import Tensor

Attribute = tuple


def _say_deprecated(name: str, advice: str) -> None:
    """Warn as torch does when a function of TorchScript is called."""
    warn.of_deprecation(f"`torch.jit.{name}` is deprecated. {advice}")


_COMPILE = "Please use `torch.compile` instead."
_COMPILE_OR_EXPORT = "Please switch to `torch.compile` or `torch.export`."
_EXPORT = "Please switch to `torch.export`."


class ScriptFunction:
    """A function that was scripted or traced: it runs in Python, and there is no graph of it to look at."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._fn(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        said = f"'ScriptFunction' object has no attribute '{name}'"
        raise AttributeError(said + _NO_SCRIPT.get(name, ""))


class ScriptModule:
    """Refused as a base class: what torch makes of a scripted module; nothing here is one."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        raise NotImplementedError(
            f"class {cls.__name__}(torch.jit.ScriptModule): torchgrad_jax has no TorchScript; derive from "
            "torch.nn.Module"
        )


RecursiveScriptModule = ScriptModule


class Error(RuntimeError):
    """What torch raises from scripted code. Code runs in Python here, and raises what it raises there."""


class TracerWarning(Warning):
    """What torch warns of while it traces."""


def is_scripting() -> bool:
    """False: code always runs in Python."""
    return False


def is_tracing() -> bool:
    """False: nothing is traced; see torch.compile."""
    return False


def script(
    obj: Any = None, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> Any:
    """The class or module as it is; a function as one that runs in Python.

    Differs from torch: nothing is compiled, what TorchScript would refuse is not noticed, and an int that is passed
    for a float stays one. Use torch.compile for speed.
    """
    _say_deprecated("script", _COMPILE_OR_EXPORT)
    return ScriptFunction(obj) if builtins.isinstance(obj, types.FunctionType) else obj


def trace(func: Any = None, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The module as it is, or a function that calls the one given, after one run on the example inputs.

    Differs from torch: control flow is not frozen to the path that the example takes.
    """
    _say_deprecated("trace", _COMPILE_OR_EXPORT)
    if func is None:
        raise TypeError("trace() needs a function or module")
    if example_inputs is not None:
        func(*(example_inputs if builtins.isinstance(example_inputs, tuple | list) else (example_inputs,)))
    return ScriptFunction(func) if builtins.isinstance(func, types.FunctionType) else func


def trace_module(mod: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """The module as it is, after one run of each of its methods that are named on their example inputs.

    Args:
        mod: a module.
        inputs: for each method by name, its arguments.
        args: options of the tracer, which nothing here reads, as `kwargs`.

    Differs from torch: control flow is not frozen to the path that the examples take.
    """
    _say_deprecated("trace_method", _COMPILE_OR_EXPORT)
    if not hasattr(mod, "named_parameters"):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not builtins.isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    for method, given in inputs.items():
        fn = mod if method == "forward" else getattr(mod, method)
        fn(*((given,) if builtins.isinstance(given, Tensor | dict) else tuple(given)))
    return mod


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function as it is, also as `@ignore(drop=True)`.

    Differs from torch: there is no TorchScript; code runs in Python.
    """
    return drop if callable(drop) else lambda fn: fn


def _unchanging(name: str, kind: str, advice: str = "") -> Callable[[Any], Any]:
    """A decorator of torch's whose argument stays as it is, and which warns if there is advice."""

    def decorator(fn: Any) -> Any:
        if advice:
            _say_deprecated(name, advice)
        return fn

    decorator.__name__ = decorator.__qualname__ = name
    decorator.__doc__ = (
        f"The {kind} as it is.\n\n    Differs from torch: there is no TorchScript; code runs in Python.\n    "
    )
    return decorator


unused = _unchanging("unused", "function")
export = _unchanging("export", "method")
interface = _unchanging("interface", "class", _COMPILE)
script_method = _unchanging("script_method", "method", _COMPILE_OR_EXPORT)
script_if_tracing = _unchanging("script_if_tracing", "function")
_script_if_tracing = script_if_tracing


def _overload_method(func: Any) -> Any:
    """The method as it is, a declaration of one of its overloads."""
    return func


_overload = _overload_method


def freeze(
    mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True, preserve_parameters: bool = False
) -> Any:
    """The module as it is.

    Differs from torch: there is no TorchScript; code runs in Python.
    """
    _say_deprecated("freeze", _COMPILE)
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module as it is.

    Differs from torch: there is no TorchScript; code runs in Python.
    """
    _say_deprecated("optimize_for_inference", _COMPILE)
    return mod


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """As Python's, with the origin of a generic type in its place."""
    import typing

    return builtins.isinstance(obj, typing.get_origin(target_type) or target_type)


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of the function, which is called at once; `wait` hands it over."""
    _say_deprecated("fork", _COMPILE)
    return func(*args, **kwargs)


def wait(future: Any) -> Any:
    """The result of `fork`."""
    _say_deprecated("wait", _COMPILE)
    return future


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block that changes nothing."""
    yield


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Warn: XLA decides what is fused."""
    warn.to_user("torch.jit.set_fusion_strategy has no effect: XLA decides what is fused")
    return []


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Refused: there are no TorchScript archives; torch.save(m.state_dict(), f) keeps the weights.

    Raises:
        NotImplementedError: always.
    """
    _say_deprecated("save", _EXPORT)
    raise NotImplementedError("torch.jit.save: torchgrad_jax has no TorchScript; use torch.save(m.state_dict(), f)")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Refused: TorchScript archives cannot be read.

    Raises:
        NotImplementedError: always.
    """
    _say_deprecated("load", _EXPORT)
    raise NotImplementedError("torch.jit.load: torchgrad_jax has no TorchScript")


__getattr__ = _missing(__name__)
