"""Start a script, a module or code as Python itself would."""

from __future__ import annotations

import importlib.machinery
import io
import os
import runpy
import sys
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any

import jax

from .._core.jax.x64 import VARIABLE
from .finder import SHIM

_OWN = os.path.dirname(os.path.abspath(__file__))

Start = Callable[[list[str]], None]


def run(start: Start, rest: list[str]) -> int:
    """Start a program; its exceptions are shown as if nothing stood around it."""
    hook = sys.excepthook
    try:
        start(rest)
    except SystemExit as e:
        e.__traceback__ = _own_frames_off(e.__traceback__)
        raise
    except KeyboardInterrupt:
        sys.excepthook = lambda kind, e, tb: hook(kind, e, _own_frames_off(tb))
        raise
    except BaseException as e:
        tb = e.__traceback__ = _own_frames_off(e.__traceback__)
        sys.last_type, sys.last_value, sys.last_traceback = type(e), e, tb
        sys.excepthook(type(e), e, tb)
        return 1
    return 0


def _own_frames_off(tb: TracebackType | None) -> TracebackType | None:
    """A traceback without the runner's frames, and runpy's, at its beginning."""
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if not file.startswith((_OWN, runpy.__file__, "<frozen runpy")):
            break
        tb = tb.tb_next
    return tb


def tell_children() -> None:
    """Python processes started by the program find the alias where they would find torch."""
    old = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = SHIM + (os.pathsep + old if old else "")


def have_64_bits() -> None:
    """Switch JAX's 64-bit types on, here and in processes started by the program: no other JAX code runs there.

    Tensors have these types anyway. A program that uses `jnp` beside them has them there, too.
    """
    if os.environ.setdefault(VARIABLE, "1") == "1":
        jax.config.update("jax_enable_x64", True)


def _set_path(first: str | None) -> None:
    """Put the program's folder where Python puts it, in place of the runner's."""
    if not sys.flags.safe_path:
        if sys.path:
            del sys.path[0]
        if first is not None:
            sys.path.insert(0, first)


def _fresh_main(**names: Any) -> ModuleType:
    module = ModuleType("__main__")
    module.__dict__.update({"__builtins__": sys.modules["builtins"], "__annotations__": {}}, **names)
    sys.modules["__main__"] = module
    return module


def script(path: str) -> Start:
    """What runs a script."""

    def start(rest: list[str]) -> None:
        sys.argv[:] = [path, *rest]
        if os.path.isdir(path) or _is_archive(path):
            _set_path(None)
            runpy.run_path(path, run_name="__main__")
            return
        try:
            with io.open_code(os.path.abspath(path)) as file:
                text = file.read()
        except OSError as e:
            sys.stderr.write(f"{sys.executable}: can't open file {path!r}: {e}\n")
            raise SystemExit(2) from None
        _set_path(os.path.dirname(os.path.realpath(path)))
        full = os.path.abspath(path)
        loader = importlib.machinery.SourceFileLoader("__main__", full)
        module = _fresh_main(__file__=full, __cached__=None, __loader__=loader, __spec__=None)
        exec(compile(text, full, "exec", dont_inherit=True), module.__dict__)

    return start


def _is_archive(path: str) -> bool:
    import zipfile

    return os.path.isfile(path) and zipfile.is_zipfile(path)


def source(text: str, shown: str, name: str, folder: str) -> Start:
    """What runs a text."""

    def start(rest: list[str]) -> None:
        sys.argv[:] = [name, *rest]
        _set_path(folder)
        module = _fresh_main(__loader__=None, __spec__=None)
        exec(compile(text, shown, "exec", dont_inherit=True), module.__dict__)

    return start


def module(name: str) -> Start:
    """What runs a module."""

    def start(rest: list[str]) -> None:
        sys.argv[:] = ["-m", *rest]
        _set_path(os.getcwd())
        # runpy changes sys.argv[0] to the module's file, and takes __main__ for its own.
        runpy.run_module(name, run_name="__main__", alter_sys=True)

    return start
