"""Members of a zip file, found and unpacked within bounds: what the file says of itself is checked, and not believed.

The subset that this library and NumPy write: stored or deflated, not encrypted, on one disk, without a comment at the
end; sizes of 64 bits where they need them. The format is that of PKWARE's APPNOTE 6.3.10.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

from attrs import frozen

from nnc_func.errors import FileFormatError

MOST_MEMBERS = 100_000
CHUNK = 1 << 20
"""Bytes that are read or unpacked at a time."""
STORED, DEFLATED = 0, 8
BEST_RATIO = 1032
"""No deflated byte gives more: https://zlib.net/zlib_tech.html."""

ENTRY = struct.Struct("<4s6H3L5H2L")  # of the directory
LOCAL = struct.Struct("<4s5H3L2H")  # before a member's content
END = struct.Struct("<4s4H2LH")
END_64 = struct.Struct("<4sQ2H2L4Q")
LOCATOR_64 = struct.Struct("<4sLQL")
LARGE_16, LARGE_32 = 0xFFFF, 0xFFFFFFFF  # "see the number of 64 bits"
ENCRYPTED = 1
EXTRA_64 = 1


@frozen
class Member:
    """A member as the directory describes it: nothing of that is believed until its content has been read."""

    name: str
    method: int
    packed: int
    size: int
    checksum: int
    offset: int


def members(stream: Any) -> dict[str, Member]:
    """The members of a zip file by name, in the order of its directory.

    Raises
    ------
    FileFormatError
        It is no such file, two members have one name, or there are too many.

    Examples
    --------
    >>> import io, zipfile
    >>> stream = io.BytesIO()
    >>> with zipfile.ZipFile(stream, "w") as file:
    ...     file.writestr("a.txt", "abc")
    >>> found = members(stream)
    >>> found["a.txt"].size, b"".join(chunks(stream, found["a.txt"]))
    (3, b'abc')
    """
    count, size, start = _end(stream)
    if count > MOST_MEMBERS:
        raise FileFormatError(f"it has {count} members, more than {MOST_MEMBERS}")
    stream.seek(start)
    found: dict[str, Member] = {}
    left = size
    for _ in range(count):
        member, length = _entry(stream, left, start)
        left -= length
        if member.name in found:
            raise FileFormatError(f"two of its members have the name {member.name!r}")
        found[member.name] = member
    if left:
        raise FileFormatError(f"its directory has {left} bytes more than its {count} members")
    return found


def chunks(stream: Any, member: Member) -> Iterator[bytes]:
    """The content of a member, a part at a time; never more of it than the directory says.

    Raises
    ------
    FileFormatError
        The content is cut short, too long, or not what its checksum says.
    """
    total, checksum = 0, 0
    for part in _unpacked(stream, member):
        total += len(part)
        if total > member.size:
            break
        checksum = zlib.crc32(part, checksum)
        yield part
    if total != member.size:
        raise FileFormatError(f"{member.name} has not the {member.size} bytes that the directory says")
    if checksum != member.checksum:
        raise FileFormatError(f"{member.name} has other bytes than its checksum says")


# --- the directory ----------------------------------------------------------------------------------------


def _end(stream: Any) -> tuple[int, int, int]:
    """How many members there are, and the length and the start of the directory."""
    length = stream.seek(0, 2)
    at = length - END.size
    sign, disk, first_disk, here, count, size, start, comment = _record(stream, at, END)
    if sign != b"PK\5\6" or comment or disk or first_disk or here != count:
        raise FileFormatError("no zip archive ends at its end")
    if count == LARGE_16 or LARGE_32 in (size, start):
        sign, disk, position, disks = _record(stream, at - LOCATOR_64.size, LOCATOR_64)
        if sign != b"PK\6\7" or disk or disks > 1 or position + END_64.size + LOCATOR_64.size != at:
            raise FileFormatError("it does not say where its directory is")
        at = position
        sign, _, _, _, disk, first_disk, here, count, size, start = _record(stream, at, END_64)
        if sign != b"PK\6\6" or disk or first_disk or here != count:
            raise FileFormatError("it does not say where its directory is")
    if start + size != at:
        raise FileFormatError("its directory is not where it is said to be")
    return count, size, start


