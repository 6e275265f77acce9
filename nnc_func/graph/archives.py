"""Files of this library: zip archives of text and arrays, written whole or not at all, read without running anything.

Arrays are NumPy's own format without pickles, stored as they are; text is JSON or the library's own. Equal content
gives equal bytes.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nnc_func.errors import FileFormatError, NncError
from nnc_func.facets.dtypes import BFLOAT16, as_dtype, kind_of

ABOUT = "about.json"
FORMATS = "nnc_func "  # how the names of all formats begin
PAIR = np.dtype("V2")  # bfloat16, as NumPy writes it: two bytes of which it knows nothing
WHEN = (1980, 1, 1, 0, 0, 0)  # the oldest date that the format has: files do not depend on when they were written
DAMAGE = (LookupError, TypeError, AttributeError, ValueError, RuntimeError, MemoryError, ArithmeticError, OSError)
LARGEST = 1 << 28  # bytes of a text: what unpacks to more is taken for an attack


def written(path: Any, members: Iterable[tuple[str, bytes]]) -> None:
    """Write an archive; it is complete or not there: it is written beside its place and moved."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(beside, "w") as archive:
            for name, content in members:
                entry = zipfile.ZipInfo(name, WHEN)
                entry.compress_type = zipfile.ZIP_STORED if name.endswith(".npy") else zipfile.ZIP_DEFLATED
                entry.create_system = 3  # as on Unix, wherever it is written
                archive.writestr(entry, content)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def array_bytes(array: Any) -> bytes:
    """A host array as a member."""
    into = io.BytesIO()
    np.lib.format.write_array(into, np.asarray(array, order="C"), allow_pickle=False)
    return into.getvalue()


def json_bytes(value: Any) -> bytes:
    """Plain data as a member, without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


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
    ...     written(f"{folder}/some", [(ABOUT, json_bytes({"format": "nnc_func graph", "version": 1}))])
    ...     format_of(f"{folder}/some")
    'graph'
    """
    if not zipfile.is_zipfile(path):
        return None
    with reading(path, "archive of this library") as archive:
        about = json.loads(archive.read(ABOUT))
        found = about.get("format") if isinstance(about, dict) else None
        if not isinstance(found, str) or not found.startswith(FORMATS):
            raise FileFormatError(f"{path} is a zip archive, and {ABOUT} in it names no format of this library")
    return found.removeprefix(FORMATS)


@contextmanager
def reading(path: Any, what: str) -> Iterator[Archive]:
    """The archive at that path; whatever is wrong with it is said in our words, with its path.

    Raises
    ------
    FileFormatError
        It is no archive, or is damaged or cut short.
    """
    with Path(path).open("rb") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                yield Archive(archive, what, path)
        except NncError as error:
            if isinstance(error, FileFormatError) and str(path) in str(error):
                raise
            raise FileFormatError(f"{path}: {error}") from None
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            RuntimeError,
        ) as error:  # the last: encrypted, unknown versions
            raise FileFormatError(f"{path} is no {what}, or is damaged or cut short: {error}") from None
        except DAMAGE as error:
            raise FileFormatError(f"{path} is damaged: {type(error).__name__}: {error}") from None


class Archive:
    """Members of an archive, by name."""

    def __init__(self, archive: zipfile.ZipFile, what: str, path: Any) -> None:
        self._archive, self.what, self.path = archive, what, path

    def names(self, folder: str) -> list[str]:
        """Members in a folder."""
        return [n for n in self._archive.namelist() if n.startswith(f"{folder}/")]

    def about(self, version: int) -> dict[str, Any]:
        """What the archive says of itself.

        Raises
        ------
        FileFormatError
            It is none of ours, or of a version above `version`.
        """
        path, form = self.path, f"nnc_func {self.what}"
        if ABOUT not in self._archive.namelist():
            raise FileFormatError(f"{path} is a zip archive, but no {self.what}: it has no {ABOUT}")
        about = json.loads(self.read(ABOUT))
        if not isinstance(about, dict) or about.get("format") != form or type(about.get("version")) is not int:
            raise FileFormatError(
                f"{path} is a zip archive, but no {self.what}: {ABOUT} does not say {form!r} and a version"
            )
        if about["version"] > version:
            raise FileFormatError(
                f"{path} was written in version {about['version']} of the format; this reads versions up to {version}: "
                "update nnc_func"
            )
        return about

    def read(self, name: str) -> bytes:
        """The content of a member."""
        try:
            entry = self._archive.getinfo(name)
        except KeyError:
            raise FileFormatError(f"{self.path} is damaged or cut short: it has no {name}") from None
        if entry.compress_type != zipfile.ZIP_STORED and entry.file_size > LARGEST:
            raise FileFormatError(f"{self.path}: {name} unpacks to {entry.file_size} bytes, more than {LARGEST}")
        return self._archive.read(entry)

    def array(self, name: str) -> Any:
        """A member that is an array: of numbers, the caller's own."""
        content = self.read(name)
        try:
            return _array(content)
        except (ValueError, EOFError, SyntaxError, TypeError, MemoryError) as error:
            raise FileFormatError(f"{self.path} is damaged: {name} is no array of numbers: {error}") from None


def _array(content: bytes) -> Any:
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"its version is {version}")
    shape, columns_first, dtype = np.lib.format.read_array_header_1_0(stream)
    start = stream.tell()
    if dtype == PAIR:
        dtype = as_dtype(BFLOAT16)
    if kind_of(dtype) not in "biufc" or columns_first:
        raise ValueError(f"it is of {dtype}{', columns first' if columns_first else ''}")
    if math.prod(shape) * dtype.itemsize != len(content) - start:
        raise ValueError(f"{dtype}{list(shape)} has not {len(content) - start} bytes")
    return np.frombuffer(content, dtype, offset=start).reshape(shape).copy()
