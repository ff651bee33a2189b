"""Compiled programs in which each process computes with values of its own, beside tensors that lie over all processes.

With FSDP over several processes each has its own batch, while parameters and the state of optimizers lie over the
mesh:

    w = own_copy(parameter, processes)           # a value of this process, with which it computes
    loss = (batch @ w).sum()                     # so is the loss
    slope = average(slope_of_w, processes, there)  # and this lies over the mesh again

XLA has no values of one process in a program over a mesh. So the values that the processes have of their own are the
rows of one array, each process holding its row, and the steps between `own_copy` and `average` are mapped over the
rows by `jax.vmap`. Steps on tensors over the mesh stay as they are. What these take of the processes' own values, such
as a learning rate, has to be equal in all processes; they compare such numbers, and which program they are about to
run, before each run. Where something differs (one has a smaller batch), all of them run the function eagerly.
"""

from __future__ import annotations

import abc
import enum
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..._bridge.compile.program.body import Body
from ..._bridge.compile.program.compiled_backward import ForwardAndBackward
from ..._bridge.compile.program.donation import Donating
from ..._bridge.compile.program.joint import Candidate, JointProgram
from ..._core.arrays.placement import MANY
from ..._core.errors.messages import AsWritten
from ..._core.host.choice import INNER
from ..._core.jax.caches import remember
from ..._core.jax.own_kernels import jit
from ..._engine.modes.written_steps import placeholder
from .over_processes import AXIS, collective_of, given_to_mesh, in_xla, is_over_mesh, like_given


class Processes(abc.ABC):
    """The processes of a mesh that has one device of each. Subclasses know how they talk."""

    mesh: Mesh

    @abc.abstractmethod
    def agree(self, program: bytes) -> bool:
        """Return whether all of them give the same bytes, and not none; each calls this."""


# --- the two steps --------------------------------------------------------------------------------

_OWN_COPY, _AVERAGE = "own_copy", "average_over_processes"


def own_copy(array: Any, processes: Processes, of: Any) -> Any:
    """A traced array over the mesh as a value that each process has of its own.

    Args:
        array: the array.
        processes: those that run the program together.
        of: names the parameter that the array is. Processes that compute with different ones run different programs.
    """
    return _primitives()[_OWN_COPY].bind(array, processes=processes, of=of)


def average(array: Any, processes: Processes, there: NamedSharding, of: Any) -> Any:
    """The average of values that the processes have of their own, over the mesh; `of` is as in `own_copy`."""
    return _primitives()[_AVERAGE].bind(array, processes=processes, there=there, of=of)


@remember()
def _primitives() -> dict[str, Any]:
    from jax.extend.core import Primitive
    from jax.interpreters import batching, mlir

    copy, mean = Primitive(_OWN_COPY), Primitive(_AVERAGE)
    copy.def_abstract_eval(lambda x, *, processes, of: x)
    mean.def_abstract_eval(lambda x, *, processes, there, of: x)
    mlir.register_lowering(copy, lambda _, x, **_params: [x])
    mlir.register_lowering(mean, mlir.lower_fun(_same_for_all, multiple_results=False))
    batching.primitive_batchers[mean] = _mean_of_rows
    return {_OWN_COPY: copy, _AVERAGE: mean}


def _mean_of_rows(args: Any, dims: Any, *, there: Any, **_: Any) -> Any:
    return jax.lax.with_sharding_constraint(args[0].mean(dims[0]), there), None


def _same_for_all(x: Any, *, there: Any, **_: Any) -> Any:
    """The average of what does not depend on a process's own values."""
    return jax.lax.with_sharding_constraint(x, there)


# --- what a program does --------------------------------------------------------------------------


class _Kind(enum.Enum):
    """What a value in a program is."""

    OVER_MESH = enum.auto()
    """An array over the mesh."""
    EQUAL = enum.auto()
    """A value that each process has, the same in all of them."""
    OWN = enum.auto()
    """A value that each process has of its own."""
    ROW = enum.auto()
    """The same, as a row of an array over the mesh."""


