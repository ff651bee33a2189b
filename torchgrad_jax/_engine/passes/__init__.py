"""Backward passes: the order in which nodes run, and what happens to the gradients on their way.

Lives here: `walk.py`, the walk from node to node, which says what a pass means; `order.py`, which nodes run and when;
`leaf.py`, where a gradient becomes a `.grad`; `task.py`, one pass in progress; `hooks.py`, hooks that are called and
checked; `second.py`, passes that record themselves; `segments.py`, stretches that run as one function, and
`compiled_segments.py`, what they run as; `custom.py`, nodes whose backward is the user's Python code.

May import: every other wing of the engine.

Begin with `walk.py`.
"""
