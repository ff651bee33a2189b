"""Whose a piece of Python code is: its user's, a library's that works for its caller, or ours.

    whose(step.__code__.co_filename)  # USERS
    is_ours(nn.Linear)                # whether a class is defined in this package or in JAX

Code of this package's own machinery and of JAX is ours; code of the standard library and of NumPy works for its caller;
all other code is the user's, whichever library it stands in. The file decides, never the name of a module.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import types
import weakref

from .python_classes import is_python_class

USERS, CALLERS, OURS = "users", "callers", "ours"
"""Code that is looked at, code that works for its caller, and code that is not looked at."""

PACKAGE = os.path.realpath(os.path.join(os.path.dirname(__file__), os.pardir)) + os.sep
_LAYERS = (os.path.join(PACKAGE, "nn", "modules", ""), os.path.join(PACKAGE, "nn", "utils", ""))
"""Parts of this package whose code is looked at as a user's: layers say by their own names what they read."""
_STANDARD = tuple({os.path.realpath(sysconfig.get_path(kind)) + os.sep for kind in ("stdlib", "platstdlib")})
_INSTALLED = re.compile(rf".*[{re.escape(os.sep)}](?:site|dist)-packages[{re.escape(os.sep)}]([^{re.escape(os.sep)}]+)")
_NOT_LOOKED_AT = frozenset(
    ["jax", "jaxlib", "ml_dtypes", "opt_einsum", "etils", "_pytest", "pluggy", "_distutils_hack", "coverage"]
)
"""Packages that run beneath this one, or around a test: what they read is not the function's doing."""
_ABOUT_CODE = frozenset(["inspect.py", "typing.py", "ast.py", "linecache.py", "tokenize.py"])
"""Files of the standard library that look at functions and classes themselves, which are watched by their identity."""
_WORKS_FOR_CALLERS = frozenset(["numpy", "typing_extensions"])

_whose: dict[str, str] = {}


def whose(filename: str) -> str:
    """Whose the code in a file is."""
    known = _whose.get(filename)
    if known is None:
        known = _whose[filename] = _find_whose(filename)
    return known


def _find_whose(filename: str) -> str:
    if filename.startswith("<frozen importlib"):
        return OURS  # an import of what is there already
    if filename.startswith("<"):  # what a user types in, or text that a program made
        return CALLERS if filename.startswith("<frozen") else USERS
    path = os.path.realpath(filename)
    if path.startswith(PACKAGE):
        return USERS if path.startswith(_LAYERS) else OURS
    installed = _INSTALLED.match(path)
    if installed is not None:
        package = installed[1].removesuffix(".py")
        return CALLERS if package in _WORKS_FOR_CALLERS else OURS if package in _NOT_LOOKED_AT else USERS
    if not path.startswith(_STANDARD):
        return USERS
    return OURS if is_about_code(path) else CALLERS


def is_about_code(path: str) -> bool:
    """Whether a file of the standard library looks at functions and classes: its objects are a user's all the same."""
    return os.path.basename(path) in _ABOUT_CODE and os.path.realpath(path).startswith(_STANDARD)


_ours: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def declare_ours(cls: type) -> None:
    """Say that a class is ours, of which neither its methods nor its module, `torch`, tell."""
    _ours[cls] = True


def is_ours(cls: type) -> bool:
    """Return whether a class is defined in this package or in JAX: by the file of its methods, or of its module."""
    known = _ours.get(cls)
    if known is None:
        held = [getattr(v, "fget", None) or getattr(v, "__func__", v) for v in list(vars(cls).values())]
        files = [
            v.__code__.co_filename for v in held if isinstance(v, types.FunctionType) and v.__module__ == cls.__module__
        ]
        if not files:
            files = [getattr(sys.modules.get(cls.__module__), "__file__", None) or ""]
        known = _ours[cls] = any(whose(file) == OURS and not is_about_code(file) for file in files)
    return known


_of_users: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def is_of_user(cls: type) -> bool:
    """Return whether a class is neither of Python, nor of this package or JAX."""
    known = _of_users.get(cls)
    if known is None:
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        known = is_python_class(cls) and not is_ours(cls) and (file is None or whose(file) == USERS)
        _of_users[cls] = known
    return known
