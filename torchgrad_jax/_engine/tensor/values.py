"""How values leave a tensor: as numbers, lists, NumPy arrays and JAX arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from ..._core import events
from ..._core.arrays import dtypes, transfer
from ..._core.arrays.devices import FakeDevice
from ..._core.errors import messages as errors, warn
from ..._core.jax.x64 import narrowed
from ..._core.signals import contextmanager
from ..._core.state import DUAL, GRAD, MODES, OBSERVED
from ..graph.history import grad_fn_of, requires_grad_of
from ..memory.concrete import concrete, no_data
from ..memory.derivative_stops import is_traced, under_jax
from ..memory.escapes import inside_jax
from ..memory.shared import view_of
from ..memory.strided import is_direct, read
from ..memory.tensor import Tensor
from ..modes.belonging import is_batched
from ..surface import ops
from .storages import UntypedStorage as UntypedStorage


def item(self: Tensor) -> Any:
    """The value of a one-element tensor as a Python number."""
    if MODES.bits & OBSERVED and MODES.observers:
        return events.op("item", "op", (self,), lambda: _item(self))
    return _item(self)


def _item(self: Tensor) -> Any:
    if self._m.numel != 1:
        raise RuntimeError(f"a Tensor with {self._m.numel} elements cannot be converted to Scalar")
    if self._m.device.type == "meta":
        raise no_data(self, RuntimeError("Tensor.item() cannot be called on meta tensors"))
    al = self._al
    if (
        al is not None
        and self._st.meta.contiguous
        and self._m.dtype is self._st.meta.dtype
        and not (al.conj or al.neg)
        and MODES.run.inside(self)
    ):
        array = self._st.array
        if not isinstance(array, jax.core.Tracer):
            return np.asarray(array).item(al.offset)  # no kernel to cut one element out
    return concrete(self, errors.BATCHED_ITEM).item()


def tolist(self: Tensor) -> Any:
    """The values as nested Python lists."""
    return concrete(self, errors.NO_STORAGE).tolist()


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The values as a NumPy array, which shares its memory with a tensor on the CPU.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.zeros(3)
        >>> x.numpy()[0] = 7
        >>> x
        tensor([7., 0., 0.])
    """
    if not force:
        if MODES.bits & GRAD and requires_grad_of(self):
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self._al is not None and (self._al.conj or self._al.neg):
            kind, cure = ("conjugate", "conj") if self._al.conj else ("negative", "neg")
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {kind} bit set. Use tensor.resolve_{cure}().numpy() instead."
            )
        if isinstance(self._m.device, FakeDevice):
            raise RuntimeError(".numpy() is not supported for tensor subclasses.")
        if self._m.device.type != "cpu":
            raise TypeError(
                f"can't convert {self._m.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
                "host memory first."
            )
    if self._m.dtype in (dtypes.bfloat16, *dtypes.FLOAT8) and not force:
        raise TypeError(f"Got unsupported ScalarType {dtypes.scalar_type_name(self._m.dtype)}")
    shared = _shared(self)
    return _laid_out(np.array(concrete(self, errors.NO_STORAGE)), self._m) if shared is None else shared


def _shared(t: Tensor) -> np.ndarray | None:
    """A NumPy array of a tensor's own memory; None where it has none, or none that NumPy knows."""
    run = MODES.run
    if not run.inside(t):
        run.uses.look_at_values(t)
        run.uses.give_to_numpy(t)
        with run.outside():
            return _shared(t)
    return view_of(t)


def _laid_out(array: np.ndarray, m: Any) -> np.ndarray:
    """An array with its elements in the order in which those of a tensor without gaps lie in memory."""
    if m.contiguous or not m.dense:
        return array
    order = sorted(range(m.ndim), key=lambda d: -m.strides[d])
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


def to_array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """NumPy's protocol."""
    known = self._m.dtype not in (dtypes.bfloat16, *dtypes.FLOAT8)
    out = numpy(self) if known else np.array(concrete(self))
    if copy is False and dtype is not None and out.dtype != dtype:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return out if dtype is None and not copy else np.array(out, dtype, copy=copy)


GRAPH_LOST = (
    "Can't give a tensor that requires grad or has a tangent to a function of JAX's: the result would be cut off from "
    "the graph. Use tensor.detach(), or make the function an operator: torchgrad_jax.from_jax(function)(tensor)."
)


def array_for_jax(t: Tensor) -> jax.Array:
    """The array of a tensor for a function of JAX's, which is no part of the graph.

    Where JAX differentiates the code itself, nothing is lost by that. The trace of a compiled function does not.
    """
    run = MODES.run
    followed = inside_jax() and not (run.may_write_outside and run.runs_alone())
    if (MODES.bits & GRAD and requires_grad_of(t) and not followed) or loses_derivative(t):
        raise RuntimeError(GRAPH_LOST)
    return value_for_jax(t)


