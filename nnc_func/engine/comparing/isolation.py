"""A call in a process of its own, with a limit of time and of memory: whatever becomes of it is told, and no more.

The process is a copy of this one (``fork``), so that a function that was written in a notebook is called as it is. It
is killed, with all that it started, when its time is over, and the kernel kills it when this process dies.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import selectors
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from attrs import frozen

from nnc_func.errors import AnswerError, PlanError

ANSWERED, REFUSED, WRONG, RAISED = "answered", "refused", "wrong", "raised"
TIME, MEMORY, ENDED = "time limit", "memory", "ended"
SHOWN = 2000  # characters of what was printed that are kept, the last ones
TOLD = 400  # characters of an error
LOOK = 0.1  # seconds between two looks at whether a silent process still runs
FRAME = 8  # bytes that say how long an answer is
DIES_WITH_PARENT = 1  # Linux: PR_SET_PDEATHSIG


@frozen
class Outcome:
    """What became of a call.

    Attributes
    ----------
    kind
        ``"answered"``; or ``"refused"``, a `PlanError`; ``"wrong"``, an `AnswerError`; ``"raised"``, any other
        exception; ``"time limit"``; ``"memory"``; ``"ended"``, its process ended before it answered.
    found
        What it returned.
    error
        Why it returned nothing.
    printed
        The end of what it wrote to standard output and standard error.
    """

    kind: str
    found: Any = None
    error: str = ""
    printed: str = ""


class Child:
    """A process that was made of this one."""

    number = -1  # of the process
    status: int | None = None  # as ``os.waitpid`` tells it, once it has ended

    def has_ended(self) -> bool:
        """Whether it has."""
        if self.status is None:
            number, status = os.waitpid(self.number, os.WNOHANG)
            self.status = status if number else None
        return self.status is not None

    def end(self) -> None:
        """Kill it, and all of its session."""
        if self.number <= 0:
            return
        with suppress(ProcessLookupError, PermissionError):  # nobody is left of the session, or it is not made yet
            os.killpg(self.number, signal.SIGKILL)
        if self.status is None:
            os.kill(self.number, signal.SIGKILL)
            self.status = os.waitpid(self.number, 0)[1]


def called(call: Callable[[], Any]) -> Outcome:
    """What becomes of a call in this process; an interrupt from the keyboard goes on to the caller.

    Examples
    --------
    >>> called(lambda: 1 // 0).error.partition(" (")[0]
    'ZeroDivisionError: integer division or modulo by zero'
    """
    try:
        return Outcome(ANSWERED, call())
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _failed(error)


def _failed(error: BaseException) -> Outcome:
    if isinstance(error, AnswerError):
        return Outcome(WRONG, error=str(error)[:SHOWN])
    if isinstance(error, PlanError):
        return Outcome(REFUSED, error=str(error)[:SHOWN])
    if isinstance(error, MemoryError):
        return Outcome(MEMORY, error=f"there is not as much memory: {_words(error)}")
    return Outcome(RAISED, error=_words(error))


def _words(error: BaseException) -> str:
    """The exception, and the line that raised it."""
    try:
        said = str(error)
    except Exception as again:
        said = f"and its text cannot be made: {type(again).__name__}"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    return f"{type(error).__name__}: {said}"[:TOLD].removesuffix(": ") + where


def called_alone(call: Callable[[], Any], limit: float, memory: int | None = None) -> Outcome:
    """What becomes of a call in a process of its own.

    Parameters
    ----------
    call
        Returns what JSON has: numbers, strings, lists and dictionaries.
    limit
        Seconds of the wall's clock, after which it is killed.
    memory
        Bytes that it may take beyond what this process has; None: half of what the machine has.

    Raises
    ------
    PlanError
        This system cannot copy a process, or the limit is no number of seconds above 0.

    Examples
    --------
    >>> called_alone(lambda: [1, 2], limit=60)
    Outcome(kind='answered', found=[1, 2], error='', printed='')
    >>> called_alone(lambda: time.sleep(60), limit=0.1).error
    'it was not done after 0.1 s, and was killed'
    """
    if not hasattr(os, "fork"):
        raise PlanError("a time limit takes a process of its own, which this system cannot copy; wanted limit=None")
    if not (isinstance(limit, (int, float)) and 0 < limit < math.inf):
        raise PlanError(f"wanted a limit in seconds, above 0, given {limit!r:.40}")
    memory = _half_of_all() if memory is None else memory
    answers, answer = os.pipe()
    lines, line = os.pipe()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # what is not written yet would be written twice
            stream.flush()
    parent, child = os.getpid(), Child()
    try:
        with warnings.catch_warnings():  # Python 3.12 warns of threads; BLAS takes care of its own, and all is limited
            warnings.simplefilter("ignore", DeprecationWarning)
            child.number = os.fork()
        if child.number == 0:
            _answer(call, parent, answer, line, limit, memory)
        os.close(answer)
        os.close(line)
        answer = line = -1
        return _heard(child, answers, lines, limit)
    finally:
        child.end()
        for pipe in (answers, lines, answer, line):
            if pipe >= 0:
                os.close(pipe)


# --- in the process of its own ----------------------------------------------------------------------------


def _answer(call: Callable[[], Any], parent: int, answer: int, line: int, limit: float, memory: int) -> NoReturn:
    code = 1
    try:
        os.setsid()  # Ctrl-C is for the parent, which kills all of this session
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _restrict(parent, limit, memory)
        for standard, given in ((1, line), (2, line), (0, os.open(os.devnull, os.O_RDONLY))):
            os.dup2(given, standard)
        sys.stdout = sys.stderr = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        try:
            said = _encoded(Outcome(ANSWERED, call()))
        except BaseException as error:
            said = _encoded(_failed(error))
        with suppress(Exception):
            sys.stdout.flush()
        said = len(said).to_bytes(FRAME, "big") + said
        while said:
            said = said[os.write(answer, said) :]
        code = 0
    finally:
        os._exit(code)


def _encoded(outcome: Outcome) -> bytes:
    return json.dumps([outcome.kind, outcome.found, outcome.error]).encode()


def _restrict(parent: int, limit: float, memory: int) -> None:
    """What the kernel sees to: that this process ends with its parent, and takes no more than it may."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        with suppress(OSError):  # where memory is short, this process is the one to end
            Path("/proc/self/oom_score_adj").write_text("1000")
    import resource

    has = 0
    with suppress(OSError):
        has = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    seconds = math.ceil(limit * (os.cpu_count() or 1)) + 5
    for kind, most in ((resource.RLIMIT_AS, has + memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (least, hard))


def _half_of_all() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


# --- beside it --------------------------------------------------------------------------------------------


def _heard(child: Child, answers: int, lines: int, limit: float) -> Outcome:
    """What the process says until it has answered, has ended, or its time is over."""
    said, printed = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(answers, selectors.EVENT_READ, said)
        selector.register(lines, selectors.EVENT_READ, printed)
        failure = _failure(child, selector, said, printed, limit)
        _read(selector, 0)
    if failure is not None:
        return Outcome(failure[0], error=failure[1], printed=_text(printed))
    try:
        kind, found, error = json.loads(said[FRAME:])
    except (ValueError, TypeError):
        return Outcome(ENDED, error="what its process wrote is no answer", printed=_text(printed))
    return Outcome(str(kind), found, str(error), _text(printed))


def _failure(child: Child, selector: Any, said: bytearray, printed: bytearray, limit: float) -> tuple[str, str] | None:
    """What came in place of an answer, and in what words; None once that is there."""
    until = time.monotonic() + limit
    while not _is_whole(said):
        left = until - time.monotonic()
        if left <= 0:
            return TIME, f"it was not done after {limit:g} s, and was killed"
        del printed[: -4 * SHOWN]
        ended = child.has_ended()  # before the look: what it said before it ended is there
        if not _read(selector, min(left, LOOK) if not ended else 0) and ended:
            return ENDED, _end_told(child.status or 0)
    return None


def _read(selector: selectors.BaseSelector, wait: float) -> bool:
    """Whether there was something to read, within so many seconds."""
    ready = selector.select(wait)
    for key, _ in ready:
        piece = os.read(key.fd, 1 << 16)
        if not piece:
            selector.unregister(key.fileobj)
        key.data.extend(piece)
    return bool(ready)


def _is_whole(said: bytearray) -> bool:
    return len(said) >= FRAME and len(said) - FRAME >= int.from_bytes(said[:FRAME], "big")


def _text(printed: bytearray) -> str:
    return printed.decode("utf-8", "replace")[-SHOWN:].strip()


def _end_told(status: int) -> str:
    if os.WIFEXITED(status):
        return f"its process ended with exit code {os.WEXITSTATUS(status)} before it answered"
    number = os.WTERMSIG(status)
    why = ", as where memory is short" if number == signal.SIGKILL else ""
    return f"its process was ended by signal {number} ({signal.Signals(number).name}){why}"
