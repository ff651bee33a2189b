"""Files that nobody has to trust, and that are written whole or not at all.

Lives here: `atomic.py`, which writes a file beside its place and moves it there when it is complete; `archive.py`,
which reads zip archives only after it has checked names, sizes and places.

May import: `errors/`.

Begin with `atomic.py`; who saves and loads tensors is `serialization/`.
"""
