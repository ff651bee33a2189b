"""Kernels as NumPy code: how a jaxpr runs on the CPU without XLA.

Lives here: `choice.py`, the rule that says which kernels are NumPy's; `code.py`, which writes a Python function from a
jaxpr, without the steps that `shorter.py` finds to be unnecessary; `sized.py`, that function before its sizes are
known, and `space.py`, the names that it may use; `steps.py`, the table of JAX's primitives and what each is in NumPy,
as `inline.py` says; `indexing.py`, `products.py`, `reductions.py`, `lapack.py` (with `one_thread.py`) and `curves.py`,
the rows of that table that need more than a line; `forms.py`, `forms_of_order.py` and `forms_of_images.py`, whole
operators written by hand, to which rows of the table of operators refer.
`compiled_curves.py` is for what XLA compiles.

May import: `arrays/`, `jax/` and `errors/`.

Begin with the docstring of `code.py`; a primitive that is missing in `steps.py` is XLA's to run.
"""
