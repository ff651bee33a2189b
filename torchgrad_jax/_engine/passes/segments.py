"""Stretches of a pass that run as one function.

Nodes into which nobody can look (no hooks, no Python code) are a pure function of the gradients that come in and of
what the nodes saved. The structure of such a stretch is the key of its joined form. A graph of ordinary size is one
segment, a long one many, and what somebody watches ends one and is walked.

The joined form calls the kernels of the nodes one after the other, so that it gives the bits of the walk. So hooks,
lengths, and how often a structure came decide how long a pass takes, and nothing else. There is one exception: where
XLA computes some of the kernels, a segment that comes often is fused into one kernel, with other last bits. It takes
a sixth off the step of a multilayer perceptron. `torch.use_deterministic_algorithms(True)` does without.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import Any

import jax

from ..._core.arrays.meta import meta
from ..._core.errors import messages as errors
from ..._core.jax.caches import KERNELS
from ..._core.jax.own_kernels import jit
from ..._core.state import MODES, SETTINGS, UNDER_JAX
from ..graph.node import GRAD_LOCK, AccumulateGrad, Node
from ..graph.saved import ALTERED, Packed, unaltered, unpack_ahead, unwritten
from ..memory.escapes import before_gradients
from ..memory.shared import saved_value
from ..memory.shared_values import LIVE, VersionAndValues
from ..memory.strided import fitted, read
from ..memory.tensor import UNSET, Storage, Tensor, make
from ..run import compile_failures, joining
from .compiled_segments import Compiled
from .leaf import keep_gradient
from .task import Task

WHOLE = 1500
"""A graph of so many nodes is one segment; a longer one is cut into segments of `SIZE`."""
SIZE = 64
SHORT = 4
"""Fewer nodes than these are walked, if others of their graph are."""
WALKS = 2
"""How often a structure is walked before it is joined, which takes longer than a walk."""
PACKED = 1 << 16
"""So many elements of values that hooks unpack may be there at once for a segment."""
SKIPPED = 15
"""After a graph that is no segment as a whole, so many that begin with a node alike are not tried as one."""
_IN_PARTS: dict[int, int] = {}
"""How many of them are left, by identity of the gradient plan of that node."""
_walked: dict[int, int] = {}
_MAX_WALKED = 4096
_COMPILED = KERNELS.cache()
_FAILS = object()
"""In the place of the compiled form of a segment: it cannot be compiled."""
_NUMBERS = frozenset((bool, int, float, complex))


# --- what can be compiled -------------------------------------------------------------------------


def walked_because(node: Node, runs: bool, hooked: Node | None = None) -> str | None:
    """Why a node has to be walked, or None where it may become part of a segment.

    Of the node `hooked` all hooks were called that it has.
    """
    extras, gp = node.extras, node.gp
    if extras is not None and extras.observed and node is not hooked:
        return "somebody watches it"
    if node.__class__ is AccumulateGrad:
        leaf = node.variable
        x = leaf._x
        if x is not None and (x.hooks or x.post_acc):
            return "a hook waits for the gradient of its leaf"
        if x is not None and x.grad_dtype is not UNSET:
            return "its leaf asked for gradients of a dtype"
        if not leaf._rg or leaf._fn is not None:
            return "its leaf is a leaf that requires a gradient no more"
        return None
    if not runs:
        return None
    if gp is None:
        return "its backward is Python code"
    if gp.alone:
        return "some of its gradients are errors, or undefined"
    if len(node.edges) > joining.PER_SEGMENT:
        return "it joins too many tensors"
    if node.saved is None:
        return "what it saved is freed"
    if ALTERED and not unaltered(node):
        return "what it saved became another tensor since"
    return None


def _changes_on_arrival(node: Node) -> bool:
    """Return whether gradients that come to a node are cast or summed first."""
    if node.extras is not None and node.extras.reshaped:
        return True
    x = node.variable._x if node.__class__ is AccumulateGrad else None
    return x is not None and x.grad_dtype is not UNSET


# --- segments -------------------------------------------------------------------------------------


class Segment:
    """Nodes that come one after the other in a pass, and what a compiled form of them needs to know and be given.

    `key` describes the structure, and is all that the compiled form is made of. Nodes, also those behind the
    segment, go by numbers: their places in `numbers`. Per node it has, one after the other:

    * which gradients that come to the node are results of the pass, a tuple, if some are;
    * the gradient plan, or for a leaf whether it has no gradient so far, or None where nothing runs;
    * for each saved value its place among `args`, after its class if it is a number;
    * the node's number;
    * for each edge the number of the node that it leads to, and of that node's output, or None.
    """

    __slots__ = ("args", "captures", "end", "given", "grads", "key", "leaves", "nodes", "numbers", "packed", "taken")

    def __init__(
        self,
        order: list[Node],
        at: int,
        end: int,
        task: Task | None,
        gradients: dict[Node, Any],
        captures: dict[Node, list[tuple[int, int]]],
    ) -> None:
        """As many as possible of the nodes ``order[at:end]``.

        Without a task `order` has one node, where the pass begins: all that it comes to from there is added. If there
        are `captures`, they are of all the leaves.
        """
        self.captures = captures
        self.numbers: dict[Node, int] = {}
        self.args: list[Any] = []
        self.nodes: list[Node] = []
        self.leaves: list[Tensor] = []
        self.grads: list[Tensor | None] = []
        """The gradients that the leaves had when `key` was made."""
        self.packed: list[tuple[Node, Packed, int]] = []
        """What hooks are to unpack, each with its node and its place among the arguments."""
        rows: list[Any] = []
        at_once = MODES.run.at_once
        self.end = self._describe(order, at, end, task, rows, at_once)
        places: list[Any] = []
        self.given: list[Any] = []
        self.taken: list[Node] = []
        """The nodes whose gradients, as far as they are there, go through the segment."""
        for node, slots in gradients.items():
            number = self.numbers.get(node)
            if number is None:
                continue
            self.taken.append(node)
            for nr, g in enumerate(slots):
                if g is not None:
                    m = g._m
                    places += (number, nr, m if m.contiguous else meta(m.shape, m.dtype, m.device))
                    self.given.append(g._st.array if g._al is None and at_once else read(g))
        self.key = (tuple(rows), tuple(places))

    def _describe(self, order: list[Node], at: int, end: int, task: Task | None, key: list[Any], at_once: bool) -> int:
        """Take nodes as long as that is possible; the place of the first one that is left.

        This loop is what a compiled pass costs: it calls nothing for a plain node.
        """
        numbers, args, captures = self.numbers, self.args, self.captures
        running = needed = hooked = None
        if task is not None:
            running, needed, hooked = task.running, task.needed, task.hooked
        late: list[Any] = []
        places: dict[int, int] = {}
        room = PACKED
        for node in order if task is None else order[at:end]:
            start, known, why, gp = len(key), len(args), None, node.gp
            saved: Any = node.saved
            runs = running is None or node in running
            if captures and node in captures:
                key.append(tuple(dict.fromkeys([nr for _, nr in captures[node]])))
            if (
                gp is None
                or saved is None
                or gp.alone
                or not runs
                or node.extras is not None
                or ALTERED
                or len(node.edges) > joining.PER_SEGMENT
            ):
                why = walked_because(node, runs, hooked)
                if why is not None:
                    break
                if gp is None or not runs:
                    key.append(self._add_leaf(node.variable) if runs else None)
                    key.append(numbers.setdefault(node, len(numbers)))
                    at += 1
                    continue
            key.append(gp)
            for entry, then in zip(saved, node.vers):  # type: ignore[arg-type]
                kind = entry.__class__
                if (kind is Storage or isinstance(entry, Storage)) and entry.version == then:
                    value = entry.array
                elif (kind is Tensor or isinstance(entry, Tensor)) and entry._vc.version == then:
                    plain = entry._al is None and at_once
                    value = entry._st.array if plain else read(entry)  # type: ignore[arg-type]
                elif kind in _NUMBERS:
                    key.append(kind)
                    key.append(len(args))
                    args.append(entry)
                    continue
                elif kind is Packed and task is not None and gp.unpacks and _is_light(entry, room):  # type: ignore[arg-type]
                    room -= entry.meta.numel
                    self.packed.append((node, entry, len(args)))  # type: ignore[arg-type]
                    key.append(len(args))
                    args.append(entry)
                    continue
                else:
                    why = "what it saved is packed and not light, or was written to"
                    break
                if then.__class__ is VersionAndValues or LIVE:
                    old = saved_value(node, entry, then)
                    value = value if old is None else old
                place = places.get(id(value))
                if place is None:
                    place = places[id(value)] = len(args)
                    args.append(value)
                key.append(place)
            if why is not None:
                break
            self.nodes.append(node)
            key.append(numbers.setdefault(node, len(numbers)))
            for edge in node.edges:
                if edge is None or (needed is not None and edge[0] not in needed):
                    key.append(None)
                    continue
                to = edge[0]
                number = numbers.get(to)
                if number is None:
                    number = numbers[to] = len(numbers)
                    if task is None and not _added(to, node, order, late, captures):
                        return at
                key.append(number)
                key.append(edge[1])
            at += 1
        else:
            for node in late:
                key += ((0,), None) if captures else (self._add_leaf(node.variable),)
                key.append(numbers[node])
            return at if task is not None or not captures or len(late) == len(captures) else -1
        # Nothing is left of the node that has to be walked.
        del key[start:], args[known:]
        while self.packed and self.packed[-1][2] >= known:
            self.packed.pop()
        _explain(node, why)
        return at

    def _add_leaf(self, leaf: Tensor) -> bool:
        """Take a leaf; whether it has no gradient so far."""
        self.leaves.append(leaf)
        self.grads.append(leaf._g)
        return leaf._g is None

    def compiled(self) -> Compiled | None:
        """The compiled form, or None where the nodes had better be walked."""
        form = _COMPILED.young.get(self.key) or _COMPILED.older(self.key)
        if form is None:
            at_once = _saves_kernels(self.nodes)
            if at_once or _comes_again(self.key):
                form = self._joined(at_once)
        return None if form is _FAILS else form

    def _joined(self, at_once: bool) -> Any:
        """Make the joined form. What is wrong with a kernel is the walk's to say."""
        try:
            return _COMPILED.put(self.key, Compiled(self.key, len(self.nodes), at_once), 0)
        except Exception as error:
            self.failed(error)
            return _FAILS

    def run(self, keep: bool, task: Task | None, captured: list[Any]) -> bool:
        """Run the compiled form; False, with nothing done, where the nodes are to be walked."""
        compiled = self.compiled()
        if compiled is None or (self.packed and not self._unpack(task)):
            return False
        if not self.leaves:
            return self._run(keep, task, captured, compiled, ())
        # The old gradients must still be there when the sums are stored.
        with GRAD_LOCK:
            now = MODES.run
            for leaf, g in zip(self.leaves, self.grads):
                if not now.at_once:
                    now.before_accumulation(leaf)
                if leaf._g is not g:  # a pass of another thread, or a hook, has changed that since
                    return False
            return self._run(keep, task, captured, compiled, [read(g) for g in self.grads if g is not None])

    def _unpack(self, task: Any) -> bool:
        """Call the unpack hooks in the order of the nodes. If one raises, the walk does so where it comes to that."""
        for node, entry, place in self.packed:
            task.current, task.calling = node, True
            value = unpack_ahead(entry, task.unpacked)
            if value is None:
                return False
            try:
                self.args[place] = fitted(value, entry.meta)
            except Exception:
                return False
        return all(map(unwritten, self.nodes))

    def _run(self, keep: bool, task: Task | None, captured: list[Any], compiled: Compiled, olds: Sequence[Any]) -> bool:
        """Run the compiled form on the gradients that the leaves have so far."""
        leaves = self.leaves
        try:
            arrays = compiled(*self.given, *self.args, *olds)
        except Exception as error:
            return self.failed(error)
        if leaves and MODES.bits & UNDER_JAX:
            before_gradients(leaves, arrays)
        if not keep:
            self.release()
        for _, entry, _ in self.packed:
            del task.unpacked[entry]  # type: ignore[union-attr]
        self.store(task, captured, compiled, arrays)
        return True

    def store(self, task: Task | None, captured: list[Any], compiled: Compiled, arrays: Sequence[Any]) -> None:
        """Bring what the compiled form gave to leaves, to results of the pass, and to nodes behind the segment."""
        nodes: list[Any] = [*self.numbers]
        if task is not None:
            for node in self.taken:
                del task.gradients[node]
        for (kind, number, nr, m), array in zip(compiled.outs, arrays):
            node = nodes[number]
            if kind == "leaf":
                keep_gradient(node.variable, array)
            elif kind == "result":
                for i, wanted in self.captures[node]:
                    if wanted == nr:
                        captured[i] = make(array, m)
            elif task is not None:
                slots = task.gradients.get(node)
                if slots is None:
                    slots = task.gradients[node] = [None] * node.n_outputs
                slots[nr] = make(array, m)

    def failed(self, error: Exception) -> bool:
        """Leave the nodes to the walk, now and the next time: the compiled form has written and released nothing."""
        if compile_failures.note(error, "a backward pass", [*self.given, *self.args]):
            _COMPILED.replace(self.key, _FAILS)
        return False

    def release(self) -> None:
        """Free what the nodes saved; an error, before anything is stored, if a pass of another thread has."""
        with GRAD_LOCK:
            for node in self.nodes:
                if node.saved is None and node.gp.saves_tensors:
                    raise RuntimeError(errors.SECOND_BACKWARD)
            for node in self.nodes:
                node._release()


