"""Zip archives that nobody has to trust: names, sizes and places are checked before a member is read.

`zipfile` reads them. It trusts an archive's directory, so the checks here come before what it does.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Any

_ENCRYPTED = 1
_END, _END64, _LOCATOR = b"PK\5\6", b"PK\6\6", b"PK\6\7"
_UNKNOWN = 0xFFFFFFFF

MEMBERS, BYTES_PER_MEMBER = 100_000, 256
"""Members that an archive may have: so many, and one more for each so many bytes."""

INFLATED, INFLATION = 16 << 20, 32
"""Bytes that compressed members may give: so many, and so many more for each byte of the archive."""


class Archive:
    """A zip archive in an open file, from where the file stands to its end.

    Args:
        file: a binary file that can seek.
        reader: who reads it, for texts of errors.

    Raises:
        RuntimeError: the archive is damaged, or was made to do harm.
    """

    def __init__(self, file: Any, reader: str) -> None:
        self._file, self._reader, self._start = file, reader, file.tell()
        self._size = file.seek(0, io.SEEK_END) - self._start
        self._inflated = 0
        count, directory = self._end()
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OSError) as e:
            raise self._damaged(f"the directory is damaged ({type(e).__name__})") from None
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in self._zip.infolist():
            self._add(member)
        if len(self._members) != count or self._zip.start_dir != self._start + directory:
            raise self._damaged("the directory has another size than it says")
        starts = sorted(m.header_offset for m in self._members.values())
        self._ends = dict(zip(starts, [*starts[1:], self._zip.start_dir]))
        if len(self._ends) != count or not all(self._start <= n < self._zip.start_dir for n in starts):
            raise self._damaged("two members lie at one place, or one where there are no members")

    def names(self) -> list[str]:
        """Names of the members."""
        return list(self._members)

    def _damaged(self, said: str) -> RuntimeError:
        return RuntimeError(f"{self._reader} failed reading zip archive: {said}")

    def _bytes(self, offset: int, n: int) -> bytes:
        if offset < 0 or offset + n > self._size:
            raise self._damaged("a part lies beyond the end of the file")
        self._file.seek(self._start + offset)
        data = self._file.read(n)
        if len(data) != n:
            raise self._damaged("the file became shorter while it was read")
        return data

    def _end(self) -> tuple[int, int]:
        """The number of members, and the place of the directory, which must be small enough to be read."""
        n = min(self._size, 22 + 0xFFFF)
        tail = self._bytes(self._size - n, n)
        at = tail.rfind(_END)
        if at < 0 or at + 22 > n:
            raise self._damaged("failed finding central directory")
        disk, first, here, count, size, offset, comment = struct.unpack_from("<4H2LH", tail, at + 4)
        if disk or first or here != count or at + 22 + comment != n:
            raise self._damaged("the end of the directory is damaged")
        end = self._size - n + at
        if at >= 20 and tail[at - 20 : at - 16] == _LOCATOR:
            place = struct.unpack_from("<Q", tail, at - 12)[0]
            record = self._bytes(place, 56)
            here, wide, wide_size, wide_offset = struct.unpack_from("<4Q", record, 24)
            same = count in (wide, 0xFFFF) and size in (wide_size, _UNKNOWN) and offset in (wide_offset, _UNKNOWN)
            if record[:4] != _END64 or here != wide or not same:
                raise self._damaged("the end of the directory is damaged")
            count, size, offset, end = wide, wide_size, wide_offset, min(place, end)
        if offset + size > end or max(count, size // 128) > MEMBERS + self._size // BYTES_PER_MEMBER:
            raise self._damaged("the directory has an impossible place or size")
        return count, offset

    def _add(self, member: zipfile.ZipInfo) -> None:
        name = member.orig_filename
        if name.startswith("/") or "\0" in name or ".." in name.replace("\\", "/").split("/"):
            raise self._damaged(f"{name[:100]!r} is no name of a member")
        if name in self._members:
            raise self._damaged(f"the name {name[:100]!r} occurs twice")
        self._members[name] = member

    # --- members ---

    def read(self, name: str, limit: int, exact: bool = False) -> bytes:
        """A member's bytes, of which there may be at most (or have to be exactly) so many."""
        member = self._members.get(name)
        if member is None:
            raise RuntimeError(f"{self._reader} failed locating file {name[:100]}: file not found")
        size = member.file_size
        if size > limit or (exact and size < limit):
            raise RuntimeError(f"{name[:100]} holds {size} bytes where {limit} were expected")
        said = self._refusal(member)
        if said is None:
            try:
                with self._zip.open(member) as part:
                    data = part.read(size)
                    if len(data) == size and not part.read(1):  # which compares the checksum
                        return data
                said = "the bytes are damaged"
            except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error, struct.error, ValueError) as e:
                said = f"the bytes are damaged ({e})"
        raise RuntimeError(f"{self._reader} failed reading file {name[:100]}: {said}")

    def _refusal(self, member: zipfile.ZipInfo) -> str | None:
        size, packed = member.file_size, member.compress_size
        if member.flag_bits & _ENCRYPTED:
            return "it is encrypted"
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            return f"it is compressed by method {member.compress_type}; members are stored or deflated"
        if member.header_offset + 30 + len(member.orig_filename) + packed > self._ends[member.header_offset]:
            return "two members overlap"
        if member.compress_type == zipfile.ZIP_STORED:
            return None if size == packed else "its sizes disagree"
        self._inflated += size
        if self._inflated > INFLATED + INFLATION * self._size:
            return "the compressed members are far larger than the file"
        return None
