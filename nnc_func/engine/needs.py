"""Tasks by number that need others: orders, schedulers and strategies of rematerialisation are all asked about such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from operator import ge

from nnc_func.errors import PlanError


def inverted(lists: Iterable[Iterable[int]], count: int) -> list[list[int]]:
    """For each of so many numbers the positions of the lists that have it: of needs, the tasks that need each.

    Examples
    --------
    >>> inverted([(), (0,), (0, 1)], 3)
    [[1, 2], [2], []]
    """
    found: list[list[int]] = [[] for _ in range(count)]
    for position, listed in enumerate(lists):
        for one in listed:
            found[one].append(position)
    return found


def check_needs(needs: Sequence[Sequence[int]]) -> None:
    """Each task needs lower ones only: running them by number is valid.

    Raises
    ------
    PlanError
        One does not; names the first.

    Examples
    --------
    >>> check_needs([(), (2,), (0,)])
    Traceback (most recent call last):
    nnc_func.errors.PlanError: task 1 needs [2]; tasks are numbered so that they need lower ones
    """
    needed = [*chain.from_iterable(needs)]
    tasks = positions(needs)
    if needed and (min(needed) < 0 or any(map(ge, needed, tasks))):
        wrong = next(task for task, one in zip(tasks, needed, strict=True) if not -1 < one < task)
        raise PlanError(f"task {wrong} needs {[*needs[wrong]]}; tasks are numbered so that they need lower ones")


def positions(lists: Sequence[Sequence[int]]) -> list[int]:
    """For each of the numbers in lists, one list after the other, the position of its list.

    Examples
    --------
    >>> positions([(), (4,), (7, 5)])
    [1, 2, 2]
    """
    return [*chain.from_iterable(map(repeat, range(len(lists)), map(len, lists)))]


def spans(lists: Sequence[Sequence[int]]) -> tuple[dict[int, int], dict[int, int]]:
    """For each of the numbers in lists the position of the first list that has it, and that of the last one.

    Examples
    --------
    >>> spans([(4,), (7, 4), (7,)])
    ({7: 1, 4: 0}, {4: 1, 7: 2})
    """
    numbers, at = [*chain.from_iterable(lists)], positions(lists)
    return dict(zip(reversed(numbers), reversed(at), strict=True)), dict(zip(numbers, at, strict=True))
