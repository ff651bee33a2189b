"""A function traced with its state: what it reads and writes of the outside is found while it runs.

A caller uses `trace_program(run, args)`, which gives a `TracedProgram`.

The function runs once with tracers in place of every array that it touches: those of its arguments, of tensors from
outside, of random draws. `RunState` hears of all of them. What the run has written when it is done (elements of
storages, gradients of leaves) is told apart from what it returned, and everything outside is put back as it was.
Steps, inputs, and what is to be written where make up a program that can be run again.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...._core.arrays import devices, dtypes
from ...._core.arrays.meta import Meta, meta
from ...._core.arrays.python_numbers import Values
from ...._core.errors.checks import Check, any_failed, conditions, is_traced
from ...._core.errors.messages import AsWritten, Unsupported, user_line
from ...._core.jax import jit_caches
from ...._core.jax.abstract import is_abstract
from ...._core.jax.private import take_current_trace
from ...._core.jax.running_transforms import unwatch
from ...._core.signals import contextmanager
from ...._core.state import MODES, next_sequence_nr
from ...._engine.graph.history import grad_fn_of, requires_grad_of
from ...._engine.graph.node import AccumulateGrad
from ...._engine.memory.strided import read, stored, stored_by_kernel
from ...._engine.memory.tensor import Alias, Storage, Tensor, Version, make
from ...._engine.modes.begin import within
from ...._engine.modes.runs import TracedRun
from ...._engine.modes.uses import Uses
from ...._engine.modes.written_steps import evaluate_written
from ...._functions.fresh import is_constant
from ..arguments.number_arguments import use_plain_numbers_in_closure
from ..arguments.number_log import NumberLog, logging_numbers
from ..watch.observer import of_this_thread
from .checks import Checks, Noted, Part, bounded
from .copied_arrays import LOST_TO_NUMPY, CopiedArray, is_held_by_numpy, refuse_separated
from .equal_steps import let_peers_share
from .kernel_calls import Kernels
from .risky_writes import without_risky_writes
from .traced_storages import end_trace, mark_traced, memory_of_argument, stand_for


class Source:
    """Where an input of the program comes from, again each time."""

    __slots__ = ("kind", "meta", "of", "what")

    def __init__(self, kind: str, what: Any, of: Any, m: Meta | None) -> None:
        self.kind, self.what, self.of, self.meta = kind, what, of, m
        """`arg` (its number), `tensor` (a storage, and the tensor it belongs to), `grad` (the leaf),
        `draw` (a function), `given` (the number of a Python number among the arguments), `number` (a dict or
        list, and the key of a number or an array in it), `kept` (a place of tensors, and which of them)."""

    def array(self, args: Sequence[Tensor]) -> Any:
        """The value now."""
        kind = self.kind
        if kind == "tensor":
            return self.what.array
        if kind == "arg":
            return read(args[self.what])
        if kind == "grad":
            return resolve_argument(self.what, args)._g._st.array
        if kind == "draw":
            return self.what()
        if kind == "given":
            return args[self.what]
        return self.what[self.of]

    def storage(self, args: Sequence[Tensor]) -> Storage:
        """The storage now, of a tensor or a gradient."""
        return self.what if self.kind == "tensor" else resolve_argument(self.what, args)._g._st


def resolve_argument(leaf: Any, args: Sequence[Tensor]) -> Tensor:
    """A tensor from outside, or the argument of that number."""
    return args[leaf] if isinstance(leaf, int) else leaf


class KnownTensor(NamedTuple):
    """A tensor from outside, as it was before the run."""

    tensor: Tensor
    storage: Storage
    meta: Meta
    alias: Any
    requires_grad: bool
    node: Any
    output_nr: int
    gradient: Tensor | None


class OutsideStorage(NamedTuple):
    """A storage from outside that the program reads, as it was before the run."""

    storage: Storage
    array: Any
    stamp: int
    source: int
    """The number of its source."""


class SwappedArgument(NamedTuple):
    """An argument, what it was made of, and the storage with a tracer that it has during the run."""

    tensor: Tensor
    storage: Storage
    version: Any
    meta: Meta
    alias: Any
    traced_storage: Storage
    traced_array: Any
    """What that storage holds before the run."""
    traced_alias: Alias | None
    tracer: Any
    """The elements of the argument before the run."""
    counter: Version
    """Counts the writes to it during the run; its own counter may be that of other tensors too, in some calls."""


INTO_ARGUMENTS = (
    "it goes on into the graph of an argument (by a backward pass, a hook, `retain_grad`, or a write to the argument); "
    "detach the argument, or do that outside"
)
ARGUMENT_IS_A_VIEW = "the memory around an argument, which is a view, is looked at"
_REQUIRES_BY_ITS_BASE = "an argument is a view made before its base was told to require a gradient"
RESHAPED = (
    "it changes the shape of a tensor from outside in place (`t_`, `squeeze_`); a view of it, such as `w.t()`, "
    "can be part of a program"
)
_ON_META = "a tensor on the meta device is part of it"
_WIDEST = {dtypes.FLOATING: dtypes.float64, dtypes.COMPLEX: dtypes.complex128}
"""Of what a program reads a Python number as, which no dtype of a tensor has to do with."""


class RunState(Uses):
    """The state of a function that is being compiled: what its run reads and writes of what is outside."""

    def __init__(
        self,
        args: Sequence[Tensor],
        log: NumberLog | None = None,
        checked: bool = True,
        for_file: bool = False,
        kernels: Kernels | None = None,
    ) -> None:
        by_node = for_file or kernels is not None
        self.run = TracedRun(
            randomness="host", may_write_outside=True, may_check_later=True, node_by_node=by_node, uses=self
        )
        self.kernels, self.keeps_kernels = kernels, kernels is not None
        self.born = self.run.born = []
        """Weak references to the storages made during the run."""
        self.args, self.log, self.for_file = args, log, for_file
        self.sources: list[Source] = []
        self.storages: dict[int, OutsideStorage] = {}
        """By identity."""
        self.readers: dict[int, set[int]] = {}
        """Identities of the tensors, or of their bases, through which each storage was read, by its own."""
        self.note_read: Callable[[Storage, Any], None] | None = None
        """Gets each storage that is read, and what is read of it."""
        self.tracers: dict[int, Any] = {}
        """The inputs that stand for storages, by the identity of the storage."""
        self.counters: dict[int, tuple[Any, int]] = {}
        """Version counters from outside, by identity, and their values before the run."""
        self.known_tensors: dict[int, KnownTensor] = {}
        """By identity."""
        self.gradient_of: dict[int, Tensor] = {}
        """Leaves, by the identity of the storages of their gradients."""
        self.grad_looked_at: set[int] = set()
        """Identities of leaves whose gradient somebody looked at, or a pass added to."""
        self.assigned: set[int] = set()
        """Identities of leaves whose gradient was replaced before that."""
        self.own_aliases: list[Any] = []
        """Weak references to the tensors made during the run on storages of others."""
        self.swapped: list[SwappedArgument] = []
        self.leaf_arguments: set[int] = set()
        """The arguments of which it matters that they are leaves."""
        self.whole_arguments: set[int] = set()
        """The arguments of which it matters that they are views of nothing."""
        self.first_node = next_sequence_nr()
        """The number of the first node recorded in this run."""
        self.numbers: dict[int, tuple[Storage, Any, int]] = {}
        """Arrays of one number, by identity: who holds it first, and as which source."""
        self.looked_at: dict[int, tuple[Storage, Any]] = {}
        """Storages, by identity, whose values Python has seen, and these values."""
        self.checked = checked and not for_file
        """Whether what an eager call checks is checked in the program."""
        self.checks: list[Noted] = []
        self.state_seen: set[int] = set()
        """Identities of optimizers whose state the function looked at by itself."""
        self.stepped: set[int] = set()
        """Identities of optimizers of which it called `step`."""
        self.started_optimizers: dict[int, Any] = {}
        """Optimizers whose state began in this run, by identity."""
        self.draws: list[tuple[Meta, Any]] = []
        self.next_draw = 0
        """What was drawn, in its order, and the number of the next draw."""
        self.given_to_numpy: set[int] = set()
        """Identities of storages whose memory the function asked for as a NumPy array."""
        self.constants: set[int] = set()
        """Identities of storages that stand for constants that the run made."""
        self.copied_arrays: list[CopiedArray] = []
        """NumPy arrays that were made tensors."""
        self.peers: dict[int, Storage] = {}
        """Storages that hold the array of another one, which they must go on doing: by identity, the other."""

    def kernel_called(self, kernel: Any, args: Sequence[Any], single: bool, runs: Any = None) -> None:
        """A kernel was called, which the program is to call."""
        assert self.kernels is not None
        self.kernels.note(kernel, args, single, runs)

    def look_at_state(self, optimizer: Any) -> None:
        """Code of the user's is about to see which state an optimizer has."""
        self.state_seen.add(id(optimizer))

    def optimizer_steps(self, optimizer: Any) -> None:
        """An optimizer is about to take a step."""
        self.stepped.add(id(optimizer))

    @contextmanager
    def making_state(self, optimizer: Any) -> Iterator[None]:
        """State that an optimizer makes on its first step is made before the program, which finds it there."""
        self.started_optimizers[id(optimizer)] = optimizer
        with self.run.outside():
            yield

    # -- arguments
    def enter(self) -> None:
        """Give every argument a storage of its own that holds a tracer."""
        for i, t in enumerate(self.args):
            grad_fn_of(t)  # a view's, brought up to date
            if requires_grad_of(t) and not (t._rg or t._fn):
                raise AsWritten(_REQUIRES_BY_ITS_BASE, lasting=False)
            self.know(t)
            m = t._m if t._m.dense else meta(t._m.shape, t._m.dtype, t._m.device)
            tracer = self._input(Source("arg", i, None, m), m)
            st, al = memory_of_argument(tracer, t)
            counter = Version(t._vc.version)
            self.swapped.append(SwappedArgument(t, t._st, t._vc, t._m, t._al, st, st.array, al, tracer, counter))
            if al is None:
                stand_for(t, st)
            t._st, t._al, t._vc = st, al, counter
            self._count(t)
            if t._rg or t._fn is not None:  # the graph recorded inside begins here
                t._rg, t._fn, t._onr = True, None, 0

    def leave(self) -> None:
        """Put the arguments back."""
        for t, st, vc, m, al, *_ in self.swapped:
            t._st, t._vc, t._m, t._al = st, vc, m, al

    def _input(self, source: Source, m: Meta) -> Any:
        self.sources.append(source)
        return self.run.place_for(len(self.sources) - 1, m)

    def alias_born(self, t: Tensor, src: Tensor) -> None:
        """A tensor was made during this run on the storage that `src` has now; by the next call it may have another."""
        self.know(src)
        self.own_aliases.append(weakref.ref(t))

    def made(self, storage: Storage) -> bool:
        """Whether a storage was made during this run."""
        arguments = (s.traced_storage for s in self.swapped)
        return any(ref() is storage for ref in self.born) and all(st is not storage for st in arguments)

    # -- reading and writing
    def know(self, t: Tensor) -> None:
        """Remember how a tensor from outside was before the run."""
        if id(t) in self.known_tensors or (self.run.ours(t._st.array) and id(t._st) not in self.storages):
            return
        self.refuse_last_rates(t)
        g = None if t._g is None or self.made(t._g._st) else t._g  # what the run made was not there before
        self.known_tensors[id(t)] = KnownTensor(t, t._st, t._m, t._al, t._rg, t._fn, t._onr, g)
        self._count(t)
        if g is not None:
            self.gradient_of.setdefault(id(g._st), t)
        if t._al is not None and t._al.base is not None:
            self.know(t._al.base)

    rely_on_memory = know

    def refuse_last_rates(self, t: Tensor) -> None:
        """A schedule of tensors makes new ones in each step in Python: the program cannot know which."""
        if self.log is not None and self.log.tensors and self.log.is_last_rate(t):
            raise Unsupported(
                "torch.compile: get_last_lr() of a schedule whose learning rate is a tensor is read in the function"
            )

    def named(self, t: Tensor) -> Any:
        """A tensor, or its number if it is an argument."""
        return next((i for i, a in enumerate(self.args) if a is t), t)

    def _count(self, t: Tensor) -> None:
        self.counters.setdefault(id(t._vc), (t._vc, t._vc.version))

    def current_array(self, t: Tensor) -> Any:
        """The elements of the storage of `t`, outside ones as an input."""
        st = t._st
        owner = t if t._al is None or t._al.base is None else t._al.base
        self.readers.setdefault(id(st), set()).add(id(owner))
        if self.run.ours(st.array):
            return st.array
        if is_abstract(st.array) and MODES.target is None:
            raise AsWritten(_ON_META, lasting=False)
        tracer = self.tracers.get(id(st))
        if tracer is None or self.storages[id(st)].array is not st.array:
            self.know(t)
            if st.meta.numel == 1 and (shared := self._shared(st)) is not None:
                return shared
            leaf = self.gradient_of.get(id(st))
            g = None if leaf is None else leaf._g
            if leaf is not None and g is not None and g._st is st and g._al is None:
                source = Source("grad", self.named(leaf), None, st.meta)
            else:
                source = Source("tensor", st, owner, st.meta)
            tracer = self.tracers[id(st)] = self._input(source, st.meta)
            self.storages[id(st)] = OutsideStorage(st, st.array, st.stamp, len(self.sources) - 1)
            if source.kind == "tensor":
                self.numbers.setdefault(id(st.array), (st, tracer, len(self.sources) - 1))
        return tracer

    @contextmanager
    def noting_reads(self, note: Callable[[Storage, Any], None]) -> Iterator[None]:
        """Within it, `note` gets each storage that is read, and what is read of it."""
        self.note_read = note
        try:
            yield
        finally:
            self.note_read = None

    def _shared(self, st: Storage) -> Any:
        """The input that stands for a number that several storages hold as one array, as step counts do.

        Constants of one element, as of `zeros`, are one array for all tensors, and are not meant.
        """
        if not isinstance(st.array, jax.Array) or is_constant(st.array):
            return None
        first, tracer, source = self.numbers.get(id(st.array), (None, None, 0))
        if first is None or self.storages[id(first)].array is not st.array or first.meta is not st.meta:
            return None
        self.tracers[id(st)] = tracer
        self.storages[id(st)] = OutsideStorage(st, st.array, st.stamp, source)
        self.peers[id(st)] = first
        return tracer

    def read(self, t: Tensor) -> Any:
        """What a tensor holds now, for the program."""
        array = self.current_array(t)
        array = stored(t, array) if self.kernels is None else stored_by_kernel(t, array, self.kernel_called)
        if self.note_read is not None:
            self.note_read(t._st, array)
        return array

    def array_to_write(self, t: Tensor) -> Any:
        """What its storage holds, which is about to change."""
        if id(t._st) in self.given_to_numpy and is_held_by_numpy(t._st):
            raise AsWritten(LOST_TO_NUMPY, lasting=True)
        self.own_constant(t)
        current_array = self.current_array(t)
        if id(t._st) in self.storages:
            self._count(t)
            mark_traced(t._st)
        return current_array

    def own_constant(self, t: Tensor) -> None:
        """Make constants that the run made, as those of `zeros`, its own: each run begins with them again."""
        st = t._st
        if self.run.ours(st.array) or not self.made(st):
            return
        if is_abstract(st.array):
            raise AsWritten(_ON_META, lasting=False)
        with self.run.outside():
            # It is a tensor of its own: nobody may hold what the run made.
            owner = make(st.array, st.meta)
        kept = owner._st
        self.constants.add(id(kept))
        tracer, entry = self.tracers.pop(id(st), None), self.storages.pop(id(st), None)
        if tracer is None or entry is None:
            tracer = self._input(Source("tensor", kept, owner, st.meta), st.meta)
        elif self.sources[entry.source].what is st:
            self.sources[entry.source].what, self.sources[entry.source].of = kept, owner
            self.tracers[id(kept)] = tracer
            self.storages[id(kept)] = entry._replace(storage=kept)
            self.numbers = {k: (kept if first is st else first, *rest) for k, (first, *rest) in self.numbers.items()}
            self.peers = {k: kept if first is st else first for k, first in self.peers.items()}
        self.peers.pop(id(st), None)
        for seen in [k.tensor for k in self.known_tensors.values() if k.storage is st]:
            del self.known_tensors[id(seen)]
            self.counters.pop(id(seen._vc), None)
        st.array = tracer

    def look_at_values(self, t: Tensor) -> None:
        """Python is about to know the values of a tensor: one from outside must have the same the next time."""
        if self.made(t._st):  # a constant, which each run makes again
            return
        self.know(t)
        self.looked_at[id(t._st)] = (t._st, t._st.array)

    def give_to_numpy(self, t: Tensor) -> None:
        """The function has a NumPy array of a tensor's memory, which no step of the program writes to."""
        self.given_to_numpy.add(id(t._st))
        if (observer := of_this_thread()) is not None and not self.made(t._st):
            observer.memory_given_away(t._st)

    def made_of_array(self, t: Tensor, array: Any) -> None:
        """A tensor holds a copy of a NumPy array: what becomes of it is looked at when the run is over."""
        self.copied_arrays.append(CopiedArray(array, t._st))

    def look_around(self, t: Tensor) -> None:
        """Outside, an argument may be part of a larger memory, which the program does not get."""
        for arg in self.swapped:
            if arg.traced_storage is t._st and arg.alias is not None and arg.alias.base is not None:
                raise AsWritten(ARGUMENT_IS_A_VIEW, False)
        self.whole_arguments.update(i for i, arg in enumerate(self.swapped) if arg.traced_storage is t._st)

    def look_at_version(self, t: Tensor) -> None:
        """A write to a tensor from outside makes its version another one."""
        if not self.made(t._st):
            raise AsWritten("it looks at the version of a tensor from outside", lasting=True)

    def depend_on_leaf(self, t: Tensor) -> None:
        """An argument is a leaf inside, also where it is the result of a graph outside."""
        for i, arg in enumerate(self.swapped):
            if arg.tensor is t and t._rg:
                if self.known_tensors[id(t)].node is not None:
                    raise AsWritten(INTO_ARGUMENTS, lasting=True)
                self.leaf_arguments.add(i)

    def begin_pass(self, nodes: Sequence[Any], targets: Sequence[Any] | None) -> None:
        """A pass goes on into the graph of each argument that it reaches, unless it ends there or inside of the run."""
        outside = {n for n, _ in targets or () if not self._made_node(n)}
        for node in nodes:
            ends_here = targets is not None and outside <= {node}
            if isinstance(node, AccumulateGrad) and not ends_here:
                self.depend_on_leaf(node.variable)

    def _made_node(self, node: Any) -> bool:
        if isinstance(node, AccumulateGrad):
            return self.made(node.variable._st)
        return bool(node.seq >= self.first_node)

    def replace_memory(self, t: Tensor) -> None:
        """A program writes to memory, and gives no tensor from outside another one."""
        if not self.made(t._st):
            raise AsWritten(
                "a tensor from outside gets other memory (`.data = `, `set_`, `resize_`); `copy_` writes to its own",
                lasting=True,
            )

    def alter(self, t: Tensor) -> None:
        """What becomes of the flag of a tensor from outside is an effect; another shape is refused at the end."""
        self.know(t)

    def look_at_grad(self, t: Tensor) -> None:
        """The user looks at the gradient of a leaf."""
        self.know(t)
        self.grad_looked_at.add(id(t))

    def assign_grad(self, t: Tensor) -> None:
        """The gradient of a leaf is replaced whatever it was."""
        self.know(t)
        if id(t) not in self.grad_looked_at:
            self.assigned.add(id(t))

    def check(self, arrays: Sequence[Any], check: Check) -> None:
        """Let the program say whether a check of these arrays fails."""
        from jax.extend.core import set_current_trace

        if not self.checked or any(is_traced(a) and not self.run.owns(a) for a in arrays):
            return
        with set_current_trace(self.run.traces[0]), jit_caches.of_all_runs():
            found = conditions(check, arrays)
            flag = any_failed(found)
        if flag is not None:
            self.checks.append(Noted(check, arrays, flag, user_line(), bounded(found, arrays)))

    def draw(self, m: Meta, values: Callable[[], Any]) -> Any:
        """Random numbers, drawn for each run of the program; what the draw is given is a constant of it.

        A checkpoint that computes again goes back to an earlier draw, by `next_draw`, and meets the same numbers.
        """
        if m.device.type == "meta" and MODES.target is None:
            raise AsWritten(_ON_META, lasting=False)
        at = self.next_draw
        if at == len(self.draws):
            use_plain_numbers_in_closure(values)
            self.draws.append((m, self._input(Source("draw", values, None, m), m)))
        made, array = self.draws[at]
        if (made.shape, made.dtype) != (m.shape, m.dtype):
            raise RuntimeError(
                f"a recomputation draws random numbers of shape {list(m.shape)} and {m.dtype}, and the forward drew "
                f"some of shape {list(made.shape)} and {made.dtype}"
            )
        self.next_draw = at + 1
        return array

    def among_draws(self, step: Callable[[], object]) -> None:
        """What each run does to a generator after the draws so far: it is a draw of no numbers."""
        if self.for_file:
            raise Unsupported("torch.compile: a program in a file has no generator that it could seed")

        def nothing() -> Any:
            step()
            return jnp.zeros(0, jnp.uint8)

        self.draw(meta((0,), dtypes.uint8, devices.default_device()), nothing)

    def number(self, values: Values, slot: int) -> Any:
        """A number that may be another one the next time, as a 0-dim array."""
        self.sources.append(Source("number", values, slot, None))
        m = meta((), dtypes.of_python(type(values[slot])), devices.default_device())
        m = m.like(dtype=_WIDEST.get(m.dtype.category, m.dtype))
        return self.run.place_for(len(self.sources) - 1, m, weak=True)

    def rewritten(self, t: Tensor, values: Values, slot: int) -> None:
        """A tensor was written to in Python, outside of the program, which reads `values[slot]` for it from here on."""
        st = t._st
        self.know(t)
        self.counters[id(t._vc)] = (t._vc, t._vc.version)
        source = Source("number", values, slot, st.meta)
        self.tracers[id(st)] = self._input(source, st.meta)
        self.storages[id(st)] = OutsideStorage(st, st.array, st.stamp, len(self.sources) - 1)


