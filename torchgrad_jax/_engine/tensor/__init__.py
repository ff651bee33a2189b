"""A tensor as users see it: its attributes, its text, its values in Python, its copies.

Lives here: `attributes.py`, properties and Python protocols, which `install` puts on the class; `values.py`, numbers,
lists and NumPy arrays of tensors; `printing.py`; `copying.py`, copies and pickles; `subclass.py`, users' own classes;
`tensor_hooks.py`; `storages.py`, bytes apart from a tensor; `dual.py`, tangents that ride along on tensors.

May import: `entry/`, `modes/`, `graph/`, `memory/` and `run/`. The class itself is in `memory/tensor.py`.

Begin with `attributes.py`.
"""