class _Step(NamedTuple):
    primitive: Any
    inputs: list[Any]
    results: list[Any]
    params: dict[str, Any]
    effects: Any


_ONE_BY_ONE = ("optimization_barrier",)
"""Steps each of whose results is one of the inputs."""


def _steps(eqns: Sequence[Any], names: dict[Any, Any]) -> Iterator[_Step]:
    """The steps of a program in order, those of calls in their place.

    Args:
        eqns: the steps as JAX recorded them.
        names: what the variables stand for that are others' names; the results of calls are put there.
    """
    for eqn in eqns:
        inputs = [names.get(v, v) for v in eqn.invars if not hasattr(v, "val")]
        inner = eqn.params.get(INNER.get(eqn.primitive.name, ""))
        results = [names.get(v, v) for v in eqn.outvars]
        if eqn.primitive.name in _ONE_BY_ONE:
            for v, result in zip(eqn.invars, results):
                own = [] if hasattr(v, "val") else [names.get(v, v)]
                yield _Step(eqn.primitive, own, [result], eqn.params, eqn.effects)
            continue
        if inner is None:
            yield _Step(eqn.primitive, inputs, results, eqn.params, eqn.effects)
            continue
        inner = getattr(inner, "jaxpr", inner)
        given = [None if hasattr(v, "val") else names.get(v, v) for v in eqn.invars]
        # A call may come again: the variables in it are others each time.
        own = {v: object() for e in inner.eqns for v in e.outvars}
        own.update(zip(inner.invars, given))
        yield from _steps(inner.eqns, own)
        names.update((v, None if hasattr(o, "val") else own.get(o)) for v, o in zip(eqn.outvars, inner.outvars))


class _Flow:
    """What lies over the mesh in a program, and what of the processes' own values has to be equal in all of them.

    Args:
        jaxpr: the program.
        over_mesh: its sources that lie over the mesh, by their numbers.
        to_mesh: its results that are written to something over the mesh.
    """

    def __init__(self, jaxpr: Any, over_mesh: set[int], to_mesh: set[int]) -> None:
        names: dict[Any, Any] = {}
        self._names = names
        self._all = list(_steps(jaxpr.eqns, names))
        self.processes: list[Processes] = [
            step.params["processes"] for step in self._all if step.primitive.name == _OWN_COPY
        ]
        """Those whose values the program has, once for each value; none if it is an ordinary program."""
        self.parameters = [step.params["of"] for step in self._all if step.primitive.name in (_OWN_COPY, _AVERAGE)]
        """The names of those that are read or get a gradient, in order."""
        self.effects = [step for step in self._all if step.effects]
        self.results = [None if hasattr(v, "val") else names.get(v, v) for v in jaxpr.outvars]
        """The variables that are its results; None for a number."""
        self._over_mesh: set[Any] = set()
        for step in self._all:
            if step.primitive is placeholder():
                over = step.params["index"] in over_mesh
            else:
                over = step.primitive.name == _AVERAGE or (
                    step.primitive.name != _OWN_COPY and not self._over_mesh.isdisjoint(step.inputs)
                )
            self._over_mesh.update(step.results if over else ())
        self.equal = self._needed_equal({self.results[k] for k in to_mesh})
        """The sources among the processes' own values on which something over the mesh depends."""
        self._differs = self._values_that_differ()

    def _needed_equal(self, needed: set[Any]) -> set[int]:
        found: set[int] = set()
        for step in reversed(self._all):
            over = not self._over_mesh.isdisjoint(step.results)
            if step.primitive.name == _AVERAGE or (not over and needed.isdisjoint(step.results)):
                continue
            if step.primitive is placeholder() and not over:
                found.add(step.params["index"])
            needed.update(v for v in step.inputs if v not in self._over_mesh)
        return found

    def _values_that_differ(self) -> set[Any]:
        """Return what may differ between the processes."""
        differs: set[Any] = set()
        for step in self._all:
            if step.primitive is placeholder():
                own = step.params["index"] not in self.equal
            else:
                own = bool(step.effects) or not differs.isdisjoint(step.inputs)
            if own:
                differs.update(v for v in step.results if v not in self._over_mesh)
        return differs

    def kind_of(self, v: Any) -> _Kind:
        """Return what a variable of the program is; a number in its place is the same for all."""
        v = self._names.get(v, v)
        if v in self._over_mesh:
            return _Kind.OVER_MESH
        return _Kind.OWN if v in self._differs else _Kind.EQUAL


