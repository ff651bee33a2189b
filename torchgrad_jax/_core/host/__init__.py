"""Kernels as NumPy code: how a jaxpr runs on the CPU without XLA.

Lives here: `code.py`, which writes a Python function from a jaxpr, without the steps that `shorter.py` finds to be
unnecessary; `steps.py`, the table of JAX's primitives and what each is in NumPy, as `inline.py` says; `indexing.py`,
`products.py`, `reductions.py` and `curves.py`, the rows of that table that need more than a line; `forms.py` and
`forms_of_images.py`, whole operators written by hand, to which rows of the table of operators refer.

May import: `arrays/`, `jax/` and `errors/`.

Begin with the docstring of `code.py`; a primitive that is missing in `steps.py` is XLA's to run.
"""
