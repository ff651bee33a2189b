"""Writes the `.pyi` stubs: what editors and type checkers know of names that exist only at run time."""
