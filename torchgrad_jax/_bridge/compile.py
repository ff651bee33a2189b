"""compile: a function over tensors with all it does to the outside, as one XLA program."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core import tree
from .._core.errors import AsWritten, Unsupported
from .._core.meta import Meta, meta
from .._core.shapes import Size
from .._core.state import (
    DUAL,
    FUNCTION_MODE,
    GRAD,
    INFERENCE,
    LIFT,
    MODES,
    OBSERVED,
    PACKING,
    next_sequence_nr,
)
from .._engine.bind import ops
from .._engine.cut import under_jax
from .._engine.history import grad_fn_of, requires_grad_of
from .._engine.node import spent
from .._engine.strided import read, write
from .._engine.tensor import Storage, Tensor, make, mark_inference
from .._engine.trace import Call
from .effects import Noticing
from .handed import Handed, HandedView, handed
from .joint import Backward, CompiledFunctionBackward, Parts, trace_backward
from .once import evaluate_once
from .overwrite import in_place
from .stance import EAGER, POLICY, checked_backend, checked_mode, get_default_backend
from .state import Program, Source, discover, of_args
from .watch import Watch

log = logging.getLogger("torchgrad_jax.compile")
_OTHER_MODES = LIFT | DUAL | OBSERVED | PACKING | FUNCTION_MODE
_PLAIN = (int, float, complex, bool, str, bytes, type(None))


def _wants_logs() -> bool:
    names = os.environ.get("TORCHGRAD_JAX_LOGS", "").split(",")
    return "recompiles" in [n.strip().lstrip("+") for n in names]


def _tell(kind: str, told: str) -> None:
    """Log a line, and print it where that is asked for."""
    log.info("%s", told)
    if _wants_logs():
        print(f"[{kind}] {told}", file=sys.stderr)  # noqa: T201 - asked for


class Compiled:
    """A function compiled for the kinds of arguments that it is called with."""

    def __init__(
        self,
        fn: Callable[..., Any],
        limit: int | None = None,
        *,
        fullgraph: bool = False,
        written: bool = False,
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn = self._torchdynamo_orig_callable = fn
        self.limit = limit
        """How many programs are kept; None is the number in force."""
        self.fullgraph = fullgraph
        self.written = written
        """Whether the function runs as it is written, since there is no use in compiling it."""
        self._generates = written
        POLICY.compiled.add(self)
        self.wasted = 0
        """How many programs in a row could not be used a second time for what the function does in Python."""
        self.entries: dict[Any, list[Entry]] = {}
        self.counts = {"traced": 0, "run": 0, "eager": 0}
        """How often the function was traced, its program run, and the function itself run instead."""
        self.last: Entry | None = None
        self.reasons: list[str] = []
        """Why it was traced again, in order."""

    def reset(self) -> None:
        """Forget all programs."""
        self.entries.clear()
        self.last, self.written, self.wasted = None, self._generates, 0

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mode = MODES.bits
        last = self.last
        stance = POLICY.stance
        if self.written or stance == "force_eager":
            self.counts["eager"] += 1
            return self.fn(*args, **kwargs)
        if MODES.traced and under_jax():  # part of something larger
            self.counts["eager"] += 1
            return self.fn(*args, **kwargs)
        if last is not None and not kwargs and last.fits(args, mode):
            self.counts["run"] += 1
            return (
                last.run(args) if last.quickly is None or mode & INFERENCE else last.quickly(args)
            )
        if mode & _OTHER_MODES:  # part of something larger, or watched: as it is written
            self.counts["eager"] += 1
            return self.fn(*args, **kwargs)
        flat, spec = tree.flatten((args, kwargs))
        tensors: list[Tensor] = []
        key: list[Any] = [mode, _shape_of(spec)]
        for x in flat:
            if isinstance(x, Tensor):
                key.append((x.__class__, x._m, x._rg or requires_grad_of(x), _first(tensors, x)))
                tensors.append(x)
            elif isinstance(x, float):
                key.append((x.__class__, float(x).hex()))  # 0.0 and -0.0 are two numbers
            elif isinstance(x, _PLAIN):
                key.append((x.__class__, x))
            elif isinstance(x, np.ndarray | np.generic):  # constants of the program
                key.append((x.dtype, x.shape, x.tobytes()))
            else:
                key.append(id(x))
        whole = tuple(key)
        entries = self.entries.get(whole)
        reason = "" if entries is None else None
        if entries is not None:
            for entry in entries:
                reason = entry.stale(tensors)
                if reason is None:
                    self.counts["run"] += 1
                    self.wasted = 0
                    self._remember(entry, args, kwargs, mode)
                    return entry.run(tensors)
        if stance == "fail_on_recompile":
            raise RuntimeError(_recompile(self.fn))
        late = stance is not None and stance != "eager_on_recompile" and self.counts["eager"]
        if (stance is not None and not late) or any(t._m.device.type == "meta" for t in tensors):
            self.counts["eager"] += 1
            return self.fn(*args, **kwargs)
        return self._trace(whole, (args, kwargs), flat, tensors, reason)

    def _remember(self, entry: Entry, args: Any, kwargs: Any, mode: int) -> None:
        """Let the next call try this entry first, where its arguments are plain tensors."""
        plain = all(
            x.__class__ is Tensor and x._al is None and x._x is None and x._m.dense for x in args
        )
        alone = len({id(x._st) for x in args}) == len(args) if plain else False
        if plain and alone and not kwargs and entry.simple:
            entry.plain = (mode, tuple([(x._m, x._rg) for x in args]))
            self.last = entry

    def _trace(
        self, key: Any, given: Any, flat: list[Any], tensors: list[Tensor], reason: Any
    ) -> Any:
        known = sum(map(len, self.entries.values()))
        if self.counts["traced"]:
            told = reason or "arguments of other shapes, dtypes, flags or values"
            self.reasons.append(told)
            _tell(
                "recompiles", f"{getattr(self.fn, '__qualname__', self.fn)}: traced again: {told}"
            )
        watch, containers = Watch(), Watch()
        watch.function(self.fn)
        for x in flat:
            watch.value(x)
        containers.value(given)
        lenient = (POLICY.suppress_errors or POLICY.graph_breaks) and not self.fullgraph
        modes = MODES.bits
        failed: BaseException | None = None
        noticed = Noticing()
        try:
            with noticed:
                entry = Entry(self.fn, given, flat, watch, tensors)
        except AsWritten as error:
            failed = error
        except BaseException as error:
            if not (lenient and isinstance(error, Unsupported)):
                noticed.release()
                raise
            failed = error
        if failed is not None:
            return self._as_written(failed, given, noticed, (watch, containers), modes)
        noticed.release()
        self.counts["traced"] += 1
        effect = noticed.found or watch.changed() or containers.changed()
        if MODES.bits != modes:
            effect = "a mode, such as whether operations are recorded, is another one afterwards"
        self.wasted += bool(effect or reason == _LOOKED)
        if self.wasted > _PATIENCE:
            self.written = True
            told = effect or reason
            self.reasons.append(f"from now on it runs as it is written: {told}")
            log.info("%s runs as it is written from now on: %s", _name_of(self.fn), told)
        # What made state, or changed what it depends on, does other things the next time.
        if not entry.program.fresh and not effect:
            if known >= (self.limit or POLICY.recompile_limit):
                self.entries.clear()
            self.entries.setdefault(key, []).append(entry)
        self.counts["run"] += 1
        return entry.run(tensors)

    def _as_written(
        self, error: BaseException, given: Any, noticed: Noticing, watches: Any, modes: int
    ) -> Any:
        """Run the function as it is written, once all that the attempt to trace it has done is undone."""
        noticed.undo()
        for watch in watches:
            watch.undo()
            if MODES.bits != modes or watch.changed() is not None:  # nobody may see an effect twice
                raise error
        if not isinstance(error, AsWritten) or error.lasting:
            self.written = True
            self.reasons.append(str(error))
        if not isinstance(error, AsWritten):
            told = f"{_name_of(self.fn)} runs as it is written: {error}"
            if POLICY.graph_breaks:
                _tell("graph_breaks", told)
            else:
                warnings.warn(told, stacklevel=4)
        self.counts["eager"] += 1
        return self.fn(*given[0], **given[1])


_LOOKED = "the values of a tensor from outside that Python looked at are others"
_PATIENCE = 3
"""After how many programs of no further use a function is no longer compiled."""


def _name_of(fn: Any) -> str:
    return getattr(fn, "__qualname__", None) or repr(fn)


def _recompile(fn: Any) -> str:
    """The error where nothing may be compiled any more."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    name, line, file = (
        (_name_of(fn), 0, "")
        if code is None
        else (code.co_name, code.co_firstlineno, code.co_filename)
    )
    return (
        f"Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: '{file}', function name: "
        f"'{name}', line number: {line}"
    )