class TracedProgram:
    """A run as it can be repeated."""

    __slots__ = (
        "checks", "constants", "consts", "counters", "flags", "frozen", "new_state", "grads", "gradient_guards",
        "jaxpr", "kept_views", "kernels", "known_tensors", "leaf_arguments", "looked_at", "peers", "run", "sources",
        "started_optimizers", "state_seen", "used_optimizers", "whole_arguments", "writes",
    )  # fmt: skip

    checks: Checks | None
    run: Callable[[Sequence[Any]], list[Any]]
    """From the values of the sources to those of the results and of everything written."""
    sources: list[Source]
    kernels: Kernels | None
    """The kernels that it calls; None if XLA compiles its steps as it likes."""
    constants: set[int]
    """Identities of storages among the sources that the run made: constants of it."""
    kept_views: list[tuple[Any, int, bool]]
    """What somebody still holds of what the run made on the memory of arguments: (weakly, argument, same counter)."""
    known_tensors: list[tuple[Any, ...]]
    """Tensors from outside (weakly), and how they were."""
    gradient_guards: list[tuple[Any, Meta | None]]
    """Leaves, and what their gradients were like."""
    leaf_arguments: list[int]
    """The arguments of which it matters that they are leaves."""
    whole_arguments: list[int]
    """The arguments of which it matters that they are views of nothing."""
    looked_at: list[tuple[Storage, Any]]
    """Storages from outside, and what was in them when Python looked."""
    writes: list[tuple[int, int, int]]
    """(source, result, how often it was written): elements of storages; ~i for argument i."""
    peers: list[tuple[Storage, Storage, int, int]]
    """(storage, the one whose array it shares, result or -1, how often it was written)."""
    grads: list[tuple[Any, Any, Meta | None, int]]
    """(leaf or argument's number, result or tensor, meta, version): gradients that were replaced."""
    flags: list[tuple[Any, bool]]
    """(leaf or argument's number, whether it requires a gradient from now on)."""
    counters: list[tuple[Any, int]]
    """(version counter or argument's number, how much it grows)."""
    started_optimizers: list[Any]
    """Optimizers whose state was made for the run, before it."""
    state_seen: bool
    """Whether the function itself looked at the state of one of them. Such a run cannot be repeated."""
    used_optimizers: set[int]
    """Identities of optimizers that took a step in the run, or whose state it looked at."""
    new_state: list[tuple[Any, int]]
    """Storages made in the run that somebody still holds: new state. Such a run cannot be repeated."""

    def freeze(self) -> None:
        """Let nobody put anything else in place of a part; what only the trace needed goes."""
        self.kept_views = []
        object.__setattr__(self, "frozen", True)

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, "frozen"):
            raise AttributeError(f"a traced program is frozen: {name} stays as it is")
        object.__setattr__(self, name, value)


