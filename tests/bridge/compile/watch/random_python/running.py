"""How a random step is run: beside the names of a module that is loaded again for each run."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torchgrad_jax as torch


def loaded(state: Path, source: str, name: str) -> dict[str, Any]:
    """Return the names of a new copy of the module `state`, with the step of `source` in it."""
    torch.manual_seed(0)
    module = types.ModuleType(name)
    for text, file in ((state.read_text(), str(state)), (source, f"{name}.py")):
        exec(compile(text, file, "exec"), vars(module))
    return vars(module)


def called(step: Callable[..., Any], *args: Any) -> float | str:
    """Return the number that a step gives, or the name of its error."""
    try:
        return step(*args).item()
    except Exception as error:
        return type(error).__name__
