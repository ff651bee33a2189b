"""Exceptions and warnings as users meet them.

Lives here: exception types and the messages that programs match on (`messages.py`), warnings that point at the user's
line (`warn.py`), checks of values that a program may have to make later (`checks.py`), exceptions that travel between
threads and processes (`remote_errors.py`), tracebacks that end at the line of a wrong call (`tracebacks.py`), and the
table of torch's modules that are not there, with the reasons (`absent.py`).

May import: `_core/state.py` and `_core/events.py`, nothing else of the package.

Begin with `messages.py`: "Expected all tensors to be on the same device" and its kin stand there, each once.
"""
