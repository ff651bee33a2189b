"""One traced run of a compiled function: its program, and what each later run does to the outside."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp

from ...._core.arrays import tree
from ...._core.arrays.meta import Meta, meta
from ...._core.arrays.out_of_memory import check_memory, complain_of_memory
from ...._core.arrays.placement import MANY, OnAllDevices, is_complete, place
from ...._core.arrays.python_numbers import Number
from ...._core.arrays.shapes import Size
from ...._core.errors.messages import AsWritten
from ...._core.random.generator import restorable
from ...._core.state import INFERENCE, MODES, next_sequence_nr
from ...._engine.entry.bind import ops
from ...._engine.graph.history import grad_fn_of, requires_grad_of
from ...._engine.memory.strided import read, write
from ...._engine.memory.tensor import Storage, Tensor, make, mark_inference, placement_of
from ..trace.apart import ONE_MEMORY, OTHER_TENSOR, Apart, versions_before
from ..trace.checks import any_of, is_true
from ..trace.equal_steps import Step, evaluate_equal_steps_once
from ..trace.kept_tensors import KeptTensors, take_kept_tensors
from ..trace.outside_results import (
    ContainersFromOutside,
    GivenContainer,
    describe_outside_result,
    own_constants,
    settle_kept_views,
)
from ..trace.traced_program import ARGUMENT_IS_A_VIEW, INTO_ARGUMENTS, Program, resolve_argument, trace_program
from ..watch import object_trees
from ..watch.array_arguments import put_tensors_for_traced_arrays
from ..watch.guards import PythonGuards
from ..watch.keys import OftenAnew
from ..watch.number_arguments import Constant
from ..watch.number_log import NumberLog, ReturnedNumber
from ..watch.places import value_at
from .compiled_backward import (
    BackwardDescription,
    CompiledFunctionBackward,
    ForwardAndBackward,
    leaf_of,
    spent_graph,
    trace_backward,
    used_in_pass,
)
from .constant_tensors import constant_tensors
from .donation import Donating, is_large, put_back, spare, surely
from .gradients_read import GradientsRead, graphs_of_gradients, spent_gradients
from .held_in_jax import hold_in_jax
from .one_device import one_device
from .over_processes import over_processes
from .overwrite import in_place
from .own_values import own_values
from .quick_look import Look, takes_nothing
from .results import (
    ELSEWHERE,
    MadeTensor,
    ResultArray,
    ResultBeside,
    ResultOutside,
    ResultTensor,
    is_known,
    made_inside,
    refuse_kept_graph,
    refuse_new_objects,
    result_of_memory,
    return_what_is_kept,
    with_class,
    with_common_bases,
)
from .shorter_run import shorter_run

VALUES_CHANGED = OftenAnew("the values of a tensor from outside that Python looked at are others")


class Entry:
    """One traced run: its program, what it takes for granted, and how its result is put together."""

    def __init__(
        self,
        fn: Any,
        kept_arguments: list[Any],
        watch: Any,
        tensors: list[Tensor],
        log: NumberLog,
        checked: bool = True,
        name: Callable[[int], str] = str,
        given: Any = (),
    ) -> None:
        # Identities of arguments are part of the key: they must stay theirs.
        self.kept_arguments, self._watch = kept_arguments, watch
        self.python_guards: PythonGuards = watch.guards
        python_guards = self.python_guards
        unique = {id(t): t for t in tensors}
        self.args = [next(i for i, t in enumerate(tensors) if t is u) for u in unique.values()]
        log.first_number_input, given_numbers = len(self.args), log.number_arguments.values
        self.args += range(len(tensors), len(tensors) + len(given_numbers))
        """Which tensors and then numbers among the arguments the program takes."""
        self.repeats_a_tensor = log.first_number_input < len(tensors)
        """Whether one tensor is given twice."""
        self._containers = ContainersFromOutside(given, python_guards.visited_ids, watch.is_object)
        self.given: Any = None
        """The arguments of the run that is about to begin, as they were given, for one of them that is returned."""
        self.reference: Any = None
        """What a second trace gave right after the first run, where the function is checked."""
        self.switches: list[tuple[Any, Any, Any]] = []
        """What the function sets in Python, to the same in each run: (holder, key, value)."""
        self.kept_tensors: list[KeptTensors] = []
        """Where the function keeps tensors that it made: they are the last results."""
        self.has_run = False
        """Whether anything outside is as a run has left it."""
        self.backward: BackwardDescription | None = None
        self._gradients: list[Any] = []
        self._made: list[tuple[ResultTensor, MadeTensor]] = []
        program, description = trace_program(
            lambda: self._call(fn, *log.arguments()),
            list(unique.values()),
            lambda: self._gradients,
            log,
            checked=checked,
        )
        self.program: Program = program
        self.spent_gradients = spent_gradients(program, self._graphs)
        self.constant_tensors = constant_tensors(program)
        """Sources that are no inputs, by their numbers, since they are the same in each run."""
        settle_kept_views(program.kept_views, list(unique.values()))
        program.kept_views.clear()
        for kept in self.kept_tensors:
            kept.settle(program, python_guards)
        known = list(python_guards.reached_tensors.values())
        self.gradients_read = GradientsRead(program, list(unique.values()), known)
        known_twice = {i: t for i, t in enumerate(unique.values()) if id(t) in python_guards.reached_tensors}
        compared = known if python_guards.compares_identity else ()
        self.apart = Apart(program, known_twice, compared)
        if program.flags and self.backward is not None:
            raise AsWritten(
                "it sets `requires_grad` of a tensor from outside and returns what has a graph", lasting=True
            )
        self.pins = self._placements(list(unique.values())) if MANY else {}
        """The shardings of results that are written to something on several devices, by their numbers."""
        self.checks = program.checks
        self.late = [] if self.checks is None else self.checks.late
        self.spec, outs = description
        del self._containers, self._watch
        self.returns_given = any(isinstance(o, GivenContainer) for o in outs)
        kept = [st for st, _ in program.new_state]
        if any(t._fn is not None for t in unique.values()):
            refuse_kept_graph(kept)
        self.outs = return_what_is_kept(outs, self._made, kept)
        self._made = []
        given = log.number_arguments
        at = given.leaf_positions
        self.constants = [
            Constant(len(tensors) + i, at[i], given.values[i], name(at[i]), place)
            for i, place in given.constants.items()
        ]
        """Numbers among the arguments whose values are part of the program."""
        self.log: NumberLog | None = log
        if log.is_plain():
            self._read_numbers(log)
        self._arrange(list(unique.values()))
        self.parts = None
        if self.backward is not None:
            n_reads = len(self.backward.reads)
            n_gradients = len(self._gradients) - n_reads
            self.backward.settle(used_in_pass(program.jaxpr, n_gradients, n_reads))
            outvars = program.jaxpr.outvars[: len(program.jaxpr.outvars) - n_reads]
            program.jaxpr = program.jaxpr._replace(outvars=outvars)
            n_results = len(outvars) - n_gradients
            self.parts = ForwardAndBackward(program.jaxpr, program.consts, n_results, self.checks)
        self._gradients = []
        self._reorder()
        self.one_device = one_device(self, list(unique.values()))
        held = [placement_of(s.what) for s in program.sources if s.kind == "tensor" and MANY]
        self.on_all_devices = OnAllDevices.of_program([*self.pins.values(), *held])
        self._make_kernel(list(unique.values()))

    def _make_kernel(self, args: Sequence[Tensor]) -> None:
        """What runs the program, and what can be known beforehand of a run."""
        program = self.program
        overwritten = len(self.donated) + len(self.spare)
        self.program_kernel = Donating(
            lambda *xs: self.results_of(xs), overwritten, bool(self.spare), self.placed_results()
        )
        self.kernel = self.program_kernel.call
        self.over_processes = own_values(self, args) if MANY else None
        if self.over_processes is None and self.parts is None:
            self.over_processes = over_processes(self)
        self.loops: dict[int, Any] = {}
        """Programs that take several steps, by the number of batches that they are given; see `many`."""
        self.takes: Look = takes_nothing
        """Whether `run` may be called on such arguments in such a mode without a closer look."""
        self.taken: tuple[Any, ...] = ()
        """What this look was made for."""
        touched = [*program.counters, *program.gradient_guards, *program.grads, *program.flags]
        of_arguments = any(isinstance(entry[0], int) for entry in touched)
        self.writes_arguments = any(i < 0 for i, _, _ in program.writes)
        self.only_reads_arguments = not (self.parts or program.new_state or of_arguments or self.writes_arguments)
        """Whether plain tensors as arguments are only read."""
        self.has_more_guards = bool(
            program.peers
            or program.leaf_arguments
            or program.whole_arguments
            or program.looked_at
            or program.gradient_guards
            or self.numbers
            or self.kept_tensors
        )
        """Whether there is more to look at than tensors from outside and Python's values."""
        self.run_quickly = shorter_run(self)

    def _placements(self, args: Sequence[Tensor]) -> dict[int, Any]:
        program, pins = self.program, {}
        for i, k, _ in program.writes:
            source = program.sources[i] if i >= 0 else None
            if source is not None and source.kind == "tensor":
                pins[k] = placement_of(source.what)
            elif source is not None and source.kind == "grad":
                pins[k] = placement_of(source.storage(args))
        for leaf, k, m, _ in program.grads:
            if m is not None and resolve_argument(leaf, args)._m.shape == m.shape:
                pins[k] = placement_of(resolve_argument(leaf, args)._st)
        return {k: there for k, there in pins.items() if there is not None}

    def placed_results(self) -> list[Any] | None:
        """For each result of the program where it has to lie, or None where XLA may choose; None if it always may."""
        if not self.pins:
            return None
        pinned = {k: there for k, there in self.pins.items() if is_complete(there)}
        return [pinned.get(k) for k in self.result_order] + [None] * bool(self.late)

    def _read_numbers(self, log: NumberLog) -> None:
        """Let the program itself read the numbers: there is nothing else to do in Python."""
        self.log = None
        for slot, holder, key in log.reads():
            for s in self.program.sources:
                if s.what is log.values and s.of == slot and holder is None:
                    s.kind, s.what, s.of = "given", key, None
                elif s.what is log.values and s.of == slot:
                    s.what, s.of = holder, key

    def _arrange(self, args: Sequence[Tensor]) -> None:
        """Order the inputs, those that are overwritten first, and sort what is to be done by kind."""
        program = self.program
        sources = program.sources
        shared = {id(first) for _, first, _, _ in program.peers}
        updated = {i: k for i, k, _ in program.writes if i >= 0 and id(sources[i].what) not in shared}
        # A program that is differentiated from outside gives nothing away.
        looks = self.backward is None and jax.default_backend() == "cpu"
        there = in_place(program.jaxpr, updated) if looks else updated
        written = [i for i in updated if i in there]
        donated = [i for i in written if sources[i].kind == "tensor"]
        self.donated_storages: list[Storage] = [sources[i].what for i in donated]
        self.donated_gradients = [sources[i] for i in written if sources[i].kind == "grad"]
        self.donated = [*donated, *[i for i in written if sources[i].kind == "grad"]]
        rest = [i for i in range(len(sources)) if i not in set(self.donated)]
        kept = [i for i in rest if sources[i].kind == "tensor" and i not in self.constant_tensors]
        self.kept_storages: list[Storage] = [sources[i].what for i in kept]
        self.kept_others = [sources[i] for i in rest if sources[i].kind != "tensor"]
        only_args = all(s.kind == "arg" for s in self.kept_others)
        self.kept_args = [s.what for s in self.kept_others] if only_args else None
        self.order = [*self.donated, *kept, *[i for i in rest if sources[i].kind != "tensor"]]
        first = len(self.donated) + len(kept)
        ahead = [] if self.checks is None else self.checks.inputs
        self.ahead = [self.order.index(i) - first for i in ahead]
        """Where among the last inputs those are that the checks ahead of the program read."""
        self.numbers = [(s.what, s.of, type(s.what[s.of])) for s in sources if s.kind == "number" and not self.log]
        self.draws = any(s.kind == "draw" for s in sources)
        outside = not any(isinstance(vc, int) for vc, _ in program.counters)
        self.counters = [vc for vc, _ in program.counters] if outside else []
        """The version counters that grow, where none is an argument's."""
        self.increments = [n for _, n in program.counters]
        self.stored: list[tuple[Storage, int, int]] = []
        self.stored_elsewhere = []
        for i, k, stamps in program.writes:
            if i >= 0 and sources[i].kind == "tensor":
                self.stored.append((sources[i].what, k, stamps))
            else:
                self.stored_elsewhere.append((i, k, stamps))
        self.stored += [(st, k, stamps) for st, _, k, stamps in program.peers if k >= 0]
        self.written = {id(st) for st, _, _ in self.stored}
        changed = {i for i, _, _ in program.writes}
        self.source_is_written = [(~s.what if s.kind == "arg" else i) in changed for i, s in enumerate(sources)]
        read = {id(s.what) if isinstance(s.what, Tensor) else s.what for s in sources if s.kind == "grad"}
        replaced = [
            (leaf, m)
            for leaf, _, m, _ in program.grads
            if m is not None and (id(leaf) if isinstance(leaf, Tensor) else leaf) not in read
        ]
        held = [s.array(args) for s in sources if s.kind in ("arg", "tensor", "grad")]
        free = not any(isinstance(x, jax.Array) and x.committed for x in held)
        # Scratch memory may stand in for one as long as no array is bound to the devices that it lies on.
        if self.late:  # the old gradients are kept until a check was looked at
            replaced = []
        self.spare = [(leaf, m) for leaf, m in replaced if free and is_large(m)]
        """Gradients that nobody reads before they are replaced: the new ones go where they are."""
        self.replaced = [leaf for leaf, m in replaced if not free and is_large(m)]
        """Others whose memory is worth freeing first."""

    def _reorder(self) -> None:
        """Put what goes where an input was first, in the order of these: so does JAX pair them."""
        program = self.program
        n = len(program.jaxpr.outvars)
        written = {i: k for i, k, _ in program.writes}
        spare = {id(leaf) if isinstance(leaf, Tensor) else leaf for leaf, _ in self.spare}
        first = [written[i] for i in self.donated]
        first += [
            k
            for leaf, k, m, _ in program.grads
            if m is not None and (id(leaf) if isinstance(leaf, Tensor) else leaf) in spare
        ]
        self.result_order = list(dict.fromkeys([*first, *range(n)]))
        at = {k: new for new, k in enumerate(self.result_order)} if self.parts is None else range(n)
        self.stored = [(st, at[k], stamps) for st, k, stamps in self.stored]
        self.stored_elsewhere = [(i, at[k], stamps) for i, k, stamps in self.stored_elsewhere]
        self.grads = [(leaf, k if m is None else at[k], m, version) for leaf, k, m, version in program.grads]
        self.new_state = [(st, at[k]) for st, k in program.new_state]
        for o in self.outs:
            if isinstance(o, ResultTensor):
                o.index = at[o.index]

    def _call(self, fn: Any, args: Any, kwargs: Any) -> tuple[list[Tensor], Any]:
        began = next_sequence_nr()
        leaves, out_spec = self._flattened(self._result_of(fn, args, kwargs))
        objects = [x for x in leaves if not (x in self._containers or is_known(x))]
        refuse_new_objects(objects, self._watch.knows, MODES.run, self.kept_arguments)
        kept = [] if objects else take_kept_tensors(MODES.run, self.python_guards, leaves)
        if kept:
            self.kept_tensors = kept
            leaves, out_spec = self._flattened((tree.unflatten(leaves, out_spec), [k.take() for k in kept]))
        try:
            tensors, outs = self._describe_results(leaves, began)
        except Exception as error:
            if MODES.run.log.reads_arguments():
                raise
            why = f"the graph of its results raises {type(error).__name__}: {error}"
            raise AsWritten(why, lasting=True) from error
        self._graphs = graphs_of_gradients(MODES.run, began)
        self._watch.take(last=True)
        return tensors, (out_spec, outs)

    def _result_of(self, fn: Any, args: Any, kwargs: Any) -> Any:
        """What the function returns. Nobody else may hold it: who does is looked for."""
        result = fn(*args, **kwargs)
        self._watch.function_returned()
        return result

    def _flattened(self, result: Any) -> tuple[list[Any], Any]:
        one = lambda x: isinstance(x, Size) or x in self._containers  # noqa: E731 - read here alone
        object_trees.refuse_repeated(result, self._is_new_object)
        return object_trees.flatten(result, self._is_new_object, one)

    def _describe_results(self, leaves: list[Any], began: int) -> tuple[list[Tensor], list[Any]]:
        """What the program computes of the results, and what stands for each; the pass from them is traced, too.

        Where that raises, `backward()` would, or reading `grad_fn`: a call as written does not.
        """
        tensors: list[Tensor] = []
        outs: list[Any] = []
        live = []
        views: dict[int, Any] = {}
        impls = put_tensors_for_traced_arrays(leaves)
        own_constants(MODES.run, leaves)
        leaves = with_common_bases(leaves)
        made = made_inside(leaves)
        for x in leaves:
            if not isinstance(x, Tensor):
                x = self._containers.description(x)
                outs.append(ReturnedNumber(x) if type(x) is Number else x)
                continue
            shared = views.get(id(x)) or describe_outside_result(MODES.run, x)
            if shared is not None:
                views[id(x)] = shared
                outs.append(shared)
                continue
            fn_ = grad_fn_of(x)
            requires = requires_grad_of(x)
            m = x._m if x._m.dense else meta(x._m.shape, x._m.dtype, x._m.device)
            out = ResultTensor(len(tensors), m)
            if len(outs) in impls:
                outs.append(ResultArray(out, impls[len(outs)]))
                tensors.append(x)
                continue
            beside = result_of_memory(MODES.run, out, x, made.get(len(outs)))
            if beside is not None:
                outs.append(beside)
                tensors.append(x)
                continue
            made_as = x
            if requires and fn_ is None:  # an input handed back
                x = ops.alias(x)
                fn_ = grad_fn_of(x)
            graph = spent_graph(MODES.run, fn_, began) if requires else None
            if requires and graph is None:
                live.append((len(outs), x))
            out = ResultTensor(len(tensors), m, requires, graph)
            outs.append(with_class(out, made_as))
            tensors.append(x)
        self._made = [(o, MadeTensor(tensors[o.index])) for o in outs if isinstance(o, ResultTensor)]
        if live:
            before = self._watch.describe_change()
            results = [(outs[k].index, x) for k, x in live]
            self.backward, self._gradients = trace_backward(
                MODES.run, results, began, [None if k in impls else x for k, x in enumerate(leaves)]
            )
            self._watch.take()
            if self._watch.describe_change() != before:
                raise AsWritten(
                    "a hook or a backward function prints, counts or keeps something when a backward pass comes from "
                    "its results",
                    lasting=True,
                )
        return tensors, outs

    def _is_new_object(self, x: Any) -> bool:
        """Whether a result is a dataclass that the function made, which is made anew in each call."""
        made_of_attributes = object_trees.is_plain_object(x) or object_trees.is_object_in_python(x)
        return made_of_attributes and not self._watch.knows(x)

    def arguments(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """The tensors and numbers that the program takes, each once."""
        return [tensors[i] for i in self.args] if self.repeats_a_tensor else tensors

    def unknown_tensor(self, watch: Any) -> Meta | None:
        """What a tensor from outside is like that the program takes and no guard reaches; None if there is none."""
        program = self.program
        started = [t for x in program.started_optimizers for t in tree.flatten([*vars(x).values()])[0]]
        started += [
            t for x in program.started_optimizers for t in tree.flatten([*vars(x).get("state", {}).values()])[0]
        ]
        reached = [t for g in watch for t in (*g.reached_tensors.values(), *g.reached_gradients.values())]
        known = {id(t._st) for t in (*reached, *started) if isinstance(t, Tensor)} | program.constants
        for i, source in enumerate(program.sources):
            if source.kind == "tensor" and i not in self.constant_tensors and id(source.what) not in known:
                return source.meta
        return None

    # -- is it still right?
    def why_stale(self, tensors: Sequence[Tensor]) -> str | None:
        """Why the program must not be used any more, or None."""
        for constant in self.constants:
            if (why := constant.describe_change(tensors)) is not None:
                return why
        for ref, st, m, al, rg in self.program.known_tensors:
            t = ref()
            if t is not None and (t._m is not m or t._rg is not rg or t._al is not al or t._st is not st):
                return "a tensor from outside has another shape, storage or requires_grad"
        args = self.arguments(tensors)
        why = (self._other_values(args) if self.has_more_guards else None) or self.python_guards.describe_change()
        if why is not None:
            return why
        if self.apart.fixed and self.apart.of_others(args):
            return OTHER_TENSOR
        if self.apart.compares and self.apart.clash(args):
            return ONE_MEMORY
        return self.log and self.log.replay(args)

    def undo_numbers(self) -> None:
        """After an error: numbers that a run has computed ahead are as before, unless it has happened."""
        if self.log is not None:
            surely(self.log.restore_ahead)

    def _other_values(self, args: Sequence[Tensor]) -> str | None:
        for st, first, _, _ in self.program.peers:
            if st.array is not first.array:
                return "tensors that held one number hold different ones"
        for st, array in self.program.looked_at:
            if st.array is not array:
                return VALUES_CHANGED
        for holder, key, kind in self.numbers:
            if type(value_at(holder, key)) is not kind:
                return f"{key!r} was a {kind.__name__}"
        for kept in self.kept_tensors:
            given = args if self.writes_arguments or kept.compared else ()
            if (why := kept.describe_change(given, self.written)) is not None:
                return why
        if (why := self.gradients_read.describe_change(args)) is not None:
            return why
        aliases = [args[i]._al for i in self.program.whole_arguments]
        if any(al is not None and al.base is not None for al in aliases):
            return ARGUMENT_IS_A_VIEW
        into_graph = any(args[leaf]._fn is not None for leaf in self.program.leaf_arguments)
        return INTO_ARGUMENTS if into_graph else None

    # -- running
    def results_of(self, xs: Sequence[Any], instead: Step | None = None) -> list[Any]:
        """What the program's kernel gives for its arguments; `instead` takes some of its steps in another way."""
        values: list[Any] = [None] * len(self.program.sources)
        n = len(self.donated)
        for i, x in zip(self.order, (*xs[:n], *xs[n + len(self.spare) :])):
            values[i] = x
        results = self.steps(values, instead)
        out = [results[k] for k in self.result_order]
        if not self.late:
            return out
        failed = any_of(results[len(self.result_order) :])
        out[:n] = [jnp.where(failed, old, new) for old, new in zip(xs, out[:n])]
        return [*out, failed]

    def steps(self, values: Sequence[Any], instead: Step | None = None) -> list[Any]:
        """The program's results on these values of its sources, and after them whether its own checks fail."""
        values = list(values)
        for i, constant in self.constant_tensors.items():
            values[i] = constant.array()
        program = self.program.jaxpr
        whole = program._replace(outvars=[*program.outvars, *self.late])
        results = evaluate_equal_steps_once(whole, values, self.program.consts, instead)
        for k, there in self.pins.items():
            results[k] = place(results[k], there)
        return results

    def results(self) -> list[ResultTensor]:
        """The tensors that the program returns."""
        return [o for o in self.outs if isinstance(o, ResultTensor)]

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """Run the program on these arguments, and do to the outside what the function does.

        An exception that a signal raises finds everything as it was, or all of the step done.
        """
        args = self.arguments(tensors)
        arrays: list[Any] = []
        """The results; as long as there are none, nothing has happened."""
        drawn: dict[Any, Any] = {}
        replaced: list[Any] = []
        node = None
        counters = self.counters or [args[vc]._vc if isinstance(vc, int) else vc for vc, _ in self.program.counters]
        counts = versions_before(counters, () if self.counters else self.increments)
        try:
            if not self.has_run:
                self._leave_numpy(args)
            if self.parts is not None:
                node = self._differentiable(args, arrays, drawn)
            else:
                inputs = self._inputs(args, drawn)
                together = self.over_processes and self.over_processes.begin(inputs)
                kernel, inputs = together or (self.program_kernel, inputs)
                dropped = ()
                if self.replaced:
                    dropped = [resolve_argument(leaf, args) for leaf in self.replaced]
                    if not kernel.settled:
                        replaced = [(leaf, leaf._g) for leaf in dropped]
                kernel.settled = True
                arrays += kernel.results(inputs, dropped)  # no signal comes in between
                check_memory(arrays)
                if self.late and is_true(arrays[-1]):
                    self._raise_failed_check([*arrays[: len(self.donated)], *inputs[len(self.donated) :]])
            self._bring_back(arrays)
            self.store(arrays, args, counters, counts)
            self.has_run = True
            if self.log is not None:
                self.log.settle()
        except BaseException as error:
            surely(lambda: self._finish_or_restore(arrays, args, counters, counts, drawn, replaced))
            complain_of_memory(error)
            raise
        return self._outputs(arrays, node, args)

    def _bring_back(self, arrays: list[Any]) -> None:
        """Let results lie where this process keeps them; once more after an interrupt."""
        if self.over_processes is not None:
            self.over_processes.bring_back(arrays)
        if self.one_device is not None and arrays:
            self.one_device.bring_back(arrays)

    def _leave_numpy(self, args: Sequence[Tensor]) -> None:
        """Hold what the program overwrites or reads from outside in arrays of JAX's from the first run on.

        A program that was given an array of NumPy's would be compiled once more for the array of JAX's that follows it,
        and what is only read would be copied in each run.
        """
        storages = [*self.kept_storages, *[st for st, _, _ in self.stored]]
        sources = self.program.sources
        storages += [sources[i].storage(args) for i, _, _ in self.stored_elsewhere if i >= 0]
        for st in storages:
            hold_in_jax(st)

    def _finish_or_restore(
        self,
        arrays: list[Any],
        args: Sequence[Tensor],
        counters: Sequence[Any],
        counts: Sequence[int],
        drawn: dict[Any, Any],
        replaced: Sequence[Any],
    ) -> None:
        """After an error or an interrupt: finish the step if its program ran, else let all be as it was."""
        self._bring_back(arrays)
        if arrays and not (self.late and self.parts is None and is_true(arrays[-1])):
            self.has_run = True
            self.store(arrays, args, counters, counts)
            if self.log is not None:
                self.log.settle()
            return
        storages = [*self.donated_storages, *[s.storage(args) for s in self.donated_gradients]]
        for st, array in zip(storages, arrays):  # which a program whose check failed gives back
            st.array = array
        put_back(drawn, replaced)
        if self.log is not None:
            self.log.restore()

    def raise_failed_check(self, tensors: Sequence[Any]) -> NoReturn:
        """Raise what the call with these arguments raises, whose numbers in Python have been computed."""
        args = self.arguments(tensors)
        drawn: dict[Any, Any] = {}
        with restorable(drawn):
            values = [s.array(args) for s in self.program.sources]
        put_back(drawn, ())
        assert self.checks is not None
        self.checks.raise_failed_check(values)

    def _raise_failed_check(self, inputs: list[Any]) -> NoReturn:
        """Raise what the check raises that fails for these inputs of the program."""
        if self.over_processes is not None and self.late:  # the inputs of a program that has run
            self.over_processes.bring_back(inputs)
        values: list[Any] = [None] * len(self.program.sources)
        for i, x in zip(self.order, inputs):
            values[i] = x
        for i in self.constant_tensors:
            values[i] = self.program.sources[i].array(())
        assert self.checks is not None
        self.checks.raise_failed_check(values)

    def _inputs(self, args: Sequence[Tensor], drawn: dict[Any, Any]) -> list[Any]:
        """What the program reads now, in its order; `drawn` gets the states of generators before their draws."""
        if self.kept_args is not None:
            others = [read(args[i]) for i in self.kept_args]
        elif self.draws:
            with restorable(drawn):
                others = [s.array(args) for s in self.kept_others]
        else:
            others = [s.array(args) for s in self.kept_others]
        kept = [st.array for st in self.kept_storages]
        if self.checks is not None and self.checks.fail_ahead(others, self.ahead):
            self._raise_failed_check([*self._overwritten(args), *kept, *others])
        inputs = [*self.arrays_to_overwrite(args), *kept, *others]
        return self._spread(inputs if self.one_device is None else self.one_device.put(inputs))

    def _spread(self, inputs: list[Any]) -> list[Any]:
        """Inputs of a program over several devices, as such a program takes them."""
        return inputs if self.on_all_devices is None else self.on_all_devices.put(inputs)

    def _overwritten(self, args: Sequence[Tensor]) -> list[Any]:
        own = [st.array for st in self.donated_storages]
        return own + [s.storage(args).array for s in self.donated_gradients]

    def arrays_to_overwrite(self, args: Sequence[Tensor]) -> list[Any]:
        """The arrays whose memory the program gets; copies of those that somebody else looks at."""
        own = self._overwritten(args)
        if own and max(map(sys.getrefcount, own)) > _HOLDERS:
            own = [jnp.array(x) if sys.getrefcount(x) > _HOLDERS + 1 else x for x in own]
        return own + [spare(resolve_argument(leaf, args), m) for leaf, m in self.spare]

    def _differentiable(
        self, args: Sequence[Tensor], arrays: list[Any], drawn: dict[Any, Any]
    ) -> CompiledFunctionBackward:
        """Run the forward part, put its results into `arrays`, and make the node for the backward part."""
        parts, sources = self.parts, self.program.sources
        assert parts is not None
        assert self.backward is not None
        with restorable(drawn):
            values = [s.array(args) for s in sources]
        checks = self.checks
        if checks is not None and checks.fail_ahead(values, checks.inputs):
            checks.raise_failed_check(values)
        if self.one_device is not None:
            values = self.one_device.put_all(values)
        check_memory(forward_results := parts.forward(*self._spread(values)))
        if checks is not None and self.late and is_true(forward_results.pop()):
            checks.raise_failed_check(values)
        leaves = tuple([leaf_of(s, args, x, w) for s, x, w in zip(sources, values, self.source_is_written)])
        saved = forward_results[parts.n_results :]
        arrays += forward_results[: parts.n_results]
        return CompiledFunctionBackward(parts, self.backward, saved, args, leaves)

    def store(
        self,
        arrays: Sequence[Any],
        args: Sequence[Tensor],
        counters: Sequence[Any],
        counts: Sequence[int],
        times: int = 1,
    ) -> None:
        """Write the results of the last of so many runs to where they belong.

        Once more after an interrupt, it does what was left to do.
        """
        sources = self.program.sources
        for st, k, stamps in self.stored:
            st.array = arrays[k]
            st.stamp += stamps * times
        for i, k, stamps in self.stored_elsewhere:
            if i < 0:
                write(args[~i], arrays[k], bump=False)
                continue
            st = sources[i].storage(args)
            st.array = arrays[k]
            st.stamp += stamps * times
        for vc, count, n in zip(counters, counts, self.increments):
            vc.version = count + n * times
        for leaf, k, m, version in self.grads if times else ():
            leaf = resolve_argument(leaf, args)
            if m is None:
                leaf._g = k
            else:
                g = make(arrays[k], m)
                g._st.version = version
                leaf._g = g
        for leaf, graph in self.spent_gradients if times else ():
            graph.give_to(resolve_argument(leaf, args)._g, args)
        for t, requires in self.program.flags:
            resolve_argument(t, args)._rg = requires
        for st, k in self.new_state:
            st.array = arrays[k]
        for holder, key, value in self.switches:
            holder[key] = value

    def _outputs(self, arrays: Sequence[Any], node: Any, args: Sequence[Tensor]) -> Any:
        if self.spec.kind is None:
            (o,) = self.outs
            if type(o) is ResultTensor and not o.requires and not MODES.bits & INFERENCE:
                return make(arrays[o.index], o.meta)
        leaves: list[Any] = []
        elsewhere: dict[Any, Any] = {}
        for o in self.outs:
            if isinstance(o, ELSEWHERE):
                if o not in elsewhere:
                    elsewhere[o] = o.tensor(args)
                leaves.append(elsewhere[o])
                continue
            if not isinstance(o, ResultTensor):
                leaves.append(o.container(self.given) if isinstance(o, GivenContainer) else o)
                continue
            if isinstance(o, ResultOutside):
                leaves.append(o.tensor(args))
                continue
            t = o.of_array(arrays[o.index])
            if o.spent is not None:
                o.spent.give_to(t, args)
            elif o.requires and node is not None:
                t._fn, t._onr, t._rg = node, node.description.roots.index(o.index), True
            if MODES.bits & INFERENCE and isinstance(t, Tensor):
                mark_inference(t)
            leaves.append(t)
        for k, o in enumerate(self.outs):
            if isinstance(o, ResultBeside):
                leaves[k] = leaves[o.of] if o.view is None else o.view.of_owner(leaves[o.of])
        if node is not None:
            node.call_is_over(args, leaves)
        result = tree.unflatten(leaves, self.spec)
        if self.kept_tensors:
            result, values = result
            for kept, value in zip(self.kept_tensors, values):
                kept.keep(value)
        return result


_HOLDERS = 3
"""References to an array that only its storage and a list hold, while it is counted."""
