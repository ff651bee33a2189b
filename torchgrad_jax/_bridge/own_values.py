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
run, before each run. Where something differs (one has a smaller batch), all of them run the function as it is written.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._core.caches import remember
from .._core.errors import AsWritten
from .._core.host import INNER
from .._engine.traced_run import placeholder
from .donation import Donating
from .over_processes import AXIS, collective_of, in_xla, is_array


class Processes(abc.ABC):
    """The processes of a mesh that has one device of each. Subclasses know how they talk."""

    mesh: Mesh

    @abc.abstractmethod
    def agree(self, program: bytes) -> bool:
        """Whether all of them give the same bytes, and not none; each calls this."""


# --- the two steps --------------------------------------------------------------------------------

_OWN_COPY, _AVERAGE = "own_copy", "average_over_processes"


def own_copy(array: Any, processes: Processes) -> Any:
    """A traced array over the mesh as a value that each process has of its own."""
    return _primitives()[_OWN_COPY].bind(array, processes=processes)


def average(array: Any, processes: Processes, there: NamedSharding) -> Any:
    """The average of values that the processes have of their own, over the mesh."""
    return _primitives()[_AVERAGE].bind(array, processes=processes, there=there)


@remember()
def _primitives() -> dict[str, Any]:
    from jax.extend.core import Primitive
    from jax.interpreters import batching, mlir

    copy, mean = Primitive(_OWN_COPY), Primitive(_AVERAGE)
    copy.def_abstract_eval(lambda x, *, processes: x)
    mean.def_abstract_eval(lambda x, *, processes, there: x)
    mlir.register_lowering(copy, lambda _, x, *, processes: [x])
    mlir.register_lowering(mean, mlir.lower_fun(_same_for_all, multiple_results=False))
    batching.primitive_batchers[mean] = _mean_of_rows
    return {_OWN_COPY: copy, _AVERAGE: mean}


def _mean_of_rows(args: Any, dims: Any, *, processes: Processes, there: Any) -> Any:
    return jax.lax.with_sharding_constraint(args[0].mean(dims[0]), there), None


def _same_for_all(x: Any, *, processes: Processes, there: Any) -> Any:
    """The average of what does not depend on a process's own values."""
    return jax.lax.with_sharding_constraint(x, there)


# --- what a program does --------------------------------------------------------------------------


class _Step(NamedTuple):
    primitive: Any
    inputs: list[Any]
    results: list[Any]
    params: dict[str, Any]
    effects: Any


def _steps(eqns: Sequence[Any], names: dict[Any, Any]) -> Iterator[_Step]:
    """The steps of a program in order, those of calls in their place.

    Args:
        eqns: the steps as JAX recorded them.
        names: what the variables stand for that are others' names; the results of calls are put there.
    """
    for eqn in eqns:
        inputs = [names.get(v, v) for v in eqn.invars if not hasattr(v, "val")]
        inner = eqn.params.get(INNER.get(eqn.primitive.name, ""))
        if inner is None:
            results = [names.get(v, v) for v in eqn.outvars]
            yield _Step(eqn.primitive, inputs, results, eqn.params, eqn.effects)
            continue
        inner = getattr(inner, "jaxpr", inner)
        given = [None if hasattr(v, "val") else names.get(v, v) for v in eqn.invars]
        # A call may be met again: the variables in it are others each time.
        own = {v: object() for e in inner.eqns for v in e.outvars}
        own.update(zip(inner.invars, given))
        yield from _steps(inner.eqns, own)
        names.update(
            (v, None if hasattr(o, "val") else own.get(o))
            for v, o in zip(eqn.outvars, inner.outvars)
        )


class _Flow:
    """What lies over the mesh in a program, and what of the processes' own values has to be equal in all of them.

    Args:
        jaxpr: the program.
        over_mesh: its sources that lie over the mesh, by their numbers.
        to_mesh: its results that are written to something over the mesh.
    """

    def __init__(self, jaxpr: Any, over_mesh: set[int], to_mesh: set[int]) -> None:
        names: dict[Any, Any] = {}
        self._all = list(_steps(jaxpr.eqns, names))
        results = [None if hasattr(v, "val") else names.get(v, v) for v in jaxpr.outvars]
        self.processes: list[Processes] = [
            step.params["processes"] for step in self._all if step.primitive.name == _OWN_COPY
        ]
        """Those whose values the program has, once for each value; none if it is an ordinary program."""
        self.effects = [step for step in self._all if step.effects]
        lies_over_mesh: set[Any] = set()
        for step in self._all:
            if step.primitive is placeholder():
                over = step.params["index"] in over_mesh
            else:
                over = step.primitive.name == _AVERAGE or (
                    step.primitive.name != _OWN_COPY and not lies_over_mesh.isdisjoint(step.inputs)
                )
            lies_over_mesh.update(step.results if over else ())
        self._over_mesh = lies_over_mesh
        self.equal = self._needed_equal({results[k] for k in to_mesh})
        """The sources among the processes' own values on which something over the mesh depends."""
        differs = self._values_that_differ()
        self.results_over_mesh = {k for k, v in enumerate(results) if v in lies_over_mesh}
        self.equal_results = {k for k, v in enumerate(results) if v not in differs}
        """The results that are the same in all processes, those over the mesh among them."""

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
        """What may differ between the processes."""
        differs: set[Any] = set()
        for step in self._all:
            if step.primitive is placeholder():
                own = step.params["index"] not in self.equal
            else:
                own = bool(step.effects) or not differs.isdisjoint(step.inputs)
            if own:
                differs.update(v for v in step.results if v not in self._over_mesh)
        return differs


