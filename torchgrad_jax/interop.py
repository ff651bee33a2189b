"""To and from JAX: its functions as operators, tensor code as functions and files."""

from __future__ import annotations

import functools
import json
import os
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.export
import numpy as np

from ._bridge.exported import read_exported
from ._bridge.interop import as_jax, from_jax as from_jax
from ._bridge.modules import combine as combine, partition as partition
from ._bridge.state import discover
from ._core import tree
from ._core.files import replacing
from ._core.keys import drawing_from as rngs
from ._engine.strided import read
from ._engine.tensor import Tensor, wrap_array


def to_jax(f: Callable[..., Any], *, buffers: bool = False) -> Callable[..., Any]:
    """Tensor code as a pure JAX function, for jax.jit, jax.grad, jax.vmap, optax and the like.

    Args:
        f: a function over tensors, or a module.
        buffers: of a module, return its buffers as they are after the call as well.

    Returns:
        A function of arrays, in any pytrees, and of `rngs=`, a key of `jax.random` that random operations take their
        numbers from, each the next part of it. Of a module, a function of a dict of parameters and buffers by
        name and of what its `forward` takes; those it has now are the function's `params` and `buffers`. What
        the dict leaves out is a constant, and the module itself is never written to. Tensors from outside are
        constants. Gradients stop at `detach()` and under `no_grad`, and are those of hooks and custom
        Functions where there are such.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import torchgrad_jax as torch
        >>> f = torch.to_jax(lambda x: (x * x.detach()).sum())
        >>> jax.grad(f)(jnp.float32(3.0)).item()
        3.0
    """
    if not hasattr(f, "named_parameters"):
        return as_jax(f)
    from .func import functional_call

    module: Any = f

    def held() -> dict[str, Any]:
        return {name: read(t) for name, t in module.named_buffers()}

    def forward(tensors: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        names = [name for name, _ in module.named_buffers()]
        given = {**tensors, **{k: tensors[k].detach() for k in names}}
        out = functional_call(module, given, args, kwargs)
        return (out, {k: given[k] for k in names}) if buffers else out

    pure = as_jax(forward)

    @functools.wraps(type(module).forward)
    def call(params: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        return pure({**held(), **params}, *args, **kwargs)

    call.params = {name: read(t) for name, t in module.named_parameters()}  # type: ignore[attr-defined]
    call.buffers = held()  # type: ignore[attr-defined]
    return call


# --- files ----------------------------------------------------------------------------------------


class Exported:
    """A function as StableHLO, with the tensors that it reads and writes; needs no source to run.

    Calling it runs the function; what the function wrote is kept in `state` for the next call.
    """

    def __init__(self, program: Any, state: list[Any], told: dict[str, Any]) -> None:
        self.program, self.state, self._told = program, state, told

    def __call__(self, *args: Any) -> Any:
        flat, _ = tree.flatten(args)
        arrays = [read(x) for x in flat if isinstance(x, Tensor)]
        want = [tuple(s) for s in self._told["shapes"]]
        if [a.shape for a in arrays] != want:
            raise RuntimeError(
                f"exported for arguments of shapes {want}, called with {[a.shape for a in arrays]}"
            )
        outs = self.program.call(self.state, arrays)
        for i, k in self._told["writes"]:
            self.state[i] = outs[k]
        results = [wrap_array(outs[k]) for k in range(self._told["results"])]
        return results[0] if self._told["single"] else tuple(results)

    @property
    def mlir(self) -> str:
        """The program as text."""
        return self.program.mlir_module()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write program and state to one file."""
        with replacing(path) as whole, zipfile.ZipFile(whole, "w") as file:
            file.writestr("program", bytes(self.program.serialize()))
            file.writestr("told.json", json.dumps({**self._told, "state": len(self.state)}))
            for i, array in enumerate(self.state):
                with file.open(f"state/{i}.npy", "w") as part:
                    kept = np.asarray(array)
                    raw = kept.view(np.uint16) if kept.dtype.name == "bfloat16" else kept
                    np.save(part, raw)
            file.writestr("dtypes.json", json.dumps([str(a.dtype) for a in self.state]))


def load_exported(path: str | os.PathLike[str]) -> Exported:
    """What `Exported.save` wrote.

    The file need not be trusted: its program is looked through before anything of it runs.

    Raises:
        RuntimeError: the file is damaged, or its program does more than to compute, such as to call Python.
    """
    with open(path, "rb") as file:
        return Exported(*read_exported(file))


def export(f: Callable[..., Any], *args: Tensor) -> Exported:
    """A function over tensors (or a whole training step) as StableHLO, through jax.export.

    Args:
        f: takes tensors; returns a tensor or a tuple of tensors. What it reads and writes of the outside
            becomes the state of the result.
        *args: tensors of the shapes and dtypes to export for.

    Raises:
        RuntimeError: where `f` draws random numbers, makes new state, or sets gradients that remain.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.interop.export(torch.sin, torch.zeros(2))(torch.zeros(2))
        tensor([0., 0.])
    """
    flat, spec = tree.flatten(args)
    for x in flat:
        if not isinstance(x, Tensor):
            raise TypeError(f"export: arguments must be tensors, not {type(x).__name__}")
    single = [False]

    def run() -> tuple[list[Tensor], None]:
        out = f(*tree.unflatten(flat, spec))
        single[0] = isinstance(out, Tensor)
        outs = [out] if single[0] else list(out)
        for t in outs:
            if not isinstance(t, Tensor):
                raise TypeError(f"export: the function must return tensors, not {type(t).__name__}")
        return outs, None

    program, _ = discover(run, flat)
    if program.fresh:
        raise RuntimeError(
            "export: the function makes state of its own; run it once before it is exported"
        )
    inputs = [s for s in program.sources if s.kind in ("tensor", "grad")]
    where = {id(s): i for i, s in enumerate(inputs)}
    for s in program.sources:
        if s.kind == "draw":
            raise RuntimeError("export: random draws cannot be exported")
    writes = []
    for i, k, _ in program.writes:
        if i < 0:
            raise RuntimeError("export: the function writes to its arguments")
        writes.append((where[id(program.sources[i])], k))

    def pure(state: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        values = []
        for s in program.sources:
            if id(s) in where:
                values.append(state[where[id(s)]])
            else:
                values.append(arrays[s.what] if s.kind == "arg" else s.of and s.what[s.of])
        return program.run(values)

    state = [s.storage(flat).array for s in inputs]
    arrays = [read(x) for x in flat]
    exported = jax.export.export(jax.jit(pure))(state, arrays)
    results = len(exported.out_avals) - len(program.writes)
    results -= sum(m is not None for _, _, m, _ in program.grads)
    told = {
        "shapes": [a.shape for a in arrays], "writes": writes, "results": results, "single": single[0],
    }  # fmt: skip
    return Exported(exported, list(state), told)


__all__ = [
    "Exported",
    "combine",
    "export",
    "from_jax",
    "load_exported",
    "partition",
    "rngs",
    "to_jax",
]
