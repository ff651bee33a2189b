"""One run of a compiled function on tracers, and the steps that it came to.

Lives here: `traced_program.py`, which notices each tensor that is read and written and puts everything back;
`checks.py`, checks of values that move into the program; `equal_steps.py`, `risky_writes.py` and `apart.py`, which go
over the steps; `kernel_calls.py`, by which a program calls the kernels of eager code; `kept_tensors.py`,
`outside_results.py` and `copied_arrays.py`, tensors that come from outside or stay there; `python_watch.py`, what
Python code did meanwhile, so that it can be undone; `first_calls.py`, what only a first call does.

May import: `watch/`.

Begin with `traced_program.py`.
"""
