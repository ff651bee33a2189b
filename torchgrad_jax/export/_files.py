"""Exported programs in files."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from contextlib import nullcontext
from typing import Any

from .._core.files.atomic import replacing
from .._engine.memory.tensor import Tensor
from ..interop import load_exported
from ..nn.parameter import Parameter
from ..serialization import load as _load, save as _save
from .exported_program import ExportedProgram


def save(
    ep: ExportedProgram,
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write a program with its parameters to a path or a file.

    Args:
        ep: the program.
        f: where to; PyTorch does not read the file.
        extra_files: texts to keep beside it, by name.
        opset_version: None; there are no versions of operators.
        pickle_protocol: accepted; nothing is pickled but tensors.
    """
    if opset_version is not None:
        raise NotImplementedError("torch.export.save: opset_version: StableHLO keeps its own versions")
    facts = {"persistent": ep._persistent, "written": ep._written, "ranges": ep.range_constraints}
    facts["parameters"] = [name for name, _ in ep.named_parameters()]
    state = io.BytesIO()
    _save({name: t.detach() for name, t in ep._state.items()}, state)
    is_path = isinstance(f, str | os.PathLike)
    with (
        tempfile.TemporaryDirectory() as folder,
        replacing(f) if is_path else nullcontext(f) as whole,
        zipfile.ZipFile(whole, "w") as file,
    ):
        program = os.path.join(folder, "program")
        ep._exported.save(program)
        file.write(program, "program")
        file.writestr("state.pt", state.getvalue())
        file.writestr("facts.json", json.dumps(facts))
        for name, text in (extra_files or {}).items():
            file.writestr(f"extra/{name}", text)


def load(
    f: Any, *, extra_files: dict[str, Any] | None = None, expected_opset_version: dict[str, int] | None = None
) -> ExportedProgram:
    """Return what `save` wrote. The file need not be trusted.

    Args:
        f: a path or a file.
        extra_files: a dict with names of texts that were kept; it gets them as values.
        expected_opset_version: None.
    """
    if expected_opset_version is not None:
        raise NotImplementedError("torch.export.load: expected_opset_version: StableHLO keeps its own versions")
    with zipfile.ZipFile(f) as file, tempfile.TemporaryDirectory() as folder:
        if "facts.json" not in file.namelist():
            raise RuntimeError("torch.export.load: this is no file of torchgrad_jax's torch.export.save")
        facts = json.loads(file.read("facts.json"))
        exported = load_exported(file.extract("program", folder))
        state: dict[str, Tensor] = _load(io.BytesIO(file.read("state.pt")))
        for name in extra_files or {}:
            extra_files[name] = file.read(f"extra/{name}").decode()  # type: ignore[index]
    ranges = {name: (low, high) for name, (low, high) in facts["ranges"].items()}
    named = {n: Parameter(t) if n in facts["parameters"] else t for n, t in state.items()}
    return ExportedProgram(exported, named, facts["persistent"], facts["written"], ranges, None)
