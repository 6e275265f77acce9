"""Mutated program files loaded and run where harm is seen: in a process of their own, in memory between closed pages.

``python -m tests.engine.hostile 20000`` tries so many, and prints what became of them. Harm is a crash, more than five
seconds, an error that is none of ours, a byte written beside an array's memory, and an array given to a kernel that
leaves its memory by the count of Python's integers.
"""

from __future__ import annotations

import collections
import ctypes
import faulthandler
import io
import mmap
import resource
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field

import nnc_func as nnc
from nnc_func.errors import NncError
from nnc_func.layer import layer
from tests.engine.mutations import inputs_of, mutated, saved

ROOT = Path(__file__).resolve().parents[2]
PAGE, CLOSED, CANARY = mmap.PAGESIZE, 0, 0xA5  # PROT_NONE
SECONDS = 5
ADDRESSES = 6 << 30  # bytes that a child may map: what wants more gets a MemoryError
MAX_BYTES = 1 << 28


# --- memory between closed pages ----------------------------------------------------------------------------


@define(eq=False)
class Guard:
    """Bytes that end where a closed page begins, after another one; what is left over of their pages is marked."""

    nbytes: int
    array: Any = field(init=False)
    _pages: Any = field(init=False)
    _start: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        room = -(-max(self.nbytes, 1) // PAGE) * PAGE
        memory = mmap.mmap(-1, room + 2 * PAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        libc = ctypes.CDLL(None, use_errno=True)
        for page in (address, address + PAGE + room):
            if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), CLOSED):
                raise OSError(ctypes.get_errno(), "mprotect")
        self._pages = np.frombuffer(memory, np.uint8, room, PAGE)
        self._pages[...] = CANARY
        self._start = (room - self.nbytes) // 64 * 64
        self.array = self._pages[self._start : self._start + self.nbytes]

    @property
    def is_intact(self) -> bool:
        """Whether nothing was written beside the bytes."""
        before, after = self._pages[: self._start], self._pages[self._start + self.nbytes :]
        return bool((before == CANARY).all() and (after == CANARY).all())


GUARDS: list[Guard] = []


def guarded(nbytes: int) -> Any:
    """Memory of so many bytes, looked after until `GUARDS` is cleared."""
    GUARDS.append(Guard(nbytes))
    return GUARDS[-1].array


def copied(array: Any) -> Any:
    """The same elements between closed pages."""
    found = np.ndarray(array.shape, array.dtype, guarded(array.nbytes))
    found[...] = array
    return found


@layer()
class Guarded(nnc.NumPy):
    """NumPy, with each arena, result, constant and variable between closed pages."""

    def arena(self, nbytes: int) -> Any:
        """See `NumPy.arena`."""
        return guarded(nbytes)

    def empty(self, shape: tuple[int, ...], dtype: Any, strides: Any = None) -> Any:
        """See `NumPy.empty`."""
        like = np.ndarray(shape, dtype, strides=strides)
        return np.ndarray(shape, dtype, guarded(like.nbytes), strides=strides)

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        """See `NumPy.asarray`; a copy, always."""
        return copied(super().asarray(value, dtype))


# --- the oracle ---------------------------------------------------------------------------------------------


def spread(array: Any) -> tuple[int, int]:
    """The addresses from the first byte of an array to the one after its last, in Python's integers."""
    start, size = int(array.__array_interface__["data"][0]), int(array.itemsize)
    if 0 in array.shape:
        return start, start
    steps = [(int(n) - 1) * int(s) for n, s in zip(array.shape, array.strides, strict=True)]
    return start + sum(s for s in steps if s < 0), start + sum(s for s in steps if s > 0) + size


def leaves_its_memory(array: Any) -> bool:
    """Whether an array shows a byte that is not of the array that owns its memory: a guard's, or what has no base."""
    if not isinstance(array, np.ndarray) or array.size == 0:
        return False
    own = {id(guard.array) for guard in GUARDS}
    owner = base = array
    while base is not None and id(owner) not in own:
        owner = base if isinstance(base, np.ndarray) else owner  # what `as_strided` puts between them is none
        base = getattr(base, "base", None)
    (low, high), (first, last) = spread(array), spread(owner)
    return not first <= low <= high <= last


class HarmError(Exception):
    """What a file must not do."""


def run(program: Any, inputs: list[Any]) -> list[bytes]:
    """Outputs and variables after two calls, the second of which is looked at kernel by kernel."""
    found = [np.asarray(a).tobytes() for a in program.run([copied(x) for x in inputs])]
    for application in program.walk([copied(x) for x in inputs]):
        for array in (*application.arguments, *application.outs):
            if leaves_its_memory(array):
                raise HarmError(f"instruction {application.instruction} is given an array outside of its memory")
    found += [np.asarray(v.array).tobytes() for v in program.variables.values()]
    if not all(guard.is_intact for guard in GUARDS):
        raise HarmError("bytes were written beside an array")
    return found


