"""A module as a program: what `torch.export.export` returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._core.errors.absent import refusal
from .._engine.graph.record import no_grad
from .._engine.memory.tensor import Tensor
from ..func import functional_call
from ..interop import Exported, export as _exported
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from .dynamic_shapes import Shapes

_GRAPHS = "the program is StableHLO (`.mlir` is its text), and no graph of ATen's operators"


class ExportedProgram:
    """A program with the parameters and buffers that it reads.

    `module()` gives a module that runs it. Calling the program itself does the same; PyTorch's raises.
    """

    def __init__(
        self,
        exported: Exported,
        state: dict[str, Tensor],
        persistent: Sequence[str],
        written: Sequence[str],
        ranges: dict[str, tuple[int, float]],
        example_inputs: Any,
    ) -> None:
        self._exported, self._state, self._persistent, self._written = exported, state, [*persistent], [*written]
        self.range_constraints, self.example_inputs = ranges, example_inputs
        self._module: Module | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._module is None:
            self._module = self.module()
        return self._module(*args, **kwargs)

    def module(self, check_guards: bool = True) -> Module:
        """A module with the parameters and buffers of the program, which runs it.

        Args:
            check_guards: sizes and dtypes are always checked.
        """
        return _ProgramModule(self)

    @property
    def mlir(self) -> str:
        """The program as text, in StableHLO."""
        return self._exported.mlir

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers by name."""
        return {name: self._state[name] for name in self._persistent}

    @property
    def constants(self) -> dict[str, Tensor]:
        """The buffers that are not persistent."""
        return {name: t for name, t in self._state.items() if name not in self._persistent}

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters and their names."""
        return ((name, t) for name, t in self._state.items() if isinstance(t, Parameter))

    def parameters(self) -> Iterator[Tensor]:
        """Parameters."""
        return (t for _, t in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Buffers and their names."""
        return ((name, t) for name, t in self._state.items() if not isinstance(t, Parameter))

    def buffers(self) -> Iterator[Tensor]:
        """Buffers."""
        return (t for _, t in self.named_buffers())

    graph = property(refusal("ExportedProgram.graph", _GRAPHS, NotImplementedError))
    graph_module = property(refusal("ExportedProgram.graph_module", _GRAPHS, NotImplementedError))
    graph_signature = property(refusal("ExportedProgram.graph_signature", _GRAPHS, NotImplementedError))
    run_decompositions = refusal("ExportedProgram.run_decompositions", _GRAPHS, NotImplementedError)


class _ProgramModule(Module):
    """Parameters and buffers under their names, and the program in the place of the code."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self._program = program
        for name, t in program._state.items():
            *path, last = name.split(".")
            home: Module = self
            for part in path:
                if part not in home._modules:
                    home.add_module(part, Module())
                home = home._modules[part]  # type: ignore[assignment]
            if isinstance(t, Parameter):
                home.register_parameter(last, t)
            else:
                home.register_buffer(last, t, persistent=name in program._persistent)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        program = self._program
        state = _state_of(self)
        _check_ranges(program, [state, list(args), kwargs])
        out, written = program._exported(state, list(args), kwargs)
        with no_grad():
            for name, value in zip(program._written, written, strict=True):
                state[name].copy_(value)
        return out

    def train(self, mode: bool = True) -> Any:
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self) -> Any:
        raise NotImplementedError("Calling eval() is not supported yet.")


def _state_of(module: Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _check_ranges(program: ExportedProgram, given: Any) -> None:
    sizes = program._exported.sizes(*given) if program.range_constraints else {}
    for name, (low, high) in program.range_constraints.items():
        if name in sizes and not low <= sizes[name] <= high:
            raise AssertionError(
                f"Guard failed: {name} is {sizes[name]}, and the program was exported for {low} to {high}"
            )


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: Sequence[str] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """A module as one program.

    Args:
        mod: the module, in the mode (`eval()` or not) in which it is to run.
        args, kwargs: an example of its arguments: tensors in lists, tuples and dicts, and constants.
        dynamic_shapes: which dimensions of tensors may have any size: a dict by the names of the arguments, or a list,
            of a dict or list of `Dim`s for each tensor; or a `ShapesCollection`.
        strict, prefer_deferred_runtime_asserts_over_guards: accepted; there is one way to trace.
        preserve_module_call_signature: empty; modules inside of `mod` have no programs of their own.

    Raises:
        ValueError: `mod` is no module, or `dynamic_shapes` does not fit the example.
        RuntimeError: the module looks at values, or does something else at another size.

    Example:
        >>> import torchgrad_jax as torch
        >>> net = torch.nn.Linear(3, 2)
        >>> program = torch.export.export(net, (torch.ones(4, 3),), dynamic_shapes=({0: torch.export.Dim("batch")},))
        >>> program.module()(torch.ones(7, 3)).shape
        torch.Size([7, 2])
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if preserve_module_call_signature:
        raise NotImplementedError("export: preserve_module_call_signature: inner modules have no programs of their own")
    kwargs = dict(kwargs or {})
    shapes = Shapes(auto=True)
    try:
        return _made(mod, args, kwargs, dynamic_shapes, shapes)
    except RuntimeError:
        if not shapes.has_auto:
            raise
    return _made(mod, args, kwargs, dynamic_shapes, Shapes(auto=False))


def _made(mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any], given: Any, shapes: Shapes) -> ExportedProgram:
    by_position, by_name = shapes.texts(mod.forward, args, kwargs, given)
    state, written = _state_of(mod), list[str]()
    buffers = [name for name, _ in mod.named_buffers()]

    def run(state: dict[str, Tensor], args: list[Any], kwargs: dict[str, Any]) -> Any:
        own = {name: state[name].detach().clone() for name in buffers}  # it may write to them
        before = {name: t._st.array for name, t in own.items()}
        out = functional_call(mod, {**state, **own}, tuple(args), kwargs)
        written[:] = [name for name, t in own.items() if t._st.array is not before[name]]
        return out, [own[name] for name in written]

    options: Any = {"shapes": [None, by_position, by_name], "constraints": shapes.constraints()}
    inputs = ({name: t.detach().clone() for name, t in state.items()}, list(args), kwargs)
    wants = any(t.requires_grad for t in state.values())
    exported = _exported(run, *inputs, **options, gradients=wants)
    kept = mod.state_dict()
    return ExportedProgram(exported, state, [n for n in state if n in kept], written, shapes.ranges, (args, kwargs))