def _explain(node: Node, why: str) -> None:
    """Let those who debug know why a node is walked."""
    if compile_failures.log.isEnabledFor(10):
        compile_failures.log.debug("%s runs by itself: %s", node.name(), why)


def _added(node: Node, source: Node, order: list[Node], late: list[Any], captures: dict[Node, Any]) -> bool:
    """Put a node that `source` leads to where the pass comes to it, leaves last; False where that takes more."""
    if node.__class__ is AccumulateGrad:
        late.append(node)
        if captures and node not in captures:
            return False
        leaf = node.variable
        plain = node.extras is None and leaf._x is None and leaf._rg and leaf._fn is None
        return plain or walked_because(node, True) is None
    if node.seq >= source.seq or len(order) > WHOLE:
        return False
    if node.seq < order[-1].seq:
        order.append(node)
    else:
        insort(order, node, key=_last_first)
    return True


def _last_first(node: Node) -> int:
    return -node.seq


def run_graph(
    root: Node, nr: int, g: Tensor, keep: bool, targets: Sequence[tuple[Node, int]], captured: list[Any]
) -> bool | None:
    """Run all that a pass from one output comes to as one segment; with targets, which are all the leaves, capture.

    False, with nothing done, where its nodes are to be walked, and None where it is no segment.
    """
    if root.gp is None or root.extras is not None:
        return None
    captures: dict[Node, list[tuple[int, int]]] = {}
    for i, target in enumerate(targets):
        if target[0].__class__ is not AccumulateGrad:
            return None
        captures.setdefault(target[0], []).append((i, 0))
    skip = _IN_PARTS.pop(id(root.gp), 0)
    if skip:
        _IN_PARTS[id(root.gp)] = skip - 1
        return None
    order, slots = [root], [None] * nr
    segment = Segment(order, 0, 1, None, {root: [*slots, g]}, captures)
    if segment.end == len(order):
        return segment.run(keep, None, captured)
    if len(order) > SHORT and len(_IN_PARTS) < _MAX_WALKED:
        _IN_PARTS[id(root.gp)] = SKIPPED
    return None


