"""A trap of custom Functions, for which a recorded pass warns: intermediates that are saved count as constants.

    class Cube(Function):
        def forward(ctx, x):
            square = x * x                         # recorded nowhere, as `forward` runs outside of the graph
            ctx.save_for_backward(square)
            return square * x
        def backward(ctx, g):
            return 3 * ctx.saved_tensors[0] * g    # right, but its derivative by x is said to be zero

Whether a saved tensor depends on an input is not known from the tensor. So the first forward of each class is watched
by an observer that writes down which storages went into which. They are looked at when a recorded pass reads what was
saved, and never otherwise. A pass through a node whose forward was not watched has the next forward watched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import events
from ..._core.arrays import dtypes
from ..._core.errors import warn
from ..._core.state import MODES
from ..graph.record import gradient_of
from ..graph.saved import Packed
from ..memory.tensor import Tensor


class Watch(events.Watching):
    """Which storages the operations of a forward read and made, as numbers: nothing is kept alive."""

    def __init__(self, inputs: Sequence[Tensor], needed: Sequence[Tensor]) -> None:
        self._held: dict[int, tuple[int, Any]] = {}
        """By identity, the numbers of the storages, which live until the forward is over."""
        self._plan: Any = None
        self._steps: list[tuple[Any, Sequence[Any], tuple[int | None, ...], list[int]]] = []
        """Of each operation the plan (None for a view), its other arguments, and the storages in and out."""
        self._inputs = {id(t): t for t in inputs}
        self._sources = {self._number(t) for t in needed}
        self._saved: list[int | None] = []
        """By position, the storages of saved intermediates."""

    def _number(self, t: Tensor) -> int:
        return self._held.setdefault(id(t._st), (len(self._held), t._st))[0]

    def op(self, name: str, kind: str, args: Sequence[Any], run: events.Run) -> Any:
        if kind != "op":
            return run()
        self._plan = None
        out = run()
        outs = [t for t in (out if isinstance(out, tuple | list) else (out,)) if isinstance(t, Tensor)]
        made = [self._number(t) for t in outs if _is_floating(t)]
        if made:
            read = tuple([self._number(a) if isinstance(a, Tensor) else None for a in args])
            self._steps.append((self._plan, [None if isinstance(a, Tensor) else a for a in args], read, made))
        return out

    def kernel(self, call: Any, plan: Any, leaves: Sequence[Any], run: events.Run) -> Any:
        self._plan = plan
        return run()

    def saves(self, saved: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Note what is saved; the forward is over."""
        known = {*self._inputs, *map(id, outputs)}
        self._saved = [
            self._number(t) if isinstance(t, Tensor) and id(t) not in known and _is_floating(t) else None for t in saved
        ]
        self._held, self._inputs = {}, {}

    def dependent(self) -> int | None:
        """The position of a saved intermediate through which a gradient would flow to an input that needs one."""
        reached = set(self._sources)
        for plan, others, read, made in self._steps:
            mask = sum(1 << i for i, number in enumerate(read) if number in reached)
            if mask and not reached.issuperset(made) and (plan is None or _flows(plan, mask, others)):
                reached.update(made)
        return next((i for i, number in enumerate(self._saved) if number in reached), None)


def _is_floating(t: Tensor) -> bool:
    return t._m.dtype.category >= dtypes.FLOATING


def _flows(plan: Any, mask: int, leaves: Sequence[Any]) -> bool:
    """Return whether the results of an operation have a gradient by these arguments that is not zero everywhere."""
    if not plan.any_diff:
        return False
    try:
        formula = gradient_of(plan, mask, leaves).formula
        return any(n >= len(plan.present) for n in formula.read(formula.grad_refs, frozenset()))
    except Exception:  # it has no gradient: a second derivative would raise, and not be wrong
        return False


def look(node: Any) -> None:
    """Warn, once for each class, if a recorded pass reads an intermediate; see above."""
    task, cls = MODES.graph_task, type(node)
    if task is None or not task.create:
        return
    if node._watch is None:
        cls._is_watched = False  # so that the next forward is
        return
    cls._has_looked, found = True, node._watch.dependent()
    if found is None:
        return
    name, entry = node.name().removesuffix("Backward"), node.saved[found]
    shape = "" if isinstance(entry, Packed) else f", of shape {list(entry._m.shape)},"
    warn.to_user(
        f"{name}.backward reads saved tensor {found}{shape} in a pass with create_graph=True. {name}.forward computed "
        "it from an input that requires grad, and it is neither an input nor an output: it counts as a constant, and "
        f"second derivatives through {name} lack its part. Return it from forward as an output, too, or save the "
        "inputs and compute it again in backward."
    )