def trace_program(
    run: Callable[[], tuple[list[Any], Any]],
    args: Sequence[Tensor],
    more: Callable[[], list[Any]] = list,
    log: NumberLog | None = None,
    *,
    checked: bool = True,
    for_file: bool = False,
    kernels: Kernels | None = None,
) -> tuple[TracedProgram, Any]:
    """Run a function once for its steps and its effects; nothing outside changes.

    `run` returns the tensors of its result and anything that describes it; `more` gives arrays that are to be
    the last results of the program, and `log` carries numbers of Python. `checked` is whether the program checks what
    eager calls check. A program `for_file` does not, and consists of the same steps whatever ran before. `kernels` gets
    the kernels that the run calls, if the program is to call them.
    """
    from jax.extend.core import set_current_trace

    state = RunState(args, log, checked, for_file, kernels)
    descriptions: list[Any] = []
    program = TracedProgram()

    def pure() -> list[Any]:
        with take_current_trace() as current:
            state.run.traces.append(current)
            unwatch(current)
        with set_current_trace(current):

            def close() -> None:
                state.leave()
                _restore(program, state)

            with within(state.run, MODES.birth):
                try:
                    try:
                        state.enter()
                        with logging_numbers(log, state):
                            out = _results(run, state, descriptions)
                        out += _effects(program, state, len(out))
                    finally:
                        close()
                except BaseException:
                    close()  # once more, where the first time was interrupted
                    raise
            out += _survivors(program, state, len(out)) + more()
            return out + [x for noted in state.checks for x in (noted.flag, *noted.arrays)]

    with jit_caches.of_this_run_if_needed():
        closed = jax.make_jaxpr(pure)()
        if kernels is None:
            closed = without_risky_writes(closed)
    written = {i for i, _, _ in program.writes}
    program.checks = Checks(state, closed, written) if state.checks else None
    n = len(closed.jaxpr.outvars) - sum(1 + len(noted.arrays) for noted in state.checks)
    whole, consts = closed.jaxpr, closed.consts
    jaxpr = Part(whole.eqns, whole.invars, whole.constvars, whole.outvars[:n])
    program.jaxpr, program.consts, program.kernels = jaxpr, consts, kernels
    program.run = lambda values: evaluate_written(jaxpr, (), values, consts)
    program.sources = state.sources
    tensors = [s.what for s in state.sources if s.kind == "tensor"]
    program.constants = {id(st) for st in tensors if id(st) in state.constants or state.made(st)}
    if any(k >= 0 for _, _, k, _ in program.peers):
        let_peers_share(program)
    program.started_optimizers = list(state.started_optimizers.values())
    program.state_seen = not state.state_seen.isdisjoint(state.started_optimizers)
    program.used_optimizers = state.state_seen | state.stepped | set(state.started_optimizers)
    program.looked_at = list(state.looked_at.values())
    program.leaf_arguments = sorted(state.leaf_arguments)
    program.whole_arguments = sorted(state.whole_arguments)
    program.known_tensors = [
        (weakref.ref(k.tensor), *k[1:5])
        for k in state.known_tensors.values()
        if not isinstance(state.named(k.tensor), int)
    ]
    program.gradient_guards = [
        (state.named(k.tensor), None if k.gradient is None else k.gradient._m)
        for k in state.known_tensors.values()
        if id(k.tensor) in state.grad_looked_at and id(k.tensor) not in state.assigned
    ]
    _forget_gone_aliases(program, state)
    return program, descriptions[0]


