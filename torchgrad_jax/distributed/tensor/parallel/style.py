"""How a layer is split over a mesh of one dimension: rules of placement for its parameters, inputs and outputs.

XLA puts in the collectives that follow. After a layer whose weight is split by columns the features of its output are
split, a layer split by rows takes them so, and its products are added up over the devices (an all-reduce).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ...._core.state import MODES
from ...._engine.memory.tensor import Tensor
from ....nn.modules.linear import Linear
from ....nn.modules.module import Module
from ....nn.modules.sparse import Embedding
from ...device_mesh import DeviceMesh
from .._api import distribute_module, place_parameter
from .._dtensor import DTensor, is_own, named_sharding, refuse_parts, spread, to_local
from .._specs import names_of
from ..placement_types import Placement, Replicate, Shard


class ParallelStyle(ABC):
    """How a module is split over a mesh."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        """Split a module."""


def hand_out(t: Any, mesh: DeviceMesh, layout: Placement | None, local: bool) -> Any:
    """A value as it leaves a module: placed, and an ordinary tensor or one that knows its mesh.

    An ordinary tensor is what this process has of it, as in torch. In a process with all devices that is all of it, and
    so it is where another dimension of the mesh splits it, too: `fully_shard` has made that one tensor of all batches.
    """
    if layout is None:
        return t
    if local and not (MODES.run.at_once or is_own(mesh)):
        refuse_parts("use_local_output=True")
    out = spread(t, mesh, (layout,), if_it_fits=True)
    if local and not is_own(mesh) and _is_split_over_no_other(out, mesh):
        return to_local(out)
    if local:
        out = out.view_as(out) if out is t else out
        out.__dict__["_is_local"] = True
        return out
    return out


def take_in(t: Any, mesh: DeviceMesh, given: Placement, wanted: Placement, local: bool = False) -> Any:
    """A value as a module gets it: a plain tensor is said to be placed as `given`, then all are placed as wanted.

    A tensor that lies on no mesh is this process's part, where there are others.
    """
    if not isinstance(t, Tensor):
        raise AssertionError("expecting input to be a torch.Tensor!")
    if named_sharding(t) is None and not is_own(mesh):
        t = DTensor.from_local(t, mesh, (given,))
    elif not isinstance(t, DTensor) and given != wanted and given.is_shard():
        t = spread(t, mesh, (given,), if_it_fits=True)
    return hand_out(t, mesh, wanted, local)


def _is_split_over_no_other(t: Tensor, mesh: DeviceMesh) -> bool:
    """Return whether no axis of the whole mesh splits a tensor but those of a slice."""
    held = named_sharding(t)
    own = {a for axes in mesh.axes for a in axes}
    return held is not None and all(a in own for entry in held.spec for a in names_of(entry))


class _Split(ParallelStyle):
    """A linear layer or an embedding whose parameters are split."""

    parameters: dict[type, dict[str, Placement]]
    """For each type of layer how its parameters are split; others are not."""
    inputs: dict[type, Placement]
    """How each type of layer takes its input."""
    default_layouts: tuple[Placement, Placement]

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        before, after = self.default_layouts
        self.input_layouts = (input_layouts or before,)
        self.output_layouts = (output_layouts or after,)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        kind = next((k for k in self.parameters if isinstance(module, k)), None)
        if kind is None:
            raise NotImplementedError(f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!")
        self.desired_input_layouts = (self.inputs[kind],)

        def split(name: str, part: Module, mesh: DeviceMesh) -> None:
            for key, p in part.named_parameters(recurse=False):
                place = (self.parameters[kind].get(key, Replicate()),)
                place_parameter(p, mesh, place, key, self.src_data_rank, if_it_fits=True)

        def enter(m: Module, inputs: Any, mesh: DeviceMesh) -> Any:
            first = take_in(inputs[0], mesh, self.input_layouts[0], self.inputs[kind])
            return first, *inputs[1:]

        def leave(m: Module, output: Any, mesh: DeviceMesh) -> Any:
            return hand_out(output, mesh, self.output_layouts[0], self.use_local_output)

        return distribute_module(module, device_mesh, split, enter, leave)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, output_layouts={self.output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class ColwiseParallel(_Split):
    """Split the output features of a `Linear`, or the width of an `Embedding`.

    Args:
        input_layouts: how the input lies; on all devices if None.
        output_layouts: how the output is to lie; its last dimension split if None.
        use_local_output: whether the output is an ordinary tensor rather than a `DTensor`; both are the whole one.
    """

    parameters = {Linear: {"weight": Shard(0), "bias": Shard(0)}, Embedding: {"weight": Shard(1)}}
    inputs = {Linear: Replicate(), Embedding: Replicate()}
    default_layouts = Replicate(), Shard(-1)


class RowwiseParallel(_Split):
    """Split the input features of a `Linear`, or the rows of an `Embedding`.

    Args:
        input_layouts: how the input lies; its last dimension split if None.
        output_layouts: how the output is to lie; on all devices if None.
        use_local_output: whether the output is an ordinary tensor rather than a `DTensor`; both are the whole one.
    """

    parameters = {Linear: {"weight": Shard(1)}, Embedding: {"weight": Shard(0)}}
    inputs = {Linear: Shard(-1), Embedding: Replicate()}
    default_layouts = Shard(-1), Replicate()


class SequenceParallel(ParallelStyle):
    """Split what goes through a norm or dropout along the sequence; its parameters are on all devices.

    Args:
        sequence_dim: the dimension of the sequence.
        use_local_output: whether the output is an ordinary tensor rather than a `DTensor`; both are the whole one.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        split = self.sequence_sharding[0]

        def enter(m: Module, inputs: Any, mesh: DeviceMesh) -> Any:
            return take_in(inputs[0], mesh, split, split), *inputs[1:]

        def leave(m: Module, output: Any, mesh: DeviceMesh) -> Any:
            return hand_out(output, mesh, split, self.use_local_output)

        return distribute_module(module, device_mesh, None, enter, leave)

    def __repr__(self) -> str:
        return (
            f"SequenceParallel(sequence_dim={self.sequence_sharding[0].dim}, use_local_output={self.use_local_output})"
        )


