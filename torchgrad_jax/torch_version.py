"""torch.torch_version: a version string that compares as a version, also with tuples."""

from __future__ import annotations

import re
from typing import Any


def _key(version: Any) -> tuple[tuple[int, ...], bool]:
    """The release numbers of a version, less zeros at their end, and whether it is the release itself."""
    if isinstance(version, tuple | list):
        version = ".".join(str(v) for v in version)
    public = str(version).partition("+")[0]
    found = re.match(r"v?(\d+(?:\.\d+)*)(.*)$", public)
    if found is None:
        raise ValueError(f"Invalid version: {version!r}")
    numbers = [int(n) for n in found[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    early = re.match(r"[.\-_]?(a|b|rc|dev|alpha|beta)", found[2])
    return tuple(numbers), early is None


class TorchVersion(str):
    """A version of torch: a string to print and split, a version to compare."""

    def _compared(self, other: Any) -> tuple[Any, Any] | None:
        try:
            return _key(self), _key(other)
        except ValueError:
            return None

    def __eq__(self, other: object) -> bool:
        pair = self._compared(other)
        return pair[0] == pair[1] if pair else str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        pair = self._compared(other)
        return pair[0] < pair[1] if pair else str.__lt__(self, other)

    def __le__(self, other: Any) -> bool:
        return self < other or self == other

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    __hash__ = str.__hash__
