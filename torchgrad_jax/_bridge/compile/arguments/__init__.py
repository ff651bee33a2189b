"""The arguments of a call, and the numbers of Python that a program reads again in each run as it reads these.

Lives here: `keys.py`, by what a compiled function knows a call again; `object_trees.py`, dataclasses as containers;
`array_arguments.py` and `number_arguments.py`, arrays of JAX and numbers as inputs; `number_log.py`, what a function
does with numbers, which each run does again; `changed_numbers.py`, where it was seen to change some.

May import: `_engine`, `_functions` and `watch`.

Begin with `keys.py` and `number_log.py`.
"""
