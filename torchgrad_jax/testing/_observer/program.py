"""Run a program in this process and write down what it did."""

from __future__ import annotations

import importlib
import json
import os
import random
import runpy
import sys
import traceback
from typing import Any

import numpy as np

from .changes import change_of
from .recording import Recording, save
from .watch import Enough, Watch

_KEPT_SETTINGS = ("program", "arguments", "variant", "nudge", "seed", "steps", "window")


def main(path: str) -> int:
    """Run what a file of settings says."""
    with open(path, encoding="utf-8") as file:
        settings = json.load(file)
    recording = run(settings)
    save([recording], settings["out"])
    return 0


def library(settings: dict[str, Any]) -> Any:
    """Return what the program finds as torch; torchgrad_jax takes its place where the settings say so."""
    if settings["library"] == "torchgrad_jax":
        sys.path.append(settings["path"])
        importlib.import_module("torchgrad_jax").install_as_torch()
        start = importlib.import_module("torchgrad_jax._alias.start")
        start.tell_children()
        start.have_64_bits()
    importlib.import_module("torch.optim")
    importlib.import_module("torch.overrides")
    return importlib.import_module("torch")


def seeded(torch: Any, seed: int) -> None:
    """The same random numbers in each run."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the program may use NumPy's global generator
    random.seed(seed)


def run(settings: dict[str, Any]) -> Recording:
    """Run the program and return what was seen, also when it failed."""
    torch = library(settings)
    change = change_of(torch, settings)
    skip = tuple(os.path.dirname(os.path.realpath(m.__file__)) + os.sep for m in _libraries(torch))
    watch = Watch(torch, change, tuple(settings["window"]), settings["steps"], skip)
    facts = {"library": settings["library"], "version": str(torch.__version__), "status": 0, "error": ""}
    seeded(torch, settings["seed"])
    with watch:
        try:
            start(settings)
        except Enough:
            facts["stopped"] = True
        except SystemExit as e:
            facts["status"] = _status(e.code)
        except Exception as e:
            facts |= {"status": 1, "error": _first_line(e)}
            traceback.print_exc()
    recording = watch.finish()
    recording.facts |= facts | {k: settings[k] for k in _KEPT_SETTINGS}
    return recording


def _libraries(torch: Any) -> list[Any]:
    found = [torch, runpy, sys.modules[__name__]]
    return [m for m in found if getattr(m, "__file__", None)]


def _status(code: Any) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else 1


def _first_line(e: BaseException) -> str:
    text = (str(e).splitlines() or [""])[0].replace("torchgrad_jax.", "torch.")
    return f"{type(e).__name__}: {text}"


def start(settings: dict[str, Any]) -> None:
    """Run a script or module as Python would."""
    program, rest = settings["program"], settings["arguments"]
    if settings["module"]:
        sys.argv[:] = ["-m", *rest]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(program, run_name="__main__", alter_sys=True)
        return
    sys.argv[:] = [program, *rest]
    sys.path.insert(0, os.path.dirname(os.path.realpath(program)))
    runpy.run_path(program, run_name="__main__")
