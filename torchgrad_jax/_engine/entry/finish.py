"""What follows a kernel in the plain case: its result becomes a tensor, with a node if a gradient may be asked for.

`generate.py` writes the beginning of each function: it reads the arguments, finds the plan and runs the kernel. This is
the end, the same for all functions with as many leaves (tensors, or numbers in their place). It is written once for
each number of leaves, so that nothing loops over them. `inspect.getsource(finish(2))` shows the one of ``x * y``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..._core.state import MODES, PACKING, next_sequence_nr
from ..._core.written_code import compiled
from ..graph.history import edge_of
from ..graph.node import accumulator
from ..graph.record import gradient_of, record, several
from ..memory.tensor import Storage, Tensor

_FINISH = """
def finish(plan, array, mode, {parameters}):
    if not plan.single:
        return several(plan, array, {mask} if mode & 1 else 0, ({leaves}), mode)
    t = new(Tensor)
    s = new(Storage)
    s.array = array
    s.meta = t._m = plan.out
    s.version = s.stamp = s.pointer = t._onr = 0
    s.born = 0 if mode < 2 else MODES.birth
    t._st = t._vc = s
    t._al = t._g = t._acc = t._x = t._fn = None
    t._rg = False
    if mode & 1 and ({any_requires}) and plan.any_diff:
        mask = {mask}
        gp = plan.grads.get(mask)
        if gp is None:
            gp = gradient_of(plan, mask, ({leaves}))
        if mode & {packing}:
            record(gp, ({leaves}), (t,), mode)
            return t
        n = new(gp.node_class)
        n.gp = gp
{edges}
        n.edges = ({edge_names}) if gp.edge_pick is None else gp.edge_pick(({edge_names}))
        n.saved, n.vers = gp.save({leaves}*((s,) if gp.saved_out else ()))
        n.seq = next_sequence_nr()
        n.extras = None
        t._fn = n
        t._rg = True
    return t
"""
_EDGE = """
        if not requires{i}: edge{i} = None
        elif leaf{i}._al is not None: edge{i} = edge_of(leaf{i})
        else: edge{i} = (leaf{i}._fn, leaf{i}._onr) if leaf{i}._fn is not None else (accumulator(leaf{i}), 0)"""


@functools.cache
def finish(leaves: int) -> Callable[..., Any]:
    """Return the function that makes a tensor of a kernel's result, for calls with so many leaves.

    It is called with the plan, the result, the bits of the modes, and two arguments for each leaf: the leaf itself, and
    whether it requires a gradient.
    """
    each = range(leaves)
    source = _FINISH.format(
        parameters=", ".join(f"leaf{i}, requires{i}" for i in each),
        leaves="".join(f"leaf{i}, " for i in each),
        any_requires=" or ".join(f"requires{i}" for i in each),
        mask=" + ".join(f"({1 << i} if requires{i} else 0)" for i in each),
        edges="".join(_EDGE.format(i=i) for i in each),
        edge_names="".join(f"edge{i}, " for i in each),
        packing=PACKING,
    )
    names = {
        "new": object.__new__, "Tensor": Tensor, "Storage": Storage, "MODES": MODES, "several": several,
        "gradient_of": gradient_of, "record": record, "edge_of": edge_of, "accumulator": accumulator,
        "next_sequence_nr": next_sequence_nr,
    }  # fmt: skip
    return compiled(source, names, "finish", f"{__file__}:{leaves}", shown=True)
