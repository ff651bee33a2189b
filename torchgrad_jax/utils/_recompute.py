"""What a checkpoint keeps instead of tensors, and how it gets them back.

During the forward every tensor that would be saved leaves an empty `Slot` in its node. The first
slot that a backward pass opens runs the function again; what that run would save fills the slots in
the same order. Values stay in their slot until the pass takes them or the graph is freed.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .._core.errors import messages as errors
from .._core.signals import uninterrupted
from .._core.state import MODES, recording
from .._engine.entry.bind import ops
from .._engine.graph.history import edge_of, requires_grad_of
from .._engine.graph.node import AccumulateGrad
from .._engine.graph.record import save_general
from .._engine.graph.saved import Packed, check_version, unpack_hooked
from .._engine.memory.concrete import is_traced
from .._engine.memory.tensor import Tensor, alias_of, plain_alias
from ..autograd.grad_mode import enable_grad
from ..autograd.graph import saved_tensors_hooks

TIP = """
Tip: To see a more detailed error message, either pass `debug=True` to
`torch.utils.checkpoint.checkpoint(...)` or wrap the code block
with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to
enable checkpoint\N{NON-BREAKING HYPHEN}debug mode globally.
"""
_PREFIX = "torch.utils.checkpoint: "


class CheckpointError(RuntimeError):
    """The recomputation of a checkpointed function did not repeat its forward."""


CheckpointError.__module__ = "torchgrad_jax.utils.checkpoint"  # where it is public


class StopRecomputation(Exception):
    """Everything that is needed has been computed again."""


class Slot:
    """The place of one saved tensor: by pass, its recomputed value, or None once it was taken."""

    __slots__ = ("__weakref__", "values")

    def __init__(self) -> None:
        self.values: dict[Any, Tensor | None] = {}


class SavedInput:
    """An argument of a checkpointed function, saved as a node would save it.

    Hooks of an outer checkpoint see it, so that nested checkpoints do not keep each other's inputs.
    """

    def __init__(self, t: Tensor) -> None:
        self.requires_grad = requires_grad_of(t)
        self.edge = edge_of(t) if self.requires_grad else None
        self.version = t._vc.version
        self.entry = save_general(t, False)

    def unpack(self) -> Tensor:
        """The tensor, after checking that nobody wrote to it."""
        if not isinstance(self.entry, Packed):
            inner = self.edge is not None and not isinstance(self.edge[0], AccumulateGrad)
            if inner and self.entry._fn is None:
                raise RuntimeError(errors.DETACHED_IN_PLACE)
            check_version(self.entry, self.version, None, 0)
            return self.entry
        value = unpack_hooked(self.entry)
        if not self.requires_grad:
            return value
        t = alias_of(value, value._m, value._al)
        t._rg = True
        # A view made without recording: through its base alone it requires grad.
        if self.edge is None:
            return t
        if isinstance(self.edge[0], AccumulateGrad):
            t._acc = weakref.ref(self.edge[0])
        else:
            t._fn, t._onr = self.edge
        return t


def kept_apart(t: Tensor) -> Tensor:
    """The input of a recomputation. In a compiled program XLA would else find that all was computed before, and keep
    the results of the forward instead."""
    if not is_traced(t):
        return t
    with enable_grad():
        return ops._as_if_unknown(t)


class Frame:
    """One checkpointed call."""

    def __init__(
        self, recompute: Callable[..., Any], args: Sequence[Any], early_stop: bool, describe: Callable[[Tensor], Any]
    ) -> None:
        self.recompute, self.early_stop, self.describe = recompute, early_stop, describe
        self.inputs = [SavedInput(a) if isinstance(a, Tensor) else a for a in args]
        self.slots: list[weakref.ref[Slot]] = []
        self.facts: list[Any] = []
        self.counts: dict[Any, int] = {}
        self.done: set[Any] = set()
        self.finished = False  # the forward is over
        self.lenient = False  # a backward inside of the forward used some slots before others came

    # -- the forward
    def pack(self, t: Tensor) -> Slot:
        """Leave a slot where a tensor would be saved."""
        slot = Slot()
        self.slots.append(weakref.ref(slot))
        self.facts.append(self.describe(t))
        return slot

    def unpack(self, slot: Slot) -> Tensor:
        """The tensor that belongs into a slot, computed again unless this pass already did."""
        key = _pass_key()
        if key not in self.done:
            self._run(key)
            self._check(key)
        value = slot.values.get(key)
        if value is None:
            overlap = (
                "Performing two backward calls that overlap (i.e. require the same saved activation in order to "
                "compute gradients) is not allowed while under the torch.utils.checkpoint.GraphExecGroup context. "
                if _groups.current is not None
                else ""
            )
            raise CheckpointError(
                f"{_PREFIX}Unpack is being triggered for a tensor that was already unpacked once. {overlap}If you are "
                "calling ctx.saved_tensors in backward, make sure to do so only once. Otherwise please open an issue "
                "with details on your use case."
            )
        slot.values[key] = None
        return value

    # -- the recomputation
    def _run(self, key: Any) -> None:
        args = [kept_apart(a.unpack()) if isinstance(a, SavedInput) else a for a in self.inputs]
        self.counts[key] = 0
        hooks = saved_tensors_hooks(lambda t: self._refill(key, t), lambda t: t)
        with contextlib.suppress(StopRecomputation), recording(), hooks:
            self.recompute(*args)
        self.done.add(key)

    def _refill(self, key: Any, t: Tensor) -> Tensor:
        """Put a tensor that the recomputation would save into the next slot."""
        if requires_grad_of(t):
            t = alias_of(t, t._m, plain_alias(t), t._vc)
        at = self.counts[key]
        self.counts[key] = at + 1
        if at >= len(self.slots):
            if not self.finished:
                self.lenient = True
                return t
            raise CheckpointError(
                f"{_PREFIX}trying to save more tensors during recomputation than during the original forward pass.\n"
                f"{TIP}"
            )
        slot = self.slots[at]()
        if slot is not None:  # else its node is gone already
            slot.values[key] = t
        if self.early_stop and at + 1 == len(self.slots):
            raise StopRecomputation
        return t

    def _check(self, key: Any) -> None:
        if self.lenient:
            return
        if self.counts[key] != len(self.slots):
            raise CheckpointError(
                f"{_PREFIX}A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.slots)}\n"
                f"Number of tensors saved during recomputation: {self.counts[key]}.\n"
                f"{TIP}"
            )
        wrong = []
        for i, (ref, fact) in enumerate(zip(self.slots, self.facts)):
            slot = ref()
            again = None if slot is None else slot.values[key]
            if again is not None and self.describe(again) != fact:
                wrong.append(
                    f"tensor at position {i}:\nsaved metadata: {fact}\nrecomputed metadata: {self.describe(again)}\n"
                )
        if wrong:
            raise CheckpointError(
                f"{_PREFIX}Recomputed values for the following tensors have different metadata than during the forward "
                f"pass.\n{''.join(wrong)}.\n{TIP}"
            )


class _Groups:
    """The open group of passes, if any; one for the whole process, as in torch."""

    current: Any = None


_groups = _Groups()


class GraphExecGroup:
    """Within it, several backward passes share what their checkpoints recompute.

    The passes must not use the same saved tensor twice, and the graph must be retained.
    """

    def __enter__(self) -> GraphExecGroup:
        if _groups.current is not None:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Already inside group {_groups.current}")
        _groups.current = self
        return self

    @uninterrupted
    def __exit__(self, *args: object) -> None:
        _groups.current = None

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        return _groups.current


def _pass_key() -> Any:
    """Whom recomputed values are for: the group, the running pass, or a single look from outside."""
    if _groups.current is not None:
        return _groups.current
    return object() if MODES.graph_task is None else MODES.graph_task.id
