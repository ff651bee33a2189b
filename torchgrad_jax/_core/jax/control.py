"""Control flow of JAX's for the package's own kernels.

Once the package is imported, `jax.lax.cond` and its like take tensors, too: inside of a run of tensor code they mean an
operator of the graph (`_bridge/jax_side/control.py`). A kernel is a function of arrays wherever it is traced.
"""

from jax import checkpoint as checkpoint
from jax.lax import (
    associative_scan as associative_scan,
    cond as cond,
    fori_loop as fori_loop,
    map as map_,
    scan as scan,
    while_loop as while_loop,
)

__all__ = ["associative_scan", "checkpoint", "cond", "fori_loop", "map_", "scan", "while_loop"]
