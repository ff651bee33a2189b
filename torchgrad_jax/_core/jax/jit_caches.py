"""What `jax.jit` and its relatives keep of functions that they have traced.

JAX traces a function once per shapes and uses the steps again wherever the function is called. Where it closes over
tensors, these are in the steps: as constants, or as tracers of the run that it was called in, which mean nothing to
another run. So a run of a function given to `from_jax` has JAX trace such functions for it alone; so does a run of
`compile`, once a program has such functions, as that makes compiling slower.
"""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax

_context: Any = jax.make_user_context(default_value=None)
_number_of_run = itertools.count()


def of_this_run() -> AbstractContextManager[None]:
    """A context in which functions under `jax.jit` are retraced."""
    return _context(next(_number_of_run))


class Closures:
    """Functions that JAX traces, and may keep, and that read tensors from outside of a run."""

    seen = False


def of_this_run_if_needed() -> AbstractContextManager[None]:
    """The same, in programs with functions that close over tensors."""
    return of_this_run() if Closures.seen else nullcontext()


def of_all_runs() -> AbstractContextManager[None]:
    """The context of functions that close over nothing, such as the kernels of operators."""
    return _context(None)