def _shape_of(spec: tree.Spec) -> Any:
    """A hashable form of a tree's structure."""
    context = spec.context
    try:
        hash(context)
    except TypeError:
        context = repr(context)
    return (spec.kind, context, *[_shape_of(c) for c in spec.children]) if spec.kind else None


def _first(tensors: Sequence[Tensor], x: Tensor) -> int:
    """Which earlier argument shares the storage of `x`, or -1."""
    for i, t in enumerate(tensors):
        if t._st is x._st:
            return i if t is x else -2 - i
    return -1


class _Out:
    """A tensor of the result."""

    __slots__ = ("freed", "index", "meta", "node", "requires")

    def __init__(self, index: int, m: Meta, requires: bool, node: str, freed: bool) -> None:
        self.index, self.meta, self.requires, self.node, self.freed = (
            index,
            m,
            requires,
            node,
            freed,
        )


class Entry:
    """One traced run: its program, what it takes for granted, and how its result is put together."""

    def __init__(
        self, fn: Any, given: Any, flat: list[Any], watch: Watch, tensors: list[Tensor]
    ) -> None:
        # Identities of arguments are part of the key: they must stay theirs.
        self.held = [x for x in flat if not isinstance(x, Tensor)]
        self.watch = watch
        unique = {id(t): t for t in tensors}
        self.args = [next(i for i, t in enumerate(tensors) if t is u) for u in unique.values()]
        self.repeats = len(self.args) < len(tensors)
        """Whether one tensor is given twice."""
        self.backward: Backward | None = None
        self._gradients: list[Any] = []
        program, told = discover(
            lambda: self._call(fn, *given), list(unique.values()), lambda: self._gradients
        )
        self.program: Program = program
        self.spec, self.outs = told
        self._arrange(list(unique.values()))
        self.parts = None
        if self.backward is not None:
            n_results = len(program.jaxpr.outvars) - len(self._gradients)
            self.parts = Parts(program.jaxpr, program.consts, n_results)
        self._gradients = []
        self._again: Call | None = None
        self._reorder()
        donated = tuple(range(len(self.donated) + len(self.spare)))
        self.kernel = jax.jit(
            lambda *xs: self._kernel(xs), donate_argnums=donated, keep_unused=bool(self.spare)
        )
        self.plain: tuple[int, Any] = (-1, ())
        touched = [*program.counters, *program.guards, *program.grads]
        of_arguments = any(isinstance(entry[0], int) for entry in touched)
        writes_arguments = any(i < 0 for i, _, _ in program.writes)
        self.simple = not (self.parts or program.fresh or of_arguments or writes_arguments)
        """Whether plain tensors as arguments are only read."""
        self.looks = bool(program.peers or program.looked or program.guards or self.numbers)
        """Whether there is more to look at than tensors from outside and Python's values."""
        self.quickly = self._without_effects()

    def _arrange(self, args: Sequence[Tensor]) -> None:
        """Order the inputs, those that are overwritten first, and sort what is to be done by kind."""
        program = self.program
        sources = program.sources
        shared = {id(first) for _, first, _, _ in program.peers}
        updated = {
            i: k for i, k, _ in program.writes if i >= 0 and id(sources[i].what) not in shared
        }
        # A program that is differentiated from outside gives nothing away.
        looks = self.backward is None and jax.default_backend() == "cpu"
        there = in_place(program.jaxpr, updated) if looks else updated
        written = [i for i in updated if i in there]
        donated = [i for i in written if sources[i].kind == "tensor"]
        self.donated_storages: list[Storage] = [sources[i].what for i in donated]
        self.donated_gradients = [sources[i] for i in written if sources[i].kind == "grad"]
        self.donated = [*donated, *[i for i in written if sources[i].kind == "grad"]]
        rest = [i for i in range(len(sources)) if i not in set(self.donated)]
        kept = [i for i in rest if sources[i].kind == "tensor"]
        self.kept_storages: list[Storage] = [sources[i].what for i in kept]
        self.kept_others = [sources[i] for i in rest if sources[i].kind != "tensor"]
        only_args = all(s.kind == "arg" for s in self.kept_others)
        self.kept_args = [s.what for s in self.kept_others] if only_args else None
        self.order = [*self.donated, *kept, *[i for i in rest if sources[i].kind != "tensor"]]
        self.numbers = [s for s in sources if s.kind == "number"]
        self.stored: list[tuple[Storage, int, int]] = []
        self.stored_elsewhere = []
        for i, k, stamps in program.writes:
            if i >= 0 and sources[i].kind == "tensor":
                self.stored.append((sources[i].what, k, stamps))
            else:
                self.stored_elsewhere.append((i, k, stamps))
        self.stored += [(st, k, stamps) for st, _, k, stamps in program.peers if k >= 0]
        read = {
            id(s.what) if isinstance(s.what, Tensor) else s.what
            for s in sources
            if s.kind == "grad"
        }
        replaced = [
            (leaf, m) for leaf, _, m, _ in program.grads
            if m is not None and (id(leaf) if isinstance(leaf, Tensor) else leaf) not in read
        ]  # fmt: skip
        held = [s.array(args) for s in sources if s.kind in ("arg", "tensor", "grad")]
        free = not any(isinstance(x, jax.Array) and x.committed for x in held)
        # Scratch memory may stand in for one as long as no array is bound to the devices that it lies on.
        self.spare = [(leaf, m) for leaf, m in replaced if free and _is_large(m)]
        """Gradients that nobody reads before they are replaced: the new ones go where they are."""
        self.replaced = [leaf for leaf, m in replaced if not free and _is_large(m)]
        """Others whose memory is worth freeing first."""

    def _reorder(self) -> None:
        """Put what goes where an input was first, in the order of these: so does JAX pair them."""
        program = self.program
        n = len(program.jaxpr.outvars)
        written = {i: k for i, k, _ in program.writes}
        spare = {id(leaf) if isinstance(leaf, Tensor) else leaf for leaf, _ in self.spare}
        first = [written[i] for i in self.donated]
        first += [
            k for leaf, k, m, _ in program.grads
            if m is not None and (id(leaf) if isinstance(leaf, Tensor) else leaf) in spare
        ]  # fmt: skip
        self.place = list(dict.fromkeys([*first, *range(n)]))
        at = {k: new for new, k in enumerate(self.place)} if self.parts is None else range(n)
        self.stored = [(st, at[k], stamps) for st, k, stamps in self.stored]
        self.stored_elsewhere = [(i, at[k], stamps) for i, k, stamps in self.stored_elsewhere]
        self.grads = [
            (leaf, k if m is None else at[k], m, version) for leaf, k, m, version in program.grads
        ]
        self.fresh = [(st, at[k]) for st, k in program.fresh]
        for o in self.outs:
            if isinstance(o, _Out):
                o.index = at[o.index]

    def _call(self, fn: Any, args: Any, kwargs: Any) -> tuple[list[Tensor], Any]:
        began = next_sequence_nr()
        leaves, out_spec = tree.flatten(fn(*args, **kwargs), lambda x: isinstance(x, Size))
        tensors: list[Tensor] = []
        outs: list[Any] = []
        live = []
        for x in leaves:
            if not isinstance(x, Tensor):
                outs.append(x)
                continue
            shared = handed(MODES.lifts[-1], x)
            if shared is not None:
                outs.append(shared)
                continue
            fn_ = grad_fn_of(x)
            requires = requires_grad_of(x)
            m = x._m if x._m.dense else meta(x._m.shape, x._m.dtype, x._m.device)
            if requires and fn_ is None:  # an input handed back
                x = ops.alias(x)
                fn_ = grad_fn_of(x)
            freed = requires and _freed(fn_)
            name = fn_.name() if fn_ is not None else ""
            if requires and not freed:
                live.append((len(outs), x))
            outs.append(_Out(len(tensors), m, requires, name, freed))
            tensors.append(x)
        if live:
            current = MODES.lifts[-1]
            told, self._gradients = trace_backward(
                current, [(outs[k].index, x) for k, x in live], began
            )
            self.backward = told
        return tensors, (out_spec, outs)

    # -- is it still right?
    def stale(self, tensors: Sequence[Tensor]) -> str | None:
        """Why the program must not be used any more, or None."""
        for ref, st, m, al, rg in self.program.known:
            t = ref()
            if t is not None and (
                t._m is not m or t._rg is not rg or t._al is not al or t._st is not st
            ):
                return "a tensor from outside has another shape, storage or requires_grad"
        if not self.looks:
            return self.watch.changed()
        args = [tensors[i] for i in self.args]
        for st, first, _, _ in self.program.peers:
            if st.array is not first.array:
                return "tensors that held one number hold different ones"
        for st, array in self.program.looked:
            if st.array is not array:
                return _LOOKED
        for s in self.numbers:
            if not isinstance(s.what[s.of], float | int):
                return f"{s.of!r} was a number"
        for leaf, m in self.program.guards:
            g = of_args(leaf, args)._g
            if (None if g is None else g._m) is not m:
                return "the gradient of a leaf is there, or not there, as it was not before"
        return self.watch.changed()

    # -- running
    def _kernel(self, xs: Sequence[Any]) -> list[Any]:
        values: list[Any] = [None] * len(self.program.sources)
        n = len(self.donated)
        for i, x in zip(self.order, (*xs[:n], *xs[n + len(self.spare) :])):
            values[i] = x
        found = evaluate_once(self.program.jaxpr, values, self.program.consts)
        return [found[k] for k in self.place]

    def fits(self, args: Sequence[Any], mode: int) -> bool:
        """Whether `run` may be called on these arguments without a closer look."""
        then, kinds = self.plain
        if mode != then or len(args) != len(kinds):
            return False
        for x, (m, requires) in zip(args, kinds):
            if (
                x.__class__ is not Tensor
                or x._m is not m
                or x._rg is not requires
                or x._al is not None
            ):
                return False
            if x._x is not None:
                return False
        if len(args) > 1 and len({id(x._st) for x in args}) != len(args):
            return False
        return self.stale(args) is None

    def _without_effects(self) -> Callable[[Sequence[Tensor]], Any] | None:
        """A shorter `run` for a program that only computes one tensor of plain ones; None for any other."""
        program, kept = self.program, self.kept_storages
        effects = (program.writes, program.grads, program.counters, program.fresh, program.peers)
        if self.parts is not None or any(effects) or self.spec.kind is not None or not self.simple:
            return None
        (out,) = self.outs
        if not isinstance(out, _Out) or out.requires:
            return None
        if self.kept_args is None:
            return None
        places = [self.args[i] for i in self.kept_args]
        kernel, index, m = self.kernel, out.index, out.meta

        def run(args: Sequence[Tensor]) -> Any:
            arrays = kernel(*[st.array for st in kept], *[args[i]._st.array for i in places])
            return make(arrays[index], m)

        return run

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """Run the program on these arguments, and do to the outside what the function does."""
        program = self.program
        args = [tensors[i] for i in self.args] if self.repeats else tensors
        sources = program.sources
        node = None
        if self.parts is not None:
            values = [s.array(args) for s in sources]
            found = self.parts.forward(*values)
            arrays, saved = found[: self.parts.n_results], found[self.parts.n_results :]
            assert self.backward is not None
            if MODES.bits & GRAD:
                leaves = tuple(_leaf(s, args, x) for s, x in zip(sources, values))
                node = CompiledFunctionBackward(
                    self.parts, self.backward, saved, args, leaves, self._recorded_call
                )
        else:
            others = (
                [s.array(args) for s in self.kept_others]
                if self.kept_args is None
                else [read(args[i]) for i in self.kept_args]
            )
            kept = [st.array for st in self.kept_storages]
            own = [st.array for st in self.donated_storages]
            own += [s.storage(args).array for s in self.donated_gradients]
            if own and max(map(sys.getrefcount, own)) > _HOLDERS:  # somebody else looks at one
                own = [jnp.array(x) if sys.getrefcount(x) > _HOLDERS + 1 else x for x in own]
            for leaf in self.replaced:
                of_args(leaf, args)._g = None
            own += [_spare(of_args(leaf, args), m) for leaf, m in self.spare]
            arrays = self.kernel(*own, *kept, *others)
        for st, k, stamps in self.stored:
            st.array = arrays[k]
            st.stamp += stamps
        for i, k, stamps in self.stored_elsewhere:
            if i < 0:
                write(args[~i], arrays[k], bump=False)
                continue
            st = sources[i].storage(args)
            st.array = arrays[k]
            st.stamp += stamps
        for vc, n in program.counters:
            if isinstance(vc, int):
                vc = args[vc]._vc
            vc.version += n
        for leaf, k, m, version in self.grads:
            leaf = of_args(leaf, args)
            if m is None:
                leaf._g = k
            else:
                leaf._g = g = make(arrays[k], m)
                g._st.version = version
        for st, k in self.fresh:
            st.array = arrays[k]
        return self._outputs(arrays, node, args)

    def _outputs(self, arrays: Sequence[Any], node: Any, args: Sequence[Tensor]) -> Any:
        if self.spec.kind is None:
            (o,) = self.outs
            if isinstance(o, _Out) and not o.requires and not MODES.bits & INFERENCE:
                return make(arrays[o.index], o.meta)
        leaves: list[Any] = []
        for o in self.outs:
            if not isinstance(o, _Out):
                leaves.append(o.tensor(args) if isinstance(o, Handed | HandedView) else o)
                continue
            t = make(arrays[o.index], o.meta)
            if o.freed:
                t._fn, t._rg = spent(o.node, o.meta), True
            elif o.requires and node is not None:
                t._fn, t._onr, t._rg = node, node.told.roots.index(o.index), True
            if MODES.bits & INFERENCE:
                mark_inference(t)
            leaves.append(t)
        return tree.unflatten(leaves, self.spec)

    def _recorded_call(self) -> Call:
        """The program as one operator, differentiable from outside."""
        if self._again is not None:
            return self._again
        assert self.parts is not None
        last, n = self.parts.n_results, len(self.program.sources)

        def run(leaves: Sequence[Any]) -> list[Any]:
            return self.parts.forward(*leaves)[:last]  # type: ignore[union-attr]

        wanted = {o.index for o in self.outs if isinstance(o, _Out) and o.requires and not o.freed}
        names = [o.node for o in self.outs if isinstance(o, _Out) and o.index in wanted]
        self._again = Call(
            "compiled", lambda leaves: tuple(run(leaves)), node_name=names[0],
            nondiff=tuple(k for k in range(last) if k not in wanted),
            edges=lambda keys: tuple(i for i in range(n) if isinstance(keys[i], Meta) and keys[i].dtype.category >= 2),
        )  # fmt: skip
        return self._again


