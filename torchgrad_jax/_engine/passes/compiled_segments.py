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
`v4` is the gradient that `x` had before. So a joined segment gives the bits of the walk, whoever computes its kernels,
and when a segment is joined changes no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..._core.arrays import summands
from ..._core.arrays.meta import Meta
from ..run import executors, kept_calls
from ..run.kept_calls import Step

CALLS = 20
"""How often a segment is called before its kernels of XLA's are compiled into programs, which takes a second."""
_ADD = "add"


class Compiled:
    """A segment's structure as one function of the gradients that come in, the saved values and old gradients of leaves.

    `fn` is the function. `outs` describes its results, one entry for each: what becomes of it ("leaf", "result" or "on
    its way"), the number of the node that it belongs to, the number of that node's output, and its meta.
    """

    __slots__ = ("_calls", "_key", "_started_together", "fn", "outs")

    def __init__(self, key: Any) -> None:
        writer = _Writer(*key)
        self.outs: list[tuple[str, int, int, Meta]] = [(kind, number, nr, m) for kind, number, nr, m, _ in writer.outs]
        self.fn = writer.function(writer.steps)
        self._key, self._calls = key, 0
        self._started_together: Any = None

    def __call__(self, *args: Any) -> list[Any]:
        """Return what `fn` gives, with fewer starts of XLA once it was called often enough."""
        if self._calls == CALLS:
            self._calls += 1
            writer = _Writer(*self._key)
            steps = kept_calls.together(writer.steps, writer.given, writer.space, [name for *_, name in writer.outs])
            self._started_together = None if steps is None else writer.function(steps)
        elif self._calls < CALLS:
            self._calls += 1
        if self._started_together is None or summands.SEVERAL or not executors.have_values(args):
            return self.fn(*args)
        return self._started_together(*args)


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


class _Writer:
    """Writes the function of a segment: what the walk does, with names for arrays.

    Args:
        nodes: the nodes of the segment, as its key has them.
        places: of each gradient that comes in, the number of its node and of that node's output, and its meta.
    """

    def __init__(self, nodes: Sequence[Any], places: Sequence[Any]) -> None:
        rows = [*_rows(nodes)]
        self.count = 0
        self.space: dict[str, Any] = {_ADD: executors.add}
        self.kernels: dict[Any, str] = {}
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
            known = mine.get(nr)
            mine[nr] = (names[p], plan.metas[p]) if known is None else (self._sum(known[0], names[p], known[1]), known[1])

    def _kernel(self, plan: Any, present: tuple[bool, ...], pick: tuple[int, ...] | None) -> str:
        """The name of the kernel that the walk calls."""
        key = plan, present, pick
        name = self.kernels.get(key)
        if name is None:
            name = self.kernels[key] = f"k{len(self.kernels)}"
            self.space[name] = plan.vjps.get((present, pick)) or plan.vjp(present, pick)
        return name

    def function(self, steps: Sequence[Step]) -> Any:
        """Return the function that takes these steps. It lets go of a value after the last step that reads it."""
        results = [name for *_, name in self.outs]
        kept = {*results, *self.given}
        lines: list[str] = []
        for step in reversed(steps):
            dead = [n for n in dict.fromkeys([*step.outs, *step.ins]) if n not in kept]
            kept.update(dead)
            if dead:
                lines.append("".join([f"{n} = " for n in dead]) + "None")
            target = step.outs[0] if step.single else "".join([f"{n}, " for n in step.outs])
            lines.append(f"{target} = {step.fn}({', '.join(step.ins)})")
        lines.append(f"def backward_pass({', '.join(self.given)}):")
        text = "\n    ".join([*reversed(lines), f"return [{', '.join(results)}]"])
        exec(compile(text, f"{__file__}:backward_pass", "exec"), self.space)
        return self.space["backward_pass"]
