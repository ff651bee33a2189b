"""Arguments of functions that make tensors: torch's checks, and its wording when they fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.sharding import Sharding

from .._core import events
from .._core.arrays import devices, dtypes
from .._core.arrays.formats import memory_format
from .._core.arrays.shapes import check_bytes
from .._core.errors.messages import UnsupportedLayoutError
from .._core.state import MODES, OBSERVED
from .._engine.entry.arguments import as_float, as_int, as_number, is_number as is_number, type_name
from .._engine.entry.bind import COMPOSITES, METHODS, NAMESPACES
from .._engine.entry.parser import torch_complaint
from .._engine.memory.tensor import Tensor
from .._engine.overrides.looking import begin, foreign
from .._engine.surface import named
from .._engine.tensor.attributes import layout, strided_layout

NO_GRAD_DTYPE = "Only Tensors of floating point and complex dtype can require gradients"
_PYTHON_DTYPES = {bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}
_MAX_BYTES = 2**63


def register(name: str, fn: Callable[..., Any], *, namespace: str = "") -> Any:
    """Publish a function whose arguments are not tensors; only function modes override it.

    `bind.composite` does this for functions of tensors, at a cost that these can do without.
    """

    torch_name = f"{namespace or 'torch'}.{name}"

    def public(*args: Any, **kwargs: Any) -> Any:
        if MODES.bits & OBSERVED and MODES.observers:
            given = (*args, *kwargs.values())
            return events.op(name, "composite", given, lambda: fn(*args, **kwargs))
        try:
            return fn(*args, **kwargs)
        except Exception:
            if foreign((*args, *kwargs.values())):
                return begin(public, args, kwargs)
            if isinstance(kwargs.get("device"), Sharding):
                return _spread(public, args, kwargs)
            complaint = torch_complaint(torch_name, public.__name__, args, kwargs)
            if complaint is None:
                raise
            raise complaint from None

    fn.__name__ = fn.__qualname__ = public.__name__ = public.__qualname__ = name
    public.__doc__, public.__wrapped__ = fn.__doc__, fn
    public.__module__ = "torchgrad_jax"
    NAMESPACES.setdefault(namespace, {})[name] = named(public, namespace, name)
    COMPOSITES[f"{namespace}.{name}" if namespace else name] = public
    return public


def _spread(fn: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a factory, spread over devices by the sharding that was given as `device`."""
    sharding, requires_grad = kwargs["device"], kwargs.pop("requires_grad", False)
    out = METHODS["to"](fn(*args, **{**kwargs, "device": first_device(sharding)}), sharding)
    return out.requires_grad_() if requires_grad else out


def first_device(sharding: Sharding) -> devices.device:
    """The device that tensors with a sharding report."""
    return devices.of_jax(min(sharding.device_set, key=lambda d: d.id))


