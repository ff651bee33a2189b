"""The steps that NumPy does at any size, beside XLA: `python -m benchmarks.executors`.

Prints for each exception of `_core/host/choice.py` how many times as long as NumPy XLA takes: CPU seconds on one core.
One below 1 should be none. XLA's time is without that of compiling.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torchgrad_jax._core.host import code

from .timing import rounds_in_turn

Drawn = tuple[np.ndarray, ...]


def _numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(shape) * 9).astype(dtype)


def _matrix(n: int) -> np.ndarray:
    x = _numbers(n, n, dtype=np.float64)
    return (x @ x.T + 9 * np.eye(n)).astype(np.float32)


def _convolution(x: Any, w: Any) -> Any:
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")


ROWS, SQUARE, INTEGERS = _numbers(1024, 1024), _matrix(90), _numbers(1024, 1024, dtype=np.int64)
CASES: dict[str, tuple[Callable[..., Any], Drawn]] = {
    "sort": (lambda x: jax.lax.sort(x, dimension=1), (ROWS,)),
    "top_k": (lambda x: jax.lax.top_k(x, 512), (ROWS,)),
    "argmax": (lambda x: jnp.argmax(x, 1), (ROWS,)),
    "argmin": (lambda x: jnp.argmin(x, 1), (ROWS,)),
    "cummax": (lambda x: jax.lax.cummax(x, 1), (ROWS,)),
    "cummin": (lambda x: jax.lax.cummin(x, 1), (ROWS,)),
    "cumsum": (lambda x: jax.lax.cumsum(x, 1), (INTEGERS,)),
    "cumprod": (lambda x: jax.lax.cumprod(x, 1), (INTEGERS,)),
    "reduce_prod": (jnp.prod, (1 + ROWS / 10_000,)),
    "conv_general_dilated": (_convolution, (_numbers(8, 3, 32, 32), _numbers(32, 3, 3, 3))),
    "lu": (lambda x: jax.lax.linalg.lu(x), (SQUARE,)),
    "cholesky": (lambda x: jax.lax.linalg.cholesky(x, symmetrize_input=False), (SQUARE,)),
    "eigh": (lambda x: jax.lax.linalg.eigh(x)[1], (SQUARE,)),
    "svd": (lambda x: jax.lax.linalg.svd(x, compute_uv=False), (SQUARE,)),
    "qr": (lambda x: jax.lax.linalg.qr(x), (SQUARE,)),
    "triangular_solve": (lambda x: jax.lax.linalg.triangular_solve(x, x, left_side=True, lower=True), (SQUARE,)),
}
"""By primitive, a function that is little else, and what it is given."""


def executors(name: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """What calls XLA, and what calls NumPy, each with a list of results."""
    fn, drawn = CASES[name]
    kernel = jax.jit(fn)
    program = code.program(kernel.trace(*drawn).jaxpr, kernel, False)
    assert program is not None, name
    there = [jax.device_put(x) for x in drawn]
    return lambda: jax.block_until_ready(jax.tree.leaves(kernel(*there))), lambda: program(*drawn)


def main() -> None:
    """Print the ratios."""
    for name in CASES:
        calls = [(call, lambda: None) for call in executors(name)]
        xla, numpy = (min(rounds) for rounds in rounds_in_turn(calls, 0.3))
        print(f"{name:22} {xla / numpy:6.1f}   XLA {xla * 1e6:9.0f} us   NumPy {numpy * 1e6:9.0f} us")


if __name__ == "__main__":
    sys.exit(main())
