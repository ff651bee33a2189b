"""Kernels as NumPy code: how a jaxpr runs on the CPU without XLA.

Lives here: `code.py`, which writes a Python function from a jaxpr; `steps.py`, the table of JAX's primitives and what
each is in NumPy; `indexing.py` and `products.py`, the rows of that table that need more than a line.

May import: `arrays/`, `jax/` and `errors/`.

Begin with the docstring of `code.py`; a primitive that is missing in `steps.py` is XLA's to run.
"""