def factory(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function that makes tensors out of plain arguments."""
    return register(fn.__name__.rstrip("_"), fn)


def wrong(fn: str, name: str, want: str, value: Any, position: int = 0) -> TypeError:
    """torch's complaint about the type of one argument."""
    where = f" (position {position})" if position else ""
    return TypeError(f"{fn}(): argument '{name}'{where} must be {want}, not {type_name(value)}")


def tensor_argument(fn: str, value: Any, name: str = "input", position: int = 1) -> Tensor:
    """The value, or torch's complaint if it is no tensor."""
    if not isinstance(value, Tensor):
        raise wrong(fn, name, "Tensor", value, position)
    return value


def unmatched(fn: str) -> TypeError:
    """Return what a function says of arguments that none of its overloads takes; `torch_complaint` then lists these."""
    return TypeError(f"{fn}() received an invalid combination of arguments")


def shape_from(fn: str, given: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """A shape given as varargs, as one sequence or by keyword; `kwargs` must hold nothing else."""
    if kwargs:
        if "size" in kwargs:
            value = kwargs.pop("size")
            if given:
                raise TypeError(f"{fn}() got multiple values for argument 'size'")
            unexpected(fn, kwargs)
            if not isinstance(value, list | tuple):
                raise wrong(fn, "size", "tuple of ints", value)
            return shape_of(fn, value, 0, "size")
        unexpected(fn, kwargs)
    if len(given) == 1 and isinstance(given[0], list | tuple):
        return shape_of(fn, given[0], 1, "size")
    if not given:
        raise TypeError(f'{fn}() missing 1 required positional arguments: "size"')
    first, *others = given
    if not _is_int(first):
        if others:
            raise TypeError(f"{fn}() takes 1 positional argument but {len(given)} were given")
        raise wrong(fn, "size", "tuple of ints", first, 1)
    return shape_of(fn, given, 1, "size")


def only_tensors(values: Sequence[Any], argument: int = 0) -> list[Tensor]:
    """The elements of a list of tensors; anything else among them is refused."""
    for i, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument {argument}, but got {type_name(value)}")
    return list(values)


def unexpected(fn: str, kwargs: dict[str, Any]) -> None:
    """Refuse keyword arguments that are left over."""
    for k in kwargs:
        raise TypeError(f"{fn}() got an unexpected keyword argument '{k}'")


def _is_int(value: Any) -> bool:
    return value.__class__ is int or as_int(value) is not None


def shape_of(fn: str, value: Any, position: int = 1, name: str = "size") -> tuple[int, ...]:
    """A shape from a list or tuple of integers, 0-dim integer tensors among them."""
    if not isinstance(value, list | tuple):
        raise wrong(fn, name, "tuple of ints", value, position)
    for v in value:
        if v.__class__ is not int or not -_MAX_BYTES <= v < _MAX_BYTES:
            return _unusual_shape(fn, value, position, name)
    return tuple(value)


def _unusual_shape(fn: str, value: Sequence[Any], position: int, name: str) -> tuple[int, ...]:
    """`shape_of` where some element is not an int of Python, or is too large."""
    out = []
    for i, v in enumerate(value):
        n = as_int(v)
        # torch checks only the first one closely.
        if n is None and isinstance(v, bool | np.bool_) and i:
            n = int(v)
        if n is None:
            if i:
                raise TypeError(
                    f"{fn}(): argument '{name}' failed to unpack the object at pos {i + 1} with error "
                    f'"type must be tuple of ints,but got {type_name(v)}"'
                )
            where = f" (position {position})" if position else ""
            raise TypeError(
                f"{fn}(): argument '{name}'{where} must be tuple of ints, but found element of type "
                f"{type_name(v)} at pos 0"
            )
        if not -_MAX_BYTES <= n < _MAX_BYTES:
            raise TypeError(
                f"{fn}(): argument '{name}' failed to unpack the object at pos {i + 1} with error \"Overflow when "
                'unpacking long long"'
            )
        out.append(n)
    return tuple(out)


def check_shape(shape: tuple[int, ...], itemsize: int = 1) -> None:
    """Refuse shapes that no tensor can have."""
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}")
    check_bytes(shape, None, math.prod(shape), itemsize)


def integer(fn: str, name: str, value: Any, position: int = 0) -> int:
    """An int argument."""
    if value.__class__ is int:
        return value
    out = as_int(value)
    if out is None:
        raise wrong(fn, name, "int", value, position)
    return out


def number(fn: str, name: str, value: Any, position: int = 0) -> Any:
    """A Number argument as a Python number."""
    out = value if value.__class__ in (int, float, bool, complex) else as_number(value)
    if out is None:
        raise wrong(fn, name, "Number", value, position)
    return out


def real(fn: str, name: str, value: Any, position: int = 0) -> float:
    """A float argument."""
    out = value if value.__class__ is float else as_float(value)
    if out is None:
        raise wrong(fn, name, "float", value, position)
    return out


def flag(fn: str, name: str, value: Any, position: int = 0) -> bool:
    """A bool argument."""
    if value.__class__ is not bool:
        raise wrong(fn, name, "bool", value, position)
    return value


def dtype_of(fn: str, value: Any) -> dtypes.dtype:
    """A dtype argument: a dtype, or Python's bool, int, float, complex."""
    if isinstance(value, dtypes.NamedDtype):
        raise NotImplementedError(f"{fn}(): tensors of dtype {value!r} are not supported")
    if isinstance(value, dtypes.dtype):
        return value
    if isinstance(value, type) and value in _PYTHON_DTYPES:
        return _PYTHON_DTYPES[value]
    raise wrong(fn, "dtype", "torch.dtype", value)


def device_of(fn: str, value: Any) -> devices.device:
    """A device argument; None means the default device."""
    if value is None or isinstance(value, devices.device | str) or value.__class__ is int:
        return devices.resolve(value)
    raise wrong(fn, "device", "torch.device", value)


def options(
    fn: str,
    dtype: Any,
    layout_: Any,
    device: Any,
    pin_memory: Any,
    requires_grad: Any,
    otherwise: devices.device | None = None,
) -> tuple[Any, devices.device]:
    """The dtype (None where none is given) and device that a call asks for, `otherwise` if none; checks the rest."""
    if layout_ is not None and layout_ is not strided_layout:
        check_layout(fn, layout_)
    if pin_memory is not False and pin_memory is not None:
        check_pinned(fn, pin_memory)
        if pin_memory and device is None and otherwise is None:  # pinned memory belongs to the host
            device = "cpu"
    if requires_grad.__class__ is not bool:
        raise wrong(fn, "requires_grad", "bool", requires_grad)
    if dtype is not None and dtype.__class__ is not dtypes.dtype:
        dtype = dtype_of(fn, dtype)
    if device is None:
        return dtype, otherwise or devices.default_device()
    return dtype, device_of(fn, device)


def check_layout(fn: str, value: Any) -> None:
    """Refuse layouts other than strided."""
    if not isinstance(value, layout):
        raise wrong(fn, "layout", "torch.layout", value)
    if value is not strided_layout:
        raise UnsupportedLayoutError(f"{fn}(): layout {value!r} is not supported; only torch.strided is")


def check_pinned(fn: str, value: Any) -> None:
    """Refuse pinned memory where there is no accelerator, as torch; with one, XLA copies from host memory as it is."""
    if flag(fn, "pin_memory", value) and devices.no_accelerator():
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is available on "
            "this system."
        )


def format_of(fn: str, value: Any) -> memory_format | None:
    """A memory_format argument."""
    if value is not None and not isinstance(value, memory_format):
        raise wrong(fn, "memory_format", "torch.memory_format", value)
    return value
