"""CommDebugMode: which collectives a block runs, by module, forward and backward.

XLA puts the collectives into the programs of operators on tensors over a mesh: a product of a matrix split by columns
with one split by rows ends with an `all-reduce`. So the mode has each kernel compiled once more and reads its program.
The collectives that the block itself calls, as `dist.all_reduce`, are counted when they begin.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from ...._bridge.compile.inspection import collectives_in
from ...._core import events
from ...._core.jax.target import compiled
from ...._core.signals import restore, uninterrupted
from ...._engine.memory.tensor import Tensor
from ...._ops.aten import usual_overload
from ....utils.module_tracker import ModuleTracker
from .._dtensor import DTensor, device_mesh, placements

_OF_XLA = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather_into_tensor",
    "reduce-scatter": "reduce_scatter_tensor",
    "all-to-all": "all_to_all_single",
    "collective-permute": "all_to_all_single",
    "collective-broadcast": "broadcast",
}
"""The operators of `torch.ops.c10d_functional` that do what XLA's do."""
_OF_CALLS = {
    "all_reduce": ("allreduce_", "all_reduce"),
    "all_gather": ("allgather_", "all_gather_into_tensor"),
    "all_gather_single": ("_allgather_base_", "all_gather_into_tensor"),
    "reduce_scatter": ("reduce_scatter_", "reduce_scatter_tensor"),
    "reduce_scatter_tensor": ("_reduce_scatter_base_", "reduce_scatter_tensor"),
    "all_to_all": ("alltoall_", "all_to_all_single"),
    "all_to_all_single": ("alltoall_base_", "all_to_all_single"),
    "broadcast": ("broadcast_", "broadcast"),
    "gather": ("gather_", ""),
    "scatter": ("scatter_", ""),
    "reduce": ("reduce_", ""),
}
"""The operators of `torch.ops.c10d` by the names of collectives, and those for functional ones."""
_TRIVIAL = frozenset(f"aten.{name}" for name in ("detach", "t", "view", "_unsafe_view", "alias", "transpose", "expand"))
"""Operators that move nothing, of which tables of noise level 2 say nothing."""


@dataclass
class _Module:
    """What the mode knows of a module, or of "Global", which is all of the block."""

    depth: int = 0
    type: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)
    operations: list[dict[str, Any]] = field(default_factory=list)


