"""From a function to its program: the function is traced once, and what it does is sorted by kind."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from ...._core.arrays import devices, uneven
from ...._core.arrays.placement import MANY, OnAllDevices
from ...._core.errors.messages import AsWritten, Unsupported
from ...._engine.memory.tensor import Tensor, placement_of
from ..arguments.number_arguments import Constant
from ..arguments.number_log import NumberLog
from ..trace.apart import Apart
from ..trace.kernel_calls import Kernels
from ..trace.outside_results import settle_kept_views
from ..trace.python_watch import PythonWatch
from ..trace.traced_program import TracedProgram, resolve_argument
from ..watch.facts import Scalar
from .body import Body
from .compiled_backward import ForwardAndBackward, used_in_pass
from .conditions import Conditions
from .constant_tensors import constant_tensors
from .function_trace import FunctionTrace
from .gradients_read import GradientsRead, spent_gradients
from .inputs import Inputs, result_order
from .joint import Candidate, joint_program
from .one_device import one_device
from .program import CompiledProgram
from .results import ResultTensor, refuse_kept_graph, return_what_is_kept
from .returned import Returned
from .writes import Writes

_SETS_A_FLAG = "it sets `requires_grad` of a tensor from outside and returns what has a graph"


def build_program(
    fn: Any,
    kept_arguments: list[Any],
    watch: PythonWatch,
    tensors: list[Tensor],
    log: NumberLog,
    given: Any,
    *,
    checked: bool = True,
    exact: bool = False,
    name: Callable[[int], str] = str,
) -> CompiledProgram:
    """Trace a function, and make a program of what it does.

    Args:
        fn: the function.
        kept_arguments: the arguments by whose identities or values kinds of calls are told apart.
        watch: what the function reads in Python.
        tensors: the tensors among the arguments.
        log: what is done with numbers.
        given: the arguments as they were given.
        checked: whether the program checks what eager calls check.
        exact: whether the program is to call the kernels that eager code calls.
        name: names an argument, given the number of its leaf.

    Raises:
        AsWritten: there is no program that does what the function does.
    """
    args = list({id(t): t for t in tensors}.values())
    log.first_number_input = len(args)
    trace = FunctionTrace(fn, kept_arguments, watch, given)
    traced = trace.run(args, log, checked=checked, kernels=_kernels(args) if exact else None)
    if exact:
        _refuse_several_devices([s.storage(args) for s in traced.sources if s.kind in ("tensor", "grad")])
    spent = spent_gradients(traced, trace.gradients_with_graph)
    constants = constant_tensors(traced)
    n_results = _settle(trace, traced, args, watch, log)
    conditions = _conditions(trace, traced, args, watch, log, _constants(log, len(tensors), name))
    if traced.flags and trace.backward is not None:
        raise AsWritten(_SETS_A_FLAG, lasting=True)
    outs = _outs(trace, traced, args)
    inputs = Inputs.of(traced, args, constants, graph=trace.backward is not None)
    parts = None if trace.backward is None else ForwardAndBackward(traced, n_results)
    body = Body(traced, inputs, constants, result_order(traced, inputs), _pins(traced, args) if MANY else {})
    at = _places_of_results(body, parts)
    writes = Writes.of(traced, at, spent)
    returned = Returned([_moved(o, at) for o in outs], trace.spec, trace.kept_tensors)
    one = one_device(inputs, writes, returned, traced, args)
    platform = None if one is None else one.target.platform
    places = [next(i for i, t in enumerate(tensors) if t is arg) for arg in args]
    return CompiledProgram(
        traced=traced,
        places=[*places, *range(len(tensors), len(tensors) + len(log.number_arguments.values))],
        repeats_a_tensor=len(args) < len(tensors),
        kept_arguments=kept_arguments,
        conditions=conditions,
        inputs=inputs,
        body=body,
        kernel=body.kernel(),
        writes=writes,
        returned=returned,
        backward=trace.backward,
        parts=parts,
        one_device=one,
        on_all_devices=_on_all_devices(traced, body.pins) if MANY else None,
        joint=None if exact else joint_program(Candidate(body, parts, trace.backward, platform, args)),
        only_reads_arguments=parts is None and not traced.new_state and not _changes_arguments(traced),
    )


def _kernels(args: Sequence[Tensor]) -> Kernels:
    """Where the kernels of a program are put down."""
    if jax.process_count() > 1:
        raise _of_several_devices()
    _refuse_several_devices([t._st for t in args])
    return Kernels(args[0]._m.device if args else devices.default_device())


def _refuse_several_devices(storages: Sequence[Any]) -> None:
    """Raise where one of the storages that a program with eager code's kernels reads is spread over several devices."""
    if MANY and any(placement_of(st) is not None for st in storages):
        raise _of_several_devices()


def _of_several_devices() -> Unsupported:
    return Unsupported(
        "torch.compile: mode='exact' is for one device and one process; here tensors are spread over several"
    )


