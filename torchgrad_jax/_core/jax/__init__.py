"""What the package needs to know of JAX beyond its public functions.

Lives here: every private name of JAX (`private.py`), the caches of plans and kernels (`caches.py`) and compiled
kernels in files (`kernel_files.py`) and archives (`kernel_archives.py`), programs for other machines
(`programs_ahead.py`), how to tell that JAX traces the code that runs (`running_transforms.py`),
tracers without values for the meta device (`abstract.py`), the one interpreter of jaxprs (`evaluate.py`), small forms
of JAX's transforms (`custom_jvp.py`, `linear_maps.py`), and 64-bit types in a process whose JAX has 32 (`x64.py`).

May import: `_core/state.py`, `_core/events.py` and `errors/`.

Begin with `private.py` for a new version of JAX, and with `caches.py` for anything that is kept between two calls.
"""
