"""Tensors as data: who holds which elements.

Lives here: `tensor.py`, with `Tensor`, `Storage`, versions and aliases; `strided.py`, which reads and writes a
strided view of a storage; `shared.py`, memory that NumPy has, too; `escapes.py`, `tape.py` and `derivative_stops.py`,
which keep what JAX traces from staying where it does not belong; `concrete.py`, the values of a tensor for Python
code.

May import: `run/`.

Begin with `tensor.py`: it has no operator in it, and every other file of the engine works on its objects.
"""
