"""Compiled programs that several processes run together, so that XLA carries out the collectives in them.

A collective in a compiled function is a call back into Python, which exchanges arrays between the memories of the
processes. Where the devices of the processes are connected (GPUs by NCCL, TPUs by their network), the collectives
become steps of XLA's own, and the program one over the mesh of these devices: each process gives it its own arrays,
and gets its own results.

XLA asks that all processes run the same program. Before each run they tell each other which one they are about to run;
where these differ (one has a smaller batch, or does something else as rank 0), each runs its own, with calls back.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..._bridge.compile.program.body import Body
from ..._bridge.compile.program.donation import Donating
from ..._bridge.compile.program.joint import Candidate, JointProgram
from ..._bridge.compile.trace.equal_steps import called
from ..._core.arrays import devices

AXIS = "processes"
"""The axis of a mesh of processes, as the steps of XLA's name it."""


class Collective(abc.ABC):
    """What a compiled program calls where the function came to a collective. Subclasses know how it is done."""

    group: str
    """The name of the processes that take part, the same in all of them."""
    can_be_in_xla: bool
    """Whether XLA has such a step."""

    @property
    @abc.abstractmethod
    def members(self) -> tuple[int, ...]:
        """The ranks of the processes that take part."""

    @abc.abstractmethod
    def mesh(self, platform: str) -> Mesh | None:
        """The devices of the processes that take part, if they are connected."""

    @abc.abstractmethod
    def in_xla(self, arrays: Sequence[Any]) -> list[Any]:
        """The step in a program over the mesh."""

    @abc.abstractmethod
    def agree(self, program: bytes) -> bool:
        """Return whether all that take part are about to run the same program, and not none; each calls this."""


class OverProcesses(JointProgram):
    """The form of a program that the processes of a group run together.

    Args:
        mesh: their devices.
        run: the program with collectives of XLA's, for this process's arrays; None if it has steps that XLA has not.
        overwritten: how many of the first arrays are overwritten.
        keep_unused: whether the program takes arrays that it does not read.
        of_groups: a collective of each group that has one in the program. Not all processes need be in the same ones:
            each group finds out for itself, in an order that is the same in all processes.
    """

    def __init__(
        self,
        mesh: Mesh,
        run: Callable[..., list[Any]] | None,
        overwritten: int,
        keep_unused: bool,
        of_groups: Sequence[Collective],
    ) -> None:
        self._of_groups, self._name = sorted(of_groups, key=lambda c: c.group), b""
        self._there = NamedSharding(mesh, PartitionSpec())
        """What JAX is told of each array: all processes have it. Each has its own, and the program is written so."""
        self._here = next(d for d in mesh.devices.flat if d.process_index == jax.process_index())
        self.kernel = None
        if run is not None:
            every = PartitionSpec()
            whole = jax.shard_map(run, mesh=mesh, in_specs=every, out_specs=every, check_vma=False)

            def compiled_step(*xs: Any) -> Any:
                return whole(*xs)

            self.kernel = Donating(compiled_step, overwritten, keep_unused)

    def begin(self, inputs: list[Any]) -> tuple[Donating, list[Any]] | None:
        """The program over the mesh and this process's arrays as it takes them, if all processes begin it now."""
        kernel = self.kernel if all(map(self._is_here, inputs)) else None
        if kernel is not None and not self._name:
            self._name = hashlib.sha256(self.lower(inputs).as_text().encode()).digest()
        told = b"" if kernel is None else self._name
        answers = [c.agree(told) for c in self._of_groups]  # each group waits for its own
        return (kernel, given_to_mesh(inputs, self._there, self._here)) if kernel is not None and all(answers) else None

    def lower(self, inputs: Sequence[Any]) -> jax.stages.Lowered:
        """The program for such arrays, which is not run."""
        assert self.kernel is not None
        return self.kernel.lower(*like_given(inputs, self._there))

    def _is_here(self, x: Any) -> bool:
        return not isinstance(x, jax.Array) or x.sharding.device_set == {self._here}

    def bring_back(self, arrays: list[Any]) -> None:
        """Make arrays over the mesh this process's own; those that are stay what they are."""
        for i, x in enumerate(arrays):
            if is_over_mesh(x):
                arrays[i] = x.addressable_data(0)


def is_over_mesh(x: Any) -> bool:
    """Return whether an input or a result of a program is an array that lies over several processes."""
    return isinstance(x, jax.Array) and not x.is_fully_addressable


def _is_own(x: Any) -> bool:
    """Whether an input of a program is an array of this process, and neither over the mesh nor a number of Python's."""
    return hasattr(x, "dtype") and not is_over_mesh(x)


def given_to_mesh(inputs: Sequence[Any], there: NamedSharding, here: Any) -> list[Any]:
    """Inputs of a program over a mesh: arrays of this process as arrays over it, all others as they are.

    Args:
        inputs: arrays and numbers of Python.
        there: what JAX is told of such an array.
        here: this process's device.
    """
    wrap, out = jax.make_array_from_single_device_arrays, list(inputs)
    at = [i for i, x in enumerate(inputs) if _is_own(x)]
    for i, x in zip(at, jax.device_put([inputs[i] for i in at], here)):
        out[i] = wrap(x.shape, there, [x])
    return out


def like_given(inputs: Sequence[Any], there: NamedSharding) -> list[Any]:
    """Return what a program over a mesh is lowered for, given such inputs."""
    return [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=there) if _is_own(x) else x for x in inputs]


def over_processes(candidate: Candidate) -> OverProcesses | None:
    """The form of a program for all processes together; None where there is no collective that XLA could do."""
    body = candidate.body
    eqns = body.traced.jaxpr.eqns
    if candidate.parts is not None or not any(eqn.effects for eqn in eqns):
        return None
    steps = list(_collectives(eqns))
    of_groups = {c.group: c for c in steps if c is not None}
    platform = candidate.platform or _platform(body)
    meshes = [c.mesh(platform) for c in of_groups.values()]
    connected = [mesh for mesh in meshes if mesh is not None]
    if not connected:
        return None
    together = len(of_groups) == 1 and all(c is not None and c.can_be_in_xla for c in steps)
    run = (lambda *xs: body.results(xs, in_xla)) if together else None
    inputs = body.inputs
    return OverProcesses(connected[0], run, inputs.n_given_away, bool(inputs.spare), list(of_groups.values()))


def _platform(body: Body) -> str:
    """Where a program computes: `cpu`, `gpu` or `tpu`."""
    found = [s.meta.device for s in body.traced.sources if s.meta is not None]
    return devices.to_jax(found[0] if found else devices.default_device()).platform


def in_xla(eqn: Any, arrays: Sequence[Any]) -> list[Any] | None:
    """A collective as XLA's steps; None for any other step of a program."""
    call = collective_of(eqn)
    return None if call is None else call.in_xla(arrays)


def collective_of(eqn: Any) -> Collective | None:
    """The collective that a step of a program is."""
    call = getattr(eqn.params.get("callback"), "callback_func", None)
    return call if isinstance(call, Collective) else None


def _collectives(eqns: Sequence[Any]) -> Iterator[Collective | None]:
    """The collectives of a program; None for anything else that it does beside computing."""
    for eqn in eqns:
        if not eqn.effects:
            continue
        inner = called(eqn)
        if inner is not None:
            yield from _collectives(inner.jaxpr.eqns)
        else:
            yield collective_of(eqn)
