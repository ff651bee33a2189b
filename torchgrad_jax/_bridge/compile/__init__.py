"""`torch.compile`: a function over tensors, with all it does to the outside, as one XLA program.

Lives here: `compile.py`, the function that users call; `compiled.py`, which finds the program for the arguments of a
call among those of `programs.py`, or makes an `attempt.py` at a new one; `patience.py` decides how long a function is
compiled, and `as_written.py` runs one that cannot be; `calls.py`, what a call is and comes to; `verification.py` (a
step checks itself), `inspection.py` (`step.lower()`, `step.explain()`), `many_steps.py` (a loop of XLA over batches)
and `buckets.py` (a few sizes for many); `stance.py` and `explain.py`, the switches and the words for people. The rest
is in four wings: `watch/` sees what code reads, `arguments/` what a call is given and which numbers it reads, `trace/`
turns one run of it into steps, `program/` runs these again.

May import: `watch/` < `arguments/` < `trace/` < `program/`, in this order, and `_engine` and `_functions`.

Begin with `compiled.py`, and with the table in `_bridge/README.md`, which follows one call through the wings.
"""
