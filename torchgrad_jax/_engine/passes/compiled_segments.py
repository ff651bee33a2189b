"""The compiled form of a segment: what the walk does with its nodes, as one kernel of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from ..._core.arrays import sums
from ..._core.arrays.meta import Meta
from ..._core.host import choice
from ..._core.state import MODES
from ..graph.formula import alone
from ..memory.tape import aval_of
from ..run import executors

NODE = 10.0
"""Microseconds that the walk takes for a node, which NumPy code may take as well."""


class Compiled:
    """A segment's structure as one kernel of the gradients that come in, the saved values and old gradients of leaves.

    `outs` describes its results, once it has been traced: what becomes of each ("leaf", "result" or "on its way"), the
    number of the node it belongs to, the number of that node's output, and its meta.
    """

    __slots__ = ("fn", "kernel", "outs", "pure")

    def __init__(self, key: Any, nodes: int = 0) -> None:
        self.outs: list[tuple[str, int, int, Meta]] = []
        self.pure = _as_function([*_rows(key[0])], key[1], self.outs)
        self.kernel = executors.Jitted(self.pure, alone(self.pure))
        device, limit = key[1][2].device, choice.OF_MANY + NODE * nodes
        self.fn = executors.choose_later(self.kernel, device, functools.partial(setattr, self, "fn"), limit=limit)

    def call(self, args: list[Any], may_be_step: bool) -> Sequence[Any]:
        """The results for one segment; the kernel may be a step of a tape, if all arguments are values of that tape."""
        if may_be_step and (tape := MODES.run.tape) is not None:
            if not self.outs:
                jax.eval_shape(self.kernel, *args)
            written = tape.kernel(self.kernel, args, tuple([aval_of(m) for *_, m in self.outs]))
            if written is not None:
                return written
        return self.fn(*args)


def _rows(key: Sequence[Any]) -> Iterator[tuple[Any, int, tuple[int, ...], list[int], list[Any]]]:
    """What a key says of each node: plan, number, results of the pass, places of saved values, edges.

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


def _as_function(
    rows: Sequence[Any], places: Sequence[Any], outs: list[tuple[str, int, int, Meta]]
) -> Callable[..., Any]:
    """The pure function of a segment: what the walk does, on arrays. `outs` is told what it gives."""

    n_given = len(places) // 3
    n_args = 1 + max([w for *_, where, _ in rows for w in where], default=-1)

    def backward_pass(*values: Any) -> list[Any]:
        slots: dict[int, dict[int, Any]] = {}
        for k, g in enumerate(values[:n_given]):
            number, nr, m = places[3 * k : 3 * k + 3]
            slots.setdefault(number, {})[nr] = (g, m)
        args = values[n_given : n_given + n_args]
        olds = iter(values[n_given + n_args :])
        results: list[tuple[str, int, int, tuple[Any, Meta]]] = []

        def put(number: int, nr: int, g: Any, m: Meta) -> None:
            mine = slots.setdefault(number, {})
            mine[nr] = (sums.plus(mine[nr][0], g), mine[nr][1]) if nr in mine else (g, m)

        for plan, number, captured, where, edges in rows:
            came = slots.pop(number, {})
            results += [("result", number, nr, came[nr]) for nr in captured if nr in came]
            if plan is None:
                continue
            if plan.__class__ is bool:
                old = None if plan else next(olds, None)
                if came:
                    g, m = came[0]
                    results.append(("leaf", number, 0, (g if old is None else sums.plus(old, g), m)))
                continue
            cts = [came[k][0] if k in came else None for k in range(len(plan.plan.diff))]
            for p, to, nr, g in _gradients(plan, cts, [args[w] for w in where], edges):
                put(to, nr, g, plan.metas[p])
        for number, mine in slots.items():
            results += [("on its way", number, nr, pair) for nr, pair in mine.items()]
        outs[:] = [(kind, number, nr, m) for kind, number, nr, (_, m) in results]
        return [g for *_, (g, _) in results]

    return backward_pass


def _gradients(plan: Any, cts: list[Any], saved: list[Any], edges: Sequence[Any]) -> list[tuple[int, int, int, Any]]:
    """One node: its gradients, each with its number and where it goes."""
    present = [c is not None for c in cts]
    if not any(present):
        return []
    if not all(present):  # where some results got no gradient, torch leaves the others out
        ways = plan.reached(cts)
        edges = [e for e in edges if e[0] in ways]
    wanted = tuple(dict.fromkeys([p for p, _, _ in edges]))
    if not wanted:
        return []
    values = dict(zip(wanted, plan.fn(cts, saved, wanted)))
    return [(p, to, nr, values[p]) for p, to, nr in edges]
