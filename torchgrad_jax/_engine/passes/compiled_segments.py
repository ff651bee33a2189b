"""The joined form of a segment: one function of arrays that calls the kernels of the segment's nodes.

For the graph of `(x * w).sin().sum()`, with `x` and `w` as leaves, this makes the function

    def backward_pass(v0, v1, v2, v3, v4):
        v5, = k0(v0)
        v6, = k1(v5, v1)
        v5 = None
        v7, v8 = k2(v6, v2, v3)
        v6 = None
        v9 = add(v4, v7)
        v7 = None
        return [v9, v8]

`k0` to `k2` are the kernels that the walk would call, `v0` is the gradient that comes in, `v1` to `v3` were saved, and
`v4` is the gradient that `x` had before. So a joined segment gives the bits of the walk, whether NumPy or XLA computes,
and when a segment is joined changes no result.

A segment that comes often, and of which XLA computes a part, is fused: it becomes one kernel, which takes less time and
gives other last bits. Where equal bits are asked for, its kernels are started together instead (`kept_calls.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..._core.arrays import summands, sums
from ..._core.arrays.meta import Meta
from ..._core.host import choice
from ..._core.state import SETTINGS
from ..graph.formula import alone
from ..run import executors, kept_calls
from ..run.kept_calls import Step
from ..run.kernel import Kernel, have_values, traced_later

CALLS = 18
"""How often a segment is called before XLA compiles more of it than one kernel, which takes a second."""
_ADD = "add"
_NODE = 10.0
"""Microseconds that the walk takes for a node, which NumPy code may take as well."""


class Compiled:
    """A segment as one function of the gradients that come in, the saved values and the old gradients of leaves.

    Args:
        key: the structure.
        nodes: how many nodes there are.
        at_once: whether to fuse them in the first call, because to compile their kernels one by one takes longer.

    `fn` calls the kernels, and `outs` describes its results, one entry for each: what becomes of it ("leaf", "result"
    or "on its way"), the number of the node that it belongs to, the number of that node's output, and its meta.
    """

    __slots__ = ("_calls", "_key", "_nodes", "_together", "_whole", "fn", "outs")

    def __init__(self, key: Any, nodes: int = 0, at_once: bool = False) -> None:
        writer = _Writer(*key)
        self.outs: list[tuple[str, int, int, Meta]] = [(kind, number, nr, m) for kind, number, nr, m, _ in writer.outs]
        self.fn: Callable[..., list[Any]] = writer.function(writer.steps, _calls(writer.kernels()))
        self._key, self._nodes, self._calls = key, nodes, CALLS if at_once else 0
        self._together: Any = None
        """The same with fewer starts of XLA, and with the same bits."""
        self._whole: Kernel | None = None
        """The same as one kernel, with other last bits."""

    def __call__(self, *args: Any) -> Sequence[Any]:
        """Return the results, after `CALLS` calls by what takes least time."""
        if self._calls < CALLS:
            self._calls += 1
            return self.fn(*args)
        if not have_values(args):
            return self.fn(*args)
        if SETTINGS.deterministic or SETTINGS.equal_bits:
            run = self._together or self._start_together()
        else:
            kernel = self._whole or self._fuse()
            run = kernel.run or kernel
        return run(*args)

    def pure(self) -> Callable[..., list[Any]]:
        """Return the function as JAX traces it, which differentiates, batches and fuses it."""
        writer = _Writer(*self._key)
        return writer.function(writer.steps, writer.formulas())

    def _start_together(self) -> Any:
        writer = _Writer(*self._key)
        kernels = writer.kernels()
        space = _calls(kernels)
        steps = kept_calls.together(writer.steps, writer.given, kernels, space, [name for *_, name in writer.outs])
        self._together = self.fn if steps is None or summands.SEVERAL else writer.function(steps, space)
        return self._together

    def _fuse(self) -> Kernel:
        """Make one kernel of the segment where XLA computes a part of it; NumPy's kernels are as fast one by one."""
        writer = _Writer(*self._key)
        if writer.is_all_in_numpy():
            self._whole = Kernel.of_others(self.fn)
            return self._whole
        pure = writer.function(writer.steps, writer.formulas())
        device, limit = self._key[1][2].device, choice.OF_MANY + _NODE * self._nodes
        self._whole = traced_later(pure, device, alone=alone(pure), limit=limit)
        return self._whole


def _rows(key: Sequence[Any]) -> Iterator[tuple[Any, int, tuple[int, ...], list[int], list[Any]]]:
    """Yield what a key says of each node: plan, number, results of the pass, places of saved values, edges.

    An edge is a gradient's number, and the numbers of the node that it leads to and of that node's output.
    """
    items = iter(key)
    for head in items:
        captured: tuple[int, ...] = ()
        if isinstance(head, tuple):
            captured, head = head, next(items)
        where, edges = [], []
        plan: Any = None if isinstance(head, bool) else head
        for _ in range(len(plan.saved_in) + len(plan.saved_out) if plan is not None else 0):
            place = next(items)
            where.append(next(items) if place.__class__ is type else place)
        number = next(items)
        if plan is not None:
            for p in plan.edge_grads:
                to = next(items)
                if to is not None:
                    edges.append((p, to, next(items)))
        yield head, number, captured, where, edges