def _leaf(source: Source, args: Sequence[Tensor], array: Any) -> Any:
    """An input as a tensor in its place in the graph; a draw is the one that this run has made."""
    if source.kind == "arg":
        return args[source.what]
    if source.kind == "tensor":
        t = source.of
        if t._al is None and t._st is source.what:
            return t
    if source.kind == "number":
        return array
    assert source.meta is not None
    return make(array, source.meta)


_HOLDERS = 3
"""References to an array that only its storage and a list hold, while it is counted."""


_LARGE = 1 << 16
"""Bytes; fetching memory for less costs less than giving it to the program."""


def _is_large(m: Meta) -> bool:
    return m.numel * m.dtype.itemsize >= _LARGE


def _spare(leaf: Tensor, m: Meta) -> Any:
    """The memory of a gradient that is about to be replaced, or new memory if somebody else looks at it."""
    g, leaf._g = leaf._g, None
    if g is not None and g.__class__ is Tensor and g._m is m and g._al is None and g._x is None:
        st = g._st
        alone = sys.getrefcount(g) == _ALONE and sys.getrefcount(st) == _ALONE + 2
        array = st.array
        if alone and sys.getrefcount(array) == _ALONE + 1 and isinstance(array, jax.Array):
            return array
    return jnp.zeros(m.shape, m.dtype.np)


