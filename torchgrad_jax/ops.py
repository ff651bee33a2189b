"""torch.ops: operators under the names that torch's dispatcher has for them.

``torch.ops.aten.<name>`` is a packet of overloads and ``torch.ops.aten.<name>.<overload>`` one of
them. Here one function serves all overloads of an operator, so they are one object.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ._core.errors import no_such_name as _no_such_name
from ._engine.bind import METHODS, NAMESPACES
from ._engine.tensor import Tensor
from ._ops import TABLE
from ._ops.aten import op_name

__all__ = ["aten"]

_OVERLOADS = frozenset({
    "default", "Tensor", "Scalar", "dim", "dims", "int", "float", "self", "other", "out", "correction",
    "Tensor_Scalar", "Tensor_Tensor", "Scalar_Tensor", "ScalarSelf", "ScalarOther", "Tensor_mode", "Scalar_mode",
    "dim_IntList", "dim_max", "dim_min", "Dimname", "dimname", "int_Scalar", "int_Tensor", "source", "src", "value",
    "reduce", "memory_format", "dtype", "vec", "start", "start_step", "Tensor_Tensor_out", "Scalar_out", "unary_out",
    "grad_input", "ScalarOpt_dim", "ScalarOpt_dim_dtype", "self_int", "array", "sections", "indices",
    "tensor_indices_or_sections", "Tensor_values", "Scalar_Scalar", "float_Tensor", "Tensor_float", "names", "low",
    "float_float", "dim_DimnameList", "names_dim", "values", "from", "tensor_sections", "dim_values", "padding",
})  # fmt: skip
# The overload that a call with tensors takes, where it is not the default one.
_USUAL = {
    **dict.fromkeys(
        ("add", "sub", "mul", "div", "remainder", "fmod", "eq", "ne", "lt", "le", "gt", "ge", "index", "bitwise_and",
         "bitwise_or", "bitwise_xor", "slice"), "Tensor"),
    "pow": "Tensor_Scalar", "where": "self", "select": "int", "transpose": "int", "var": "correction",
    "std": "correction",
}  # fmt: skip


class OpOverload:
    """An operator, callable where a function or method has its name."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace, self._opname = namespace, name
        self._overloadname = _USUAL.get(name.removesuffix("_"), "default")
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
    return getattr(Tensor, name, None)


@functools.cache
def _row_names() -> frozenset[str]:
    return frozenset(op_name(row + end) for row in TABLE for end in ("", "_"))


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


aten = _OpNamespace("aten")


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.ops.{name}"))