def _record(stream: Any, at: int, form: struct.Struct) -> tuple[Any, ...]:
    """A record of the file, whole or not at all."""
    content = b""
    if at >= 0:
        stream.seek(at)
        content = stream.read(form.size)
    if len(content) != form.size:
        raise FileFormatError("it is cut short")
    return form.unpack(content)


def _entry(stream: Any, left: int, directory: int) -> tuple[Member, int]:
    """The next member of the directory, of which so many bytes are left, and the length of what describes it."""
    head = stream.read(ENTRY.size)
    if left < ENTRY.size or len(head) != ENTRY.size or head[:4] != b"PK\1\2":
        raise FileFormatError("its directory is damaged")
    _, _, _, flags, method, _, _, checksum, packed, size, *lengths, disk, _, _, offset = ENTRY.unpack(head)
    length = ENTRY.size + sum(lengths)
    rest = stream.read(length - ENTRY.size) if length <= left else b""
    if len(rest) != length - ENTRY.size:
        raise FileFormatError("its directory is damaged")
    try:
        name = rest[: lengths[0]].decode()
    except UnicodeDecodeError:
        raise FileFormatError(f"{rest[: lengths[0]][:60]!r} is no name of a member") from None
    size, packed, offset = _large(rest[lengths[0] : lengths[0] + lengths[1]], name, (size, packed, offset))
    if disk or flags & ENCRYPTED or method not in (STORED, DEFLATED):
        raise FileFormatError(f"{name} is encrypted, or packed in a way that is not read")
    if offset + LOCAL.size + packed > directory:
        raise FileFormatError(f"{name} is said to end behind the end")
    if size > BEST_RATIO * (packed + 1) or (method == STORED and size != packed):
        raise FileFormatError(f"{name} has {packed} bytes, which are not {size} when unpacked")
    return Member(name, method, packed, size, checksum, offset), length


def _large(extra: bytes, name: str, numbers: tuple[int, ...]) -> Iterator[int]:
    """The numbers, those that do not fit into 32 bits from the extra field that has them."""
    if LARGE_32 not in numbers:
        yield from numbers
        return
    at, field = 0, b""
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == EXTRA_64:
            field = extra[at + 4 : at + 4 + length]
            break
        at += 4 + length
    wanted = numbers.count(LARGE_32)
    if len(field) < 8 * wanted:
        raise FileFormatError(f"the directory does not say how long {name} is")
    large = iter(struct.unpack_from(f"<{wanted}Q", field))
    for number in numbers:
        yield next(large) if number == LARGE_32 else number


# --- contents ---------------------------------------------------------------------------------------------


def _unpacked(stream: Any, member: Member) -> Iterator[bytes]:
    """Parts of at most `CHUNK` bytes: one more than the directory says, perhaps, but not two."""
    sign, *_, name, extra = _record(stream, member.offset, LOCAL)
    if sign != b"PK\3\4" or stream.read(name) != member.name.encode():
        raise FileFormatError(f"{member.name} is not where the directory says")
    stream.seek(extra, 1)
    left = member.packed
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    while left:
        packed = stream.read(min(left, CHUNK))
        if not packed:
            raise FileFormatError(f"{member.name} is cut short")
        left -= len(packed)
        if member.method == STORED:
            yield packed
            continue
        while packed:
            try:
                part = inflate.decompress(packed, CHUNK)
            except zlib.error as error:
                raise FileFormatError(f"{member.name} is packed wrongly: {error}") from None
            packed = inflate.unconsumed_tail
            if part:
                yield part
    if member.method == DEFLATED and (not inflate.eof or inflate.unused_data):
        raise FileFormatError(f"{member.name} is packed wrongly: it does not end where it should")