# --- how it is run --------------------------------------------------------------------------------


class _Mapped:
    """A function of arrays over the mesh and of values that each process has of its own, mapped over the latter.

    Args:
        mesh: one device of each process.
        fn: the function for one process; it is given a list and returns one.
        inputs: what its inputs are.
        results: what its results are.
    """

    def __init__(
        self, mesh: Mesh, fn: Callable[[list[Any]], list[Any]], inputs: list[_Kind], results: list[_Kind]
    ) -> None:
        self._mesh, self._fn, self.inputs, self.results = mesh, fn, inputs, results
        self._there, self._here = NamedSharding(mesh, PartitionSpec()), mesh.local_devices[0]
        """What JAX is told of a value of a process's own: that it is the same on all devices. It is not."""
        self._rows = PartitionSpec(mesh.axis_names)

    def __call__(self, *xs: Any) -> list[Any]:
        """The function in a program over the mesh."""

        def mapped(rows: Sequence[Any], same: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            results = self._fn(_merged(rows, same, map(_has_rows, self.inputs)))
            own = [y for y, kind in zip(results, self.results) if _has_rows(kind)]
            return own, [
                jax.lax.with_sharding_constraint(y, self._there) if kind is _Kind.EQUAL else y
                for y, kind in zip(results, self.results)
                if not _has_rows(kind)
            ]

        each = jax.vmap(
            mapped,
            in_axes=(0, None),
            out_axes=(0, None),
            axis_size=self._mesh.size,
            axis_name=AXIS,
            spmd_axis_name=self._mesh.axis_names,
        )
        rows = self._as_rows([x for x, kind in zip(xs, self.inputs) if kind is _Kind.OWN])
        rows = _merged(
            rows,
            [x for x, kind in zip(xs, self.inputs) if kind is _Kind.ROW],
            [kind is _Kind.OWN for kind in self.inputs if _has_rows(kind)],
        )
        own, same = each(rows, [x for x, kind in zip(xs, self.inputs) if not _has_rows(kind)])
        kinds = [kind for kind in self.results if _has_rows(kind)]
        back = self._of_rows([y for y, kind in zip(own, kinds) if kind is _Kind.OWN])
        kept = [y for y, kind in zip(own, kinds) if kind is _Kind.ROW]
        own = _merged(back, kept, [kind is _Kind.OWN for kind in kinds])
        return _merged(own, same, map(_has_rows, self.results))

    def _as_rows(self, own: list[Any]) -> list[Any]:
        """Values that each process has of its own, as the rows of one array each."""
        if not own:
            return []
        return self._shard_map(_with_row, PartitionSpec(), self._rows)(own)

    def _of_rows(self, rows: list[Any]) -> list[Any]:
        """For each process its rows."""
        if not rows:
            return []
        return self._shard_map(_first_row, self._rows, PartitionSpec())(rows)

    def _shard_map(self, fn: Any, before: PartitionSpec, after: PartitionSpec) -> Any:
        return jax.shard_map(fn, mesh=self._mesh, in_specs=before, out_specs=after, check_vma=False)

    def fits(self, inputs: Sequence[Any]) -> bool:
        """Return whether those inputs lie over the mesh, and no others, that the program takes so."""
        return all(
            is_over_mesh(x) is (kind in (_Kind.OVER_MESH, _Kind.ROW)) or x is None
            for x, kind in zip(inputs, self.inputs)
        )

    def like(self, inputs: Sequence[Any]) -> list[Any]:
        """Return what the program is lowered for, given such inputs."""
        return like_given(inputs, self._there)

    def given(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs as the program takes them."""
        return given_to_mesh(inputs, self._there, self._here)

    def bring_back(self, arrays: list[Any]) -> None:
        """Make results that are this process's own arrays of it; those that are stay what they are."""
        for k, (x, kind) in enumerate(zip(list(arrays), self.results)):
            if kind in (_Kind.OWN, _Kind.EQUAL) and is_over_mesh(x):
                arrays[k] = x.addressable_data(0)


def _with_row(xs: Sequence[Any]) -> list[Any]:
    return [None if x is None else jnp.asarray(x)[None] for x in xs]


def _first_row(ys: Sequence[Any]) -> list[Any]:
    return [None if y is None else y[0] for y in ys]


def _has_rows(kind: _Kind) -> bool:
    return kind in (_Kind.OWN, _Kind.ROW)


def _merged(some: Iterable[Any], others: Iterable[Any], which: Iterable[bool]) -> list[Any]:
    """Values of two lists in turn: of `some` where `which` is true."""
    first, second = iter(some), iter(others)
    return [next(first if w else second) for w in which]


def _name_of(text: Callable[[], str], parameters: list[Any]) -> bytes:
    """The name of a program that computes with these parameters, by which the processes compare it."""
    try:
        return hashlib.sha256(f"{text()} {parameters}".encode()).digest()
    except Exception as error:  # of a step that cannot be mapped
        why = f"it cannot be mapped over the processes ({type(error).__name__}: {error})"
        raise AsWritten(why, lasting=True) from error


def _announced(name: bytes, numbers: Iterable[Any]) -> bytes:
    """A digest of what all processes are about to run: the program of this name on these numbers."""
    told = [name, *[f"{type(x).__name__} {np.asarray(x).tobytes()}".encode() for x in numbers]]
    return hashlib.sha256(b"|".join(told)).digest()


_DIFFERENT = "the processes would run different programs, or one on different numbers for tensors over all of them"


class OwnValues(JointProgram):
    """A program over the mesh, in which values that each process has of its own are rows of arrays.

    Args:
        body: the program of a compiled function.
        flow: what lies over the mesh in it.
        over_mesh: its sources that do.
        to_own: its results that are written to tensors that each process has of its own.
    """

    has_own_values = True

    def __init__(self, body: Body, flow: _Flow, over_mesh: set[int], to_own: set[int]) -> None:
        self._processes, self._name = flow.processes[0], b""
        self._parameters = flow.parameters
        order = body.inputs.positions()
        self._equal = [k for k, i in enumerate(order) if i in flow.equal]
        kinds = [
            _Kind.OVER_MESH if i is None or i in over_mesh else _Kind.EQUAL if i in flow.equal else _Kind.OWN
            for i in order
        ]
        results = [
            _Kind.EQUAL if k in to_own and kind is _Kind.OVER_MESH else kind
            for k, kind in ((k, flow.kind_of(flow.results[k])) for k in body.result_order)
        ]
        self._mapped = _Mapped(self._processes.mesh, lambda xs: body.results(xs, in_xla), kinds, results)
        self._given_back = self._inputs_that_equal_results_replace(body, order)
        self._known: dict[int, Any] = {}
        """Arrays known to be equal in all processes, by the input that they are next."""
        self._kernel = Donating(self._mapped, body.inputs.n_given_away, bool(body.inputs.spare), body.placements())
        self.kernel = self._kernel

    def _inputs_that_equal_results_replace(self, body: Body, order: list[Any]) -> dict[int, int]:
        at = {k: new for new, k in enumerate(body.result_order)}
        written = {i: at[k] for i, k, _ in body.traced.writes}
        replaced = {written[order[k]]: k for k in self._equal if order[k] in written}
        return {k: of for k, of in replaced.items() if self._mapped.results[k] is _Kind.EQUAL}

    def begin(self, inputs: list[Any]) -> tuple[Donating, list[Any]]:
        """The program, and the inputs as it takes them.

        Raises:
            AsWritten: the processes are not about to run the same program, on numbers that are equal where they have
                to be.
        """
        told = b""
        if self._mapped.fits(inputs):
            self._name = self._name or _name_of(lambda: self.lower(inputs).as_text(), self._parameters)
            numbers = [(inputs[k], self._known.get(k)) for k in self._equal]
            told = _announced(self._name, ["known" if known is x else x for x, known in numbers])
        if not self._processes.agree(told):
            raise AsWritten(_DIFFERENT, lasting=False)
        self._known.clear()
        return self._kernel, self._mapped.given(inputs)

    def lower(self, inputs: Sequence[Any]) -> jax.stages.Lowered:
        """The program for such arrays, which is not run."""
        return self._kernel.lower(*self._mapped.like(inputs))

    def bring_back(self, arrays: list[Any]) -> None:
        """Make results that are this process's own arrays of it; those that are stay what they are."""
        self._mapped.bring_back(arrays)
        for k, of in self._given_back.items() if arrays else ():
            self._known[of] = arrays[k]


# --- a program in two parts -----------------------------------------------------------------------


class ForwardOverMesh:
    """The forward part of a program, which leaves rows for the backward part."""

    def __init__(self, processes: Processes, mapped: _Mapped, parameters: list[Any]) -> None:
        self._processes, self._parameters = processes, parameters
        self._mapped, self._kernel, self._name = mapped, jit(mapped), b""
        self._equal = [k for k, kind in enumerate(mapped.inputs) if kind is _Kind.EQUAL]

    def __call__(self, *values: Any) -> list[Any]:
        """The results and what is saved.

        Raises:
            AsWritten: the processes are not about to run the same program.
        """
        told = b""
        if self._mapped.fits(values):
            self._name = self._name or _name_of(lambda: self.lower(*values).as_text(), self._parameters)
            told = _announced(self._name, [values[k] for k in self._equal])
        if not self._processes.agree(told):
            raise AsWritten(_DIFFERENT, lasting=False)
        results = list(self._kernel(*self._mapped.given(values)))
        self._mapped.bring_back(results)
        return results

    def lower(self, *values: Any) -> jax.stages.Lowered:
        """The program for such arrays, which is not run."""
        return self._kernel.lower(*self._mapped.like(values))


class _Backward:
    """The backward part of a program, from rows and the gradients of this process's own results."""

    def __init__(
        self,
        processes: Processes,
        fn: Callable[..., list[Any]],
        saved: list[_Kind],
        results: list[_Kind],
        parameters: list[Any],
    ) -> None:
        n = len(saved)
        self._parameters = parameters
        self._processes, self._saved, self._results = processes, saved, results
        self._fn = lambda xs: fn(xs[:n], xs[n:])
        self._kernels: dict[tuple[bool, ...], tuple[Any, _Mapped, bytes]] = {}
        """By which gradients come in."""

    def __call__(self, saved: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """The gradients; None where none of those that come in has an effect."""
        came = tuple([ct is not None for ct in cts])
        inputs = [*saved, *cts]
        if came not in self._kernels:
            kinds = [*self._saved, *[_Kind.OWN] * len(cts)]
            mapped = _Mapped(self._processes.mesh, self._fn, kinds, self._results)
            kernel: Any = jit(mapped)
            try:
                name = _name_of(lambda: kernel.lower(*mapped.like(inputs)).as_text(), [came, *self._parameters])
            except AsWritten as error:
                raise RuntimeError(f"torch.compile: the backward pass: {error}") from error
            self._kernels[came] = kernel, mapped, name
        kernel, mapped, name = self._kernels[came]
        if not self._processes.agree(name):
            raise RuntimeError(
                "torch.compile: the processes are about to run different backward passes of a compiled function"
            )
        results = list(kernel(*mapped.given(inputs)))
        mapped.bring_back(results)
        return results


def _divide(body: Body, parts: ForwardAndBackward, flow: _Flow, over_mesh: set[int]) -> None:
    """Let both parts of a program run over the mesh."""
    processes, sources = flow.processes[0], range(len(body.traced.sources))
    inputs = [_Kind.OVER_MESH if i in over_mesh else _Kind.EQUAL if i in flow.equal else _Kind.OWN for i in sources]
    saved = [flow.kind_of(v) for v in parts.saved_names]
    rows = [_Kind.ROW if kind is _Kind.OWN else kind for kind in saved]
    kinds = [flow.kind_of(v) for v in flow.results]
    results, gradients = kinds[: parts.n_results], kinds[parts.n_results :]
    forward, backward = parts.run_forward, parts.run_backward
    mapped = _Mapped(processes.mesh, lambda xs: forward(*xs), inputs, [*results, *rows])
    parts.forward = ForwardOverMesh(processes, mapped, flow.parameters)
    parts.backward = _Backward(processes, backward, rows, gradients, flow.parameters)
    parts.is_joint = True


# --- which programs -------------------------------------------------------------------------------


def own_values(candidate: Candidate) -> OwnValues | None:
    """The form of a program in which each process computes with values of its own; None if it has no such step.

    The parts of a program with a backward part are changed to that form.

    Raises:
        AsWritten: it does something that cannot be done for the rows of all processes at once.
    """
    if not MANY:
        return None
    body, traced = candidate.body, candidate.body.traced
    held = {i: s for i, s in enumerate(traced.sources) if s.kind in ("arg", "tensor", "grad")}
    over_mesh = {i for i, s in held.items() if is_over_mesh(s.array(candidate.args))}
    to_mesh = {k for k, there in body.pins.items() if not there.is_fully_addressable}
    to_own = {k for i, k, _ in traced.writes if k not in to_mesh and (i < 0 or i in held)}
    flow = _Flow(traced.jaxpr, over_mesh, to_mesh)
    if not flow.processes:
        return None
    why = _why_not(candidate, flow)
    if why is not None:
        raise AsWritten(f"each process computes with values of its own, and {why}", lasting=True)
    if candidate.parts is None:
        return OwnValues(body, flow, over_mesh, to_own)
    return _divide(body, candidate.parts, flow, over_mesh)


def _why_not(candidate: Candidate, flow: _Flow) -> str | None:
    parts, sources = candidate.parts, candidate.body.traced.sources
    if candidate.body.late or (parts is not None and parts.checks):
        return "it has checks of what it computes"
    members = [d.process_index for d in flow.processes[0].mesh.devices.flat]
    if any(p.mesh != flow.processes[0].mesh for p in flow.processes):
        return "it does so over several meshes"
    for step in flow.effects:
        call = collective_of(step)
        known = call is not None and call.can_be_in_xla and list(call.members) == members
        if not known or parts is not None:
            return "it does something else beside computing"
    for i in flow.equal:
        source = sources[i] if i < len(sources) else None
        if source is None:
            return "it returns a tensor over the mesh that has a graph"
        # State of optimizers is read for the comparison once: a run's result is known to be equal in the next one.
        many = source.kind == "arg" and source.meta is not None and source.meta.numel != 1
        if source.kind == "draw" or many:
            return "it writes such values to tensors over the mesh"
    roots = () if candidate.backward is None else candidate.backward.roots
    if any(flow.kind_of(flow.results[k]) is _Kind.OVER_MESH for k in roots):
        return "it returns a tensor over the mesh that has a graph"
    return None
