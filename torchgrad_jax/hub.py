"""torch.hub: weights from addresses, and models of folders; code is not fetched."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlparse as urlparse

from ._core.files.atomic import replacing
from ._core.signals import uninterrupted
from .serialization import load as _load

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""Where file names of published weights have the beginning of their hash."""
_dir: str | None = None


def get_dir() -> str:
    """The folder that downloads are kept in."""
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
        self, iterable: Iterable[Any] | None = None, total: float | None = None, disable: bool = False, **options: Any
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

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        self.close()


# --- models of a folder ---------------------------------------------------------------------------


_NO_CODE = "torchgrad_jax fetches no code; clone the repository yourself and say load(folder, name, source='local')"


def _hubconf(repo: Any, source: str) -> Any:
    """The module `hubconf.py` of a folder."""
    if source.lower() not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source.lower()}". Allowed values: "github" | "local".')
    if source.lower() == "github":
        raise NotImplementedError(f"torch.hub.load: {_NO_CODE}")
    folder = os.fspath(repo)
    spec = importlib.util.spec_from_file_location("hubconf", os.path.join(folder, "hubconf.py"))
    if spec is None or spec.loader is None:
        raise RuntimeError(f"no module can be made of {folder}/hubconf.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [n for n in getattr(module, "dependencies", ()) if importlib.util.find_spec(n) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module: Any, name: str) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def load(
    repo_or_dir: Any,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Return what a function of a folder's `hubconf.py` returns.

    Args:
        repo_or_dir: the folder.
        model: the name of the function.
        args: its arguments, as `kwargs`.
        source: "local".
        trust_repo: code of a folder is trusted.
        force_reload: nothing is kept.
        verbose: nothing is said.
        skip_validation: there is nobody to ask.

    Differs from torch: nothing is fetched from GitHub.

    Raises:
        NotImplementedError: the source is GitHub.
    """
    return _entry(_hubconf(repo_or_dir, source), model)(*args, **kwargs)


def list(*args: Any, **kwargs: Any) -> Any:
    """Refused: it asks GitHub."""
    raise NotImplementedError(f"torch.hub.list: {_NO_CODE}")


def help(*args: Any, **kwargs: Any) -> Any:
    """Refused: it asks GitHub."""
    raise NotImplementedError(f"torch.hub.help: {_NO_CODE}")


# --- files ----------------------------------------------------------------------------------------


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Copy what is at an address into a file, which appears when it is complete.

    Args:
        url: the address.
        dst: the file.
        hash_prefix: how the SHA-256 of the content has to begin.
        progress: whether a line on stderr says how far it is.

    Raises:
        RuntimeError: the content has another hash.
    """
    request = urllib.request.Request(url, headers={"User-Agent": "torch.hub"})
    digest = hashlib.sha256()
    with urllib.request.urlopen(request) as source, replacing(os.path.expanduser(dst)) as target:
        length = source.headers.get("Content-Length")
        size = int(length) if length and int(length) > 0 else None
        with tqdm(total=size, disable=not progress) as line:
            while chunk := source.read(1 << 17):
                target.write(chunk)
                digest.update(chunk)
                line.update(len(chunk))
        found = digest.hexdigest()
        if hash_prefix is not None and not found.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Load the weights at an address, which are kept in `get_dir` for the next time.

    Args:
        url: the address.
        model_dir: the folder to keep them in.
        map_location: as for `torch.load`.
        progress: whether a line on stderr says how far it is.
        check_hash: whether the file name has the beginning of their hash, which has to be right.
        file_name: the name in the folder, the address's where it is not given.
        weights_only: as for `torch.load`.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    kept = os.path.join(folder, name)
    if not os.path.exists(kept):
        sys.stderr.write(f'Downloading: "{url}" to {kept}\n')
        known = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, kept, known[1] if known else None, progress=progress)
    return _load(kept, map_location=map_location, weights_only=weights_only)
