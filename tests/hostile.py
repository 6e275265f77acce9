"""Files that were damaged on purpose, each tried in a child process with a limit of memory and of time.

``python -m tests.hostile tests.graph.test_hostile_graphs 10000`` tries so many, and prints what became of them; a third
number says from which case on. A module has two functions: ``case(number)`` says what was done to a file, and gives its
bytes, so that a failure is repeated by its number alone; ``attempt(content)`` reads them. It may return, a word for how
it ended if there are several, or raise an error of this library that names what is wrong. A crash, a hang, an exception
of another kind, or one of the library's own that only wraps such an exception, is a fault.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from nnc_func.errors import NncError

SECONDS = 5
MEMORY = 1 << 30
"""Bytes of address space that an attempt may take beyond what the process has."""
BATCH = 200
WRAPPED = re.compile(r"\b(?!FileFormatError)[A-Z]\w*Error: ")
"""An exception of Python's in our words."""

Case = Callable[[int], tuple[str, bytes]]
Attempt = Callable[[bytes], object]


# --- processes ----------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """How the attempts ended.

    Attributes
    ----------
    refused
        How many were refused with words.
    outcomes
        How many of the others ended how: ``"read"`` where `attempt` has no word for it.
    words
        How often each refusal was met, its numbers and names left out: what the cases reach.
    faults
        Number of the case, what was done to the file, what happened.
    """

    refused: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[int, str, str]] = field(default_factory=list)

    @property
    def accepted(self) -> int:
        """How many were not refused."""
        return self.outcomes.total()

    def __str__(self) -> str:
        ended = [f"{count} {word}" for word, count in self.outcomes.most_common()]
        shown = [", ".join([*ended, f"{self.refused} refused", f"{len(self.faults)} faults"])]
        shown += [f"case {number} ({done}): {what}" for number, done, what in self.faults[:20]]
        return "\n".join(shown)


def attempted(case: Case, attempt: Attempt, numbers: Iterable[int], *, memory: int = MEMORY) -> Tally:
    """Try each case in child processes, a batch in each; one that dies is followed by another from the next case on."""
    tally, waiting = Tally(), list(numbers)
    while waiting:
        batch = waiting[:BATCH]
        done, status = _in_child(case, attempt, batch, memory)
        for row in done:
            _count(tally, *row)
        waiting = waiting[len(done) :]
        if len(done) < len(batch):
            number, waiting = waiting[0], waiting[1:]
            tally.faults.append((number, case(number)[0], _death(status)))
    return tally


def _count(tally: Tally, number: int, done: str, what: str, words: str) -> None:
    if what == "accepted":
        tally.outcomes[words] += 1
    elif what == "refused":
        tally.refused += 1
        tally.words[re.sub(r"'[^']*'|\"[^\"]*\"|/\S+|-?\d+", "·", words)[:70]] += 1
    else:
        tally.faults.append((number, done, words))


def _death(status: int) -> str:
    if os.WIFSIGNALED(status):
        sign = signal.Signals(os.WTERMSIG(status))
        late = sign in (signal.SIGALRM, signal.SIGPROF)
        return f"took more than {SECONDS} seconds" if late else f"died of {sign.name}"
    return f"left with {os.waitstatus_to_exitcode(status)}"


def _in_child(case: Case, attempt: Attempt, batch: list[int], memory: int) -> tuple[list[Any], int]:
    """The rows that a child process wrote before it ended, and how it ended."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside BLAS's threads: the child uses none
        child = os.fork()
    if not child:
        os.close(reader)
        _run(case, attempt, batch, memory, writer)
    os.close(writer)
    with open(reader, encoding="utf-8", errors="replace") as lines:
        rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return rows, os.waitpid(child, 0)[1]


def _run(case: Case, attempt: Attempt, batch: list[int], memory: int, writer: int) -> None:
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        with open("/proc/self/statm") as sizes:
            limit = int(sizes.read().split()[0]) * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in batch:
            done, content = case(number)
            _limit(SECONDS)
            row = (number, done, *_ended(attempt, content))
            _limit(0)
            os.write(writer, json.dumps(row).encode() + b"\n")
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(3)
    os._exit(0)


def _limit(seconds: int) -> None:
    """As much time of the processor, which others do not take; and ten times that for what waits instead."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)


def _ended(attempt: Attempt, content: bytes) -> tuple[str, str]:
    try:
        word = attempt(content)
    except NncError as error:
        words = str(error)
        return ("fault" if WRAPPED.search(words) else "refused"), words[:1000]
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "fault", f"{type(error).__name__}: {error} at {os.path.basename(where.filename)}:{where.lineno}"[:1000]
    return "accepted", str(word or "read")


# --- by hand ------------------------------------------------------------------------------------------------


def main(name: str, count: str, first: str = "0") -> None:
    """Try cases of a module, and print how they ended."""
    module, begun = importlib.import_module(name), time.perf_counter()
    numbers = range(int(first), int(first) + int(count))
    tally = attempted(module.case, module.attempt, numbers, memory=getattr(module, "MEMORY", MEMORY))
    print(f"{time.perf_counter() - begun:.0f} s: {tally}")


if __name__ == "__main__":
    main(*sys.argv[1:])
