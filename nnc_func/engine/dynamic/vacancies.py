"""Vacancies: what stands where an array was that a limit has evicted, and how its value is computed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from nnc_func.aval import Aval
from nnc_func.engine.dynamic.records import PART, Record


class Region:
    """Evicted values next to each other, which are computed again together: a set of a union-find structure.

    As in Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021 (the neighbourhood ẽ*): joined, never split.

    Attributes
    ----------
    cost
        Estimated seconds of computing all of them.

    Examples
    --------
    >>> one, two = Region(1.0), Region(2.0)
    >>> one.join(two)
    >>> one.root is two.root, two.root.cost
    (True, 3.0)
    """

    __slots__ = ("_above", "cost")

    def __init__(self, cost: float) -> None:
        self.cost = cost
        self._above: Region | None = None

    @property
    def root(self) -> Region:
        """What stands for the whole set."""
        found = self
        while found._above is not None:
            if found._above._above is not None:
                found._above = found._above._above
            found = found._above
        return found

    def join(self, other: Region) -> None:
        """Make one set of two."""
        one, two = self.root, other.root
        if one is not two:
            two._above = one
            one.cost += two.cost


class Vacancy:
    """What stands where an array was that was evicted.

    Attributes
    ----------
    shape, dtype
        As the array's own.
    aval
        What its device says of it.
    application
        The one of its record: kept, though the record may forget it.
    region
        The evicted values next to it, and itself.
    """

    __slots__ = ("application", "aval", "dtype", "region", "shape")

    def __init__(self, array: Any, aval: Aval, application: Any, region: Region) -> None:
        self.shape, self.dtype = array.shape, array.dtype
        self.aval, self.application, self.region = aval, application, region

    def __repr__(self) -> str:
        return f"<evicted {self.aval!r}>"


def vacancy(array: Any) -> Vacancy | None:
    """The vacancy that a record has in place of its array, or of the first of its several arrays."""
    if type(array) is tuple:
        array = array[0] if array else None
    return array if type(array) is Vacancy else None


def lineage(records: Sequence[Record]) -> tuple[list[tuple[Record, Any]], dict[Record, Any]]:
    """Evicted records that some are made of, themselves included, with their applications, operands first.

    And the arrays of all that was looked at, which are there as long as these are.
    """
    found: list[tuple[int, Record, Any]] = []
    arrays: dict[Record, Any] = {}
    waiting = [*records]
    while waiting:
        record = waiting.pop()
        if record in arrays:
            continue
        array = arrays[record] = record.array
        gone = vacancy(array)
        if gone is not None:
            found.append((record.serial, record, gone.application))
            waiting += [x for x in gone.application[1] if type(x) is Record]
    return [(record, application) for _, record, application in sorted(found, key=itemgetter(0))], arrays


def computed_again(record: Record, compute: Callable[..., Any]) -> Any:
    """The array of a record, or its arrays; computed again if it is evicted, and so what it was made of.

    Parameters
    ----------
    record
        Of whatever depth: what is not needed any more on the way is let go.
    compute
        ``compute(op, arrays, params)``, as the engine computes.
    """
    steps, arrays = lineage([record])
    last = {x: n for n, (_, (_, operands, _)) in enumerate(steps) for x in operands if type(x) is Record}
    for n, (each, (op, operands, params)) in enumerate(steps):
        given = tuple([arrays[x] if type(x) is Record else x for x in operands])
        arrays[each] = given[0][params] if op is PART else compute(op, given, params or {})
        del given
        for x in operands:
            if type(x) is Record and last[x] == n:
                arrays.pop(x, None)
    return arrays[record]
