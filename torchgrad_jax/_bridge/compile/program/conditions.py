"""What has to be as it was when a program was traced, so that it may run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...._engine.memory.tensor import Tensor
from ..arguments.keys import OftenAnew
from ..arguments.number_arguments import Constant
from ..arguments.number_log import NumberLog
from ..trace.apart import ONE_MEMORY, OTHER_TENSOR, Apart
from ..trace.kept_tensors import KeptTensors
from ..trace.traced_program import ARGUMENT_IS_A_VIEW, INTO_ARGUMENTS, TracedProgram
from ..watch.guards import PythonGuards
from .gradients_read import GradientsRead

VALUES_CHANGED = OftenAnew("the values of a tensor from outside that Python looked at are others")
OTHER_FORM = "a tensor from outside has another shape, storage or requires_grad"
OTHER_PEERS = "tensors that held one number hold different ones"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a program takes for granted."""

    traced: TracedProgram
    """Among its fields: tensors from outside and their shapes, values that Python looked at, leaves."""
    guards: PythonGuards
    """What the function read in Python."""
    constants: list[Constant]
    """Numbers among the arguments whose values are part of the program."""
    log: NumberLog | None
    """What is done with numbers in Python before each run, if there is anything."""
    kept_tensors: list[KeptTensors]
    """Where the function keeps tensors that it made."""
    gradients_read: GradientsRead
    apart: Apart
    """Which tensors must not share memory."""
    written: set[int]
    """Identities of the storages from outside that are written to."""
    writes_arguments: bool
    """Whether elements of arguments are written to."""

    @property
    def are_many(self) -> bool:
        """Whether there is more to look at than tensors from outside and Python's values."""
        traced = self.traced
        return bool(
            traced.peers
            or traced.leaf_arguments
            or traced.whole_arguments
            or traced.looked_at
            or traced.gradient_guards
            or self.kept_tensors
        )

    def describe_change(self, given: Sequence[Any], args: Sequence[Tensor], more: bool) -> str | None:
        """Why the program must not be used any more, or None.

        Args:
            given: the tensors and numbers of the call.
            args: those that the program takes, each once.
            more: `are_many`.
        """
        for constant in self.constants:
            if (why := constant.describe_change(given)) is not None:
                return why
        for ref, st, m, al, rg in self.traced.known_tensors:
            t = ref()
            if t is not None and (t._m is not m or t._rg is not rg or t._al is not al or t._st is not st):
                return OTHER_FORM
        why = (self._other_values(args) if more else None) or self.guards.describe_change()
        if why is not None:
            return why
        if self.apart.fixed and self.apart.of_others(args):
            return OTHER_TENSOR
        if self.apart.compares and self.apart.clash(args):
            return ONE_MEMORY
        return self.log and self.log.replay(args)

    def _other_values(self, args: Sequence[Tensor]) -> str | None:
        for st, first, _, _ in self.traced.peers:
            if st.array is not first.array:
                return OTHER_PEERS
        for st, array in self.traced.looked_at:
            if st.array is not array:
                return VALUES_CHANGED
        for kept in self.kept_tensors:
            given = args if self.writes_arguments or kept.compared else ()
            if (why := kept.describe_change(given, self.written)) is not None:
                return why
        if (why := self.gradients_read.describe_change(args)) is not None:
            return why
        aliases = [args[i]._al for i in self.traced.whole_arguments]
        if any(al is not None and al.base is not None for al in aliases):
            return ARGUMENT_IS_A_VIEW
        into_graph = any(args[leaf]._fn is not None for leaf in self.traced.leaf_arguments)
        return INTO_ARGUMENTS if into_graph else None
