"""torch.ops: operators under the names that torch's dispatcher has for them.

``torch.ops.aten.<name>`` is a packet of overloads and ``torch.ops.aten.<name>.<overload>`` one of
them. Here one function serves all overloads of an operator, so they are one object. Other namespaces
hold what has been registered with torch.library.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

from ._core.errors.messages import no_such_name as _no_such_name
from ._engine.entry.bind import METHODS, NAMESPACES
from ._engine.memory.tensor import Tensor
from ._library.registry import OPERATORS, add
from ._ops import TABLE
from ._ops.aten import USUAL_OVERLOADS, op_name

__all__ = ["aten"]

_OVERLOADS = frozenset({
    "default", "Tensor", "Scalar", "dim", "dims", "int", "float", "self", "other", "out", "correction",
    "Tensor_Scalar", "Tensor_Tensor", "Scalar_Tensor", "ScalarSelf", "ScalarOther", "Tensor_mode", "Scalar_mode",
    "dim_IntList", "dim_max", "dim_min", "Dimname", "dimname", "int_Scalar", "int_Tensor", "source", "src", "value",
    "reduce", "memory_format", "dtype", "vec", "start", "start_step", "Tensor_Tensor_out", "Scalar_out", "unary_out",
    "grad_input", "ScalarOpt_dim", "ScalarOpt_dim_dtype", "self_int", "array", "sections", "indices",
    "tensor_indices_or_sections", "Tensor_values", "Scalar_Scalar", "float_Tensor", "Tensor_float", "names", "low",
    "float_float", "dim_DimnameList", "names_dim", "values", "from", "tensor_sections", "dim_values", "padding",
    "stable", "values_stable", "List", "ScalarList", "Tensor_out", "int_out", "x_scalar", "n_scalar", "self_scalar",
    "other_scalar", "dx", "x", "two", "value_reduce", "decimals", "intlist", "sizes", "scalar", "self_Tensor", "U",
    "periodic", "periodic_alpha", "periodic_alpha_beta", "input", "data", "generator", "Scalar_Other", "sublist",
    "padding_idx", "p", "p_str", "str_ord", "tol_tensor", "rcond_tensor", "atol_rtol_tensor", "atol_rtol_float", "to",
    "device", "step", "tensor", "Sequence", "using_ints", "complex", "tensor_lr", "source_Tensor", "source_Storage",
    "_RecordFunction", "msg",
})  # fmt: skip


class OpOverload:
    """An operator, callable where a function or method has its name."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace, self._opname = namespace, name
        self._overloadname = USUAL_OVERLOADS.get(name.removesuffix("_"), "default")
        self.__name__ = f"{name}.{self._overloadname}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = _function(self._namespace, self._opname)
        if found is None:
            raise NotImplementedError(
                f"torch.ops.{self}: this operator is part of another function's implementation and cannot be called"
            )
        return found(*args, **kwargs)

    def name(self) -> str:
        """The name in torch's schemas: ``aten::mm``, ``aten::add.Tensor``."""
        end = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self._namespace}::{self._opname}{end}"

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operator with all its overloads."""
        return getattr(aten, self._opname)

    def __repr__(self) -> str:
        operator = f"{self._namespace}.{self._opname}"
        return f"<OpOverload(op='{operator}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"


class OpOverloadPacket:
    """All overloads of an operator; attributes are overloads."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace, self._opname = namespace, name
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return overload(self._namespace, self._opname)(*args, **kwargs)

    @property
    def _op(self) -> Callable[..., Any] | None:
        """The function behind it."""
        return _function(self._namespace, self._opname)

    def __getattr__(self, name: str) -> OpOverload:
        if name not in _OVERLOADS:
            raise AttributeError(
                f"The underlying op of '{self._namespace}.{self._opname}' has no overload name '{name}'"
            )
        return overload(self._namespace, self._opname)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self._opname}"


@functools.cache
def overload(namespace: str, name: str) -> OpOverload:
    """The one object for an operator's overloads."""
    return OpOverload(namespace, name)


def _function(namespace: str, name: str) -> Callable[..., Any] | None:
    for space in (NAMESPACES.get(f"ops.{namespace}", {}), NAMESPACES[""], METHODS):
        if name in space:
            return space[name]
    return NAMESPACES["nn.functional"][name] if name in _LAYERS else getattr(Tensor, name, None)


_LAYERS = frozenset({"linear", "one_hot"})
"""Functions of `nn.functional` with the arguments of the operator."""


