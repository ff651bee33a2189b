"""Selective checkpoints: which results are kept although the function around them is recomputed."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from .._core import events
from .._engine.graph.inplace import InplaceCall
from .._engine.memory.tensor import Tensor, make
from .._ops.aten import op_name
from ..ops import OpOverload, OpOverloadPacket, overload

_MISMATCH = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state that "
    "changed between forward and backward."
)
SAC_IGNORED_OPS = {overload("aten", "detach")}
"""Operators that no policy is asked about."""


class CheckpointPolicy(enum.Enum):
    """What becomes of an operation's result: kept, or computed again.

    Differs from torch's eager mode in nothing: what is to be offloaded to the CPU is recomputed.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told beside the operation: `op_output`, and `is_recompute`, always False."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Kept:
    """The arrays of a kept result, and the version of the tensors that were made of them."""

    def __init__(self, arrays: tuple[Any, ...]) -> None:
        self.arrays = arrays
        self.watched: list[tuple[Any, int]] = []

    def watch(self, out: Any) -> None:
        """Remember how often a result had been written to when it was handed out."""
        for t in out if isinstance(out, tuple | list) else (out,):
            if isinstance(t, Tensor):
                self.watched.append((t._vc, t._vc.version))

    def mutated(self) -> bool:
        """Return whether somebody wrote to the result since."""
        return any(vc.version != then for vc, then in self.watched)


_RECOMPUTE, _CONSUMED = object(), object()
_Store = dict[OpOverload, list[Any]]


def _operator(call: Any) -> OpOverload:
    name = op_name(call.name + "_" if isinstance(call, InplaceCall) else call.name)
    return overload("aten", name)


class _Keeping(events.Watching):
    """The forward: ask the policy, keep what it says."""

    def __init__(self, policy: Callable[..., Any], store: _Store) -> None:
        self.policy, self.store = policy, store
        self.fresh: list[_Kept] = []

    def op(self, name: str, kind: str, args: Sequence[Any], run: events.Run) -> Any:
        before, self.fresh = self.fresh, []
        try:
            out = run()
            for kept in self.fresh if kind == "op" else ():
                kept.watch(out)
        finally:
            self.fresh = before
        return out

    def kernel(self, call: Any, plan: Any, leaves: Sequence[Any], run: events.Run) -> Any:
        arrays = run()
        op = _operator(call)
        outs = tuple(make(a, m) for a, m in zip(arrays, plan.outs))
        ctx = SelectiveCheckpointContext(is_recompute=False, op_output=outs[0] if plan.single else outs)
        policy = self.policy(ctx, op, *leaves)
        if isinstance(policy, bool):
            policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        keep = policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
        entry = _Kept(arrays) if keep else _RECOMPUTE
        if keep:
            self.fresh.append(entry)  # type: ignore[arg-type]
        self.store.setdefault(op, []).append(entry)
        return arrays


class _Replaying(events.Watching):
    """The recomputation: what was kept is not computed again."""

    def __init__(self, store: _Store, allow_mutation: bool) -> None:
        self.store, self.allow_mutation = store, allow_mutation
        self.counts: dict[OpOverload, int] = {}

    def begin(self) -> None:
        self.counts.clear()

    def kernel(self, call: Any, plan: Any, leaves: Sequence[Any], run: events.Run) -> Any:
        op = _operator(call)
        at = self.counts.get(op, 0)
        self.counts[op] = at + 1
        entries = self.store.get(op)
        if entries is None:
            raise RuntimeError(f"{op} encountered during backward but not found in storage. {_MISMATCH}")
        if at >= len(entries):
            raise RuntimeError(
                f"{op} invocation index {at} encountered during backward but not found in storage. {_MISMATCH}"
            )
        entry = entries[at]
        if entry is _RECOMPUTE:
            return run()
        if entry is _CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        if not self.allow_mutation and entry.mutated():
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        entries[at] = _CONSUMED
        return entry.arrays


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """The two contexts that make a checkpoint keep the results of some operators.

    Args:
        policy_fn_or_list: operators whose results are kept, such as ``torch.ops.aten.mm.default``;
            or a function ``policy(ctx, op, *args)`` that returns a `CheckpointPolicy` or a bool.
        allow_cache_entry_mutation: do not raise when a kept result was written to.

    Returns:
        One context for the forward and one for the recomputation; give a function that makes them
        to `checkpoint` as `context_fn`.

    Differs from torch: views and draws of random numbers are not offered to the policy (views cost
    nothing, draws are repeated), and all overloads of an operator are one object.

    Example:
        >>> import functools
        >>> import torchgrad_jax as torch
        >>> from torchgrad_jax.utils.checkpoint import checkpoint
        >>> x = torch.ones(2, 2, requires_grad=True)
        >>> keep = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
        >>> y = checkpoint(lambda a: (a @ a).sin(), x, use_reentrant=False, context_fn=keep)
        >>> y.sum().backward()
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                hint = (
                    "Please update the OpOverloadPacket to a specific OpOverload.For example, if you have "
                    "`torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                    if isinstance(op, OpOverloadPacket)
                    else ""
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. {hint}"
                )
        listed = frozenset(policy_fn_or_list)

        def policy(ctx: Any, op: Any, *args: Any) -> Any:
            return CheckpointPolicy.MUST_SAVE if op in listed else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    store: _Store = {}
    return _Keeping(policy, store), _Replaying(store, allow_cache_entry_mutation)
