"""torch.serialization: checkpoints in torch's own format, read safely."""

from __future__ import annotations

import os as _os
import pickle as _pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._bridge.compile.watch.observer import acts_outside as _acts_outside
from .._core.arrays.devices import device as _device
from .._core.builtin_functions import function_of as _function_of
from .._core.errors import warn as _warn
from .._core.errors.messages import missing as _missing
from .._core.signals import contextmanager, restore
from ..types import Storage as _Storage
from ._load import Options as _Options, load_from as _load_from, pickle_of as _pickle_of
from ._options import (
    get_default_mmap_options as get_default_mmap_options,
    register_package as register_package,
    set_default_mmap_options as set_default_mmap_options,
    skip_data as skip_data,
)
from ._save import save_to as _save_to
from ._survey import unsafe_names as _unsafe_names
from ._tensors import Tensors as _Tensors

__all__ = [
    "add_safe_globals", "clear_safe_globals", "get_default_mmap_options", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "load", "register_package", "safe_globals", "save", "set_default_mmap_options",
    "skip_data",
]  # fmt: skip

_safe: dict[str, Any] = {}

DEFAULT_PROTOCOL = 2
MAP_LOCATION = Callable[[_Storage, str], _Storage] | _device | str | dict[str, str] | None


def save(
    obj: object,
    f: Any,
    pickle_module: Any = _pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object, its tensors included, to a file that torch reads too.

    Args:
        obj: what to save; mostly a `state_dict()`, or a dict of several.
        f: a path, or an open binary file.
        pickle_module: only Python's own.
        pickle_protocol: of the part that is no tensors, 2 to 5.
        _use_new_zipfile_serialization: False writes the format that torch had before 1.6.

    Example:
        >>> import io, torchgrad_jax as torch
        >>> file = io.BytesIO()
        >>> torch.save({"w": torch.arange(3)}, file)
        >>> _ = file.seek(0)
        >>> torch.load(file)
        {'w': tensor([0, 1, 2])}
    """
    if pickle_module is not _pickle:
        raise NotImplementedError("torch.save: only Python's own pickle is supported")
    if not 2 <= pickle_protocol <= _pickle.HIGHEST_PROTOCOL:
        raise ValueError(f"torch.save: pickle_protocol={pickle_protocol} is not supported")
    _save_to(obj, f, pickle_protocol, zipped=_use_new_zipfile_serialization)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `torch.save` wrote, here or in torch.

    Args:
        f: a path, or an open binary file that can seek.
        map_location: where tensors go: a device, a dict from devices to devices, or a function of a storage and its
            device, whose answer's device counts.
        pickle_module: only Python's own, and only with `weights_only=False`.
        weights_only: the default, True, reads tensors, numbers, strings and containers, and refuses everything else
            (see `add_safe_globals`). False makes whatever the file asks for: for trusted files only.
        mmap: accepted for a path; storages are read when their tensors are made.
        **pickle_load_args: `encoding` and the like, with `weights_only=False`.

    Raises:
        pickle.UnpicklingError: the file asks for something that is not allowed, or for far more memory or work than
            its size explains, or is damaged.
        RuntimeError: the archive is damaged, or a tensor is on a device that is not there.
        EOFError: the file ends too early.
        ValueError: the byte order of the file is unknown.
    """
    if mmap and not isinstance(f, str | _os.PathLike):
        raise ValueError("f must be a file path in order to use the mmap argument")
    safely = pickle_module is None if weights_only is None else weights_only
    if pickle_module is not None:
        if safely:
            raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
        if pickle_module is not _pickle:
            raise NotImplementedError("torch.load: only Python's own pickle is supported")
    if safely and pickle_load_args:
        _warn.to_user("pickle_load_args only works if `weights_only=False`.")
    return _load_from(f, _Options(map_location, safely, dict(_safe), pickle_load_args))


def _named(global_: Any) -> tuple[str, Any]:
    if isinstance(global_, tuple):
        return global_[1], global_[0]
    module = getattr(global_, "__module__", "")
    if module == "torchgrad_jax" or module.startswith("torchgrad_jax."):
        module = "torch" + module[len("torchgrad_jax") :]
    return f"{module}.{_function_of(global_).__qualname__}", global_


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Let `load(weights_only=True)` use these classes and functions, or (one of these, its full name) pairs."""
    _safe.update(map(_named, safe_globals))


def get_safe_globals() -> list[Any]:
    """Return what `add_safe_globals` added."""
    return list(_safe.values())


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` added."""
    _safe.clear()


@contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """`add_safe_globals` inside of a `with` block."""
    before = dict(_safe)

    def put_back() -> None:
        _safe.clear()
        _safe.update(before)

    try:
        add_safe_globals(safe_globals)
        yield
    finally:
        restore(put_back)


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The classes and functions of a checkpoint that `load(weights_only=True)` refuses unless they are added.

    Args:
        f: a path, or an open binary file with a checkpoint in the zip format; it is read, and nothing is made of it.

    Raises:
        ValueError: it is no checkpoint in the zip format.
        RuntimeError: the archive is damaged.
        pickle.UnpicklingError: the names cannot be known without running what the file asks for, or it is damaged.
    """
    tensors = _Tensors(lambda key, size: b"", lambda location: _device("cpu"))
    return _unsafe_names(_pickle_of(f), _safe, tensors)


__getattr__ = _missing(__name__)


_acts_outside(save, load)
