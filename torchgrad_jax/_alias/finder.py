"""`import torch` and every `torch.x.y` resolve to the modules of this package, as the same objects."""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import itertools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from email.message import Message
from types import ModuleType
from typing import Any

from .. import version
from .._bridge.compile.stance import POLICY
from .._core.arrays.dtypes import show_to_numpy
from .._core.errors.messages import no_such_name
from .._core.homes import restore_homes
from .._core.signals import uninterrupted
from .names import PACKAGE, LoaderAround, NamingFinder, name_all

_HIDDEN = ("_alias", "_codegen", "__main__", "pytest_alias")
"""Modules of this package that are no part of torch."""
SHIM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim")
"""A folder with a `torch` that installs the alias in other processes: pickles for them have torch's names."""
_BESIDE = "functorch"
"""A package that torch's own distribution brings along."""


def _covered(name: str) -> bool:
    return name.partition(".")[0] in ("torch", _BESIDE)


def inner_name(name: str) -> str:
    """The module of this package that stands for a module of torch, or of functorch."""
    if name.partition(".")[0] == _BESIDE:
        return f"{PACKAGE}._alias.{name}"
    return PACKAGE + name[len("torch") :]


def _exists(inner: str) -> bool:
    top, _, rest = inner[len(PACKAGE) + 1 :].partition(".")
    if top in _HIDDEN and rest.partition(".")[0] != _BESIDE:
        return False
    try:
        return inner in sys.modules or importlib.util.find_spec(inner) is not None
    except ModuleNotFoundError:  # a parent that is a file, or is missing itself
        return False


class _Loader:
    """Hands out a module that was imported under its own name."""

    def __init__(self, inner: str) -> None:
        self.inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.inner)
        self.kept = (module.__spec__, module.__dict__.get("__loader__"))
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system put its own marks on what it takes for a new module.
        module.__spec__, module.__loader__ = self.kept

    def get_code(self, fullname: str) -> Any:
        return _spec(self.inner).loader.get_code(self.inner)

    def get_source(self, fullname: str) -> str | None:
        return _spec(self.inner).loader.get_source(self.inner)

    def get_filename(self, fullname: str) -> str:
        return _spec(self.inner).origin or ""

    def is_package(self, fullname: str) -> bool:
        return _spec(self.inner).submodule_search_locations is not None


def _spec(inner: str) -> Any:
    return importlib.util.find_spec(inner)


class _Distribution(importlib.metadata.Distribution):
    """What `importlib.metadata.version("torch")` finds."""

    @property
    def metadata(self) -> Any:
        said = Message()
        said["Metadata-Version"], said["Name"], said["Version"] = "2.1", "torch", version.torch
        said["Summary"] = "torchgrad_jax in the place of torch"
        return said

    def read_text(self, filename: str) -> str | None:
        return str(self.metadata) if filename in ("METADATA", "PKG-INFO") else None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(path)


class TorchFinder:
    """Stands first on `sys.meta_path` and answers for `torch` and everything below it."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if not _covered(fullname):
            return None
        inner = inner_name(fullname)
        if not _exists(inner):
            _explain(fullname)
            raise ModuleNotFoundError(no_such_name(fullname), name=fullname)
        is_package = _spec(inner).submodule_search_locations is not None
        return importlib.machinery.ModuleSpec(fullname, _Loader(inner), is_package=is_package)  # type: ignore[arg-type]

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        name = getattr(context, "name", None)
        return [_Distribution()] if name is None or name.lower() == "torch" else []


def _explain(name: str) -> None:
    """Raise if it is `from torch.x import missing` that looks for a module: which name is missing where."""
    # The statement's own look-up is the only caller to explain something to: others ask politely.
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == "importlib._bootstrap":
        if frame.f_code.co_name == "_handle_fromlist":
            raise ImportError(no_such_name(name), name=name.rpartition(".")[0])
        frame = frame.f_back


class _ImportErrors:
    """Stands last, where names of this package end up that no module has."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.startswith(PACKAGE + "."):
            _explain("torch" + fullname[len(PACKAGE) :])


class _ScopedFinder:
    """Gives the modules of the named packages, and no others, a `torch` that is this package."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = tuple(packages)
        self._busy = False

    def covers(self, name: str) -> bool:
        return any(name == p or name.startswith(p + ".") for p in self.packages)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if self._busy or not self.covers(fullname):
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._busy = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _ScopedLoader(spec.loader)  # type: ignore[assignment]
        return spec


class _ScopedLoader(LoaderAround):
    """A loader whose modules have an `__import__` of their own among their builtins."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _scoped_import}
        self._loader.exec_module(module)


