"""What the Python code of a compiled function reads and does.

Lives here: `observer.py`, which sees each function that runs during a trace; `code_that_reads.py`, what a code names;
`reads.py`, which follows these names from object to object by the table in `kinds.py`, and leaves what was so before
in `notes.py`, as the `facts.py`; `ages.py`, what the function made itself; `guards.py`, the facts of a
program, which are compared before each run. What holds of Python in any program stands in `_core`: what a function
written in C does, what is in an array.

May import: `_engine` and `_functions`.

Begin with `places.py` and `facts.py`, then `observer.py`, `reads.py` and `guards.py`.
"""