class _Writer:
    """Writes the function of a segment: what the walk does, with names for arrays.

    Args:
        nodes: the nodes of the segment, as its key has them.
        places: of each gradient that comes in, the number of its node and of that node's output, and its meta.
    """

    def __init__(self, nodes: Sequence[Any], places: Sequence[Any]) -> None:
        rows = [*_rows(nodes)]
        self.count = 0
        self.called: dict[Any, str] = {}
        """The names of kernels, by plan, which gradients come and which are wanted."""
        self.steps: list[Step] = []
        self.outs: list[tuple[str, int, int, Meta, str]] = []
        """Of each result what `Compiled.outs` has, and its name."""
        self.slots: dict[int, dict[int, tuple[str, Meta]]] = {}
        """By number of node and of its output, what the node has received so far."""
        for number, nr, m in zip(places[::3], places[1::3], places[2::3]):
            self.slots.setdefault(number, {})[nr] = self._name(), m
        n_args = 1 + max([w for *_, where, _ in rows for w in where], default=-1)
        self.args = [self._name() for _ in range(n_args)]
        olds = [self._name() for head, *_ in rows if head is False]
        self.given = [f"v{i}" for i in range(self.count)]
        old = iter(olds)
        for head, number, captured, where, edges in rows:
            came = self.slots.pop(number, {})
            self.outs += [("result", number, nr, came[nr][1], came[nr][0]) for nr in captured if nr in came]
            if head.__class__ is bool:
                self._arrive(number, came, None if head else next(old))
            elif head is not None:
                self._run(head, came, where, edges)
        for number, mine in self.slots.items():
            self.outs += [("on its way", number, nr, m, name) for nr, (name, m) in mine.items()]

    def _name(self) -> str:
        self.count += 1
        return f"v{self.count - 1}"

    def _sum(self, x: str, y: str, m: Meta) -> str:
        out = self._name()
        self.steps.append(Step([out], _ADD, [x, y], True, m))
        return out

    def _arrive(self, number: int, came: dict[int, tuple[str, Meta]], old: str | None) -> None:
        """Write what a leaf does: it adds its gradient to the one that it had."""
        if came:
            name, m = came[0]
            self.outs.append(("leaf", number, 0, m, name if old is None else self._sum(old, name, m)))

    def _run(self, plan: Any, came: dict[int, tuple[str, Meta]], where: Sequence[int], edges: Sequence[Any]) -> None:
        """Write the call of a node's kernel, and where its gradients go."""
        present = tuple([k in came for k in range(len(plan.plan.diff))])
        if True not in present:
            return
        if False in present:  # torch leaves out what depends on none of the gradients that came
            reached = plan.reached([True if p else None for p in present])
            edges = [e for e in edges if e[0] in reached]
        if not edges:
            return
        wanted = tuple([p for p, _, _ in edges])
        all_of_them = len(wanted) == len(plan.inputs)
        names = {p: self._name() for p in wanted}
        targets = [names[p] for p in range(len(plan.inputs))] if all_of_them else [*names.values()]
        kernel = self._kernel(plan, present, None if all_of_them else wanted)
        given = [came[k][0] for k, p in enumerate(present) if p] + [self.args[w] for w in where]
        self.steps.append(Step(targets, kernel, given))
        for p, to, nr in edges:
            mine = self.slots.setdefault(to, {})
            name, m = mine.get(nr, ("", plan.metas[p]))
            mine[nr] = self._sum(name, names[p], m) if name else names[p], m

    def _kernel(self, *key: Any) -> str:
        return self.called.setdefault(key, f"k{len(self.called)}")

    def kernels(self) -> dict[str, Kernel]:
        """Return the kernels that the walk calls, by name."""
        return {name: plan.vjps.get((*key,)) or plan.vjp(*key) for (plan, *key), name in self.called.items()}

    def formulas(self) -> dict[str, Any]:
        """Return what these kernels compute, by name, as functions that JAX can trace."""
        made = {name: functools.partial(_formula, plan, *key) for (plan, *key), name in self.called.items()}
        return {_ADD: sums.plus, **made}

    def is_all_in_numpy(self) -> bool:
        """Return whether NumPy computes every kernel and sum."""
        small = all(s.sum is None or s.sum.numel <= choice.LARGEST for s in self.steps)
        return small and all(k.in_numpy for k in self.kernels().values())

    def function(self, steps: Sequence[Step], space: dict[str, Any]) -> Any:
        """Return the function that takes these steps, with what their names stand for."""
        results = [name for *_, name in self.outs]
        return kept_calls.function(steps, space, self.given, results, "backward_pass", __file__)


def _calls(kernels: Mapping[str, Kernel]) -> dict[str, Callable[..., Any]]:
    """Return what to call for kernels and for sums, by name."""
    return {_ADD: executors.add, **{name: k.run or k for name, k in kernels.items()}}


def _formula(plan: Any, present: Sequence[bool], pick: tuple[int, ...] | None, *args: Any) -> list[Any]:
    """Return the gradients of a node from those that come and from what it saved."""
    it = iter(args[: sum(present)])
    return plan.fn([next(it) if p else None for p in present], args[sum(present) :], pick)