def segment_at(task: Task, at: int) -> Segment | None:
    """The segment that begins with the next node of a pass; None where that node is to be walked."""
    node, total = task.order[at], len(task.order)
    if (node.extras is not None or node.gp is None) and walked_because(node, task.runs(node), task.hooked):
        return None
    if _is_short(task, at):
        return None
    segment = Segment(task.order, at, total if total <= WHOLE else at + SIZE, task, task.gradients, task.captures)
    if len(segment.numbers) > segment.end - at and (end := _before_changed(task, at, segment)) is not None:
        segment = Segment(task.order, at, end, task, task.gradients, task.captures)
    whole = at == 0 and segment.end == total
    if segment.end == at or not segment.given or not segment.nodes:
        return None
    return segment if whole or len(segment.nodes) >= SHORT else None


def _is_light(packed: Packed, room: int) -> bool:
    """Return whether a value may be unpacked for a segment."""
    return packed.meta.numel <= room


def _is_short(task: Task, at: int) -> bool:
    """Whether a few nodes or many leaves come, before one that is walked or the end of a pass that is under way."""
    left = SHORT
    for node in task.order[at : at + 3 * SHORT]:
        if node.__class__ is AccumulateGrad:
            continue
        saved = node.saved  # it is read once, as a pass of another thread may free it in the meantime
        watched = node.extras is not None and node.extras.observed and node is not task.hooked
        heavy = saved and saved[0].__class__ is Packed and not _is_light(saved[0], PACKED)
        if watched or heavy or node.gp is None:
            return True
        left -= 1
        if not left:
            return False
    return at > 0


