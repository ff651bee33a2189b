"""torch.hub: nothing is downloaded; where files would be is told."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlparse as urlparse

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""Where file names of published weights have the beginning of their hash."""
_dir: str | None = None


def get_dir() -> str:
    """The folder that torch would keep downloads in."""
    return os.path.join(_get_torch_home(), "hub") if _dir is None else _dir


def _get_torch_home() -> str:
    home = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", f"{home}/torch"))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Change what `get_dir` says."""
    global _dir
    _dir = os.path.expanduser(os.fspath(d))


class tqdm:
    """A line on stderr that says how far a loop or a copy has come."""

    def __init__(
        self,
        iterable: Iterable[Any] | None = None,
        total: float | None = None,
        disable: bool = False,
        **options: Any,
    ) -> None:
        self.iterable, self.disable, self.n = iterable, disable, 0
        length = getattr(iterable, "__len__", None)
        self.total = length() if total is None and length is not None else total

    def __iter__(self) -> Iterator[Any]:
        for item in self.iterable or ():
            yield item
            self.update()
        self.close()

    def update(self, n: float = 1) -> None:
        """Come further by n."""
        self.n += n
        if not self.disable:
            share = f"{100 * self.n / self.total:.1f}%" if self.total else f"{self.n}"
            sys.stderr.write(f"\r{share}")
            sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if not self.disable:
            sys.stderr.write("\n")
        self.disable = True

    def set_description(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: the line has no room for it."""

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


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
