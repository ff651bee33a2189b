"""What a run of a program returns: tensors of its results, tensors from outside, numbers, other objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...._core.arrays import tree
from ...._core.state import INFERENCE, MODES
from ...._engine.memory.tensor import Tensor, make, mark_inference
from ..trace.kept_tensors import KeptTensors
from ..trace.outside_results import GivenContainer
from .results import ELSEWHERE, ResultBeside, ResultOutside, ResultTensor


@dataclass(frozen=True, slots=True)
class Returned:
    """The result of a function: its leaves, and how it is put together of them."""

    outs: list[Any]
    """What each leaf is."""
    spec: Any
    """The containers around the leaves."""
    kept_tensors: list[KeptTensors]
    """Where the function keeps tensors: the last of its results go there."""

    @property
    def returns_given(self) -> bool:
        """Whether a list, a dict or an object among the arguments is returned."""
        return any(isinstance(o, GivenContainer) for o in self.outs)

    def tensors(self) -> list[ResultTensor]:
        """The tensors that the program computes."""
        return [o for o in self.outs if isinstance(o, ResultTensor)]

    def of_run(self, arrays: Sequence[Any], node: Any, args: Sequence[Tensor], given: Any) -> Any:
        """The result of a run.

        Args:
            arrays: what the program gave.
            node: the node of the graph that the results have; None if they have none.
            args: the arguments that the program took.
            given: the arguments as they were given, if one of them is returned.
        """
        if self.spec.kind is None:
            (o,) = self.outs
            if type(o) is ResultTensor and not o.requires and not MODES.bits & INFERENCE:
                return make(arrays[o.index], o.meta)
        elsewhere: dict[Any, Any] = {}
        leaves = [self._leaf(o, arrays, node, args, given, elsewhere) for o in self.outs]
        for k, o in enumerate(self.outs):
            if isinstance(o, ResultBeside):
                leaves[k] = leaves[o.of] if o.view is None else o.view.of_owner(leaves[o.of])
        if node is not None:
            node.call_is_over(args, leaves)
        result = tree.unflatten(leaves, self.spec)
        if self.kept_tensors:
            result, values = result
            for kept, value in zip(self.kept_tensors, values):
                kept.keep(value)
        return result

    def _leaf(
        self, o: Any, arrays: Sequence[Any], node: Any, args: Sequence[Tensor], given: Any, elsewhere: dict[Any, Any]
    ) -> Any:
        """One leaf; `elsewhere` holds the tensors from outside that were made for this run."""
        if isinstance(o, ELSEWHERE):
            if o not in elsewhere:
                elsewhere[o] = o.tensor(args)
            return elsewhere[o]
        if not isinstance(o, ResultTensor):
            return o.container(given) if isinstance(o, GivenContainer) else o
        if isinstance(o, ResultOutside):
            return o.tensor(args)
        t = o.of_array(arrays[o.index])
        if o.spent is not None:
            o.spent.give_to(t, args)
        elif o.requires and node is not None:
            t._fn, t._onr, t._rg = node, node.description.roots.index(o.index), True
        if MODES.bits & INFERENCE and isinstance(t, Tensor):
            mark_inference(t)
        return t
