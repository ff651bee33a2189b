"""A program in use: inputs are gathered, XLA runs, results go to where they belong.

Lives here: `entry.py`, one program and what each run of it does to the outside; `quick_look.py`, the look at arguments
and surroundings before it runs again; `shorter_run.py`, a run of a program that only computes; `results.py` and
`compiled_backward.py`, results and their gradients; `donation.py` and `overwrite.py`, memory that is written over;
`one_device.py`, `over_processes.py` and `own_values.py`, programs on several devices.

May import: `watch/` and `trace/`.

Begin with `entry.py`.
"""
