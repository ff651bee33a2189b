"""Names for the dimensions of an exported program that may have any size."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from .._core.arrays import tree
from .._engine.memory.tensor import Tensor
from ..nn.modules.module import Module


class _Hint(enum.Enum):
    """What may be said of a dimension without a name."""

    AUTO = "AUTO"
    DYNAMIC = "DYNAMIC"
    STATIC = "STATIC"

    def __repr__(self) -> str:
        return f"DimHint({self.name})"


class Dim:
    """A dimension of any size; the same `Dim` means the same size.

    Args:
        name: an identifier.
        min: the smallest size, 0 unless it is given.
        max: the largest size.

    `Dim.DYNAMIC` stands for a dimension without a name, `Dim.STATIC` for one that keeps its size, and `Dim.AUTO` for
    one of any size if the module works with any.
    """

    AUTO, DYNAMIC, STATIC = _Hint.AUTO, _Hint.DYNAMIC, _Hint.STATIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.min, self.max = 0 if min is None else min, math.inf if max is None else max
        assert self.max > self.min, f"Cannot create Dim with inconsistent min={min}, max={max}"
        assert name.isidentifier(), f"Dim name must be a valid identifier, got {name}"
        self.__name__, self.times = name, 1

    def __mul__(self, times: int) -> Dim:
        if type(times) is not int or times <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {self!r} by {times!r}, where a positive integer was expected."
            )
        found = Dim(self.__name__, min=self.min, max=None if self.max == math.inf else int(self.max))
        found.times = times * self.times
        return found

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Dim:
        raise NotImplementedError(f"{self!r} + {other!r}: sizes that are sums have no names here; use Dim.DYNAMIC")

    __radd__ = __sub__ = __add__

    def __repr__(self) -> str:
        if self.times != 1:
            return f"{self.times}*{self.__name__}"
        return f"Dim('{self.__name__}', min={self.min}" + ("" if self.max == math.inf else f", max={self.max}") + ")"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several `Dim`s with the same limits."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """The dimensions of any size by the tensors that have them, wherever in the arguments a tensor is.

    `export` takes it as `dynamic_shapes`.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.ones(4, 3)
        >>> shapes = ShapesCollection()
        >>> shapes[x] = {0: Dim("batch")}
        >>> shapes.dynamic_shapes(torch.nn.Linear(3, 2), (x,))
        {'input': {0: Dim('batch', min=0)}}
    """

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Any, Any]] = {}
        """By the identity of a tensor: the tensor, and what its dimensions are."""

    def __setitem__(self, t: Tensor, shape: Any) -> None:
        if not isinstance(t, Tensor):
            raise AssertionError(f"Cannot assign shape to non-tensor type {type(t)}")
        before = self._shapes.setdefault(id(t), (t, shape))[1]
        if before != shape:
            raise AssertionError(f"Shapes assigned to input do not match: expected {before}, got {shape}")

    def __getitem__(self, t: Tensor) -> Any:
        return self._shapes.setdefault(id(t), (t, {}))[1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what `export` takes as `dynamic_shapes`, for these arguments of a module or function."""
        used: set[int] = set()

        def shape_of(x: Any) -> Any:
            used.update({id(x)} & self._shapes.keys())
            return self._shapes[id(x)][1] if id(x) in self._shapes else None

        forward = m.forward if isinstance(m, Module) else m
        bound = inspect.signature(forward).bind(*args, **(kwargs or {})).arguments
        found = {name: tree.map_leaves(shape_of, value) for name, value in bound.items()}
        if used != self._shapes.keys():
            raise ValueError(
                "Some tensors that were assigned shapes were not found in args. Maybe such tensors were copied when "
                "passing them as args? Maybe such tensors are contained in classes that were not registered with "
                "pytree?"
            )
        return found


