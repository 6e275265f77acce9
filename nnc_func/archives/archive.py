"""Files of this library: zip archives of text and arrays, written whole or not at all, read without running anything.

Arrays are NumPy's own format without pickles, stored as they are; text is JSON or the library's own. Equal content
gives equal bytes. A file is not trusted: whatever it says, reading it takes no more memory than the caller allows.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nnc_func.archives.npy import ArrayHeader, array_header
from nnc_func.archives.plain import Fields, json_cost, json_value
from nnc_func.archives.zip_members import DEFLATED, STORED, Member, chunks, members
from nnc_func.errors import FileFormatError, GraphError, NncError

ABOUT = "about.json"
FORMATS = "nnc_func "  # how the names of all formats begin
WHEN = (1980, 1, 1, 0, 0, 0)  # the oldest date that the format has: files do not depend on when they were written
MAX_BYTES = 1 << 32
"""What reading a file may take in memory where nobody says it: 4 GiB."""
TEXT_BYTES = 1 << 26
"""A text, JSON or our own, is not longer: 64 MiB."""
TEXT_RATIO = 50
"""A text is not so many times as long as what it is packed in: what is, is taken for an attack."""
DIGEST = re.compile(r"[0-9a-f]{64}")


# --- written ----------------------------------------------------------------------------------------------


def write_archive(path: Any, members: Iterable[tuple[str, bytes]]) -> None:
    """Write an archive; it is complete or not there: it is written beside its place and moved.

    Raises
    ------
    GraphError
        A text is longer than what is read back.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(beside, "w") as archive:
            for name, content in members:
                entry = zipfile.ZipInfo(name, WHEN)
                entry.compress_type = _packing(name, content)
                entry.create_system = 3  # as on Unix, wherever it is written
                archive.writestr(entry, content)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _packing(name: str, content: bytes) -> int:
    """Arrays are stored as they are, and so is a text of which readers would think that it is an attack."""
    if name.endswith(".npy"):
        return STORED
    if len(content) > TEXT_BYTES:
        raise GraphError(f"{name} would take {len(content)} bytes: a file holds texts of up to {TEXT_BYTES}")
    return DEFLATED if len(content) <= TEXT_RATIO * len(zlib.compress(content)) - TEXT_RATIO * 16 else STORED


# --- read -------------------------------------------------------------------------------------------------


def format_of(path: Any) -> str | None:
    """What an archive of this library has: ``"graph"``, ``"program"`` …; None of a file that is no archive.

    Raises
    ------
    FileFormatError
        It is a zip archive of something else, or damaged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_archive(f"{folder}/some", [(ABOUT, b'{"format": "nnc_func graph", "version": 1}')])
    ...     format_of(f"{folder}/some")
    'graph'
    """
    if not zipfile.is_zipfile(path):
        return None
    with Archive.open(path, "archive of this library") as archive:
        about = archive.json(ABOUT) if ABOUT in archive.names() else None
        found = about.get("format") if isinstance(about, dict) else None
        if not isinstance(found, str) or not found.startswith(FORMATS):
            raise FileFormatError(f"{path} is a zip archive, and no {ABOUT} in it names a format of this library")
    return found.removeprefix(FORMATS)


