"""The rows of a long comparison in a file, a line of JSON each, as they come; a rerun goes on where it ended."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import numpy as np

from nnc_func.errors import PlanError

try:
    import fcntl
except ImportError:  # no such locks on this system: two that write to one file are not told apart
    fcntl = None  # type: ignore[assignment]

FORMAT = "nnc_func rows 1"  # what the first line says
Row = Mapping[str, Any]


class Record:
    """The rows in a file, and a place for more. It is held by one process at a time, until it is closed.

    Parameters
    ----------
    path
        Is made where it is not there. A last line that was cut off, as a killed process leaves it, is taken out.
    keys
        The columns that say of what a row is: a later row with the same takes the place of an earlier one.

    Attributes
    ----------
    rows
        Those that are there, by the values of their `keys`.

    Raises
    ------
    PlanError
        The file is not of this kind, a line in it is none, or another process writes to it.
    OSError
        It cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Record(Path(folder) / "rows.jsonl", ("problem",)) as record:
    ...         record.add({"problem": "a", "arena": 64})
    ...     with Record(Path(folder) / "rows.jsonl", ("problem",)) as again:
    ...         print(again.rows)
    {('a',): {'problem': 'a', 'arena': 64}}
    """

    def __init__(self, path: str | os.PathLike[str], keys: tuple[str, ...]) -> None:
        self.path, self._keys = Path(path), keys
        self._file: IO[bytes] = open(self.path, "a+b")  # noqa: SIM115 - it is held until `close`
        try:
            self._lock()
            self.rows = self._read()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Record:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let it go."""
        self._file.close()

    def add(self, row: Row) -> None:
        """Write a row, so that it is there whatever happens next."""
        self._write(row)
        self.rows[self._key(row)] = dict(row)

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in self._keys)

    def _write(self, row: Row) -> None:
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PlanError(f"another process writes to {self.path}: wait for it, or name another file") from None

    def _read(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        first = content[:whole].partition(b"\n")[0]
        is_new = not whole and _head().startswith(content[:20])
        if not is_new and not _says_format(first):
            raise PlanError(f"{self.path} has other content than rows of a comparison: name another file")
        if whole < len(content):
            self._file.truncate(whole)
        if is_new:
            self._file.write(_head())
            self._file.flush()
            return {}
        found = {}
        for number, line in enumerate(content[:whole].splitlines()[1:], 2):
            try:
                row = json.loads(line)
                key = self._key(row)
                hash(key)
            except (ValueError, TypeError, AttributeError) as error:
                raise PlanError(f"{self.path}, line {number}: {line[:60]!r} is no row: {error}") from None
            found[key] = row
        return found


def _head() -> bytes:
    machine = {"python": platform.python_version(), "numpy": np.__version__, "machine": platform.machine()}
    begun = datetime.now().astimezone().isoformat(timespec="seconds")
    return json.dumps({"format": FORMAT, "begun": begun, **machine, "cores": os.cpu_count()}).encode() + b"\n"


def _says_format(line: bytes) -> bool:
    try:
        said = json.loads(line)
    except ValueError:
        return False
    return isinstance(said, dict) and said.get("format") == FORMAT