def _row(layouts: Any) -> tuple[Placement | None, ...]:
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts)


class PrepareModuleInput(ParallelStyle):
    """Place the inputs of a module.

    Args:
        input_layouts: how the positional inputs lie; None for one to leave alone.
        desired_input_layouts: how they are to lie.
        input_kwarg_layouts: the same for keyword inputs.
        desired_input_kwarg_layouts: how they are to lie.
        use_local_output: whether the module gets ordinary tensors rather than `DTensor`s; both are whole.
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: Any = None,
        desired_input_kwarg_layouts: Any = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = None if input_layouts is None else _row(input_layouts)
        self.desired_input_layouts = None if desired_input_layouts is None else _row(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if self.input_layouts is not None and self.desired_input_layouts is None:
            raise AssertionError("desired module inputs should not be None!")
        if len(self.input_layouts or ()) != len(self.desired_input_layouts or ()):
            raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        if len(self.input_kwarg_layouts) != len(self.desired_input_kwarg_layouts):
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have same length!")

    def _one(self, t: Any, mesh: DeviceMesh, given: Any, wanted: Any) -> Any:
        if given is None:
            return t
        return take_in(t, mesh, given, given if wanted is None else wanted, self.use_local_output)

    def _inputs(self, inputs: Any, mesh: DeviceMesh) -> Any:
        given, wanted = self.input_layouts, self.desired_input_layouts
        if given is None or wanted is None:
            return inputs
        row = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(row) != len(given):
            raise ValueError("module inputs and input_layouts should have same length!")
        return tuple(self._one(t, mesh, a, b) for t, a, b in zip(row, given, wanted, strict=True))

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def enter(m: Module, inputs: Any, named: dict[str, Any]) -> Any:
            wanted = self.desired_input_kwarg_layouts
            placed = {
                key: self._one(t, device_mesh, self.input_kwarg_layouts.get(key), wanted.get(key))
                for key, t in named.items()
            }
            return self._inputs(inputs, device_mesh), placed

        module.register_forward_pre_hook(enter, with_kwargs=True)
        return module

    def __repr__(self) -> str:
        return (
            f"PrepareModuleInput(input_layouts={self.input_layouts}, "
            f"desired_input_layouts={self.desired_input_layouts}, "
            f"input_kwarg_layouts={self.input_kwarg_layouts}, "
            f"desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class PrepareModuleOutput(ParallelStyle):
    """Place the outputs of a module.

    Args:
        output_layouts: how the outputs lie; None for one to leave alone.
        desired_output_layouts: how they are to lie.
        use_local_output: whether they are ordinary tensors rather than `DTensor`s; both are whole.
    """

    def __init__(self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True) -> None:
        self.output_layouts = _row(output_layouts)
        self.desired_output_layouts = _row(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _outputs(self, outputs: Any, mesh: DeviceMesh) -> Any:
        row = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(row) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        placed = tuple(
            t if given is None else take_in(t, mesh, given, given if wanted is None else wanted, self.use_local_output)
            for t, given, wanted in zip(row, self.output_layouts, self.desired_output_layouts, strict=True)
        )
        return placed[0] if len(placed) == 1 else placed

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_hook(lambda m, inputs, outputs: self._outputs(outputs, device_mesh))
        return module

    def __repr__(self) -> str:
        return (
            f"PrepareModuleOutput(output_layouts={self.output_layouts}, "
            f"desired_output_layouts={self.desired_output_layouts}, use_local_output={self.use_local_output})"
        )


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput` in one."""

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: Any = None,
        desired_input_kwarg_layouts: Any = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)

    def __repr__(self) -> str:
        return f"PrepareModuleInputOutput({self.prepare_module_input}, {self.prepare_module_output})"
