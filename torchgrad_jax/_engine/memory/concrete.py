"""The values of a tensor, where Python code needs to know them; an error that says why where there are none."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..._core.arrays.devices import FakeDevice
from ..._core.errors import messages as errors
from ..._core.jax import abstract
from ..._core.state import MODES
from .strided import read
from .tensor import Tensor

_SHAPED_BY_VALUES = frozenset({"nonzero", "masked_select", "_unique", "_unique2", "unique_consecutive", "unique_dim"})


def no_data(t: Tensor, error: Exception, name: str = "_local_scalar_dense") -> Exception:
    """The error when Python asks for values that a tensor does not have; `error` is the one for the meta device."""
    if t._m.device.on_target:
        return RuntimeError(errors.NO_VALUES.format(device=t._m.device))
    if isinstance(t._m.device, FakeDevice):
        shaped = name in _SHAPED_BY_VALUES
        kind = errors.DynamicOutputShapeException if shaped else errors.DataDependentOutputException
        return kind(f"aten.{name}.default")
    return error


def concrete(t: Tensor, batched: str = "", op: str = "_local_scalar_dense") -> np.ndarray:
    """The tensor's values as numpy, or an error that names the way out when it is being traced.

    `batched` is the error where the tensor stands for one example of a batch; otherwise it is that of `item()`.
    `op` is what torch calls the operator that wants them, for fake tensors, which have none.
    """
    run = MODES.run
    if not run.inside(t):
        run.uses.look_at_values(t)
        with run.outside():
            return concrete(t, batched, op)
    array = read(t)
    if abstract.is_abstract(array):
        raise no_data(t, NotImplementedError(abstract.NO_DATA), op)
    if isinstance(array, jax.core.Tracer):
        if run.may_write_outside:
            raise errors.Unsupported(errors.untraceable())
        if run.batch is not None:
            same = run.for_all(t)
            if same is not None:
                with run.outside():
                    return concrete(same, batched, op)
            raise RuntimeError(batched or errors.BATCHED_ITEM)
        raise RuntimeError(
            "the values of this tensor are needed to go on, but it is being traced into a JAX "
            "function; move the data-dependent step outside of the traced function"
        )
    return fetched(array)


def fetched(array: Any) -> np.ndarray:
    """The elements of an array, or an error that names the way out when other processes have some of them."""
    try:
        return np.asarray(array)
    except RuntimeError:
        if array.is_fully_addressable:
            raise
    raise RuntimeError(errors.ELSEWHERE)


def is_traced(t: Tensor) -> bool:
    """Return whether the tensor's values are not known because it is being traced, outside of a batch."""
    if not MODES.run.inside(t):
        with MODES.run.outside():
            return is_traced(t)
    array = read(t)
    if not isinstance(array, jax.core.Tracer) or abstract.is_abstract(array):
        return False
    return MODES.run.batch is None
