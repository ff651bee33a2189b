"""Kernels and plans: from a pure function of arrays to something that runs.

Lives here: `trace.py`, where a function with its static arguments is a `Call`, and a `Call` for given shapes is a
`Plan`; `row_calls.py`, the calls of rows of the table; `program.py`, what each trace becomes: steps that can be cut,
whose sizes may be symbols; `templates.py`, from which plans for new shapes are made without a trace; `trace_files.py`,
in which templates outlive the process;
`kernel.py`, which gives a kernel to NumPy or to XLA; `executors.py`, what NumPy does without code for it; `jvp.py`, the
tangents of a plan; `joining.py` and `numbers_apart.py`, which keep the number of kernels small; `kept_calls.py`,
kernels that start together and keep their bits; `windows.py`, kernels that are put off until a value is read,
`window_programs.py`, what these run as, and `window_counts.py`, what they did; `compile_failures.py`, which logs why a
program of several kernels could not run.

May import: `_core` and `_ops`. Nothing here knows a tensor.

Begin with `trace.py`.
"""