class Archive:
    """Members of a file, by name; made by `Archive.open`.

    Attributes
    ----------
    path
        Of the file, for messages.
    what
        What it is the file of, ``"graph"`` or ``"program"``.

    Examples
    --------
    >>> import tempfile
    >>> from nnc_func.archives.npy import array_bytes
    >>> path = Path(tempfile.mkdtemp(), "some.graph")
    >>> write_archive(path, [("a.json", b"[1, 2]"), ("b.npy", array_bytes(np.ones(3)))])
    >>> with Archive.open(path, "graph", max_bytes=10_000) as archive:
    ...     print(archive.json("a.json"), archive.header("b.npy"), archive.array("b.npy"))
    [1, 2] float64[3] [1. 1. 1.]
    """

    def __init__(self, stream: Any, what: str, path: Any, max_bytes: int) -> None:
        self.path, self.what = path, what
        self._stream, self._max_bytes, self._left = stream, max_bytes, max_bytes
        self._members: dict[str, Member] = {}

    @classmethod
    @contextmanager
    def open(
        cls, source: Any, what: str, *, max_bytes: int = MAX_BYTES, sha256: str | None = None
    ) -> Iterator[Archive]:
        """The archive at a path; whatever is wrong with it is said in our words, with its path.

        Parameters
        ----------
        source
            A path, or a binary file that can be read from any place.
        what
            ``"graph"``, ``"program"``: for messages.
        max_bytes
            As much memory may reading take: what is read, and what is made of it, is counted before it is there.
        sha256
            Of the whole file, in hexadecimal digits. The very bytes that have that digest are read, whatever happens
            to the file meanwhile.

        Raises
        ------
        FileFormatError
            It is no archive, is damaged or cut short, takes more than `max_bytes`, or has another digest.
        """
        if type(max_bytes) is not int or max_bytes < 0:
            raise FileFormatError(f"max_bytes is a number of bytes, given {max_bytes!r}")
        is_open = hasattr(source, "read")
        path = getattr(source, "name", "the file") if is_open else source
        try:
            with nullcontext(source) if is_open else Path(source).open("rb") as stream:
                archive = cls(stream, what, path, max_bytes)
                archive._begin(sha256)
                yield archive
        except NncError as error:
            if isinstance(error, FileFormatError) and str(path) in str(error):
                raise
            raise FileFormatError(f"{path}: {error}") from None

    def _begin(self, sha256: str | None) -> None:
        if sha256 is not None:
            self._stream = io.BytesIO(self._whole(sha256))
        try:
            self._members = members(self._stream)
        except FileFormatError as error:
            raise FileFormatError(f"{self.path} is no {self.what}, or is damaged or cut short: {error}") from None
        unpacked = sum(member.size for member in self._members.values())
        if unpacked > self._left:
            self._refuse(unpacked, "its members")

    def _whole(self, sha256: str) -> bytes:
        """The bytes of the file, which are those with that digest."""
        if not isinstance(sha256, str) or not DIGEST.fullmatch(sha256.lower()):
            raise FileFormatError(f"sha256 is 64 hexadecimal digits, given {sha256!r}")
        size = self._stream.seek(0, 2)
        self.take(size, "the file")
        self._stream.seek(0)
        content: bytes = self._stream.read(size)
        found = hashlib.sha256(content).hexdigest()
        if found != sha256.lower():
            raise FileFormatError(f"{self.path} has the SHA-256 {found}, wanted {sha256}: it is another file")
        return content

    # --- how much ---------------------------------------------------------------------------------------

    def take(self, count: int, what: str) -> None:
        """Count bytes of memory that something will take, before it takes them.

        Raises
        ------
        FileFormatError
            With all that was counted before it is more than the caller allows.
        """
        if count > self._left:
            self._refuse(count, what)
        self._left -= count

    def _refuse(self, count: int, what: str) -> None:
        used = self._max_bytes - self._left
        raise FileFormatError(
            f"{self.path}: {what} would take {count} bytes{f' beside {used} others' if used else ''}, more than "
            f"max_bytes={self._max_bytes}: give a larger one if you trust the file"
        )

    # --- members ----------------------------------------------------------------------------------------

    def names(self, folder: str = "") -> list[str]:
        """Members in a folder, or all of them."""
        return [n for n in self._members if not folder or n.startswith(f"{folder}/")]

    def about(self, version: int) -> Fields:
        """What the archive says of itself.

        Raises
        ------
        FileFormatError
            It is none of ours, or of a version above `version`.
        """
        path, form = self.path, f"nnc_func {self.what}"
        if ABOUT not in self._members:
            raise FileFormatError(f"{path} is a zip archive, but no {self.what}: it has no {ABOUT}")
        about = self.json(ABOUT)
        if not isinstance(about, dict) or about.get("format") != form or type(about.get("version")) is not int:
            raise FileFormatError(
                f"{path} is a zip archive, but no {self.what}: {ABOUT} does not say {form!r} and a version"
            )
        if about["version"] > version:
            raise FileFormatError(
                f"{path} was written in version {about['version']} of the format; this reads versions up to {version}: "
                "update nnc_func"
            )
        return Fields(about)

    def read(self, name: str) -> bytes:
        """The content of a text, as bytes: at most 64 MiB, and 50 times what it is packed in.

        Raises
        ------
        FileFormatError
            It is missing, damaged or larger than that.
        """
        member = self._member(name)
        if member.size > TEXT_BYTES:
            raise FileFormatError(f"{self.path}: {name} unpacks to {member.size} bytes, more than {TEXT_BYTES}")
        if member.size > TEXT_RATIO * member.packed:
            raise FileFormatError(
                f"{self.path}: {name} unpacks to {member.size} bytes, more than {TEXT_RATIO} times the {member.packed} "
                "that it is packed in"
            )
        self.take(2 * member.size, name)
        return b"".join(self._chunks(member))

    def text(self, name: str) -> str:
        """A member that is text in UTF-8.

        Raises
        ------
        FileFormatError
            As `read`; or it is no UTF-8.
        """
        try:
            return self.read(name).decode()
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{self.path} is damaged: {name} is no text: {error}") from None

    def json(self, name: str) -> Any:
        """A member that is JSON, as `json_value` reads it; what its values take is counted before they are there.

        Raises
        ------
        FileFormatError
            As `read`; or it is no JSON, is nested too deeply, has a key twice, or a number that is not finite or has
            more than 64 bits.
        """
        content = self.read(name)
        try:
            self.take(json_cost(content), name)
            return json_value(content)
        except FileFormatError as error:
            raise self._damaged(name, error) from None

    def header(self, name: str) -> ArrayHeader:
        """Dtype and shape of a member that is an array, without its elements.

        Raises
        ------
        FileFormatError
            It is missing, damaged, no array of numbers, or has not as many bytes as it says.
        """
        return self._array(name)[0]

    def array(self, name: str) -> Any:
        """A member that is an array of numbers or booleans: the caller's own.

        Raises
        ------
        FileFormatError
            As `header`.
        """
        header, parts = self._array(name)
        self.take(header.nbytes, name)
        found = np.empty(header.shape, header.dtype)
        elements = found.reshape(-1).view(np.uint8)
        at = -header.start
        for part in parts:
            first = max(0, -at)  # the header comes before the elements
            elements[at + first : at + len(part)] = np.frombuffer(part, np.uint8, offset=first)
            at += len(part)
        if found.dtype.kind == "b" and elements.max(initial=0) > 1:  # which NumPy counts and looks up wrongly
            raise FileFormatError(f"{self.path} is damaged: {name} has bytes that are neither False nor True")
        return found

    def _array(self, name: str) -> tuple[ArrayHeader, Iterator[bytes]]:
        """The header of an array, and all parts of the member."""
        member = self._member(name)
        parts = self._chunks(member)
        head = next(parts, b"")
        try:
            found = array_header(head)
        except FileFormatError as error:
            raise FileFormatError(f"{self.path} is damaged: {name} is no array of numbers: {error}") from None
        if found.start + found.nbytes != member.size:
            size = member.size - found.start
            raise FileFormatError(
                f"{self.path} is damaged: {name} is no array of numbers: {found} has not {size} bytes"
            )
        return found, chain((head,), parts)

    def _member(self, name: str) -> Member:
        if name not in self._members:
            raise FileFormatError(f"{self.path} is damaged or cut short: it has no {name}")
        return self._members[name]

    def _chunks(self, member: Member) -> Iterator[bytes]:
        try:
            yield from chunks(self._stream, member)
        except FileFormatError as error:
            raise FileFormatError(f"{self.path} is damaged or cut short: {error}") from None

    def _damaged(self, name: str, error: FileFormatError) -> FileFormatError:
        if str(self.path) in str(error):
            return error
        return FileFormatError(f"{self.path} is damaged: {name}: {error}")