def _scoped_import(
    name: str, globals: Mapping[str, Any] | None = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    if level == 0 and _covered(name):
        inner = inner_name(name)
        if not _exists(inner):
            raise ModuleNotFoundError(no_such_name(name), name=name)
        name = inner
    return builtins.__import__(name, globals, locals, fromlist, level)


class Alias:
    """An installed alias; `remove()`, or leaving a `with` block, takes it away again."""

    def __init__(self, finders: list[tuple[int, Any]], packages: tuple[str, ...]) -> None:
        self._finders = finders
        self.packages = packages
        """The packages that it is for; empty if it is for all."""

    def remove(self) -> None:
        """Take the alias away; modules that were imported through it keep what they have."""
        for _, finder in self._finders:
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)
        if not self.packages:
            importlib.import_module(PACKAGE).__name__ = PACKAGE
            restore_homes()
            if SHIM in sys.path:
                sys.path.remove(SHIM)
            POLICY.graph_breaks = False
            show_to_numpy(True)
            for name in filter(_covered, list(sys.modules)):
                if sys.modules[name] is sys.modules.get(inner_name(name)):
                    del sys.modules[name]
        importlib.invalidate_caches()

    def __enter__(self) -> Alias:
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        self.remove()


def installed() -> bool:
    """Return whether `import torch` means this package everywhere."""
    return any(isinstance(f, TorchFinder) for f in sys.meta_path)


def packages() -> tuple[str, ...] | None:
    """The packages in which `import torch` means this one; empty for all of them, None for none."""
    if installed():
        return ()
    scoped = [f.packages for f in sys.meta_path if isinstance(f, _ScopedFinder)]
    return tuple(itertools.chain(*scoped)) if scoped else None


def install_as_torch(packages: str | Iterable[str] | None = None) -> Alias:
    """Make `import torch` mean torchgrad_jax, in this process.

    Args:
        packages: names of packages to do it for; other modules go on seeing whatever torch is
            installed. They must not be imported yet. Without it, everything sees torchgrad_jax.

    Returns:
        The alias, which can be removed.

    Raises:
        RuntimeError: torch, or one of the packages, is already imported.

    Example:
        >>> import torchgrad_jax
        >>> with torchgrad_jax.install_as_torch():
        ...     import torch
        ...     torch.Tensor is torchgrad_jax.Tensor
        True
    """
    if packages is not None:
        names = (packages,) if isinstance(packages, str) else tuple(packages)
        return _install_scoped(names)
    own = importlib.import_module(PACKAGE)
    there = sys.modules.get("torch")
    if there is not None and there is not own:
        where = getattr(there, "__file__", None) or "somewhere"
        raise RuntimeError(
            f"install_as_torch(): another torch is already imported, from {where}. "
            "Install the alias before anything imports torch."
        )
    finders: list[tuple[int, Any]] = [
        (0, TorchFinder()),
        (1, NamingFinder()),
        (len(sys.meta_path) + 2, _ImportErrors()),
    ]
    if not installed():
        for place, finder in finders:
            sys.meta_path.insert(place, finder)
        if SHIM not in sys.path:
            sys.path.insert(1, SHIM)  # which processes that multiprocessing starts get
    sys.modules["torch"] = own
    _look_like_torch(own)
    name_all()
    own.__name__ = "torch"
    POLICY.graph_breaks = True
    show_to_numpy(False)
    ours = TorchFinder | NamingFinder | _ImportErrors
    return Alias([(0, f) for f in sys.meta_path if isinstance(f, ours)], ())


def _install_scoped(names: tuple[str, ...]) -> Alias:
    loaded = [n for n in names if n in sys.modules]
    if loaded:
        raise RuntimeError(f"install_as_torch(): already imported, with the torch they found: {', '.join(loaded)}")
    finder = _ScopedFinder(names)
    sys.meta_path.insert(0, finder)
    _look_like_torch(importlib.import_module(PACKAGE))
    return Alias([(0, finder)], names)


def _look_like_torch(own: Any) -> None:
    """Programs and packages compare `torch.__version__` with versions of torch."""
    own.torch = own  # where torch's own `import torch` leaves it
    own.__version__ = own.torch_version.TorchVersion(version.torch + "+torchgrad.jax")
