"""`__torch_function__`: classes and modes that take over what is done to tensors.

Lives here: `asking.py`, who overrides functions, and how classes and modes are asked for an answer; `looking.py`, the
functions that look for them before they do anything else.

May import: `modes/`, `graph/`, `memory/` and `run/`.

Begin with `looking.py`: while no program overrides anything, nothing else of this runs.
"""
