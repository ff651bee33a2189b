"""A compiled program: all that is known of it once it was traced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...._core.arrays import tree
from ...._core.arrays.meta import Meta
from ...._core.arrays.placement import OnAllDevices
from ...._engine.memory.tensor import Tensor
from ..trace.checks import Checks
from ..trace.python_watch import PythonWatch
from ..trace.traced_program import TracedProgram
from .body import Body
from .compiled_backward import BackwardDescription, ForwardAndBackward
from .conditions import Conditions
from .donation import Donating, Keeping
from .inputs import Inputs
from .joint import JointProgram
from .one_device import OneDevice
from .returned import Returned
from .writes import Writes


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """What a function does for one kind of arguments. `Entry` runs it."""

    traced: TracedProgram
    """Its steps and effects, as the trace met them."""
    places: list[int]
    """Which tensors and then numbers of a call it takes."""
    repeats_a_tensor: bool
    """Whether one tensor is given twice in such a call."""
    kept_arguments: list[Any]
    """Arguments whose identities are part of the kind of calls: they must stay theirs."""
    conditions: Conditions
    inputs: Inputs
    body: Body
    kernel: Donating | Keeping
    """The body as JAX compiles it, or as the kernels that it calls."""
    writes: Writes
    returned: Returned
    backward: BackwardDescription | None
    """The pass from its results, if they have a graph."""
    parts: ForwardAndBackward | None
    """Its forward and its backward part, which run instead of the kernel."""
    one_device: OneDevice | None
    """What puts its inputs on one device, if they may lie on several."""
    on_all_devices: OnAllDevices | None
    """What puts its inputs on all devices, if it runs over several."""
    joint: JointProgram | None
    """Its form for all processes together, if it has one."""
    only_reads_arguments: bool
    """Whether plain tensors as arguments are only read."""

    @property
    def checks(self) -> Checks | None:
        """What it checks of its inputs and of what it computes."""
        return self.traced.checks

    def arguments(self, given: Sequence[Any]) -> Sequence[Any]:
        """Of the tensors and numbers of a call, those that it takes, each once."""
        return [given[i] for i in self.places] if self.repeats_a_tensor else given

    def unknown_tensor(self, watch: PythonWatch) -> Meta | None:
        """What a tensor from outside is like that it takes and no guard reaches; None if there is none."""
        started = self.traced.started_optimizers
        held = [t for x in started for t in tree.flatten([*vars(x).values()])[0]]
        held += [t for x in started for t in tree.flatten([*vars(x).get("state", {}).values()])[0]]
        reached = [*watch.guards.reached_tensors.values(), *watch.guards.reached_beside.values()]
        known = {id(t._st) for t in (*reached, *held) if isinstance(t, Tensor)} | self.traced.constants
        for i, source in enumerate(self.traced.sources):
            if source.kind == "tensor" and i not in self.body.constants and id(source.what) not in known:
                return source.meta
        return None
