"""Torch's own test samples, said again to another library: values, arguments and callables."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import numpy as np

from ..libs import Lib, dtype_name

NAMESPACES = ("", "nn.functional", "linalg", "fft", "special", "signal.windows", "masked", "Tensor")


class Untranslatable(Exception):
    """A sample uses something that has no counterpart (a generator, a sparse layout)."""


def seeded(lib: Lib) -> Any:
    """The counterpart of `wrapper_set_seed`, through which samples call random operators."""

    def call(op: Any, *args: Any, **kwargs: Any) -> Any:
        lib.module.manual_seed(42)
        return op(*args, **kwargs)

    return call


class Translator:
    """Maps torch's objects to those of another library; a tensor met twice is mapped once."""

    def __init__(self, torch: Lib, target: Lib) -> None:
        self.torch, self.target = torch, target
        self.paths: dict[int, str] = {}
        for namespace in reversed(NAMESPACES):
            home = torch.resolve(namespace) if namespace else torch.module
            for name in dir(home):
                value = getattr(home, name, None)
                if callable(value):
                    self.paths[id(value)] = f"{namespace}.{name}" if namespace else name
        functional = torch.module.functional
        for name in dir(functional):
            if torch.has(name) and callable(getattr(functional, name)):
                self.paths.setdefault(id(getattr(functional, name)), name)
        self.memo: dict[int, Any] = {}
        self.stores: dict[Any, Any] = {}
        self.kept: list[Any] = []

    def forget(self) -> None:
        """Start a new sample."""
        self.memo.clear()
        self.stores.clear()
        self.kept.clear()

    # --- values -------------------------------------------------------------------------------

    def value(self, x: Any) -> Any:
        """An argument of a sample."""
        torch = self.torch.module
        if isinstance(x, torch.Tensor):
            if id(x) not in self.memo:
                self.memo[id(x)] = self.tensor(x)
                self.kept.append(x)
            return self.memo[id(x)]
        if isinstance(x, torch.dtype):
            return self.target.dtype(dtype_name(x))
        if isinstance(x, torch.device):
            return str(x)
        if isinstance(x, torch.memory_format | torch.layout):
            return getattr(self.target.module, str(x).rpartition(".")[2])
        if isinstance(x, torch.nn.Module):
            return self.module(x)
        if type(x).__name__ == "LinearCrossEntropyOptions":
            return self.target.resolve("nn.LinearCrossEntropyOptions")(**dataclasses.asdict(x))
        if isinstance(x, torch.Generator):
            raise Untranslatable("a generator")
        if isinstance(x, torch.Size):
            return tuple(x)
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return type(x)(*map(self.value, x))
        if isinstance(x, list | tuple):
            return type(x)(map(self.value, x))
        if isinstance(x, dict):
            return {k: self.value(v) for k, v in x.items()}
        if isinstance(x, slice):
            return slice(self.value(x.start), self.value(x.stop), self.value(x.step))
        if id(x) in self.paths or isinstance(x, types.FunctionType):
            return self.callable(x)
        return x

    def tensor(self, t: Any) -> Any:
        """A leaf with the same values, strides and offset."""
        if t.layout is not self.torch.module.strided or t.is_quantized:
            raise Untranslatable(f"layout {t.layout}")
        if t.device.type == "meta":
            raise Untranslatable("a tensor without values")
        if t.dim() > 64:
            raise Untranslatable("numpy has no arrays of more than 64 dimensions")
        if t.is_conj():
            return self.tensor(t.detach().conj()).conj().requires_grad_(t.requires_grad)
        plain = t.detach()
        place = plain.untyped_storage().data_ptr()
        shared = self.stores.get((place, plain.dtype)) if place and not t.requires_grad else None
        if shared is not None:  # so that writes to one are seen, or refused, as in torch
            window = (tuple(plain.shape), tuple(plain.stride()), plain.storage_offset())
            return shared.as_strided(*window).detach()
        self.kept.append(plain)
        out = self.stores[place, plain.dtype] = self._stored(plain)
        return out.requires_grad_() if t.requires_grad else out

    def _stored(self, plain: Any) -> Any:
        """A tensor with a storage of its own."""
        whole = plain.untyped_storage().nbytes() == plain.numel() * plain.element_size()
        if (plain.is_contiguous() and whole) or not plain.numel():
            out = self.target.from_array(self.torch.array(plain))
            if tuple(out.stride()) != tuple(plain.stride()):
                out = out.as_strided(tuple(plain.shape), tuple(plain.stride())).detach()
        else:
            count = plain.untyped_storage().nbytes() // plain.element_size()
            flat = plain.as_strided((count,), (1,), 0)
            out = self.target.from_array(self.torch.array(flat))
            out = out.as_strided(tuple(plain.shape), tuple(plain.stride()), plain.storage_offset()).detach()
        return out

    def module(self, x: Any) -> Any:
        """The counterpart of the one module that samples hand over: a distance."""
        if type(x).__name__ != "PairwiseDistance":
            raise Untranslatable(f"module {type(x).__name__}")
        distance = self.target.resolve("nn.functional.pairwise_distance")
        return lambda a, b: distance(a, b, x.norm, x.eps, x.keepdim)

    # --- callables ----------------------------------------------------------------------------

    def callable(self, fn: Any) -> Any:
        """The counterpart of a function: by name, or its own code over the other library."""
        if fn is None:
            return None
        if id(fn) in self.memo:
            return self.memo[id(fn)]
        if getattr(fn, "__module__", "") == "compat_suite.opinfo.runner":
            return fn
        if getattr(fn, "__name__", "") == "wrapper_set_seed":
            return seeded(self.target)
        path = self.paths.get(id(fn)) or _aten_path(fn)
        if path is not None:
            return self.target.resolve(path)
        if isinstance(fn, types.FunctionType):
            return self.rebuilt(fn)
        name = getattr(fn, "__name__", None)
        if name and self.torch.has(f"Tensor.{name}"):  # a bound or wrapped method
            return self.target.resolve(f"Tensor.{name}")
        raise Untranslatable(f"callable {fn!r}")

    def rebuilt(self, fn: types.FunctionType) -> Any:
        """The same code, where `torch` means the other library."""
        names = _names(fn.__code__)
        space = {k: self.name(v) for k, v in fn.__globals__.items() if k in names}
        space["__builtins__"] = fn.__globals__.get("__builtins__", __builtins__)
        closure = None
        if fn.__closure__:
            closure = tuple(types.CellType(self.name(c.cell_contents)) for c in fn.__closure__)
        out = types.FunctionType(fn.__code__, space, fn.__name__, fn.__defaults__, closure)
        out.__kwdefaults__ = fn.__kwdefaults__
        return out

    def name(self, value: Any) -> Any:
        """What a global name of a rebuilt function stands for."""
        if value is self.torch.module:
            return self.target.module
        if value is self.torch.module.nn.functional:
            return self.target.resolve("nn.functional")
        if isinstance(value, types.ModuleType):
            return value
        if callable(value) and not isinstance(value, type):
            try:
                return self.callable(value)
            except Untranslatable:
                return value
        return self.value(value)


def _aten_path(fn: Any) -> str | None:
    """``ops.aten.slice.Tensor`` for a function of torch's dispatcher."""
    kind = type(fn).__name__
    if kind == "OpOverload":
        return "ops." + str(fn)
    return f"ops.{fn}" if kind == "OpOverloadPacket" else None


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def cotangent(shape: tuple[int, ...], dtype: str, index: int) -> np.ndarray:
    """A fixed gradient of a given shape, of order 1, never 0."""
    rng = np.random.default_rng(1000 + index)
    values = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.uniform(0.5, 1.5, shape)
    return values