_ALONE = 2
"""References to what one local variable refers to, as `sys.getrefcount` counts; a tensor's storage is its counter of
versions, too."""


def _freed(fn: Any) -> bool:
    """Whether a backward pass has been through a graph already."""
    seen, stack = set(), [fn]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.gp is not None and node.gp.saves_tensors and node.saved is None:
            return True
        stack += [e[0] for e in node.edges if e is not None]
    return False


def compile(
    model: Callable[..., Any] | None = None, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None, mode: str | None = None,
    options: dict[str, Any] | None = None, name: str | None = None, disable: bool = False,
    recompile_limit: int | None = None, isolate_recompiles: bool = False, shapes_spec: Any = None,
) -> Any:  # fmt: skip
    """A function (or module) compiled with all that it does: results, writes, gradients, random draws.

    The first call with arguments of some kind runs the Python code once, on tracers, to find the steps that it
    takes and the tensors from outside that it reads and writes; later calls run those steps as one XLA
    program. A whole training step with `backward()` and `optimizer.step()` may be compiled.

    Args:
        model: a function or an `nn.Module`. Left out, `compile` is a decorator with arguments.
        fullgraph: a function is always compiled whole; True raises for one that cannot be even with
            `torch._dynamo.config.suppress_errors`, and for generators, which otherwise run as they are written.
        dynamic: accepted; each combination of shapes is compiled for itself.
        backend: "inductor" and the other names of torch all mean XLA; "eager" runs the function as it is. A
            function is refused: there is no graph of torch's operators for it.
        mode: accepted.
        options: accepted.
        name: accepted.
        disable: return the function as it is.
        recompile_limit: how many programs are kept.
        isolate_recompiles: accepted; functions never share programs.
        shapes_spec: None.

    Returns:
        The compiled function. Its `counts` tell how often it was traced and run.

    Raises:
        RuntimeError: when called, if the function needs values of tensors to go on.

    Example:
        >>> import torchgrad_jax as torch
        >>> f = torch.compile(lambda x: (x.sin() ** 2).sum())
        >>> f(torch.zeros(3))
        tensor(0.)
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
            name=name, disable=disable, recompile_limit=recompile_limit, isolate_recompiles=isolate_recompiles,
            shapes_spec=shapes_spec,
        )  # fmt: skip
    checked_mode(mode, options)
    backend = get_default_backend() if backend is None else checked_backend(backend)
    if dynamic is not None and not isinstance(dynamic, bool):
        raise AssertionError(f"Expected enable to be a bool, got {type(dynamic)}")
    if shapes_spec is not None:
        raise NotImplementedError(
            "torch.compile: shapes_spec is not supported; each shape is compiled for itself"
        )
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if disable or backend in EAGER:
        return model
    settings: dict[str, Any] = {"fullgraph": bool(fullgraph), "limit": recompile_limit}
    if hasattr(model, "named_parameters") and not isinstance(model, type):
        return of_module(model, settings)
    return of_function(model, settings)


def of_function(fn: Any, settings: dict[str, Any]) -> Compiled:
    """The compiled form of a function; a generator runs as it is written."""
    written = inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn)
    if written and settings["fullgraph"]:
        raise Unsupported("torch.compile cannot compile a generator or a coroutine")
    return Compiled(fn, **settings, written=written)


def of_module(model: Any, settings: dict[str, Any]) -> Any:
    """The compiled form of a module; `nn`, without which there are none, puts its own here."""
    return Compiled(model, **settings)


__all__ = ["Compiled", "compile", "of_function"]
