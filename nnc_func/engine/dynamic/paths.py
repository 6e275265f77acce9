"""What lies between recorded values and others that they were made of: its structure, and the values on the way."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from attrs import frozen

from nnc_func.engine.dynamic.flow import carries_gradients
from nnc_func.engine.dynamic.records import PART, Record
from nnc_func.engine.dynamic.vacancies import Vacancy, lineage
from nnc_func.graph.origin import Origin
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


def is_part(step: Step) -> bool:
    """Whether it only gives one of several results the number by which that was met."""
    op: Any = step.op
    return op is PART


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
        What tells its structure from others: operators, parameters, wiring, avals, and what is evicted.
    again
        The applications that compute evicted values again, operands first; see `is_part`.
    origins
        For each of the steps the user's lines where it was applied.
    """

    steps: tuple[Step, ...]
    ys: tuple[int, ...]
    xs: tuple[int, ...]
    key: Any
    again: tuple[Step, ...] = ()
    origins: Sequence[Origin] = ()


def path_between(ys: Sequence[Record], xs: Sequence[Record]) -> tuple[Path, list[Any], list[Any]]:
    """What lies between records and others that they were made of; the values, by number; and their arrays of now.

    Values are records, arrays, and pairs of a record of several results and the number of one. Evicted values have
    vacancies in place of arrays.

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
    again = numbers.again()
    return (
        Path(tuple(numbers.steps), tops, bottoms, (*numbers.key, tops, bottoms), again, numbers.origins),
        numbers.sources,
        numbers.arrays,
    )


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
    if op is not PART and not carries_gradients(op):
        return False
    array, smooth = record.array, record.recording.smooth
    return any(map(smooth, array)) if type(array) is tuple else smooth(array)


class _Numbers:
    """The values on the way by number, and the key that tells their structure."""

    def __init__(self) -> None:
        self.sources: list[Any] = []
        self.arrays: list[Any] = []
        self.steps: list[Step] = []
        self.origins: list[Origin] = []
        self.key: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._looked_at: dict[Record, Any] = {}  # arrays of what evicted values are made of

    def of(self, source: Any) -> int:
        """The number of a record or an array."""
        found = self._numbers.get(id(source))
        if found is None:
            found = self._numbers[id(source)] = len(self.sources)
            self.sources.append(source)
            array = self._looked_at.get(source, source.array) if type(source) is Record else source
            self.arrays.append(array)
            self.key.append(_kind(array))
        return found

    def results_of(self, record: Record, op: Op) -> tuple[int, ...]:
        """The numbers of an application's results."""
        first = self._numbers.get(id(record))
        count = len(record.array) if op.multi_result else 1
        if first is None:
            first = self._numbers[id(record)] = len(self.sources)
            array = record.array
            self.sources += [(record, n) for n in range(count)] if op.multi_result else [record]
            self.arrays += array if op.multi_result else [array]
        return tuple(range(first, first + count))

    def add(self, record: Record, application: Any) -> None:
        """Add an application; its results are numbered."""
        op, operands, params = application
        if op is PART:
            number = self._numbers[id(record)] = self._numbers[id(operands[0])] + params
            self.sources[number] = record
            return
        given = self._given(operands)
        results = self.results_of(record, op)
        self._note(self.steps, op, params, given, results, len(results))
        self.origins.append(record.where)

    def again(self) -> tuple[Step, ...]:
        """The applications that compute again what is evicted of the values, operands first."""
        evicted = [
            source[0] if type(source) is tuple else source
            for source, array in zip(self.sources, self.arrays, strict=True)
            if type(array) is Vacancy
        ]
        found: list[Step] = []
        made, self._looked_at = lineage(evicted)
        for record, (op, operands, params) in made:
            if op is PART:
                whole = self._numbers[id(operands[0])] + params
                number = self._numbers.setdefault(id(record), whole)
                if number != whole:  # it was met by itself
                    found.append(Step(PART, (), ((True, whole),), (number,)))
                    self.key.append((PART, whole, number))
                continue
            given = self._given(operands)
            results = self.results_of(record, op)
            self._note(found, op, params, given, results, results)
        return tuple(found)

    def _given(self, operands: Sequence[Any]) -> tuple[tuple[bool, Any], ...]:
        return tuple([(True, self.of(x)) if type(x) is Record or hasattr(x, "dtype") else (False, x) for x in operands])

    def _note(
        self, steps: list[Step], op: Op, params: Any, given: tuple[Any, ...], results: tuple[int, ...], told: Any
    ) -> None:
        items = op.canonical(params) if params or op.params else ()
        steps.append(Step(op, items, given, results))
        shown = tuple([x if known else (type(x), repr(x)) for known, x in given])
        self.key.append((op, items and op.key(items), shown, told))


def _kind(array: Any) -> Any:
    return array.shape, array.dtype