def _before_changed(task: Task, at: int, segment: Segment) -> int | None:
    """Where a segment has to end if it leads to nodes that change what comes to them."""
    inside = set(task.order[at : segment.end])
    changing = {m for m in segment.numbers if m not in inside and _changes_on_arrival(m)}
    for i, node in enumerate(task.order[at : segment.end] if changing else ()):
        if any(e is not None and e[0] in changing for e in node.edges):
            return at + i
    return None


def _comes_again(key: Any) -> bool:
    """Return whether a structure was walked so often that it is worth joining."""
    h = hash(key)
    walks = _walked.get(h, 0)
    if walks >= WALKS:
        return True
    if len(_walked) >= _MAX_WALKED:
        _walked.pop(next(iter(_walked)))
    _walked[h] = walks + 1
    return False


NODE_COST, GRAPH_COST = 4, 12
"""Compile times of one node's kernel, and of a segment beyond 1 per node, in units of a node."""


def _saves_kernels(nodes: Sequence[Node]) -> bool:
    """Whether most nodes have no kernel yet, so that to fuse them takes less time than to compile these one by one.

    This is once so per gradient plan: a program whose graphs keep changing shape settles on kernels per node instead of
    fusing every graph.
    """
    if SETTINGS.deterministic or SETTINGS.equal_bits:
        return False
    plans = {n.gp for n in nodes}
    fresh = [gp for gp in plans if not gp.vjps and not gp.fused]
    if not _pays(len(fresh), nodes) or not _pays(sum(not gp.in_numpy() for gp in fresh), nodes):
        return False
    for gp in plans:
        gp.fused += 1
    return True


