"""What lies between recorded values and others that they were made of: its structure, and the values on the way."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from attrs import frozen

from nnc_func.engine.dynamic.records import PART, Record
from nnc_func.facets.derivatives import Constant
from nnc_func.op import Op


@frozen(eq=False)
class Step:
    """An application on the way.

    Attributes
    ----------
    op, items
        The operator, its parameters in canonical form.
    operands
        For each whether it is the number of a value, and that number or else the Python number that it is.
    results
        Numbers of its results.
    """

    op: Op
    items: Any
    operands: tuple[tuple[bool, Any], ...]
    results: tuple[int, ...]


@frozen(eq=False)
class Path:
    """What lies between.

    Attributes
    ----------
    steps
        The applications, operands first.
    ys, xs
        Numbers of the values whose gradients are wanted, and of those with respect to which they are.
    key
        What tells its structure from others: operators, parameters, wiring, avals.
    """

    steps: tuple[Step, ...]
    ys: tuple[int, ...]
    xs: tuple[int, ...]
    key: Any


def path_between(ys: Sequence[Record], xs: Sequence[Record]) -> tuple[Path, list[Any]]:
    """What lies between records and others that they were made of; and the values, by number.

    Values are records, arrays, and pairs of a record of several results and the number of one.

    Whoever asks holds both, so that what lies between does not change meanwhile.
    """
    numbers = _Numbers()
    moving = {*xs}
    for record, application in above(ys, min(map(attrgetter("serial"), xs), default=0)):
        for x in application[1]:
            if type(x) is Record and x in moving:
                if _flows(record, application[0]):
                    moving.add(record)
                    numbers.add(record, application)
                break
    of = numbers.of
    tops, bottoms = tuple(map(of, ys)), tuple(map(of, xs))
    return Path(tuple(numbers.steps), tops, bottoms, (*numbers.key, tops, bottoms)), numbers.sources


def above(ys: Sequence[Record], lowest: int) -> list[tuple[Record, Any]]:
    """The records that some are made of, and their applications, operands first; none that is older than the lowest."""
    found: dict[Record, Any] = {}
    waiting, seen = [*ys], {*ys}
    while waiting:
        record = waiting.pop()
        application = record.application
        if application is None or record.serial < lowest:
            continue
        found[record] = application
        for x in application[1]:
            if type(x) is Record and x not in seen:
                seen.add(x)
                waiting.append(x)
    return [(record, found[record]) for record in sorted(found, key=attrgetter("serial"))]


def _flows(record: Record, op: Any) -> bool:
    """Whether a gradient may flow through an application: results are floating, and its derivative is not zero."""
    if op is not PART and type(op.derivative) is Constant:
        return False
    array, smooth = record.array, record.recording.smooth
    return any(map(smooth, array)) if type(array) is tuple else smooth(array)


class _Numbers:
    """The values on the way by number, and the key that tells their structure."""

    def __init__(self) -> None:
        self.sources: list[Any] = []
        self.steps: list[Step] = []
        self.key: list[Any] = []
        self._numbers: dict[int, int] = {}

    def of(self, source: Any) -> int:
        """The number of a record or an array."""
        found = self._numbers.get(id(source))
        if found is None:
            found = self._numbers[id(source)] = len(self.sources)
            self.sources.append(source)
            record = type(source) is Record
            self.key.append(_kind(source.array if record else source))
        return found

    def add(self, record: Record, application: Any) -> None:
        """Add an application; its results are numbered."""
        op, operands, params = application
        if op is PART:
            number = self._numbers[id(record)] = self._numbers[id(operands[0])] + params
            self.sources[number] = record
            return
        given = tuple([
            (True, self.of(x)) if type(x) is Record or hasattr(x, "dtype") else (False, x) for x in operands
        ])  # fmt: skip
        items = op.canonical(params) if params or op.params else ()
        first = self._numbers[id(record)] = len(self.sources)
        count = len(record.array) if op.multi_result else 1
        self.sources += [(record, n) for n in range(count)] if op.multi_result else [record]
        results = tuple(range(first, first + count))
        self.steps.append(Step(op, items, given, results))
        shown = tuple([x if known else (type(x), repr(x)) for known, x in given])
        self.key.append((op, items and op.key(items), shown, count))


def array_of(source: Any) -> Any:
    """The array of a value: of a record, of one of several results, or itself."""
    if type(source) is Record:
        return source.array
    return source[0].array[source[1]] if type(source) is tuple else source


def _kind(array: Any) -> Any:
    return array.shape, array.dtype
