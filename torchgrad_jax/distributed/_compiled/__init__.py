"""Compiled programs that several processes run together.

Lives here: `over_processes.py`, programs in which XLA carries out the collectives; `own_values.py`, programs over
tensors that lie over all processes, in which each computes with values of its own.

A compiled program asks `FINDERS` of `_bridge/compile/program/joint.py` whether it has such a form.
"""

from __future__ import annotations

from ..._bridge.compile.program.joint import FINDERS
from .over_processes import over_processes
from .own_values import own_values

FINDERS += [own_values, over_processes]