class Shapes:
    """The names of dimensions as `interop.export` takes them.

    Args:
        auto: whether dimensions that are `Dim.AUTO` have any size, and not that of the example.
    """

    def __init__(self, auto: bool) -> None:
        self.auto, self.has_auto = auto, False
        self.ranges: dict[str, tuple[int, float]] = {}

    def texts(self, forward: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: Any) -> tuple[Any, Any]:
        """The entries for the arguments by position, and for those by name."""
        if given is None:
            return [None] * len(args), dict.fromkeys(kwargs)
        if isinstance(given, ShapesCollection):
            given = given.dynamic_shapes(forward, args, kwargs)
        if isinstance(given, list | tuple):
            given = dict(zip(inspect.signature(forward).bind(*args, **kwargs).arguments, given, strict=True))
        by_position, by_name = [None] * len(args), dict.fromkeys(kwargs)
        where = _places(forward, len(args))
        for name, entry in given.items():
            if name in kwargs:
                by_name[name] = self._text(entry, kwargs[name], name)
            elif isinstance(where.get(name), int) and where[name] < len(args):
                by_position[where[name]] = self._text(entry, args[where[name]], name)
            elif isinstance(where.get(name), slice):
                rest = where[name]
                by_position[rest] = [self._text(e, x, name) for e, x in zip(entry, args[rest], strict=True)]
            elif entry is not None:
                raise ValueError(f"dynamic_shapes names {name!r}, and the example has no such argument")
        return by_position, by_name

    def _text(self, entry: Any, value: Any, where: str) -> Any:
        if entry is None:
            return None
        if not isinstance(value, Tensor):
            if dataclasses.is_dataclass(value):
                entry, value = _by_field(entry, value), vars(value)
            if isinstance(entry, Mapping):
                return {k: self._text(e, value[k], f"{where}.{k}") for k, e in entry.items()}
            return [self._text(e, v, where) for e, v in zip(entry, value, strict=True)]
        by_dim = dict(entry) if isinstance(entry, Mapping) else dict(enumerate(entry))
        return ", ".join(self._name(by_dim.get(i), n, f"{where}_{i}") for i, n in enumerate(value.shape))

    def _name(self, dim: Any, size: int, where: str) -> str:
        self.has_auto = self.has_auto or dim is Dim.AUTO
        if dim is None or dim is Dim.STATIC or (dim is Dim.AUTO and not self.auto):
            return "_"
        if isinstance(dim, int):
            return str(dim)
        if isinstance(dim, _Hint):
            return "any_" + "".join(c if c.isalnum() else "_" for c in where)
        name, times = dim.__name__, dim.times
        if size % times or not dim.min <= size // times <= dim.max:
            raise ValueError(f"dynamic_shapes: the example has {size} as {where}, which does not fit {dim!r}")
        self.ranges[name] = (dim.min, dim.max)
        return name if times == 1 else f"{times}*{name}"

    def constraints(self) -> list[str]:
        """The limits of the sizes as JAX reads them."""
        low = [f"{name} >= {low}" for name, (low, _) in self.ranges.items() if low > 1]
        return low + [f"{name} <= {int(high)}" for name, (_, high) in self.ranges.items() if high != math.inf]


def _by_field(entry: Any, value: Any) -> dict[str, Any]:
    """The entry for a dataclass as a dict; it may be a dataclass of entries, or a list in the order of the fields."""
    if isinstance(entry, Mapping):
        return dict(entry)
    there = [f.name for f in dataclasses.fields(value) if getattr(value, f.name) is not None]
    if dataclasses.is_dataclass(entry):
        return {name: getattr(entry, name) for name in there}
    return dict(zip(there, entry, strict=True))


def _places(forward: Any, n: int) -> dict[str, Any]:
    """Where each parameter finds its argument among `n` of them: a number, or a slice for `*args`."""
    found: dict[str, Any] = {}
    for i, p in enumerate(inspect.signature(forward).parameters.values()):
        if p.kind == p.VAR_POSITIONAL:
            found[p.name] = slice(i, n)
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            found[p.name] = i
    return found
