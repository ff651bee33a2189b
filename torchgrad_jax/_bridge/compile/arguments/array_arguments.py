"""Arrays of JAX among the arguments and results of a compiled function, which are inputs and results of its program.

In `step(x, key)` the program reads the key again in each call, as it reads the tensor `x`. Outside of the program an
array travels as a tensor, and a typed key as a tensor of the words that it consists of; the function itself gets and
returns arrays.
"""

from __future__ import annotations

from typing import Any

import jax

from ...._core.arrays import dtypes
from ...._core.random.keys import is_key, words_of
from ...._engine.memory.strided import read
from ...._engine.memory.tensor import Tensor, wrap_array, wrap_beside


def is_array_input(x: Any) -> bool:
    """Whether an argument is an array that a program can read; one of a weak type is a constant of the program."""
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer):
        return False
    return is_key(x) or (x.dtype in dtypes.BY_NP and not jax.typeof(x).weak_type)


def tensors_for(leaves: Any) -> list[Any]:
    """Leaves with tensors in the place of arrays."""
    return [tensor_for(x, leaves) if is_array_input(x) else x for x in leaves]


def tensor_for(x: Any, beside: Any = ()) -> Tensor:
    """The tensor that stands for an array, which goes where the tensors `beside` are if nobody bound it to a device."""
    first = next((t for t in beside if isinstance(t, Tensor)), None)
    words = words_of(x)
    return wrap_array(words) if first is None else wrap_beside(words, first._m.device)


def put_tensors_for_traced_arrays(leaves: list[Any]) -> dict[int, Any]:
    """Put tensors in the place of traced arrays; their places, and the implementations of those that are keys."""
    impls: dict[int, Any] = {}
    for i, x in enumerate(leaves):
        if isinstance(x, jax.core.Tracer):
            impls[i] = jax.random.key_impl(x) if is_key(x) else None
            leaves[i] = tensor_for(x)
    return impls


def array_of(t: Tensor, like: Any) -> Any:
    """The array that a tensor stands for: one like this, with the tensor's values."""
    return as_array(read(t), jax.random.key_impl(like) if is_key(like) else None)


def as_array(words: Any, impl: Any) -> Any:
    """An array, or a key that consists of these words where there is an implementation."""
    return words if impl is None else jax.random.wrap_key_data(words, impl=impl)
