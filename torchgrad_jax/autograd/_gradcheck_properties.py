"""What else holds of a derivative: linear, sound with undefined gradients, the same under vmap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core.arrays.meta import meta
from .._core.arrays.transfer import filled
from .._core.errors import warn
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor, make
from .._engine.passes.custom import UndefinedGrad
from . import forward_ad
from ._gradcheck_compare import GradcheckError, flat
from ._jacobians import as_tuple, checked, differentiable, is_complex, pull, push, tensor_like, values_of
from ._passes import run_backward


def _wanted(inputs: Sequence[Any]) -> list[Tensor]:
    found = [inputs[i] for i in checked(inputs)]
    if not found:
        raise GradcheckError("no Tensors requiring grad found in input")
    return found


def _zeros(t: Tensor) -> Tensor:
    return make(filled(t._m, 0), meta(t._m.shape, t._m.dtype, t._m.device))


def check_linear(outputs: Sequence[Tensor], inputs: Sequence[Any]) -> None:
    """Zero gradients must give zero gradients."""
    wanted = _wanted(inputs)
    if not outputs:
        return
    found = run_backward(outputs, [_zeros(o) for o in outputs], True, False, wanted, True, False)
    for g, t in zip(found, wanted):
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


def check_undefined(fn: Any, outputs: Sequence[Tensor], inputs: Sequence[Any]) -> None:
    """Undefined gradients must be taken as zeros."""
    wanted = _wanted(inputs)

    def attempt(outs: Sequence[Tensor]) -> None:
        try:
            found = run_backward(outs, [_zeros(o) for o in outs], True, False, wanted, True, False)
        except RuntimeError as error:
            _warn_undefined()
            raise GradcheckError(f"Expected backward function to handle undefined output grads. {_NOTES}") from error
        for g in found:
            if g is not None and values_of(g).any():
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


def check_batched(inputs: Sequence[Any], output: Tensor, index: int) -> None:
    """The backward under `jax.vmap` must equal the backward row by row."""
    wanted = _wanted(inputs)
    rng = np.random.default_rng(3)
    m = output._m
    noise = rng.standard_normal((2, *m.shape)) + (1j * rng.standard_normal((2, *m.shape)) if is_complex(output) else 0)
    rows = [tensor_like(m, r) for r in noise]
    columns = zip(*[pull(output, wanted, r) for r in rows])
    expected = [np.stack([flat(g, t) for g in gs]) for gs, t in zip(columns, wanted)]

    def one(row: Any) -> list[Any]:
        found = pull(output, wanted, make(row, meta(m.shape, m.dtype, m.device)))
        return [filled(t._m, 0) if g is None else read(g) for g, t in zip(found, wanted)]

    try:
        got = jax.vmap(one)(jnp.stack([read(r) for r in rows]))
    except (RuntimeError, TypeError, jax.errors.JAXTypeError) as error:
        raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{_BATCHED}") from error
    for j, (g, e) in enumerate(zip(got, expected)):
        _same_batch(np.asarray(g).reshape(2, -1), e, index, j)


_BATCHED = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation: the derivative ran under jax.vmap, "
    "where code must not depend on the values of tensors. Pass check_batched_grad=False (or "
    "check_batched_forward_grad=False) to leave this out."
)


def _same_batch(got: np.ndarray, expected: np.ndarray, output: int, input: int) -> None:
    if not np.allclose(got, expected, rtol=1e-5, atol=1e-8, equal_nan=True):
        raise GradcheckError(
            f"For output {output} and input {input}:\n\n{_BATCHED}\n\nGot:\n{got}\n\nExpected:\n{expected}\n"
        )


def check_batched_forward(fn: Any, inputs: Sequence[Any]) -> None:
    """Forward mode under `jax.vmap` must equal forward mode direction by direction."""
    rng = np.random.default_rng(3)
    for i in checked(inputs):
        t = inputs[i]
        rows = rng.standard_normal((2, *t._m.shape)).astype(t._m.dtype.np)
        expected = [push(fn, inputs, i, r) for r in rows]

        def one(row: Any, i: int = i, t: Tensor = t) -> list[Any]:
            plain = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
            with forward_ad.dual_level():
                plain[i] = forward_ad.make_dual(plain[i], make(row, meta(t._m.shape, t._m.dtype, t._m.device)))
                outs = [
                    forward_ad.unpack_dual(x) for x in as_tuple(fn(*plain)) if x.is_floating_point() or is_complex(x)
                ]
            return [jnp.zeros(p._m.shape, p._m.dtype.np) if d is None else read(d) for p, d in outs]

        try:
            got = jax.vmap(one)(jnp.asarray(rows))
        except (RuntimeError, TypeError, jax.errors.JAXTypeError) as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{_BATCHED}") from error
        for k, g in enumerate(got):
            _same_batch(np.asarray(g).reshape(2, -1), np.stack([e[k] for e in expected]), k, i)