def loses_derivative(t: Tensor) -> bool:
    """Whether a transform of JAX's that takes `t` would end a derivative of ours, which nobody would notice.

    A leaf of plain code is no such case: `jax.grad` takes parameters and differentiates by itself. Nor is what a run
    that JAX differentiates, or one of `vmap`, has: the derivative of the run as a whole goes through it.
    """
    if MODES.bits & DUAL and MODES.tangents.tangent_of(t) is not None:
        return True
    if not (MODES.bits & GRAD and requires_grad_of(t)):
        return False
    run = MODES.run
    if run.jax_derives or run.batch is not None:
        return not run.runs_alone()
    if MODES.transforms:
        return True
    if grad_fn_of(t) is None:
        return False
    return run.owns(t._st.array) if run.may_write_outside else not is_traced(t) and not under_jax()


def value_for_jax(t: Tensor) -> Any:
    """What JAX gets of a tensor: in a function that is being made an operator, one from outside is an input.

    `vmap` has constants, too, and makes those inputs whose gradient somebody wants.
    """
    run = MODES.run
    if run.jax_derives and (run.batch is None or requires_grad_of(t)):
        return narrowed(run.array_of(t))
    if MODES.sealed and not isinstance(t._st.array, jax.core.Tracer):
        raise RuntimeError(errors.FROZEN_IN_RULE)
    array = t._st.array
    if isinstance(array, jax.core.Tracer) and not is_direct(t):
        # JAX looks at a result when it has left the trace that the result is from; a view is computed there.
        from jax.extend.core import set_current_trace

        with set_current_trace(array._trace):
            return transfer.for_jax(read(t))
    return transfer.for_jax(read(t))


@contextmanager
def sealed() -> Iterator[None]:
    """Inside, code that JAX traces may not read tensors from outside: their values would be frozen."""
    before, MODES.sealed = MODES.sealed, True
    try:
        yield
    finally:
        MODES.sealed = before


def jax_array(self: Tensor) -> jax.Array:
    """JAX's protocol: the array by reference.

    JAX's operators ask for it before the other operand has its say. They get none, and leave the operation to the
    tensor, which stays in the graph; inside of JAX's transforms only where there is a graph that JAX does not follow.
    """
    asking = sys._getframe(1).f_code
    if asking.co_name.startswith("_operator_") and asking.co_filename.endswith("array_methods.py"):
        followed = isinstance(self._st.array, jax.core.Tracer) or not requires_grad_of(self)
        if not (followed and inside_jax()):
            return NotImplemented
    return array_for_jax(self)


def dlpack(self: Tensor, **kwargs: Any) -> Any:
    """DLPack's protocol."""
    if is_batched(self):
        raise RuntimeError(errors.NO_STORAGE)
    if requires_grad_of(self):
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self._al is not None and self._al.conj:
        raise BufferError("Can't export tensors with the conjugate bit set")
    if kwargs.get("stream") not in (None, -1) and self._m.device.type == "cpu":
        raise AssertionError("stream should be None on cpu.")
    if self._m.dtype not in (dtypes.bfloat16, *dtypes.FLOAT8):
        shared = _shared(self)
        if shared is not None and shared.flags.writeable:
            return shared.__dlpack__(**kwargs)
    return transfer.as_jax_array(read(self)).__dlpack__(**kwargs)


def dlpack_device(self: Tensor) -> Any:
    """DLPack's protocol."""
    return transfer.as_jax_array(read(self)).__dlpack_device__()


def truth(self: Tensor) -> bool:
    """Truthiness, of one element only."""
    if self._m.numel != 1:
        if self._m.numel == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        raise RuntimeError(errors.AMBIGUOUS)
    if self._m.device.type == "meta":
        return bool(item(self))
    return bool(concrete(self, errors.BATCHED_TRUTH).reshape(()))


def _number(self: Tensor, kind: Callable[[Any], Any]) -> Any:
    if kind is not int and MODES.bits & GRAD and requires_grad_of(self):
        # As torch does of these two, and not of int() or item().
        warn.once(errors.SCALAR_OF_GRAD)
    if self._m.numel != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    value = item(self)
    if isinstance(value, complex) and kind is not complex:
        if value.imag:
            raise RuntimeError(
                f"value cannot be converted to type {'double' if kind is float else 'int64_t'} without overflow"
            )
        value = value.real
    return kind(value)


def to_int(self: Tensor) -> int:
    """`int(tensor)`."""
    return _number(self, int)


def to_float(self: Tensor) -> float:
    """`float(tensor)`."""
    return _number(self, float)


def to_complex(self: Tensor) -> complex:
    """`complex(tensor)`."""
    return _number(self, complex)


def to_index(self: Tensor) -> int:
    """`operator.index(tensor)`: one integer."""
    if self._m.numel != 1 or self._m.dtype.category >= dtypes.FLOATING:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(self))


def length(self: Tensor) -> int:
    """The size of the first dimension."""
    if self._m.ndim == 0:
        raise TypeError("len() of a 0-d tensor")
    return self._m.shape[0]


def iterate(self: Tensor) -> Iterator[Tensor]:
    """Views along the first dimension."""
    if self._m.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))  # by its name, so that it can be overridden


def delete_item(self: Tensor, index: Any) -> None:
    """Refused, as in torch."""
    raise TypeError("Tensor does not support deleting items")


def contains(self: Tensor, element: Any) -> bool:
    """Whether some element equals a number or a tensor broadcast against this one."""
    if isinstance(element, Tensor | int | float | complex | bool):
        return bool(item(ops.any(ops.eq(self, element))))
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")
