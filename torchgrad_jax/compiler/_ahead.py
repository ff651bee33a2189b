"""Functions compiled before they are called, in files that need no source: `aot_compile`, `load_compiled_function`.

ahead = torch.compile(f, fullgraph=True).aot_compile(((x,), {}))
ahead.save_compiled_function("f.bin")

with open("f.bin", "rb") as file:          # in another process, which does not have `f`
    f = torch.compiler.load_compiled_function(file)

A file holds the function as StableHLO, with the tensors that it reads, and what XLA compiled of it. On a machine of
another kind the StableHLO is compiled again.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._bridge.compile.compiled import Compiled
from .._bridge.compile.travel import archive_of
from .._bridge.jax_side.export import Exported, export, load_exported
from .._core.arrays import tree
from .._core.errors import warn
from .._core.files.atomic import replacing
from .._core.jax import programs_ahead
from .._core.jax.kernel_archives import unpacked, why_not
from .._engine.memory.tensor import Tensor

_FUNCTION, _PROGRAMS = "function", "programs"


@dataclass
class AOTCompileSaveResult:
    """What `save_compiled_function` has written."""

    serialized_data: bytes


class AOTCompiledFunction:
    """A function that was compiled for certain shapes and dtypes; see `torch.compiler.load_compiled_function`.

    Args:
        exported: the function as StableHLO.
        example: the arguments that it was compiled for; None for one that was read from a file.
        programs: what XLA compiled of it, as an archive.
    """

    def __init__(self, exported: Exported, example: Any = None, programs: bytes = b"") -> None:
        self._exported, self._programs = exported, programs
        self._compiled = Compiled(lambda state, args, kwargs: exported.run(state, args, kwargs), fullgraph=True)
        if example is not None:
            self._programs = archive_of(self._compiled.lower(exported.state, *example))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function.

        Raises:
            RuntimeError: it was compiled for other shapes or dtypes.
        """
        return self._compiled(self._exported.state, args, kwargs)

    def save_compiled_function(
        self, path: str | os.PathLike[str], external_data: dict[str, Any] | None = None
    ) -> AOTCompileSaveResult:
        """Write the function to a file.

        Args:
            path: the file.
            external_data: nothing; the tensors that the function reads are in the file.
        """
        result = self.serialize(self, external_data)
        with replacing(path) as file:
            file.write(result.serialized_data)
        return result

    @classmethod
    def serialize(cls, fn: AOTCompiledFunction, external_data: dict[str, Any] | None = None) -> AOTCompileSaveResult:
        """Return the bytes of a file with a function."""
        _refuse_external(external_data)
        function, whole = io.BytesIO(), io.BytesIO()
        fn._exported.save(function)
        with zipfile.ZipFile(whole, "w") as file:
            file.writestr(_FUNCTION, function.getvalue())
            file.writestr(_PROGRAMS, fn._programs)
        return AOTCompileSaveResult(whole.getvalue())

    @classmethod
    def deserialize(
        cls, data: bytes, f_globals: dict[str, object] | None = None, external_data: dict[str, Any] | None = None
    ) -> AOTCompiledFunction:
        """Return the function of such bytes; see `torch.compiler.load_compiled_function`."""
        _refuse_external(external_data)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as file:
                function, programs = io.BytesIO(file.read(_FUNCTION)), file.read(_PROGRAMS)
            archive = unpacked(programs)
        except (ValueError, KeyError, zipfile.BadZipFile) as error:
            raise RuntimeError(
                f"load_compiled_function: no file of save_compiled_function, or it is damaged: {error}"
            ) from error
        loaded = cls(load_exported(function), programs=programs)
        why = why_not(archive.kind)
        if why is not None:
            warn.to_user(f"load_compiled_function: XLA compiles the function again, as its programs cannot run: {why}")
        for key, value in archive.programs.items() if why is None else ():
            programs_ahead.add(key, value)
        return loaded

    def disable_guard_check(self) -> None:
        """Do nothing: shapes and dtypes have to be those of the program in any case."""


def _refuse_external(data: Any) -> None:
    if data:
        raise NotImplementedError("external_data: all tensors that a function reads are in its file")


def compile_ahead(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> AOTCompiledFunction:
    """Compile a function for some arguments; see `Compiled.aot_compile`."""
    leaves = [x for x in tree.flatten((args, kwargs))[0] if isinstance(x, Tensor)]
    exported = export(fn, *args, kwargs=kwargs, gradients=any(x.requires_grad for x in leaves))
    return AOTCompiledFunction(exported, (args, kwargs))


def load_compiled_function(
    file: Any, *, f_globals: dict[str, object] | None = None, external_data: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Read a function that `aot_compile` has compiled, and `save_compiled_function` has written.

    It starts without compiling on a machine of the same kind. Load only what you have saved yourself: programs are code
    of the machine, which runs as it is.

    Args:
        file: an open file of bytes.
        f_globals: not needed; the program holds all that the function read.
        external_data: nothing.

    Raises:
        RuntimeError: the file is damaged.

    Example:
        >>> import io
        >>> import torchgrad_jax as torch
        >>> double = torch.compile(lambda x: x * 2, fullgraph=True).aot_compile(((torch.ones(2),), {}))
        >>> file = io.BytesIO(double.serialize(double).serialized_data)
        >>> torch.compiler.load_compiled_function(file)(torch.tensor([1.0, 2.0]))
        tensor([2., 4.])
    """
    return AOTCompiledFunction.deserialize(file.read(), f_globals, external_data)
