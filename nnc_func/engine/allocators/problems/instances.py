"""Problems by name, in one registry: generators, with a number of buffers and a seed, and folders of files.

Folders are those that the environment variable ``NNC_DATA`` names, and ``shared/data`` beside a checkout of this
library, where that is: each folder in them that has problems is a suite, named by its path, as ``minimalloc/small``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from attrs import evolve

from nnc_func.engine.allocators.problems.generators import concurrent, lasting, pinwheel, skewed, tiling, uniform, waves
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.naming import unknown
from nnc_func.errors import PlanError

GENERATORS: Mapping[str, Callable[[int, int], Problem]] = {
    "concurrent": concurrent, "lasting": lasting, "pinwheel": pinwheel, "skewed": skewed, "tiling": tiling,
    "uniform": uniform, "waves": waves,
}  # fmt: skip
VARIABLE = "NNC_DATA"  # folders, with what stands between those of PATH
SUFFIXES = (".csv", ".json", ".pickle")
MOST = 10_000_000  # buffers that a generator is asked for


def suites() -> dict[str, Path]:
    """The folders with problems, by name.

    Raises
    ------
    PlanError
        ``NNC_DATA`` names a folder that is not there.
    """
    given = [Path(p) for p in os.environ.get(VARIABLE, "").split(os.pathsep) if p]
    for path in given:
        if not path.is_dir():
            raise PlanError(f"{VARIABLE} names {str(path)!r}, which is no folder")
    beside = Path(__file__).resolve().parents[5] / "shared" / "data"
    found: dict[str, Path] = {}
    for root in (*given, *([beside] if beside.is_dir() else [])):
        for folder in sorted({root, *(p for p in root.rglob("*") if p.is_dir())}):
            if any(p.suffix in SUFFIXES for p in folder.iterdir()):
                found.setdefault(folder.name if folder == root else folder.relative_to(root).as_posix(), folder)
    return found


def names() -> list[str]:
    """What `problems` knows: generators as ``NAME:COUNT``, and suites."""
    return [*(f"{name}:COUNT" for name in GENERATORS), *suites()]


def problems(name: str, seeds: Iterable[int] = (0,), alignment: int = 1) -> dict[str, Problem]:
    """The problems of a name, by their own names.

    Parameters
    ----------
    name
        A generator and how many buffers, as ``uniform:1000``: a problem for each seed, without a capacity. Or a
        suite; or a path of a file, or of a folder, of problems.
    seeds
        Of generators.
    alignment
        In bytes, of files that say none.

    Raises
    ------
    PlanError
        There is no such name; tells the nearest. A file says no problem; names it.

    Examples
    --------
    >>> {name: len(problem) for name, problem in problems("tiling:50", (0, 1)).items()}
    {'tiling:50 seed 0': 50, 'tiling:50 seed 1': 50}
    >>> problems("unifrom:10")
    Traceback (most recent call last):
    nnc_func.errors.PlanError: no generator named 'unifrom'; there are: concurrent, ...; did you mean uniform?
    """
    path = Path(name)
    if path.is_dir():
        return of_folder(path, alignment)
    if path.is_file():
        return {path.stem: read(path, alignment)}
    generator, colon, count = name.partition(":")
    if colon:
        if generator not in GENERATORS:
            raise PlanError(unknown(generator, "generator", GENERATORS))
        if not re.fullmatch("[0-9]{1,8}", count) or not 0 < int(count) <= MOST:
            raise PlanError(f"{name!r}: wanted a number of buffers from 1 to {MOST:,}, given {count!r:.40}")
        made = {f"{name} seed {seed}": GENERATORS[generator](int(count), seed) for seed in seeds}
        return {each: evolve(problem, capacity=None) for each, problem in made.items()}
    known = suites()
    if name not in known:
        if path.suffix in SUFFIXES or "/" in name:
            raise PlanError(f"there is no file or folder {name!r}, and {unknown(name, 'instance', names())}")
        raise PlanError(unknown(name, "instance", ["zoo", *names()]))
    return of_folder(known[name], alignment)


def of_folder(folder: Path, alignment: int = 1) -> dict[str, Problem]:
    """The problems of the files in a folder.

    Raises
    ------
    PlanError
        There is none, or a file says none; names it.
    """
    files = sorted(p for p in folder.iterdir() if p.suffix in SUFFIXES)
    if not files:
        raise PlanError(f"no problem in {folder}: wanted {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} files")
    return {path.stem: read(path, alignment) for path in files}


def read(path: Path, alignment: int = 1) -> Problem:
    """The problem in a file: minimalloc's CSV, this library's JSON, or a memory snapshot of PyTorch.

    Raises
    ------
    PlanError
        It says none; names the file.
    OSError
        It cannot be read.
    """
    try:
        if path.suffix == ".json":
            return Problem.from_json(path)
        if path.suffix == ".pickle":
            return Problem.from_torch(path)
        return Problem.from_csv(path, alignment=alignment)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from error
