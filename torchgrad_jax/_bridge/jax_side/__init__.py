"""JAX as its own users see it: tensor code among JAX's functions, and JAX's functions among tensor code.

Lives here: `interop.py` (`to_jax`, `from_jax`); `trees.py`, `modules.py` and `module_snapshots.py`, tensors and
modules in JAX's trees; `control.py` and `value_loops.py`, loops and branches as operators; `forward_mode.py`
and `inner_checks.py`, what both need; `export.py`, `exported.py`, `any_size.py` and `container_forms.py`, programs in
files.

May import: `compile/` and its wings, `_engine` and `_functions`.

Begin with `interop.py`.
"""