class _Result(NamedTuple):
    over_mesh: bool
    """Whether it stays an array over the mesh."""
    equal: bool
    """Whether it is the same in all processes."""


# --- how it is run --------------------------------------------------------------------------------


class OwnValues:
    """A program over the mesh, in which values that each process has of its own are rows of arrays.

    Args:
        entry: the program of a compiled function.
        flow: what lies over the mesh in it.
        over_mesh: its sources that do.
        to_own: its results that are written to tensors that each process has of its own.
    """

    def __init__(self, entry: Any, flow: _Flow, over_mesh: set[int], to_own: set[int]) -> None:
        self._entry, self._processes = entry, flow.processes[0]
        mesh = self._mesh = self._processes.mesh
        self._there, self._here = NamedSharding(mesh, PartitionSpec()), mesh.local_devices[0]
        self._rows, self._name = PartitionSpec(mesh.axis_names), b""
        n, spare = len(entry.donated), len(entry.spare)
        order = [*entry.order[:n], *[None] * spare, *entry.order[n:]]
        """Which source each input of the program is; None is memory that it does not read."""
        self._over_mesh = [i is None or i in over_mesh for i in order]
        self._equal = [k for k, i in enumerate(order) if i in flow.equal]
        self._same = {k for k, over in enumerate(self._over_mesh) if over} | set(self._equal)
        self._given_back = self._inputs_that_equal_results_replace(flow, order)
        self._known: dict[int, Any] = {}
        """Arrays known to be equal in all processes, by the input that they are next."""
        over = flow.results_over_mesh - to_own
        self._out = [_Result(k in over, k in flow.equal_results) for k in entry.result_order]
        self.kernel = Donating(self._run, n + spare, bool(spare), entry.placed_results())

    def _inputs_that_equal_results_replace(self, flow: _Flow, order: list[Any]) -> dict[int, int]:
        written = {i: k for i, k, _ in self._entry.program.writes}
        at = {k: new for new, k in enumerate(self._entry.result_order)}
        return {
            at[written[order[k]]]: k
            for k in self._equal
            if written.get(order[k]) in flow.equal_results
        }

    # -- the program
    def _run(self, *xs: Any) -> list[Any]:
        def mapped(rows: Sequence[Any], same: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            mine, of_all = iter(rows), iter(same)
            given = [next(of_all if k in self._same else mine) for k in range(len(xs))]
            out = self._entry.results_of(given, in_xla)
            own = [y for y, result in zip(out, self._out) if not result.equal]
            return own, [
                y if result.over_mesh else jax.lax.with_sharding_constraint(y, self._there)
                for y, result in zip(out, self._out)
                if result.equal
            ]

        own = [x for k, x in enumerate(xs) if k not in self._same]
        same = [x for k, x in enumerate(xs) if k in self._same]
        each = jax.vmap(
            mapped, in_axes=(0, None), out_axes=(0, None), axis_size=self._mesh.size, axis_name=AXIS,
            spmd_axis_name=self._mesh.axis_names,
        )  # fmt: skip
        rows, equal = each(self._as_rows(own), same)
        of_rows, of_all = iter(self._of_rows(rows)), iter(equal)
        return [next(of_all if result.equal else of_rows) for result in self._out]

    def _as_rows(self, own: Sequence[Any]) -> Any:
        """Values that each process has of its own, as the rows of one array each."""
        if not own:
            return []
        return jax.shard_map(
            lambda xs: [jnp.asarray(x)[None] for x in xs], mesh=self._mesh, in_specs=PartitionSpec(),
            out_specs=self._rows, check_vma=False,
        )(list(own))  # fmt: skip

    def _of_rows(self, rows: Sequence[Any]) -> Any:
        """For each process its rows."""
        if not rows:
            return []
        return jax.shard_map(
            lambda ys: [y[0] for y in ys], mesh=self._mesh, in_specs=self._rows, out_specs=PartitionSpec(),
            check_vma=False,
        )(list(rows))  # fmt: skip

    # -- its runs
    def begin(self, inputs: list[Any]) -> tuple[Donating, list[Any]]:
        """The program, and the inputs as it takes them.

        Raises:
            AsWritten: the processes are not about to run the same program, on numbers that are equal where they have
                to be.
        """
        fits = all(_is_over(x) is over for x, over in zip(inputs, self._over_mesh))
        if not self._processes.agree(self._what(inputs) if fits else b""):
            raise AsWritten(_DIFFERENT, lasting=False)
        self._known.clear()
        return self.kernel, self._given(inputs)

    def _what(self, inputs: list[Any]) -> bytes:
        """What all processes have to be about to do."""
        if not self._name:
            try:
                text = self.lower(inputs).as_text()
            except Exception as error:  # of a step that cannot be mapped
                why = f"it cannot be mapped over the processes ({type(error).__name__}: {error})"
                raise AsWritten(why, lasting=True) from error
            self._name = hashlib.sha256(text.encode()).digest()
        told = [self._name]
        for k in self._equal:
            x = inputs[k]
            known = self._known.get(k) is x
            told.append(
                b"known" if known else f"{type(x).__name__} {np.asarray(x).tobytes()}".encode()
            )
        return hashlib.sha256(b"|".join(told)).digest()

    def lower(self, inputs: Sequence[Any]) -> jax.stages.Lowered:
        """The program for such arrays, which is not run."""
        like = [
            x
            if over or not is_array(x)
            else jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._there)
            for x, over in zip(inputs, self._over_mesh)
        ]
        return self.kernel.lower(*like)

    def _given(self, inputs: list[Any]) -> list[Any]:
        wrap, out = jax.make_array_from_single_device_arrays, list(inputs)
        at = [k for k, x in enumerate(inputs) if is_array(x) and not self._over_mesh[k]]
        for k, x in zip(at, jax.device_put([inputs[k] for k in at], self._here)):
            out[k] = wrap(x.shape, self._there, [x])
        return out

    def bring_back(self, arrays: list[Any]) -> None:
        """Make results that are this process's own arrays of it; those that are stay what they are."""
        for k, (x, result) in enumerate(zip(list(arrays), self._out)):
            if not result.over_mesh and isinstance(x, jax.Array) and not x.is_fully_addressable:
                arrays[k] = x.addressable_data(0)
            if k in self._given_back:
                self._known[self._given_back[k]] = arrays[k]


