"""Zip archives that nobody has to trust: names, sizes and places are checked before a member is read."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from typing import Any

_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _UTF8 = 1, 1 << 11
_END, _END64, _LOCATOR = b"PK\5\6", b"PK\6\6", b"PK\6\7"
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_UNKNOWN = 0xFFFFFFFF

MEMBERS, BYTES_PER_MEMBER = 100_000, 256
"""Members that an archive may have: so many, and one more for each so many bytes."""

INFLATED, INFLATION = 16 << 20, 32
"""Bytes that compressed members may give: so many, and so many more for each byte of the archive."""


@dataclass(frozen=True, slots=True)
class _Member:
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    offset: int


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
        try:
            self._members, directory = self._directory()
        except (struct.error, IndexError, UnicodeDecodeError) as e:
            raise self._damaged(f"the directory is damaged ({type(e).__name__})") from None
        starts = sorted(m.offset for m in self._members.values())
        self._ends = dict(zip(starts, [*starts[1:], directory]))
        if len(self._ends) != len(starts):
            raise self._damaged("two members lie at one place")

    def names(self) -> list[str]:
        """Names of the members."""
        return list(self._members)

    def _damaged(self, said: str) -> RuntimeError:
        return RuntimeError(f"{self._reader} failed reading zip archive: {said}")

    def _bytes(self, offset: int, n: int) -> bytes:
        if offset < 0 or n < 0 or offset + n > self._size:
            raise self._damaged("a part lies beyond the end of the file")
        self._file.seek(self._start + offset)
        data = self._file.read(n)
        if len(data) != n:
            raise self._damaged("the file became shorter while it was read")
        return data

    # --- the directory ---

    def _directory(self) -> tuple[dict[str, _Member], int]:
        """The members by name, and where the directory begins."""
        count, size, offset, end = self._end()
        if offset + size > end or count > MEMBERS + self._size // BYTES_PER_MEMBER:
            raise self._damaged("the directory has an impossible place or size")
        data, at = self._bytes(offset, size), 0
        members: dict[str, _Member] = {}
        for _ in range(count):
            name, member, at = self._entry(data, at)
            if name in members:
                raise self._damaged(f"the name {name[:100]!r} occurs twice")
            members[name] = member
        if at != size:
            raise self._damaged("the directory has another size than it says")
        return members, offset

    def _end(self) -> tuple[int, int, int, int]:
        """Number of members, size and place of the directory, and the place of what follows it."""
        n = min(self._size, 22 + 0xFFFF)
        tail = self._bytes(self._size - n, n)
        at = tail.rfind(_END)
        if at < 0:
            raise self._damaged("failed finding central directory")
        disk, first, here, count, size, offset, comment = struct.unpack_from("<4H2LH", tail, at + 4)
        if disk or first or here != count or at + 22 + comment != n:
            raise self._damaged("the end of the directory is damaged")
        end = self._size - n + at
        if at < 20 or tail[at - 20 : at - 16] != _LOCATOR:
            return count, size, offset, end
        disk, place, disks = struct.unpack_from("<LQL", tail, at - 16)
        record = self._bytes(place, 56)
        disk2, first, here, wide, wide_size, wide_offset = struct.unpack_from("<2L4Q", record, 16)
        same = count in (wide, 0xFFFF) and size in (wide_size, _UNKNOWN) and offset in (wide_offset, _UNKNOWN)
        if record[:4] != _END64 or disk or disks != 1 or disk2 or first or here != wide or not same:
            raise self._damaged("the end of the directory is damaged")
        return wide, wide_size, wide_offset, min(place, end)

    def _entry(self, data: bytes, at: int) -> tuple[str, _Member, int]:
        """One member, and where the next one is described."""
        (
            sign, _, _, flags, method, _, _, crc, packed, size, name_size, extra_size, comment_size, disk, _, _, offset,
        ) = _ENTRY.unpack_from(data, at)  # fmt: skip
        at += _ENTRY.size
        raw, extra = data[at : at + name_size], data[at + name_size : at + name_size + extra_size]
        if sign != b"PK\1\2" or disk not in (0, 0xFFFF):
            raise self._damaged("the directory is damaged")
        size, packed, offset = _widened(extra, size, packed, offset)
        name = raw.decode("utf-8" if flags & _UTF8 else "cp437")
        if name.startswith("/") or "\0" in name or ".." in name.replace("\\", "/").split("/"):
            raise self._damaged(f"{name[:100]!r} is no name of a member")
        member = _Member(raw, flags, method, crc, packed, size, offset)
        return name, member, at + name_size + extra_size + comment_size

    # --- members ---

    def read(self, name: str, limit: int, exact: bool = False) -> bytes:
        """A member's bytes, of which there may be at most (or have to be exactly) so many."""
        member = self._members.get(name)
        if member is None:
            raise RuntimeError(f"{self._reader} failed locating file {name[:100]}: file not found")
        if member.size > limit or (exact and member.size < limit):
            raise RuntimeError(f"{name[:100]} holds {member.size} bytes where {limit} were expected")
        said = self._refusal(member)
        if said is None:
            raw = self._raw(member)
            data = raw if member.method == _STORED else self._unpacked(member, raw)
            if data is not None and zlib.crc32(data) == member.crc:
                return data
            said = "the bytes are damaged"
        raise RuntimeError(f"{self._reader} failed reading file {name[:100]}: {said}")

    def _refusal(self, member: _Member) -> str | None:
        if member.flags & _ENCRYPTED:
            return "it is encrypted"
        if member.method not in (_STORED, _DEFLATED):
            return f"it is compressed by method {member.method}; members are stored or deflated"
        if member.method == _STORED:
            return None if member.size == member.packed else "its sizes disagree"
        self._inflated += member.size
        if self._inflated > INFLATED + INFLATION * self._size:
            return "the compressed members are far larger than the file"
        return None

    def _raw(self, member: _Member) -> bytes:
        head = _LOCAL.unpack(self._bytes(member.offset, _LOCAL.size))
        sign, method, name_size, extra_size = head[0], head[3], head[9], head[10]
        at = member.offset + _LOCAL.size
        name = self._bytes(at, name_size)
        at += name_size + extra_size
        if sign != b"PK\3\4" or name != member.raw_name or method != member.method:
            raise self._damaged("a member is not what the directory says")
        if at + member.packed > self._ends[member.offset]:
            raise self._damaged("two members overlap")
        return self._bytes(at, member.packed)

    def _unpacked(self, member: _Member, raw: bytes) -> bytes | None:
        reader = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            data = reader.decompress(raw, member.size + 1)
        except zlib.error:
            return None
        return data if len(data) == member.size and not reader.unconsumed_tail else None


def _widened(extra: bytes, *values: int) -> list[int]:
    """Size, packed size and place, where 32 bits are not enough for them."""
    at = 0
    while at + 4 <= len(extra):
        kind, n = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{n // 8}Q", extra[at + 4 : at + 4 + n]))
            return [next(wide, _UNKNOWN) if v == _UNKNOWN else v for v in values]
        at += 4 + n
    return list(values)
