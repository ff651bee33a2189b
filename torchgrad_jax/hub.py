"""torch.hub: nothing is downloaded; where files would be is told."""

from __future__ import annotations

import os
from typing import Any

_dir: str | None = None


def get_dir() -> str:
    """The folder that torch would keep downloads in."""
    if _dir is not None:
        return _dir
    home = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(os.environ.get("TORCH_HOME", f"{home}/torch")), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Change what `get_dir` says."""
    global _dir
    _dir = os.path.expanduser(os.fspath(d))


def _refuse(name: str) -> Any:
    raise NotImplementedError(
        f"torch.hub.{name}: torchgrad_jax downloads no code and no weights; fetch the file yourself and "
        "use torch.load"
    )


def load(*args: Any, **kwargs: Any) -> Any:
    """Refused: code of other people is not fetched and run."""
    return _refuse("load")


def list(*args: Any, **kwargs: Any) -> Any:
    """Refused: see `load`."""
    return _refuse("list")


def help(*args: Any, **kwargs: Any) -> Any:
    """Refused: see `load`."""
    return _refuse("help")


def load_state_dict_from_url(*args: Any, **kwargs: Any) -> Any:
    """Refused: nothing is downloaded."""
    return _refuse("load_state_dict_from_url")


def download_url_to_file(*args: Any, **kwargs: Any) -> Any:
    """Refused: nothing is downloaded."""
    return _refuse("download_url_to_file")
