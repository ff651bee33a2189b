"""What else holds of a derivative: linear, sound with undefined gradients, the same under vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .._bridge.vmap import vmap
from .._core.arrays.meta import meta
from .._core.errors import warn
from .._engine.graph.record import zeros_for
from .._engine.memory.tensor import Tensor
from .._engine.passes.custom import UndefinedGrad
from ._gradcheck_compare import GradcheckError
from ._jacobians import checked, differentiable, flat, is_complex, pull, push, tensor_like, values_of
from ._passes import run_backward, run_batched


def _zero_gradients(outputs: Sequence[Tensor], wanted: Sequence[Tensor]) -> tuple[Any, ...]:
    return run_backward(outputs, [zeros_for(o._m) for o in outputs], True, False, wanted, True, False)


def check_linear(outputs: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
    """Zero gradients must give zero gradients."""
    if not outputs:
        return
    for g, t in zip(_zero_gradients(outputs, wanted), wanted):
        if g is None:
            continue
        if values_of(g).any():
            raise GradcheckError("backward not multiplied by grad_output")
        if g._m.dtype is not t._m.dtype:
            raise GradcheckError("grad is incorrect type")
        if g._m.device is not t._m.device:
            raise GradcheckError("grad is incorrect device")
        if g._m.shape != t._m.shape:
            raise GradcheckError("grad is incorrect size")


_NOTES = 'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'


def _warn_undefined() -> None:
    warn.to_user(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may "
        "break existing callers of this function. If this is true for you, you can call this function with "
        '"check_undefined_grad=False" to disable the feature'
    )


def check_undefined(fn: Any, outputs: Sequence[Tensor], inputs: Sequence[Any], wanted: Sequence[Tensor]) -> None:
    """Undefined gradients must be taken as zeros."""

    def attempt(outs: Sequence[Tensor]) -> None:
        try:
            found = _zero_gradients(outs, wanted)
        except RuntimeError as error:
            _warn_undefined()
            raise GradcheckError(f"Expected backward function to handle undefined output grads. {_NOTES}") from error
        if any(g is not None and values_of(g).any() for g in found):
            _warn_undefined()
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero. "
                + _NOTES
            )

    undefined = UndefinedGrad()
    if outputs:
        attempt([undefined(t) for t in differentiable(fn(*inputs))])
    if len(outputs) > 1:
        for k in range(len(outputs)):
            attempt([undefined(t) if i == k else t for i, t in enumerate(differentiable(fn(*inputs)))])


# --- under vmap -----------------------------------------------------------------------------------

_BATCHED = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation: the derivative ran under vmap, "
    "where code must not depend on the values of tensors. Pass check_batched_grad=False (or "
    "check_batched_forward_grad=False) to leave this out."
)


def check_batched(output: Tensor, index: int, wanted: Sequence[Tensor]) -> None:
    """The backward of two gradients at once must equal that of one after the other."""
    rows, batch = _two_like(output)
    expected = [[flat(g, t) for g, t in zip(pull(output, wanted, r), wanted)] for r in rows]
    got = _under_vmap(run_batched, [output], [batch], True, False, wanted, True)
    for j, g in enumerate(got):
        _same_batch(g, [e[j] for e in expected], index, j)


def check_batched_forward(fn: Any, inputs: Sequence[Any]) -> None:
    """Forward mode along two tangents at once must equal that along one after the other."""
    for i in checked(inputs):
        rows, batch = _two_like(inputs[i])
        expected = [[values_of(t).reshape(-1) for t in push(fn, inputs, i, r)] for r in rows]
        got = _under_vmap(vmap(functools.partial(push, fn, inputs, i)), batch)
        for k, g in enumerate(got):
            _same_batch(g, [e[k] for e in expected], k, i)


def _two_like(t: Tensor) -> tuple[list[Tensor], Tensor]:
    """Two tensors of random numbers like one, and both as a batch."""
    rng, m = np.random.default_rng(3), t._m
    noise = rng.standard_normal((2, *m.shape)) + (1j * rng.standard_normal((2, *m.shape)) if is_complex(t) else 0)
    return [tensor_like(m, row) for row in noise], tensor_like(meta((2, *m.shape), m.dtype, m.device), noise)


def _under_vmap(run: Callable[..., Sequence[Any]], *args: Any) -> Sequence[Any]:
    try:
        return run(*args)
    except (RuntimeError, TypeError, jax.errors.JAXTypeError) as error:
        raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{_BATCHED}") from error


def _same_batch(got: Tensor | None, rows: Sequence[np.ndarray], output: int, input: int) -> None:
    expected = np.stack(rows)
    found = np.zeros_like(expected) if got is None else values_of(got).reshape(2, -1)
    if not np.allclose(found, expected, rtol=1e-5, atol=1e-8, equal_nan=True):
        raise GradcheckError(
            f"For output {output} and input {input}:\n\n{_BATCHED}\n\nGot:\n{found}\n\nExpected:\n{expected}\n"
        )