def _forget_gone_aliases(program: TracedProgram, state: RunState) -> None:
    """Of what the run made on storages from outside (`w.detach()`), only what is still held has flags and gradients."""
    own = {id(t): ref for ref in state.own_aliases if (t := ref()) is not None}
    at = {id(s.traced_storage): i for i, s in enumerate(state.swapped)}
    program.kept_views = [
        (ref, i, t._vc is state.swapped[i].counter)
        for ref in own.values()
        if (t := ref()) is not None and (i := at.get(id(t._st), -1)) >= 0
    ]
    rows: list[list[Any]] = [program.flags, program.grads, program.gradient_guards]
    held = [[(own[id(r[0])], r[1:]) for r in row if id(r[0]) in own] for row in rows]
    for row in rows:
        row[:] = [r for r in row if id(r[0]) not in own]
    for known in (state.known_tensors, state.gradient_of):
        for key in [k for k, v in known.items() if id(getattr(v, "tensor", v)) in own]:
            del known[key]
    t = None
    for row, entries in zip(rows, held):
        row += [(t, *rest) for ref, rest in entries if (t := ref()) is not None]


def _results(run: Any, state: RunState, descriptions: list[Any]) -> list[Any]:
    tensors, description = run()
    descriptions.append(description)
    refuse_separated(state.copied_arrays)
    if any((st := ref()) is not None and is_abstract(st.array) for ref in state.born):
        raise AsWritten(_ON_META, lasting=False)
    return [state.run.array_of(t) for t in tensors]