_NAMED = frozenset({
    "_assert_async", "_assert_scalar", "_flash_attention_forward", "_local_scalar_dense", "_pin_memory",
    "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention", "_sparse_addmm", "_sparse_mm_reduce_impl", "convolution_backward",
    "sym_numel", "sym_size", "sym_storage_offset", "sym_stride",
})  # fmt: skip
"""Operators that nothing here calls; others list them: tables by operator, and subclasses of tensors."""


@functools.cache
def _row_names() -> frozenset[str]:
    return _NAMED | {op_name(row + end) for row in TABLE for end in ("", "_")}


class _OpNamespace:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        private = name.startswith("__")
        if private or not (_function(self._name, name) or name in _row_names()):
            raise AttributeError(_no_such_name(f"torch.ops.{self._name}.{name}"))
        packet = OpOverloadPacket(self._name, name)
        setattr(self, name, packet)
        return packet


class CustomOverload(OpOverload):
    """An operator that the user has registered."""

    def __init__(self, operator: Any) -> None:
        self.operator = operator
        self._schema = operator.schema
        self._namespace, self._opname = operator.schema.name.split("::")
        self._overloadname = operator.schema.overload_name or "default"
        self.__name__ = f"{self._opname}.{self._overloadname}"

    @property
    def _qualname(self) -> str:
        overload = self._schema.overload_name
        return f"{self._schema.name}.{overload}" if overload else self._schema.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.operator(*args, **kwargs)

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operator with all its overloads."""
        return _custom_packet(self._namespace, self._opname)


class _CustomPacket(OpOverloadPacket):
    """All overloads of an operator that the user has registered."""

    def overloads(self) -> list[str]:
        """Their names."""
        return [name or "default" for name in self._known()]

    def _known(self) -> dict[str, CustomOverload]:
        return OPERATORS.get(self._namespace, {}).get(self._opname, {})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        known = list(self._known().values())
        for overload in known[:-1]:
            try:
                overload.operator.schema.bind(args, kwargs)
            except RuntimeError:
                continue
            return overload(*args, **kwargs)
        return known[-1](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        known = None if name.startswith("__") else self._known().get("" if name == "default" else name)
        if known is None:
            raise AttributeError(
                f"The underlying op of '{self._namespace}.{self._opname}' has no overload name '{name}'"
            )
        return known


@functools.cache
def _custom_packet(namespace: str, name: str) -> _CustomPacket:
    """The one object for an operator that the user has registered, so that it may be a key."""
    return _CustomPacket(namespace, name)


@functools.cache
def _packet(namespace: str, name: str) -> OpOverloadPacket:
    """The one object for an operator of a namespace of this package."""
    return OpOverloadPacket(namespace, name)


class _CustomNamespace:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if name in NAMESPACES.get(f"ops.{self._name}", ()):
            return _packet(self._name, name)
        if name not in OPERATORS.get(self._name, {}):
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")
        return _custom_packet(self._name, name)

    def __dir__(self) -> list[str]:
        return sorted(OPERATORS.get(self._name, {}))

    def __repr__(self) -> str:
        return f"<module 'torch.ops.{self._name}' from 'torch.ops'>"


aten = _OpNamespace("aten")


def load_library(path: str | os.PathLike[str]) -> None:
    """Refused, because operators written in C++ belong to torch's dispatcher.

    For the libraries of torchvision and torchaudio, which these packages ask for on import, some of their operators
    are there as functions of tensors.

    Raises:
        OSError: the library is another one; torch raises it for a library that it cannot load.
    """
    *folders, name = os.path.abspath(path).split(os.sep)
    for package, start, home in _AS_FUNCTIONS:
        if package in folders[-2:] and name.startswith(start):
            _define(home)
            return
    raise OSError(
        f"Could not load this library: {os.fspath(path)} (torchgrad_jax runs no operators written for torch in C++)"
    )


_AS_FUNCTIONS = (
    ("torchvision", "_C", "vision"),
    ("torchaudio", "_torchaudio", "audio"),
    ("torchaudio", "libtorchaudio", "audio"),
)
"""Packages, what the names of their libraries begin with, and the modules with their operators."""


@functools.cache  # once
def _define(home: str) -> None:
    for operator in importlib.import_module(f"{__package__}._library.{home}").operators():
        add(CustomOverload(operator), operator.schema.name)


@functools.cache
def _custom_namespace(name: str) -> _CustomNamespace:
    return _CustomNamespace(name)


def __getattr__(name: str) -> Any:
    if name in ("_c10d_functional", "c10d", "c10d_functional"):
        _define("collectives")
    # Tools ask every module for names of their own.
    own = name.startswith(("_", "pytest")) or name in ("loaded_libraries", "import_module")
    if own and name not in OPERATORS:
        raise AttributeError(_no_such_name(f"torch.ops.{name}"))
    return _custom_namespace(name)
