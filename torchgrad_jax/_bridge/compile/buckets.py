"""Few programs for many sizes: a compiled function whose arguments are padded to sizes that the user names.

    @torch.compile(buckets={"length": (64, 128)}, shapes={"x": "_, length", "y": "_, length"})
    def step(x, y, length_mask): ...

A call with 50 columns runs the program for 64. The function is given `length_mask`, which is true for the first 50
of them, and has to heed it: nothing is masked for it, and its results are as long as the padded arguments.
"""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._core.arrays import dtypes
from ..._core.arrays.meta import meta
from ..._core.arrays.transfer import place, put
from ..._core.state import MODES
from ..._engine.entry.bind import ops
from ..._engine.graph.history import requires_grad_of
from ..._engine.memory.strided import read
from ..._engine.memory.tensor import Tensor, make
from .plans.batches import largest_batch_of
from .plans.plan import Plan


class Bucketed:
    """A compiled function that pads its arguments."""

    def __init__(self, compiled: Any, fn: Any, buckets: Mapping[str, Any], shapes: Any) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.compiled = compiled
        """The function as it is called with padded arguments."""
        self._signature = inspect.signature(fn)
        self.buckets = {name: _sizes(name, sizes) for name, sizes in buckets.items()}
        self.shapes = {arg: _names(arg, names) for arg, names in (shapes or {}).items()}
        self._insist_on_names()

    def _insist_on_names(self) -> None:
        parameters = self._signature.parameters
        anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        used = {name for names in self.shapes.values() for name in names}
        for arg in self.shapes:
            if arg not in parameters:
                raise ValueError(
                    f"torch.compile: shapes names the argument {arg!r}, but the function has {list(parameters)}"
                )
        if unknown := sorted(used - set(self.buckets) - {"_", "..."}):
            raise ValueError(
                f"torch.compile: shapes names dimensions {unknown} without buckets; write _ for those that stay"
            )
        for name in self.buckets:
            if name not in used:
                raise ValueError(f"torch.compile: buckets has {name!r}, which no argument has in shapes={{...}}")
            if f"{name}_mask" not in parameters and not anything:
                raise ValueError(
                    f"torch.compile: the function is padded along {name!r} and has to take {name}_mask, a tensor of "
                    f"bools that says what is no padding; it has {list(parameters)}"
                )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "compiled":
            raise AttributeError(name)
        return getattr(self.compiled, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        padded: list[tuple[Tensor, Tensor]] = []
        args, kwargs = self.padded(args, kwargs, None, padded)
        result = self.compiled(*args, **kwargs)
        _write_back(padded)
        return result

    def many(self, *args: Any, **kwargs: Any) -> Any:
        """As `Compiled.many`; all steps are padded to the same sizes."""
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        rows: int = tensors[0].shape[0] if tensors else 1  # type: ignore[assignment]
        padded: list[tuple[Tensor, Tensor]] = []
        args, kwargs = self.padded(args, kwargs, rows, padded)
        result = self.compiled.many(*args, **kwargs)
        _write_back(padded)
        return result

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As `Compiled.lower`."""
        args, kwargs = self.padded(args, kwargs, None)
        return self.compiled.lower(*args, **kwargs)

    def save(self, path: str | os.PathLike[str], /, *args: Any, **kwargs: Any) -> None:
        """As `Compiled.save`: the file has the program of the bucket that these arguments are padded to."""
        args, kwargs = self.padded(args, kwargs, None)
        self.compiled.save(path, *args, **kwargs)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """As `Compiled.plan`."""
        args, kwargs = self.padded(args, kwargs, None)
        return self.compiled.plan(*args, **kwargs)

    def plan_by_layers(self, *args: Any, **kwargs: Any) -> Plan:
        """As `Compiled.plan_by_layers`."""
        args, kwargs = self.padded(args, kwargs, None)
        return self.compiled.plan_by_layers(*args, **kwargs)

    def largest_batch(self, *args: Any, **kwargs: Any) -> int:
        """As `Compiled.largest_batch`, for the batch of arguments that are not padded yet."""
        return largest_batch_of(self, args, kwargs)

    def padded(
        self, args: Any, kwargs: Any, rows: int | None, padded: list[tuple[Tensor, Tensor]] | None = None
    ) -> Any:
        """The arguments with what they are padded to, and the masks.

        Args:
            args, kwargs: the arguments.
            rows: the number of steps of `many`.
            padded: gets each tensor that is padded, and the one in its place.
        """
        given = self._signature.bind_partial(*args, **kwargs)
        for name in self.buckets:
            if f"{name}_mask" in given.arguments:
                raise TypeError(f"{name}_mask is given to the function by its buckets")
        first = 0 if rows is None else 1
        sizes = self._sizes_of(given.arguments, first)
        wanted = {name: self._bucket(name, *found) for name, found in sizes.items()}
        for arg in self.shapes:
            x = given.arguments.get(arg)
            if isinstance(x, Tensor):
                now = [*x.shape]
                for d, name in self._dims(arg, x, first):
                    now[d] = wanted[name]
                given.arguments[arg] = y = _padded(x, now)
                if padded is not None and y is not x:
                    padded.append((x, y))
        masks = {f"{name}_mask": self._mask(given.arguments, *sizes[name], wanted[name], rows) for name in wanted}
        named = {k: m for k, m in masks.items() if k in self._signature.parameters}
        given.arguments.update(named)
        return given.args, {**given.kwargs, **{k: m for k, m in masks.items() if k not in named}}

    def _dims(self, arg: str, x: Tensor, first: int) -> list[tuple[int, str]]:
        """The dimensions of an argument that have buckets."""
        names, rank = self.shapes[arg], x.dim() - first
        if "..." in names:
            at = names.index("...")
            names = [*names[:at], *["_"] * (rank + 1 - len(names)), *names[at + 1 :]]
        if len(names) != rank:
            raise ValueError(
                f"torch.compile: shapes says {', '.join(self.shapes[arg])!r} of {arg}, which has the shape "
                f"{tuple(x.shape)[first:]}"
            )
        return [(first + d, name) for d, name in enumerate(names) if name != "_"]

    def _sizes_of(self, given: Mapping[str, Any], first: int) -> dict[str, tuple[int, str]]:
        """The size of each named dimension in this call, and an argument that has it."""
        sizes: dict[str, tuple[int, str]] = {}
        for arg in self.shapes:
            x = given.get(arg)
            if x is None:
                continue
            if not isinstance(x, Tensor):
                raise TypeError(
                    f"torch.compile: shapes names {arg}, which has to be a tensor, but is {type(x).__name__}"
                )
            for d, name in self._dims(arg, x, first):
                own: int = x.shape[d]  # type: ignore[assignment]
                size, other = sizes.setdefault(name, (own, arg))
                if size != own:
                    raise ValueError(f"torch.compile: {name!r} is {size} in {other} and {own} in {arg}")
        if missing := [name for name in self.buckets if name not in sizes]:
            raise TypeError(f"torch.compile: no argument of this call has the dimension {missing[0]!r}")
        return sizes

    @staticmethod
    def _mask(given: Mapping[str, Any], size: int, arg: str, bucket: int, rows: int | None) -> Tensor:
        """What is no padding, on the device of an argument; once for each of the steps of `many`."""
        m = meta((bucket,), dtypes.bool_, given[arg]._m.device)
        mask = make(place(lambda _: np.arange(bucket) < size, m), m)
        return mask if rows is None else mask.expand(rows, bucket)

    def _bucket(self, name: str, size: int, arg: str) -> int:
        """The smallest bucket for a size."""
        for bucket in self.buckets[name]:
            if size <= bucket:
                return bucket
        raise ValueError(
            f"torch.compile: {name!r} is {size} in {arg}, more than the largest of its buckets {self.buckets[name]}"
        )


def _sizes(name: str, sizes: Any) -> tuple[int, ...]:
    """The buckets of a dimension in order."""
    several = isinstance(sizes, Iterable) and not isinstance(sizes, str)
    found: tuple[Any, ...] = tuple(sizes) if several else (sizes,)
    plain = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in found)
    if not found or not plain:
        raise ValueError(f"torch.compile: the buckets of {name!r} are sizes, but were {sizes!r}")
    return tuple(sorted(set(found)))


def _names(arg: str, names: Any) -> list[str]:
    """The names of an argument's dimensions."""
    if not isinstance(names, str):
        raise TypeError(f"torch.compile: shapes has {names!r} for {arg}; it takes text as '_, length'")
    return [name.strip() for name in names.split(",") if name.strip()]


def _padded(x: Tensor, sizes: list[int]) -> Tensor:
    """A tensor with zeros after its elements, along each dimension up to a size."""
    missing = [size - there for size, there in zip(sizes, x.shape)]
    if not any(missing):
        return x
    if MODES.run.at_once and x.__class__ is Tensor and x.device.type == "cpu" and not requires_grad_of(x):
        # Without a kernel, of which each size of `x` would need its own.
        m = x._m.like(shape=tuple(sizes))
        out = np.zeros(m.shape, m.dtype.np)
        out[tuple(map(slice, x.shape))] = np.asarray(read(x))
        return make(put(out, m.device), m)
    return ops.constant_pad_nd(x, [n for more in reversed(missing) for n in (0, more)])


def _write_back(padded: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Write to arguments what the function wrote to the padded tensors in their places."""
    for x, y in padded:
        if y._version:
            x.copy_(y[tuple(map(slice, x.shape))])