def _effects(program: TracedProgram, state: RunState, at: int) -> list[Any]:
    """What the run wrote outside: further results, and where they go."""
    extra: list[Any] = []

    def result(array: Any) -> int:
        extra.append(array)
        return at + len(extra) - 1

    program.writes, program.peers = [], []
    written: dict[int, int] = {}
    for st, array, stamp, source in state.storages.values():
        first = state.peers.get(id(st))
        position = -1
        if st.array is not array:
            same = first is not None and first.array is st.array and id(first) in written
            position = written[id(first)] if same else result(st.array)
            written[id(st)] = position
        if first is not None:
            program.peers.append((st, first, position, st.stamp - stamp))
        elif position >= 0:
            program.writes.append((source, position, st.stamp - stamp))
    swapped = set()
    for i, (t, _, _, m, _, st, array, al, *_) in enumerate(state.swapped):
        swapped.add(id(t))
        if t._st is not st or t._m is not m or t._al is not al:
            raise AsWritten(RESHAPED, lasting=True)
        if st.array is not array:
            program.writes.append((~i, result(state.read(t)), st.stamp))
    program.grads, program.flags = [], []
    for t, st, m, al, rg, fn, _, g in list(state.known_tensors.values()):
        if id(t) not in swapped and (t._st is not st or t._m is not m or t._al is not al):
            raise AsWritten(RESHAPED, lasting=True)
        cut = id(t) in swapped and t._fn is None and t._rg
        if t._fn is None and fn is None and t._rg is not rg:
            program.flags.append((state.named(t), t._rg))
        elif not cut and (t._fn is not fn or t._rg is not rg):
            raise Unsupported(
                "torch.compile: a compiled function may not change the place in the graph of a tensor from outside; "
                "write to it under no_grad, or return the result"
            )
        if t._g is not g:
            new = t._g
            if new is not None:
                state.own_constant(new)
            if new is None or not state.run.ours(new._st.array):
                program.grads.append((state.named(t), new, None, 0))
            else:
                position = result(state.read(new))
                program.grads.append((state.named(t), position, new._m, new._vc.version))
    return extra


