"""What is in files of the library: their members by name, and files of other members."""

from __future__ import annotations

import zipfile
from typing import Any


def content(file: Any) -> dict[str, bytes]:
    """The members of an archive, a path or a binary file."""
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(file: Any, members: dict[str, bytes], packing: int = zipfile.ZIP_STORED) -> Any:
    """The file, of these members from now on."""
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, value in members.items():
            archive.writestr(name, value)
    return file
