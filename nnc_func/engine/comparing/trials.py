"""Trials one after another: each a call that may fail in any way, and a row that says what came of it."""

from __future__ import annotations

import hashlib
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import cache, partial
from pathlib import Path
from typing import Any

from attrs import field, fields, frozen

from nnc_func.engine.comparing.isolation import ANSWERED, ENDED, MEMORY, RAISED, TIME, WRONG, called, called_alone
from nnc_func.engine.comparing.records import Record
from nnc_func.errors import PlanError

ANSWER = "answer"  # the column of the answer itself, which is as long as the problem, and not recorded
SKIPPED = "skipped"  # the kind of a trial that was not made, by a limit of the caller's
KEYS = ("problem", "digest", "by", "settings", "code", "seed", "repeat")  # what a trial is of
FAILURES = (ENDED, MEMORY, RAISED, TIME, WRONG)


@frozen
class Task:
    """A trial that is to be made.

    Attributes
    ----------
    problem, by
        The names of the problem, and of what is asked about it.
    digest
        Of the problem's content.
    asked
        What is asked: its settings and its code are part of what a row is of.
    seed
        Of what draws; None: nothing does.
    repeat
        How often it is asked.
    call
        Asks, and returns what JSON has.
    judge
        Makes columns of that; raises `PlanError` where it is wrong.
    skipped
        Why it is not made.
    known
        Columns that its row has in any case.
    """

    problem: str
    by: str
    digest: str
    asked: Any
    seed: int | None
    repeat: int
    call: Callable[[], Any]
    judge: Callable[[Any], Mapping[str, Any]]
    skipped: str = ""
    known: Mapping[str, Any] = field(factory=dict)

    @property
    def key(self) -> dict[str, Any]:
        """What it is of: the columns `KEYS`."""
        return {
            "problem": self.problem, "digest": self.digest, "by": self.by, "settings": _settings(self.asked),
            "code": code_of(self.asked), "seed": self.seed, "repeat": self.repeat,
        }  # fmt: skip


@frozen
class Conditions:
    """Under which conditions trials are made.

    Attributes
    ----------
    limit
        Seconds of the wall's clock for each trial, all its repetitions together, in a process of its own; None: in
        this process, without a limit.
    memory
        Bytes that a process of its own may take beyond what this one has; None: half of what the machine has.
    record
        Takes each row as it comes; what it has is not asked again, but what hit a lower limit than there is now.
    retry
        Whether what failed is asked again in any case.
    tell
        Called before each trial with how many were made, and what comes next.
    """

    limit: float | None = None
    memory: int | None = None
    record: Record | None = None
    retry: bool = False
    tell: Callable[[int, str], Any] | None = field(default=None, repr=False)


def rows(tasks: Iterable[Task], conditions: Conditions = Conditions()) -> Iterator[dict[str, Any]]:
    """The row of each trial, when it is made.

    A trial that raises, gives a wrong answer, takes too long or too much memory, or ends its process is a row that says
    so, in its columns ``kind`` and ``error``; the others go on.
    """
    for number, task in enumerate(tasks):
        if conditions.tell is not None:
            conditions.tell(number, f"{task.by} on {task.problem}")
        if task.skipped:
            yield {**task.key, **task.known, "kind": SKIPPED, "error": task.skipped}
            continue
        earlier = _earlier(task, conditions)
        if earlier is not None:
            yield earlier
            continue
        row = _row(task, conditions)
        if conditions.record is not None:
            conditions.record.add({name: value for name, value in row.items() if name != ANSWER})
        yield row


def _earlier(task: Task, conditions: Conditions) -> dict[str, Any] | None:
    """The row of the record, if it still says what would come of it."""
    if conditions.record is None:
        return None
    found = conditions.record.rows.get(tuple(task.key[name] for name in KEYS))
    if found is None or (conditions.retry and found["kind"] in FAILURES):
        return None
    if found["kind"] == TIME and _is_more(conditions.limit, found["limit"]):
        return None
    if found["kind"] == MEMORY and _is_more(conditions.memory, found["memory"]):
        return None
    return found


def _is_more(now: float | None, before: float | None) -> bool:
    return before is not None and (now is None or now > before)


def _row(task: Task, conditions: Conditions) -> dict[str, Any]:
    alone = conditions.limit is not None
    outcome = called_alone(task.call, conditions.limit, conditions.memory) if alone else called(task.call)  # type: ignore[arg-type]
    row = {**task.key, **task.known, "kind": outcome.kind, "error": outcome.error}
    if outcome.printed:
        row["printed"] = outcome.printed
    row |= {"limit": conditions.limit, "memory": conditions.memory}
    if outcome.kind == ANSWERED:
        judged = called(partial(task.judge, outcome.found))
        if judged.kind == ANSWERED:
            return row | dict(judged.found)
        row |= {"kind": WRONG, "error": judged.error}
    return row


def timed(call: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """The median of the seconds, of this process on processors, and the last answer."""
    taken = []
    for _ in range(max(repeat, 1)):
        start = time.process_time()
        found = call()
        taken.append(time.process_time() - start)
    return sorted(taken)[len(taken) // 2], found


# --- what a row is of -------------------------------------------------------------------------------------


def digest(text: str) -> str:
    """Sixteen digits that tell texts apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest_of(problem: Any, *more: Any) -> str:
    """Sixteen digits that tell problems apart, by each field of theirs, and by what else is said.

    Examples
    --------
    >>> from attrs import frozen
    >>> @frozen
    ... class Sizes:
    ...     sizes: list[int]
    >>> digest_of(Sizes([64])) == digest_of(Sizes([64])), digest_of(Sizes([64])) == digest_of(Sizes([32]))
    (True, False)
    """
    parts = [(f.name, _in_order(getattr(problem, f.name))) for f in fields(type(problem))]
    return digest(repr((parts, more)))


def _in_order(value: Any) -> Any:
    """What has no order of its own, sorted."""
    return sorted(value.items()) if isinstance(value, Mapping) else sorted(value) if isinstance(value, Set) else value


def _settings(asked: Any) -> str:
    """How it is set: attributes of ours are shown; an address in memory says nothing."""
    said = repr(asked)
    return "" if " at 0x" in said else said[:200]


def code_of(asked: Any) -> str:
    """A digest of the file in which something was written; of this library's own, of all of their package.

    Examples
    --------
    >>> code_of(lambda problem: []) == code_of(print)
    False
    """
    while isinstance(asked, partial):
        asked = asked.func
    made = asked if inspect.isroutine(asked) else type(asked)
    name = getattr(made, "__module__", None) or ""
    package = ".".join(name.split(".")[:3])
    if name.startswith("nnc_func.engine.") and package in sys.modules and hasattr(sys.modules[package], "__path__"):
        return _of_folder(str(Path(sys.modules[package].__path__[0])))
    file = getattr(sys.modules.get(name), "__file__", None)
    try:  # in a notebook there is no file
        return digest(Path(file).read_text(encoding="utf-8") if file else inspect.getsource(made))
    except (OSError, TypeError, ValueError):
        return digest(f"{file} {name}")


@cache
def _of_folder(folder: str) -> str:
    made = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*.py")):
        made.update(path.read_bytes())
    return made.hexdigest()[:16]


def whole_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    """Seeds, each once.

    Raises
    ------
    PlanError
        There is none, one is no whole number of 0 or more, or one is there twice.
    """
    found = tuple(seeds)
    if not found or any(not isinstance(s, int) or s < 0 for s in found) or len(set(found)) < len(found):
        raise PlanError(
            f"wanted one seed or more, each a whole number of 0 or more, and each once; given {found!r:.60}"
        )
    return found