def _restore(program: TracedProgram, state: RunState) -> None:
    program.counters = []
    of_arg = {id(s.counter): i for i, s in enumerate(state.swapped)}
    for vc, version in state.counters.values():
        if vc.version != version:
            program.counters.append((of_arg.get(id(vc), vc), vc.version - version))
            vc.version = version
    for st, array, stamp, _ in state.storages.values():
        st.array, st.stamp = array, stamp
        end_trace(st)
    of_arguments = {id(s.tensor) for s in state.swapped}  # which `leave` has put back
    for t, st, m, al, rg, fn, onr, g in state.known_tensors.values():
        t._g, t._rg, t._fn, t._onr = g, rg, fn, onr
        if id(t) not in of_arguments:
            t._st, t._m, t._al = st, m, al


def _survivors(program: TracedProgram, state: RunState, at: int) -> list[Any]:
    """Storages made inside that somebody outside still holds: further results."""

    def alive() -> list[Storage]:
        storages = [ref() for ref in state.born]
        return [st for st in storages if st is not None and id(st) not in own and state.run.owns(st.array)]

    own = {id(s.traced_storage) for s in state.swapped}
    storages = alive()
    if storages:
        del storages
        gc.collect()
        storages = alive()
    program.new_state = [(st, at + k) for k, st in enumerate(storages)]
    return [st.array for st in storages]