class _Modules(ModuleTracker):
    """Notes each module that is entered, with its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, _Module] = {}
        self.parameters: dict[str, dict[str, Tensor]] = {}
        self.placements: dict[str, Any] = {}
        self.open = ["Global"]

    def clear(self) -> None:
        self.known, self.open, self.parents = {"Global": _Module()}, ["Global"], {"Global"}
        self.parameters.clear()
        self.placements.clear()

    def _before(self, module: Any, inputs: Any) -> None:
        super()._before(module, inputs)
        if self.is_bw:  # a checkpoint runs it again
            return
        name = self._name_of(module)
        if name not in self.known:
            kind = type(module)
            self.known[name] = _Module(len(self.open), f"class '{kind.__module__}.{kind.__qualname__}'")
            self.known[self.open[-1]].children.append(name)
            self._note_parameters(name, module)
        self.open.append(name)

    def _after(self, module: Any, inputs: Any, output: Any) -> None:
        super()._after(module, inputs, output)
        if not self.is_bw and len(self.open) > 1:
            self.open.pop()

    def _note_parameters(self, name: str, module: Any) -> None:
        for key, parameter in module.named_parameters(recurse=False):
            values = parameter.detach()
            self.parameters.setdefault(name, {})[key] = values
            if isinstance(values, DTensor):
                found = placements(values)
                self.placements[f"{name}.{key}"] = found
                self.known[name].parameters[key] = str(found)

    @property
    def innermost(self) -> str:
        """The module that is being run, forward or backward."""
        if not self.is_bw:
            return self.open[-1]
        return max(self.parents, key=lambda name: self.known[name].depth if name in self.known else 0)


class CommDebugMode(events.Watching):
    """Within it, collectives are counted: those that the block calls, and those of XLA's programs for its operators.

    Compiled functions run op by op within it; `step.lower(*args).collectives()` lists those of a compiled one.

    Differs from torch: XLA chooses where results of operators lie. Where torch leaves a result `Partial` until
    something asks for its sum, XLA adds up at once, so that counts may differ from torch's.

    Example:
        >>> import torchgrad_jax as torch
        >>> from torchgrad_jax.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
        >>> mesh = init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
        >>> with CommDebugMode() as mode:
        ...     _ = x.redistribute(mesh, [Replicate()])
        >>> mode.get_total_counts()  # one device has nobody to exchange with
        0
    """

    def __init__(self) -> None:
        self.comm_counts: dict[Any, int] = defaultdict(int)
        self.comm_module_counts: dict[str, dict[str, dict[Any, int]]] = {}
        self.advanced_module_tracker = _Modules()
        self._programs: dict[Any, Counter[str]] = {}
        self._functional = 0

    # -- what was counted
    def get_total_counts(self) -> int:
        """Return how many collectives in all."""
        return sum(self.comm_counts.values())

    def get_comm_counts(self) -> dict[Any, int]:
        """How many, by operator: `torch.ops.c10d_functional.all_reduce`, or `torch.ops.c10d.allreduce_` of a call."""
        return self.comm_counts

    def get_parameter_info(self) -> dict[str, dict[str, Tensor]]:
        """The parameters of each module that was run, by its name."""
        return self.advanced_module_tracker.parameters

    def get_sharding_info(self) -> dict[str, Any]:
        """The placements of each parameter that lies on a mesh, by its name."""
        return self.advanced_module_tracker.placements

    # -- entering
    def __enter__(self) -> CommDebugMode:
        self.comm_counts.clear()
        self.comm_module_counts.clear()
        self._counts_of("Global")
        self.advanced_module_tracker.clear()
        self.advanced_module_tracker.__enter__()
        try:
            super().__enter__()
        except BaseException:
            restore(lambda: self.advanced_module_tracker.__exit__())
            raise
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        try:
            super().__exit__(*exc)
        finally:
            self.advanced_module_tracker.__exit__(*exc)

    # -- what the engine tells
    def op(self, name: str, kind: str, args: Sequence[Any], run: events.Run) -> Any:
        # `_Linear` is what the functional collectives are made of.
        functional = kind == "function" and name == "_Linear"
        self._functional += functional
        try:
            return run()
        finally:
            self._functional -= functional

    def kernel(self, call: Any, plan: Any, leaves: Sequence[Any], run: events.Run) -> Any:
        given = [x for x in leaves if isinstance(x, Tensor)]
        self._note_operation(f"aten.{usual_overload(call.name)}", given)
        return run()

    def function(self, node: Any, grads: Sequence[Any], run: events.Run) -> Any:
        self._note_operation(node.name(), [g for g in grads if isinstance(g, Tensor)])
        functional = node.name() == "_LinearBackward"
        self._functional += functional
        try:
            return run()
        finally:
            self._functional -= functional

    def computed(self, kernel: Any, arrays: Sequence[Any]) -> None:
        if kernel.traced is not None and any(_is_split(x) for x in arrays):
            self._count_program(kernel, kernel.traced, arrays)

    def placed(self, array: Any, sharding: Any) -> None:
        if _is_split(array) and array.sharding.device_set == sharding.device_set:
            self._count_program(sharding, jax.jit(lambda x: x, out_shardings=sharding), (array,))

    def exchanged(self, what: str) -> None:
        of_call, functional = _OF_CALLS.get(what.partition("(")[0].partition(" ")[0], ("", ""))
        if self._functional and functional:
            self._count("c10d_functional", functional, 1)
        elif of_call:
            self._count("c10d", of_call, 1)

    # -- counting
    def _count_program(self, of: Any, fn: Any, arrays: Sequence[Any]) -> None:
        """Count the collectives in the program of a function for such arrays; `of` is its kernel, or where it moves."""
        key = of, *[(x.aval, x.sharding) if isinstance(x, jax.Array) else type(x) for x in arrays]
        if key not in self._programs:
            text = compiled(fn.lower(*arrays), None).as_text() or ""
            self._programs[key] = Counter(found.kind for found in collectives_in(text))
        for kind, n in self._programs[key].items():
            self._count("c10d_functional", _OF_XLA[kind], n)

    def _counts_of(self, name: str) -> dict[str, dict[Any, int]]:
        return self.comm_module_counts.setdefault(name, {"forward": defaultdict(int), "backward": defaultdict(int)})

    def _count(self, namespace: str, name: str, n: int) -> None:
        from .... import ops

        packet = getattr(getattr(ops, namespace), name)
        self.comm_counts[packet] += n
        modules = self.advanced_module_tracker
        way = "backward" if modules.is_bw else "forward"
        for module in set(modules.parents) | {"Global"}:
            self._counts_of(module)[way][packet] += n

    def _note_operation(self, name: str, given: Sequence[Tensor]) -> None:
        modules = self.advanced_module_tracker
        placed = [t for t in given if isinstance(t, DTensor)]
        row = {
            "name": name,
            "input_shape": [str(t.shape) for t in placed],
            "input_sharding": [str(placements(t)) for t in placed],
            "device_mesh": str(device_mesh(placed[0])) if placed else "",
            "is_bw": modules.is_bw,
        }
        modules.known.get(modules.innermost, modules.known["Global"]).operations.append(row)

    # -- as text
    def generate_comm_debug_tracing_table(self, noise_level: int = 3) -> str:
        """The counts of each module as text.

        Args:
            noise_level: 0 for counts alone; 1 also for modules, their parameters and the operators on tensors over a
                mesh; 2 for all operators but those that move nothing; 3 for all.
        """
        lines: list[str] = []
        for name, module in self.advanced_module_tracker.known.items():
            indent = "    " * module.depth
            lines.append(f"{indent}{name}")
            if noise_level > 0 and module.type:
                lines.append(f"{indent}*module type: {module.type}")
                rows = [f"{indent} *{key}: {where}" for key, where in module.parameters.items()]
                lines += [f"{indent}*Parameter List", *rows] if rows else []
            for way in ("forward", "backward"):
                rows = [f"{indent}    {row}" for row in self._rows(name, module, way, noise_level)]
                lines += [f"{indent}  {way.upper()} PASS", *rows] if rows else []
        return "\n".join(lines) + "\n"

    def _rows(self, name: str, module: _Module, way: str, noise_level: int) -> Iterator[str]:
        for packet, n in self.comm_module_counts.get(name, {}).get(way, {}).items():
            yield f"*{packet}: {n}"
        for row in _shown(module.operations, way, noise_level):
            yield f"  **{row['name']}"
            if row["input_shape"]:
                yield f"    shape: {', '.join(row['input_shape'])}"
                yield f"    sharding: {', '.join(row['input_sharding'])}"
                yield f"    device mesh: {row['device_mesh']}"

    def log_comm_debug_tracing_table_to_file(
        self, file_name: str | os.PathLike[str] = "comm_mode_log.txt", noise_level: int = 3
    ) -> None:
        """Write that text to a file."""
        with open(file_name, "w", encoding="utf-8") as file:
            file.write(self.generate_comm_debug_tracing_table(noise_level))

    def generate_json_dump(
        self, file_name: str | os.PathLike[str] = "comm_mode_log.json", noise_level: int = 3
    ) -> None:
        """Write the same to a file as JSON: "Global", with the modules within it as `children`."""

        def described(name: str) -> dict[str, Any]:
            module, counts = self.advanced_module_tracker.known[name], self.comm_module_counts.get(name, {})
            known = noise_level > 0
            return {
                "fqn": name,
                "module_type": module.type if known else "",
                "parameters": list(module.parameters.items()) if known else [],
                "children": [described(child) for child in module.children],
                **{f"collectives_{w}": [(str(p), n) for p, n in counts.get(w, {}).items()] for w in _WAYS},
                **{f"operations_{w}": list(_shown(module.operations, w, noise_level)) for w in _WAYS},
            }

        with open(file_name, "w", encoding="utf-8") as file:
            json.dump(described("Global"), file, indent=4)

    def __repr__(self) -> str:
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"


_WAYS = ("forward", "backward")


def _shown(operations: list[dict[str, Any]], way: str, noise_level: int) -> Iterator[dict[str, Any]]:
    """The operations that a table of this noise level shows."""
    for row in operations:
        placed, trivial = bool(row["input_shape"]), row["name"].rpartition(".")[0] in _TRIVIAL
        wanted = (noise_level > 0 and placed and not trivial) or (noise_level > 1 and not trivial) or noise_level > 2
        if wanted and row["is_bw"] == (way == "backward"):
            yield row


def _is_split(array: Any) -> bool:
    """Whether an array lies on several devices."""
    return isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer) and array.sharding.num_devices > 1
