"""Mutated program files, loaded and run where harm is seen.

``python -m tests.hostile tests.engine.mutated_programs 20000`` tries so many. A file computes what it did, or something
else, as its graph says or unlike it; or it is refused, or fails with words.
"""

from __future__ import annotations

import io
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func.errors import NncError
from tests.engine.guarded import GUARDS, Guarded, HarmError, run
from tests.engine.mutations import PROGRAMS, Members, inputs_of, mutated, saved, zipped

MEMORY = 6 << 30  # bytes that an attempt may map: what wants more gets a MemoryError
MAX_BYTES = 1 << 28
STACK = nnc.lazy(Guarded())


@cache
def originals() -> list[Members]:
    """What is in the files of the programs."""
    with tempfile.TemporaryDirectory() as folder:
        return saved(Path(folder))


@cache
def right(which: int) -> list[bytes]:
    """What the program of that number computes."""
    return computed(loaded(zipped(originals()[which])))


def case(number: int) -> tuple[str, bytes]:
    """The mutation of that number; its first byte is the number of the program."""
    which, content = mutated(originals(), number)
    return f"of {PROGRAMS[which].__name__}", bytes([which]) + content


def attempt(content: bytes) -> str:
    """What becomes of a file.

    Raises
    ------
    HarmError
        It does what no file must do.
    """
    wanted, content = right(content[0]), content[1:]
    with np.errstate(all="ignore"):
        program = loaded(content)
        try:
            found = computed(program)
        except NncError:
            return "failed with words"
        said = "the same" if found == wanted else "another"
        try:
            graph = program.graph
        except NncError:
            return f"{said}, unlike its graph"
        if found != wanted and graph is not None:
            check_agrees(content)
            return "another, as its graph says"
    return said


def loaded(content: bytes) -> Any:
    """The program in a file, and nothing else's memory looked after."""
    GUARDS.clear()
    return nnc.load_program(io.BytesIO(content), STACK, max_bytes=MAX_BYTES)


def each(program: Any) -> list[Any]:
    """It, or those for each binding of its unknown extents."""
    return [*program.programs.values()] if hasattr(program, "programs") else [program]


def computed(program: Any) -> list[bytes]:
    """Outputs and variables after its calls."""
    return [value for p in each(program) for value in run(p, inputs_of(p))]


def check_agrees(content: bytes) -> None:
    """Raise HarmError unless a program computes what its graph does, operator by operator."""
    eager = nnc.eager()
    for one in each(loaded(content)):
        inputs = inputs_of(one)
        wanted = eager.engine.compile(one.graph.to(eager)).run(inputs)
        for a, b in zip(one.run(inputs), wanted, strict=True):
            if not np.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True):
                raise HarmError("it computes another value than its graph")