def _pays(kernels: int, nodes: Sequence[Node]) -> bool:
    """Return whether compiling a segment costs less than so many kernels of its nodes."""
    return kernels >= 3 and NODE_COST * kernels >= GRAPH_COST + len(nodes)


# --- other uses of a graph that is one segment ----------------------------------------------------


def whole_graph(
    roots: Sequence[tuple[Node, int]], grads: Sequence[Tensor], targets: Any
) -> tuple[Task, Segment] | None:
    """A pass as one segment, or None where some of its nodes have to be walked, or it has too many of them."""
    task = Task(False, False, accumulates=targets is None)
    task.begin(roots, grads, targets)
    if len(task.order) > WHOLE:
        return None
    segment = Segment(task.order, 0, WHOLE, task, task.gradients, task.captures)
    return (task, segment) if segment.end == len(task.order) and not segment.packed else None


def run_batched(
    roots: Sequence[tuple[Node, int]], grads: Sequence[Tensor], keep: bool, targets: Sequence[tuple[Node, int]]
) -> list[Any] | None:
    """A pass for each row of the gradients, as one compiled function; arrays, or None where that is not possible."""
    if (
        any(g._m.device.type == "meta" for g in grads)
        or len({*roots}) < len(roots)
        or any(_changes_on_arrival(n) for n, _ in roots)
    ):
        return None
    rows = []
    for g in grads:
        m = meta(g._m.shape[1:], g._m.dtype, g._m.device)
        rows.append(make(jax.ShapeDtypeStruct(m.shape, m.dtype.np), m))
    whole = whole_graph(roots, rows, targets)
    if whole is None:
        return None
    task, segment = whole
    segment.key = ("rows", segment.key)  # type: ignore[assignment]
    known = _COMPILED.get(segment.key)
    if known is _FAILS:
        return None
    of = {id(row._st.array): read(g) for row, g in zip(rows, grads)}
    segment.given = [of[id(row)] for row in segment.given]
    try:
        if known is None:
            one = Compiled(segment.key[1])
            each = jax.vmap(one.pure(), in_axes=(*[0] * len(segment.given), *[None] * len(segment.args)))
            known = _COMPILED.put(segment.key, (one, jit(each)), 0)
            KERNELS.compiled()
        one, every = known
        arrays = every(*segment.given, *segment.args)
    except Exception as error:
        segment.failed(error)
        return None
    if not keep:
        segment.release()
    segment.store(task, task.captured, one, arrays)
    return [None if t is None else t._st.array for t in task.captured]