def _settle(
    trace: FunctionTrace, traced: TracedProgram, args: Sequence[Tensor], watch: PythonWatch, log: NumberLog
) -> int:
    """Decide what the trace has left open: from here on its program stays as it is.

    Returns:
        How many of its results are not gradients of the pass from the others.
    """
    settle_kept_views(traced.kept_views, args)
    for kept in trace.kept_tensors:
        kept.settle(traced, watch.guards)
    _read_numbers(traced, log)
    if trace.backward is not None:
        outvars, n_reads, n_gradients = traced.jaxpr.outvars, len(trace.backward.reads), trace.n_gradients
        trace.backward.settle(used_in_pass(traced.jaxpr, n_gradients, n_reads))
        traced.jaxpr = traced.jaxpr._replace(outvars=outvars[: len(outvars) - n_reads])
        n_results = len(outvars) - n_reads - n_gradients
    else:
        n_results = len(traced.jaxpr.outvars)
    traced.freeze()
    return n_results


def _conditions(
    trace: FunctionTrace,
    traced: TracedProgram,
    args: Sequence[Tensor],
    watch: PythonWatch,
    log: NumberLog,
    constants: list[Constant],
) -> Conditions:
    """What the program takes for granted; what the program can read by itself, it reads from here on."""
    reached = watch.guards.reached_tensors
    gradients_read = GradientsRead(traced, args, list(reached.values()))
    known_twice = {i: t for i, t in enumerate(args) if id(t) in reached}
    apart = Apart(traced, known_twice, list(reached.values()) if watch.guards.compares_identity else ())
    sources = traced.sources
    written = [sources[i].what for i, _, _ in traced.writes if i >= 0 and sources[i].kind == "tensor"]
    written += [st for st, _, k, _ in traced.peers if k >= 0]
    return Conditions(
        traced=traced,
        guards=watch.guards,
        constants=constants,
        log=None if log.is_plain() else log,
        kept_tensors=trace.kept_tensors,
        gradients_read=gradients_read,
        apart=apart,
        written=set(map(id, written)),
        writes_arguments=any(i < 0 for i, _, _ in traced.writes),
    )


def _places_of_results(body: Body, parts: ForwardAndBackward | None) -> Sequence[int]:
    """Where each result of the trace is among those of a run."""
    if parts is not None:  # whose forward part gives its results in the order of the trace
        return range(len(body.result_order))
    at = [0] * len(body.result_order)
    for new, k in enumerate(body.result_order):
        at[k] = new
    return at


def _moved(out: Any, at: Sequence[int]) -> Any:
    """What a leaf of the result is, where it is among the results of a run."""
    if isinstance(out, ResultTensor):
        out = copy.copy(out)
        out.index = at[out.index]
    return out


def _pins(traced: TracedProgram, args: Sequence[Tensor]) -> dict[int, Any]:
    """The shardings of results that are written to something on several devices, by their numbers."""
    pins: dict[int, Any] = {}
    for i, k, _ in traced.writes:
        source = traced.sources[i] if i >= 0 else None
        if source is not None and source.kind in ("tensor", "grad"):
            pins[k] = _even_placement(source.storage(args))
    for leaf, k, m, _ in traced.grads:
        if m is not None and resolve_argument(leaf, args)._m.shape == m.shape:
            pins[k] = _even_placement(resolve_argument(leaf, args)._st)
    return {k: there for k, there in pins.items() if there is not None}


def _even_placement(st: Any) -> Any:
    """Where a program leaves what is to be written to a storage; that splits it further where its parts are unequal."""
    return uneven.even(placement_of(st), st.meta.shape)


def _outs(trace: FunctionTrace, traced: TracedProgram, args: Sequence[Tensor]) -> list[Any]:
    """What each leaf of the result is, where some are kept outside as well."""
    kept = [st for st, _ in traced.new_state]
    if any(t._fn is not None for t in args):
        refuse_kept_graph(kept)
    return return_what_is_kept(trace.outs, trace.made, kept)


def _constants(log: NumberLog, n_tensors: int, name: Callable[[int], str]) -> list[Constant]:
    """The numbers among the arguments that are part of the program."""
    given = log.number_arguments
    at = given.leaf_positions
    return [Constant(n_tensors + i, at[i], given.values[i], name(at[i]), place) for i, place in given.constants.items()]


def _read_numbers(traced: TracedProgram, log: NumberLog) -> None:
    """Let the program itself read the numbers, if there is nothing else to do in Python."""
    origins = log.origins()
    for origin in origins.values():
        if isinstance(origin, Scalar):  # the function may have asked for its type alone
            origin.is_read_by_a_program()
    for s in traced.sources:
        origin = origins.get(s.of) if s.what is log.values else None
        if isinstance(origin, Scalar):
            s.what, s.of = origin.of, origin.key
        elif origin is not None:
            s.kind, s.what, s.of = "given", origin, None


def _on_all_devices(traced: TracedProgram, pins: Mapping[int, Any]) -> OnAllDevices | None:
    """What puts inputs on all devices, if tensors lie on several."""
    held = [placement_of(s.what) for s in traced.sources if s.kind == "tensor"]
    return OnAllDevices.of_program([*pins.values(), *held])


def _changes_arguments(traced: TracedProgram) -> bool:
    """Whether elements, versions, gradients or flags of arguments matter to the program."""
    touched = [*traced.counters, *traced.gradient_guards, *traced.grads, *traced.flags]
    return any(i < 0 for i, _, _ in traced.writes) or any(isinstance(entry[0], int) for entry in touched)
