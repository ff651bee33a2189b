"""A program in use: inputs are gathered, XLA runs, results go to where they belong.

Lives here: what a function becomes, in the order in which it comes to run.

* `build.py` makes a program: `function_trace.py` runs the function on tracers, and the rest is sorted by kind.
* `program.py` is what comes of it, data alone: `conditions.py` (is it still right?), `inputs.py`, `body.py` (a function
  of arrays), `writes.py`, `returned.py` with `results.py`, and `compiled_backward.py` with `gradients_read.py`.
* `entry.py` runs it; `quick_look.py` and `shorter_run.py` are its short ways for small programs.
* `donation.py` and `overwrite.py`: memory that is written over; `constant_tensors.py`: inputs that never change.
* `one_device.py` and `joint.py`: programs on several devices and in several processes.

May import: `watch/` and `trace/`.

Begin with `program.py`.
"""
