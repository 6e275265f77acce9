"""Tasks by number that need others: orders, schedulers and strategies of rematerialisation are all asked about such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    wrong = [task for task, needed in enumerate(needs) if needed and not -1 < min(needed) <= max(needed) < task]
    if wrong:
        needed = [*needs[wrong[0]]]
        raise PlanError(f"task {wrong[0]} needs {needed}; tasks are numbered so that they need lower ones")
