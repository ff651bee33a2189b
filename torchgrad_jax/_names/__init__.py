"""Where public names are declared, for editors. See `_codegen/homes.py`."""