def _is_over(x: Any) -> bool:
    return isinstance(x, jax.Array) and not x.is_fully_addressable


_DIFFERENT = "the processes would run different programs, or one on different numbers for tensors over all of them"


def own_values(entry: Any, args: Sequence[Any]) -> OwnValues | None:
    """The form of a program in which each process computes with values of its own; None if it has no such step.

    Args:
        entry: the program of a compiled function.
        args: the tensors that it was traced with.

    Raises:
        AsWritten: it does something that cannot be done for the rows of all processes at once.
    """
    sources = entry.program.sources
    held = {i: s for i, s in enumerate(sources) if s.kind in ("arg", "tensor", "grad")}
    over_mesh = {i for i, s in held.items() if _is_over(s.array(args))}
    to_mesh = {k for k, there in entry.pins.items() if not there.is_fully_addressable}
    to_own = {k for i, k, _ in entry.program.writes if k not in to_mesh and (i < 0 or i in held)}
    flow = _Flow(entry.program.jaxpr, over_mesh, to_mesh)
    if not flow.processes:
        return None
    why = _why_not(entry, flow)
    if why is not None:
        raise AsWritten(f"each process computes with values of its own, and {why}", lasting=True)
    return OwnValues(entry, flow, over_mesh, to_own)


def _why_not(entry: Any, flow: _Flow) -> str | None:
    if entry.parts is not None:
        return (
            "it returns what has a graph: compile the whole step, or the blocks within the module"
        )
    if entry.late:
        return "it has checks of what it computes"
    members = [d.process_index for d in flow.processes[0].mesh.devices.flat]
    if any(p.mesh != flow.processes[0].mesh for p in flow.processes):
        return "it does so over several meshes"
    for step in flow.effects:
        call = collective_of(step)
        if call is None or not call.can_be_in_xla or list(call.members) != members:
            return "it does something else beside computing"
    for i in flow.equal:
        source = entry.program.sources[i]
        if source.kind == "draw" or (source.meta is not None and source.meta.numel != 1):
            return "writes such values to tensors over the mesh"
    return None


__all__ = ["OwnValues", "Processes", "average", "own_copy", "own_values"]