def judged(content: bytes, stack: Any, right: list[bytes]) -> str:
    """What becomes of a file: refused, failed, the same values or others, or harm and its words."""
    try:
        program = nnc.load_program(io.BytesIO(content), stack, max_bytes=MAX_BYTES)
    except NncError:
        return "refused"
    try:
        each = [*program.programs.values()] if hasattr(program, "programs") else [program]
        found = [value for p in each for value in run(p, inputs_of(p))]
    except NncError:
        return "failed"
    said = "same" if found == right else "other"
    try:
        graph = program.graph
    except NncError:
        return f"{said}, than its graph says"
    if found != right and graph is not None and agrees(content, stack):
        said = "other, as its graph says"
    return said


def agrees(content: bytes, stack: Any) -> bool:
    """Whether a program computes what its graph does, operator by operator; raises where it does not."""
    program = nnc.load_program(io.BytesIO(content), stack, max_bytes=MAX_BYTES)
    again = [*program.programs.values()] if hasattr(program, "programs") else [program]
    eager = nnc.eager()
    for one in again:
        inputs = inputs_of(one)
        wanted = eager.engine.compile(one.graph.to(eager)).run(inputs)
        for a, b in zip(one.run(inputs), wanted, strict=True):
            if not np.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True):
                raise HarmError("it computes another value than its graph")
    return True


# --- processes ----------------------------------------------------------------------------------------------


@define
class Counts:
    """What became of mutated files.

    Attributes
    ----------
    outcomes
        How many of each kind.
    harm
        The number of a mutation, and what it did.
    """

    outcomes: collections.Counter[str] = field(factory=collections.Counter)
    harm: list[tuple[int, str]] = field(factory=list)
    seconds: float = 0.0


def child(folder: Path, first: int, last: int) -> None:
    """Judge mutations in this process, a line for each."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    np.seterr(all="ignore")
    files, stack = saved(folder), nnc.lazy(Guarded())
    right = []
    for at in range(len(files)):
        program = nnc.load_program(folder / f"{at}.nnc", stack)
        each = [*program.programs.values()] if hasattr(program, "programs") else [program]
        right.append([value for p in each for value in run(p, inputs_of(p))])
    print("ready", flush=True)
    for number in range(first, last):
        GUARDS.clear()
        which, content = mutated(files, number)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            said = judged(content, stack, right[which])
        except BaseException as error:  # whatever it is, it is none of ours
            said = f"harm {type(error).__name__}: {str(error)[:200]!r}"
        faulthandler.cancel_dump_traceback_later()
        print(number, said, flush=True)


def attacked(count: int, folder: Path, first: int = 0) -> Counts:
    """So many mutations, judged in processes that are started again after a crash."""
    found, at, begun = Counts(), first, time.perf_counter()
    while at < first + count:
        at = _batch(found, folder, at, first + count)
    found.seconds = time.perf_counter() - begun
    return found


def _batch(found: Counts, folder: Path, first: int, last: int) -> int:
    """Mutations from one on until the child ends; the one to go on with."""
    command = [sys.executable, "-m", "tests.engine.hostile", str(folder), str(first), str(last)]
    at, said = first, b""
    with (folder / "errors.txt").open("wb") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdout is not None
        with process:
            for line in iter(lambda: _line(process), b""):
                said = line.strip()
                if said == b"ready":
                    continue
                number, outcome = said.decode().split(" ", 1)
                found.outcomes[outcome if not outcome.startswith("harm") else "harm"] += 1
                if outcome.startswith("harm"):
                    found.harm.append((int(number), outcome))
                at = int(number) + 1
            process.kill()
        if at < last:
            why = (folder / "errors.txt").read_bytes().decode(errors="replace").strip()[-2000:]
            if not said:
                raise RuntimeError(f"the child did not begin: {why}")
            found.outcomes["crash or hang"] += 1
            found.harm.append((at, f"ended with {process.returncode}: {why}"))
            at += 1
    return at


def _line(process: Any) -> bytes:
    """The next line, or nothing where the child has ended or says nothing for long."""
    ready, _, _ = select.select([process.stdout], [], [], 60)
    return process.stdout.readline() if ready else b""


def main() -> None:
    """As many mutations as the command line says, from a number on."""
    if len(sys.argv) == 4 and not sys.argv[1].isdigit():
        child(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
        return
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as folder:
        found = attacked(int(sys.argv[1]), Path(folder), first)
    print(f"{found.seconds:.0f} s", dict(found.outcomes.most_common()))
    for number, what in found.harm:
        print(number, what)


if __name__ == "__main__":
    main()
