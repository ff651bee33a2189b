"""Facts about arrays: their dtypes, shapes, strides and devices. Nothing here knows a tensor or an operator.

Lives here: torch's dtypes and promotion (`dtypes.py`), devices and what JAX calls them (`devices.py`), the arithmetic
of shapes and strides (`shapes.py`, `formats.py`, `layouts.py`, `parts.py`), the interned description of an array
(`meta.py`), the way from NumPy to JAX and back (`transfer.py`, `placement.py`), and helpers that kernels share.

May import: `errors/` and `jax/`.

Begin with `meta.py`: a `Meta` is the key of every plan. Then `dtypes.py` and `shapes.py`.
"""
